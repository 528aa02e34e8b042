"""Short forms of the campaign that kills trainings while Orbax saves."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import check_kills

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.deep)])
def test_the_newest_committed_step_has_model_and_input_after_every_kill(
    kills: int, tmp_path: Path
) -> None:
    check_kills("orbax_kills", kills, tmp_path)
