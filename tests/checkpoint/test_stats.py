"""The counters of a run go on over its resumes, and each save notes how the run is doing."""

from __future__ import annotations

import json
import os
import socket
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.clocks import Clock
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint.envelope import Checkpoint, decode, encode
from resumable.core.run_counters import RunCounters

COUNTS = ("steps", "items", "inputs", "skipped")


def keep(item: int) -> int:
    if item % 5 == 0:
        raise ValueError(item)
    return item


def plain(rank: int, ranks: int) -> rs.Pipeline[Any]:
    one = rs.range(40).map(keep, on_error="skip")
    return rs.mix({"a": one, "b": rs.range(60)}).shard(rank, ranks)


def threaded(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return plain(rank, ranks).map(str, workers=2).prefetch(3)


def train(store: Any, pipeline: rs.Pipeline[Any], steps: int, **options: Any) -> dict[str, Any]:
    """So many steps, the last of which is saved; returns the stats then."""
    defaults: dict[str, Any] = {"trigger": rs.EverySteps(1), "stats": True, "save_at_end": False}
    options = defaults | options
    with rs.Checkpointer(store, **options) as checkpointer:
        loop = checkpointer.resume(pipeline)
        for _ in islice(loop, steps):
            pass
        stats = loop.stats()
        checkpointer.save()
    return stats


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("build", [plain, threaded])
@pytest.mark.parametrize("ranks", [1, 2])
def test_counts_after_any_cut_are_those_of_an_uninterrupted_run(
    build: Callable[[int, int], rs.Pipeline[Any]], ranks: int, tmp_path: Path
) -> None:
    total = 12

    def run(folder: Path, steps: int) -> list[dict[str, Any]]:
        found = [
            train(folder, build(rank, ranks), steps, rank=rank, ranks=ranks)
            for rank in range(ranks)
        ]
        return [{name: stats[name] for name in COUNTS} for stats in found]

    whole = run(tmp_path / "whole", total)
    assert [stats["items"] for stats in whole] == [total] * ranks
    for cut in thinned(range(total + 1), 3, (build.__name__, ranks)):
        run(tmp_path / str(cut), cut)
        assert run(tmp_path / str(cut), total - cut) == whole, cut


def test_times_go_on_and_what_lies_between_two_processes_is_not_counted() -> None:
    store, clock = rs.Memory(), Clock()

    def read(item: int) -> int:
        clock.now += 2.0
        return item

    def run(steps: int) -> dict[str, Any]:
        with rs.Checkpointer(store, rs.EverySteps(1), stats=True, clock=clock) as checkpointer:
            loop = checkpointer.resume(rs.range(100).map(read))
            for _ in islice(loop, steps):
                clock.now += 0.5
            return loop.stats()

    run(10)
    clock.now += 1000.0
    stats = run(10)
    assert (stats["wait_seconds"], stats["loop_seconds"]) == (40.0, 10.0)
    assert stats["wait_share"] == 0.8
    assert stats["wait_p50"] == pytest.approx(2.0, rel=1 / 32)


def test_a_save_is_time_of_the_loop() -> None:
    clock = Clock()

    class Slow(rs.CheckpointListener):
        def before_save(self, step: int) -> None:
            clock.now += 7.0

    options: Any = {"listeners": [Slow()], "stats": True, "clock": clock}
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(1), **options) as checkpointer:
        loop = checkpointer.resume(rs.range(3))
        assert len(list(loop)) == 3
        assert (loop.stats()["wait_seconds"], loop.stats()["loop_seconds"]) == (0.0, 21.0)


def test_listeners_may_ask_for_the_stats() -> None:
    seen = []

    class Asks(rs.CheckpointListener):
        def after_save(self, step: int, path: str) -> None:
            seen.append((step, loop.stats()["steps"]))

    with rs.Checkpointer(rs.Memory(), rs.EverySteps(2), listeners=[Asks()]) as checkpointer:
        loop = checkpointer.resume(rs.range(5))
        assert list(loop) == list(range(5))
    assert seen == [(2, 2), (4, 4), (5, 5)]


def test_each_save_appends_a_line(tmp_path: Path) -> None:
    options: Any = {"wall_clock": lambda: 1_800_000_000.5, "trigger": rs.EverySteps(2)}
    train(tmp_path, plain(0, 1), 4, **options)
    train(tmp_path, plain(0, 1), 3, **options)
    found = lines(tmp_path / "input-stats.jsonl")
    assert [line["step"] for line in found] == [2, 4, 6, 7]
    assert [line["steps"] for line in found] == [2, 4, 6, 7]
    first = found[0]
    assert list(first)[:6] == ["step", "time", "rank", "ranks", "host", "pid"]
    assert (first["time"], first["rank"], first["ranks"]) == (1_800_000_000.5, 0, 1)
    assert (first["host"], first["pid"]) == (socket.gethostname(), os.getpid())
    assert {"items", "wait_share", "inputs", "skipped", "worker_restarts"} <= first.keys()


def test_ranks_have_files_of_their_own_and_checkpoints_are_not_taken_for_them(
    tmp_path: Path,
) -> None:
    for rank in range(2):
        train(tmp_path, plain(rank, 2), 3, rank=rank, ranks=2, retention=rs.Retention(1))
    for rank in range(2):
        found = lines(tmp_path / f"input-{rank:05d}-of-00002-stats.jsonl")
        assert [(line["rank"], line["ranks"]) for line in found] == [(rank, 2)] * 3
    store = rs.Directory(tmp_path)
    assert store.names() == ["input"]
    assert {step for step, _ in store.parts()} <= {1, 2, 3}


def test_what_ranks_have_counted_goes_to_the_ranks_that_go_on(tmp_path: Path) -> None:
    for rank in range(4):
        train(tmp_path, plain(rank, 4), 3, rank=rank, ranks=4)
    one, other = (train(tmp_path, plain(rank, 2), 2, rank=rank, ranks=2) for rank in range(2))
    assert (one["steps"], other["steps"]) == (5, 5)
    assert (one["items"], other["items"]) == (3 + 3 + 2, 3 + 3 + 2)
    found = [train(tmp_path, plain(rank, 4), 1, rank=rank, ranks=4)["items"] for rank in range(4)]
    assert found == [9, 9, 1, 1]


def test_without_stats_a_checkpoint_has_no_counters_and_the_folder_no_file(tmp_path: Path) -> None:
    train(tmp_path, plain(0, 1), 2, stats=False)
    checkpoint = rs.Checkpointer(tmp_path, rs.EverySteps(1)).load(2)
    assert checkpoint.counters is None
    assert decode(encode(checkpoint)) == checkpoint
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_checkpoint_without_counters_reads_as_zeros(tmp_path: Path) -> None:
    train(tmp_path, plain(0, 1), 5, stats=False)
    stats = train(tmp_path, plain(0, 1), 2)
    assert (stats["steps"], stats["items"]) == (7, 2)


def test_counters_survive_the_bytes_and_leave_the_state_as_it_is(tmp_path: Path) -> None:
    train(tmp_path / "with", plain(0, 1), 5)
    train(tmp_path / "without", plain(0, 1), 5, stats=False)
    with_stats, without = (
        rs.Checkpointer(tmp_path / name, rs.EverySteps(1)).load(5) for name in ("with", "without")
    )
    assert rs.dumps(with_stats.state) == rs.dumps(without.state)
    assert with_stats.counters is not None
    assert decode(encode(with_stats)) == with_stats


def test_impossible_counters_cost_no_checkpoint() -> None:
    checkpoint = Checkpoint(1, 1.0, {}, counters=RunCounters({"items": -1}))
    with pytest.warns(RuntimeWarning, match="so stats count from 0"):
        assert decode(encode(checkpoint)) == Checkpoint(1, 1.0, {})


def test_a_line_that_cannot_be_written_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "input-stats.jsonl").mkdir()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert train(tmp_path, plain(0, 1), 4)["steps"] == 4
    (warning,) = found
    assert "stats lines of Directory(" in str(warning.message)
    assert rs.Directory(tmp_path).steps() == [1, 2, 3, 4]


def test_a_line_that_was_cut_short_does_not_hide_the_next(tmp_path: Path) -> None:
    train(tmp_path, plain(0, 1), 1)
    path = tmp_path / "input-stats.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 2, "ti')
    train(tmp_path, plain(0, 1), 2)
    first, cut, *rest = path.read_bytes().splitlines()
    assert json.loads(first)["step"] == 1
    assert cut == b'{"step": 2, "ti'
    assert [json.loads(line)["step"] for line in rest] == [2, 3]
