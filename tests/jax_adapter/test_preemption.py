"""A preempted training of two processes saves one step on both, and goes on there."""

from __future__ import annotations

import json
import signal
from itertools import islice
from pathlib import Path

import pytest
from jax_adapter.processes import WAITS, start
from support.waiting import wait_until

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

import orbax.checkpoint as ocp
from jax_adapter.preempted import GLOBAL_BATCH, pipeline
from resumable_jax import InputRestore


def test_what_one_process_is_told_saves_both_and_one_process_goes_on(tmp_path: Path) -> None:
    started = start("jax_adapter.preempted", tmp_path, processes=2, devices=1)
    try:
        wait_until(
            lambda: all((tmp_path / f"begun-{number}").exists() for number in range(2)),
            seconds=WAITS,
        )
        started[1].send_signal(signal.SIGTERM)
        said = [one.communicate(timeout=WAITS)[0].decode(errors="replace") for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert [one.returncode for one in started] == [0, 0], said

    seen = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    iterator = iter(pipeline(0, 1))
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        steps = manager.all_steps()
        # Orbax saves the first step, whatever the interval.
        manager.restore(steps[-1], args=ocp.args.Composite(input=InputRestore(iterator)))
    assert len(steps) == 2
    assert iterator.step == steps[-1] == 2 * len(seen[0]) // GLOBAL_BATCH
    first = [number for pair in zip(*seen, strict=True) for number in pair]
    rest = [number for batch in islice(iterator, 20) for number in batch.tolist()]
    whole = [
        number for batch in islice(pipeline(0, 1), steps[-1] + 20) for number in batch.tolist()
    ]
    assert first + rest == whole
