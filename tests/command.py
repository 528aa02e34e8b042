"""Run the `resumable` command as a user does: in a process and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_command"]


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``resumable ARGUMENTS`` in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "resumable", *arguments],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
