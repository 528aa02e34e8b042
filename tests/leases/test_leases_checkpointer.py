"""Leases of a checkpointer: a step is an item done or dropped."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

import resumable as rs


class Noted(rs.CheckpointListener):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def before_save(self, step: int) -> None:
        self.calls.append(f"before {step}")

    def end(self, step: int) -> None:
        self.calls.append(f"end {step}")


def test_the_trigger_is_asked_when_an_item_is_done_or_dropped(tmp_path: Path) -> None:
    noted = Noted()
    with rs.Checkpointer(tmp_path, rs.EverySteps(3), listeners=[noted]) as checkpointer:
        leases = checkpointer.leases(rs.range(8), max_open=8)
        held = list(leases.available())
        leases.release(held.pop())
        held[0].done()
        leases.drop(held[1])
        assert checkpointer.steps() == []
        leases.done(held[2], held[3])
        assert checkpointer.steps() == [4]
        assert leases.save() is None
        held[4].done()
        assert checkpointer.step == 5
        path = leases.save()
        assert path is not None
        assert "00005" in path
        leases.done(5, 6)
        for lease in leases:
            lease.done()
    assert noted.calls == ["begin", "before 4", "before 5", "before 7", "before 8", "end 8"]


def test_a_kill_repeats_what_was_done_after_the_last_save(tmp_path: Path) -> None:
    pipeline = rs.range(20).shuffle(seed=0)
    first = rs.Checkpointer(tmp_path, rs.EverySteps(4))
    held = list(first.leases(pipeline, max_open=9).available())
    for place in (8, 2, 5, 0, 7, 1):
        held[place].done()
    first.close()  # as a kill: no save
    with rs.Checkpointer(tmp_path, rs.EverySteps(4)) as second:
        again = second.leases(pipeline)
        assert again.counts == (4, 0, 0)
        found = [lease.number for lease in again.available()]
        again.done(*found)
    assert found == [1, 3, 4, 6, 7, *range(9, 20)]
    with rs.Checkpointer(tmp_path, rs.EverySteps(4)) as third:
        assert third.leases(pipeline).take() is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_threads_may_end_leases_of_a_checkpointer(tmp_path: Path, asynchronous: bool) -> None:
    trigger = rs.EverySteps(10)
    with rs.Checkpointer(tmp_path, trigger, asynchronous=asynchronous) as checkpointer:
        leases = checkpointer.leases(rs.range(200), max_open=6)

        def work() -> None:
            for lease in leases:
                lease.done()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    saved = checkpointer.latest()
    assert saved is not None
    assert saved.step == 200
    assert saved.state["leases"]["done"] == 200


def test_other_pipelines_and_arguments_are_refused(tmp_path: Path) -> None:
    with rs.Checkpointer(tmp_path, rs.EverySteps(1)) as checkpointer:
        leases = checkpointer.leases(rs.range(20).batch(2))
        lease = leases.take()
        assert lease is not None
        lease.done()
        with pytest.raises(rs.InvalidArgument, match="resumes one pipeline"):
            checkpointer.leases(rs.range(20))
    with pytest.raises(
        rs.StateMismatch, match=r"the checkpoint of step 1 in .* does not fit: .*batch_size=2"
    ):
        rs.Checkpointer(tmp_path, rs.EverySteps(1)).leases(rs.range(20).batch(4))
    with pytest.raises(rs.StateMismatch, match=r"rs\.Leases\(pipeline, state=state\)"):
        rs.Checkpointer(tmp_path, rs.EverySteps(1)).resume(rs.range(20).batch(2))
    stopping = rs.EverySteps(1) | rs.OnSignal(signal.SIGTERM)
    for refused in (
        rs.Checkpointer(tmp_path, rs.EverySteps(1), ranks=2),
        rs.Checkpointer(tmp_path, rs.EverySteps(1), stats=True),
        rs.Checkpointer(tmp_path, stopping, stop_on_signal=True),
    ):
        with pytest.raises(rs.InvalidArgument, match="leases need a checkpointer with ranks=1"):
            refused.leases(rs.range(20))
    with pytest.raises(rs.InvalidArgument, match="remove shard from the pipeline"):
        rs.Checkpointer(tmp_path, rs.EverySteps(1)).leases(rs.range(20).shard(0, 2))
