"""Fresh processes that use the adapter: forks in the quick tier, interpreters in the deep one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import forks
from tiers import is_deep

ROOT = Path(__file__).parents[2]


def start(code: str, output: IO[Any]) -> Any:
    """A process that runs ``code``, with a pipe as its input and ``output`` for all that it says."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "tests", "adapters"))
    options: dict[str, Any] = {
        "cwd": ROOT,
        "env": os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        "stdin": subprocess.PIPE,
        "stdout": output,
        "stderr": subprocess.STDOUT,
        "start_new_session": True,
    }
    command = [sys.executable, "-c", code]
    if is_deep():
        return subprocess.Popen(command, **options)
    # The import of torch takes longer than most of what is then done with it.
    return forks.Popen(command, **options, preloaded=("torch_adapter.data",))
