"""Orbax saves what the loop has had of a `device_prefetch`, and not what lies ahead on the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

import orbax.checkpoint as ocp
from orbax.checkpoint import v1
from resumable_jax import InputCheckpointable, InputRestore, InputSave, device_prefetch

import resumable as rs

PIPELINE = rs.range(40).shuffle(seed=0).batch(4)
EXPECTED = [batch.tolist() for batch in PIPELINE]
HAD = 3


@pytest.fixture(params=["itself", "as a checkpointable", "version 0"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint of a loop that has had three batches of those on the devices."""
    with device_prefetch(iter(PIPELINE), size=4) as batches:
        for _ in range(HAD):
            next(batches)
        if request.param == "version 0":
            with ocp.CheckpointManager(tmp_path) as manager:
                manager.save(HAD, args=ocp.args.Composite(input=InputSave(batches)))
        else:
            saved = InputCheckpointable(batches) if "checkpointable" in request.param else batches
            v1.save_checkpointables(tmp_path / f"{HAD}", {"input": saved})
    return tmp_path


@pytest.mark.parametrize("size", [1, 4])
def test_a_prefetch_goes_on_with_the_next_batch(folder: Path, size: int) -> None:
    with device_prefetch(iter(PIPELINE), size) as batches:
        next(batches)  # what lies ahead is dropped
        loaded = v1.load_checkpointables(folder / f"{HAD}", {"input": batches})
        assert loaded["input"] is batches
        assert batches.step == HAD
        assert [batch.tolist() for batch in batches] == EXPECTED[HAD:]


def test_so_does_one_that_version_0_restores(folder: Path) -> None:
    with device_prefetch(iter(PIPELINE)) as batches, ocp.CheckpointManager(folder) as manager:
        manager.restore(HAD, args=ocp.args.Composite(input=InputRestore(batches)))
        assert [batch.tolist() for batch in batches] == EXPECTED[HAD:]


def test_so_does_a_plain_iterator(folder: Path) -> None:
    batches = iter(PIPELINE)
    v1.load_checkpointables(folder / f"{HAD}", {"input": batches})
    assert [batch.tolist() for batch in batches] == EXPECTED[HAD:]


def test_the_checkpoint_says_how_many_batches_the_loop_has_had(folder: Path) -> None:
    assert v1.checkpointables_metadata(folder / f"{HAD}").metadata["input"].step == HAD
