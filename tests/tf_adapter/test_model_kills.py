"""A training killed at random moments goes on with the model and the input of one step."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import check_kills

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


@pytest.mark.parametrize(
    ("campaign", "kills"),
    [
        ("model_kills", 5),
        ("checkpoint_kills", 4),
        ("keras_kills", 4),
        pytest.param("keras_kills", 60, marks=pytest.mark.deep),
    ],
)
def test_the_newest_model_and_its_input_are_of_one_step_after_every_kill(
    campaign: str, kills: int, tmp_path: Path
) -> None:
    """In a process of its own, since this one has threads of TensorFlow and cannot be forked."""
    check_kills(campaign, kills, tmp_path)
