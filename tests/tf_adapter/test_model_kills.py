"""A training killed at random moments goes on with the model and the input of one step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


@pytest.mark.parametrize(
    ("campaign", "kills"),
    [
        ("model_kills", 8),
        ("checkpoint_kills", 6),
        ("keras_kills", 5),
        pytest.param("keras_kills", 60, marks=pytest.mark.deep),
    ],
)
def test_the_newest_model_and_its_input_are_of_one_step_after_every_kill(
    campaign: str, kills: int, tmp_path: Path
) -> None:
    """In a process of its own, since this one has threads of TensorFlow and cannot be forked."""
    root = Path(__file__).parents[2]
    paths = os.pathsep.join(str(root / folder) for folder in (".", "tests", "adapters"))
    done = subprocess.run(
        [sys.executable, "-m", f"campaigns.{campaign}", "--kills", str(kills)],
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert f"Report(kills={kills}," in done.stdout, done.stderr[-2000:]
    assert done.returncode == 0, done.stdout
