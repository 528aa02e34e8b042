"""A training killed at random moments goes on with the model and the input of one step."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import check_kills

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

from support.tiers import is_deep
from tf_adapter.versions import IS_OLD


@pytest.mark.parametrize(
    ("campaign", "kills"),
    [
        ("keras_kills", 4),
        *[("model_kills", 5)] * (IS_OLD or is_deep()),
        *[("checkpoint_kills", 4)] * (not IS_OLD or is_deep()),
        pytest.param("keras_kills", 60, marks=pytest.mark.deep),
    ],
)
def test_the_newest_model_and_its_input_are_of_one_step_after_every_kill(
    campaign: str, kills: int, tmp_path: Path
) -> None:
    """In a process of its own, since this one has threads of TensorFlow and cannot be forked.

    Sessions are those of the older TensorFlow and `tf.train.Checkpoint` that of the newer, except in the deep tier.
    """
    check_kills(campaign, kills, tmp_path)
