"""The benchmark of saves beside the training runs, with a small model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


def test_it_prints_a_line_for_each_way_to_save() -> None:
    root = Path(__file__).parents[2]
    script = root / "benchmarks" / "workloads" / "scripts" / "tf_async_saves.py"
    done = subprocess.run(
        [sys.executable, str(script), "--megabytes", "1", "--saves", "2", "--rounds", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "adapters")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = re.findall(r"^an? .* median +[0-9.]+ ms.* ([0-9]+)% of it waiting$", done.stdout, re.M)
    assert len(lines) == 4
    assert lines[:2] == ["0", "0"]
