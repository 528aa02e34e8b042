"""Short forms of the campaign that kills trainings while Orbax saves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jax_adapter.processes import PATH

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")


@pytest.mark.parametrize("kills", [14, pytest.param(100, marks=pytest.mark.deep)])
def test_the_newest_committed_step_has_model_and_input_after_every_kill(
    kills: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "campaigns.orbax_kills", "--kills", str(kills)],
        env={**os.environ, "PYTHONPATH": PATH, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert f"Report(kills={kills}," in done.stdout, done.stderr[-2000:]
    assert done.returncode == 0, done.stdout
