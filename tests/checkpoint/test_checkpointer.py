"""The checkpointer: labels are true, damage is survived, kills lose nothing."""

from __future__ import annotations

import itertools
import random
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import started_code
from support.tiers import is_deep

import resumable as rs
from resumable.checkpoint.envelope import decode


def pipeline() -> rs.Pipeline[Any]:
    return rs.range(20).shuffle(0).repeat(2).batch(2).prefetch(2)


ALL = [batch.tolist() for batch in pipeline()]


def train(
    store: Any, trigger: rs.Trigger, steps: int | None = None, **options: Any
) -> tuple[list[Any], rs.Checkpointer]:
    """Consume up to ``steps`` batches; returns them and the checkpointer."""
    seen = []
    with rs.Checkpointer(store, trigger, **options) as checkpointer:
        for batch in checkpointer.resume(pipeline()):
            seen.append(batch.tolist())
            if len(seen) == steps:
                break
    return seen, checkpointer


class Events(rs.CheckpointListener):
    def __init__(self, name: str = "", log: list[str] | None = None, stop_at: int = -1) -> None:
        self.name, self.log, self.stop_at = name, [] if log is None else log, stop_at

    def begin(self) -> None:
        self.log.append(f"{self.name}begin")

    def before_save(self, step: int) -> None:
        self.log.append(f"{self.name}before {step}")

    def after_save(self, step: int, path: str) -> bool | None:
        self.log.append(f"{self.name}after {step}")
        return step == self.stop_at or None

    def end(self, step: int) -> None:
        self.log.append(f"{self.name}end {step}")


def test_the_example_of_the_design_saves_and_resumes(tmp_path: Path) -> None:
    first, _ = train(tmp_path / "run" / "input", rs.EverySteps(3) | rs.EverySeconds(600), 7)
    rest, checkpointer = train(tmp_path / "run" / "input", rs.EverySteps(3))
    assert first + rest == ALL
    assert checkpointer.step == 20
    with pytest.warns(RuntimeWarning, match="come to its end at step 20"):
        assert train(tmp_path / "run" / "input", rs.EverySteps(3))[0] == []


def test_an_ended_run_says_once_that_it_delivers_nothing() -> None:
    store = rs.Memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # not the first time, nor where there was never an item
        assert len(train(store, rs.AtEnd())[0]) == 20
        assert list(rs.Checkpointer(rs.Memory(), rs.AtEnd()).resume(rs.range(0))) == []
    with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
        loop = checkpointer.resume(pipeline())
        with pytest.warns(
            RuntimeWarning,
            match="end at step 20, .*its take, or .*repeat.*; to begin anew, use another folder",
        ) as told:
            assert list(loop) == list(loop) == []
    assert [Path(one.filename) for one in told] == [Path(__file__)]
    with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
        assert len(list(checkpointer.resume(pipeline(), step=0))) == 20


def test_a_save_at_step_k_holds_k_items(tmp_path: Path) -> None:
    store = rs.Directory(tmp_path)
    train(store, rs.EverySteps(3))
    assert store.steps() == [3, 6, 9, 12, 15, 18, 20]
    for step in store.steps():
        with pipeline().resume(decode(store.load(step)).state) as iterator:
            assert iterator.step == step
            assert [batch.tolist() for batch in iterator] == ALL[step:]


@given(st.integers(1, 7), st.lists(st.integers(1, 6), max_size=6))
@pytest.mark.filterwarnings("ignore:this run had come to its end")
def test_any_sequence_of_clean_stops_delivers_every_item_once(
    every: int, lengths: list[int]
) -> None:
    store = rs.Memory()
    seen: list[Any] = []
    for steps in lengths:
        seen += train(store, rs.EverySteps(every), steps)[0]
    seen += train(store, rs.EverySteps(every))[0]
    assert seen == ALL
    assert len(set(store.steps())) == len(store.steps())


def test_after_an_exception_there_is_no_last_save() -> None:
    store = rs.Memory()
    log = Events()

    def fail_at_6() -> None:
        with rs.Checkpointer(store, rs.EverySteps(4), listeners=[log]) as checkpointer:
            for _ in checkpointer.resume(pipeline()):
                if checkpointer.step == 6:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_6()
    assert store.steps() == [4]
    assert log.log == ["begin", "before 4", "after 4"]
    assert train(store, rs.EverySteps(4))[0] == ALL[4:]


def test_the_last_save_can_be_left_out() -> None:
    store = rs.Memory()
    train(store, rs.EverySteps(8), save_at_end=False)
    assert store.steps() == [8, 16]


def test_listeners_are_told_in_order() -> None:
    log: list[str] = []
    listeners = [Events("1 ", log), Events("2 ", log)]
    train(rs.Memory(), rs.EverySteps(15), listeners=listeners)
    assert log == [
        "1 begin", "2 begin",
        "1 before 15", "2 before 15", "1 after 15", "2 after 15",
        "1 before 20", "2 before 20", "1 after 20", "2 after 20",
        "1 end 20", "2 end 20",
    ]  # fmt: skip


def test_true_from_after_save_stops_the_loop_also_from_the_first_listener() -> None:
    log = Events()
    seen, _ = train(rs.Memory(), rs.EverySteps(2), listeners=[Events(stop_at=6), log])
    assert seen == ALL[:6]
    assert log.log[-1] == "end 6"


def test_a_listener_that_raises_leaves_no_save_and_its_error_comes_out() -> None:
    class Failing(Events):
        def before_save(self, step: int) -> None:
            raise OSError("disk of the model is full")

    store = rs.Memory()
    with pytest.raises(OSError, match="disk of the model"):
        train(store, rs.EverySteps(2), listeners=[Failing()])
    assert store.steps() == []


def test_saving_from_the_loop_counts_the_item_in_work() -> None:
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(100), save_at_end=False) as checkpointer:
        for _ in checkpointer.resume(pipeline()):
            if checkpointer.step == 5:
                assert checkpointer.save() == "memory:5"
                assert checkpointer.save() is None
                break
    assert train(store, rs.EverySteps(100))[0] == ALL[5:]


def test_seconds_are_measured_from_the_last_save() -> None:
    now = 0.0
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySeconds(10), clock=lambda: now) as checkpointer:
        for _ in checkpointer.resume(pipeline()):
            now += 4
    assert store.steps() == [3, 6, 9, 12, 15, 18, 20]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "renamed", "folder"])
def test_a_damaged_newest_checkpoint_is_set_aside_and_reported(tmp_path: Path, damage: str) -> None:
    store = rs.Directory(tmp_path)
    train(store, rs.EverySteps(4), 9)
    newest = tmp_path / "input-000000000009.ckpt"
    content = newest.read_bytes()
    if damage == "folder":
        newest.unlink()
        newest.mkdir()
    elif damage == "renamed":
        newest.write_bytes((tmp_path / "input-000000000004.ckpt").read_bytes())
    else:
        flipped = content[:50] + bytes([content[50] ^ 1]) + content[51:]
        newest.write_bytes({"truncated": content[:-1], "flipped": flipped, "empty": b""}[damage])
    with pytest.warns(RuntimeWarning, match="step 9 is damaged: .*it was set aside as .*damaged"):
        rest, _ = train(store, rs.EverySteps(4))
    assert rest == ALL[8:]
    assert (tmp_path / "input-000000000009.ckpt.damaged").exists()


def test_all_damaged_is_an_error_and_stays_one(tmp_path: Path) -> None:
    train(tmp_path, rs.EverySteps(8))
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(rs.NoValidCheckpoint, match="every checkpoint"),
    ):
        train(tmp_path, rs.EverySteps(8))
    with pytest.raises(rs.NoValidCheckpoint):
        train(tmp_path, rs.EverySteps(8))


def test_none_yet_means_from_the_beginning(tmp_path: Path) -> None:
    assert train(tmp_path, rs.EverySteps(8))[0] == ALL


def test_resuming_from_a_given_step_sets_later_ones_aside(tmp_path: Path) -> None:
    store = rs.Directory(tmp_path)
    train(store, rs.EverySteps(4))
    with rs.Checkpointer(store, rs.EverySteps(4)) as checkpointer:
        loop = checkpointer.resume(pipeline(), step=8)
        assert store.steps() == [4, 8]
        assert [batch.tolist() for batch in loop] == ALL[8:]
    assert store.steps() == [4, 8, 12, 16, 20]
    with pytest.raises(rs.NoValidCheckpoint, match="no checkpoint for step 5, there are"):
        rs.Checkpointer(store, rs.EverySteps(4)).resume(pipeline(), step=5)


def test_why_a_checkpoint_does_not_fit_is_printed_once(tmp_path: Path) -> None:
    with rs.Checkpointer(tmp_path, rs.EverySteps(2)) as checkpointer:
        list(checkpointer.resume(rs.range(5).shuffle(0)))
    other = rs.range(5).shuffle(1)
    with (
        rs.Checkpointer(tmp_path, rs.EverySteps(2)) as checkpointer,
        pytest.raises(rs.StateMismatch, match=r"checkpoint of step 5 .* does not fit: ") as raised,
    ):
        checkpointer.resume(other)
    printed = "".join(traceback.format_exception(raised.value))
    assert printed.count("saved seed=0") == 1
    assert raised.value.stage is other.stage


def test_a_checkpoint_of_another_pipeline_is_refused_and_kept() -> None:
    store = rs.Memory()
    train(store, rs.EverySteps(4))
    checkpointer = rs.Checkpointer(store, rs.EverySteps(4))
    with pytest.raises(rs.StateMismatch, match="saved seed=0"):
        checkpointer.resume(rs.range(20).shuffle(1).repeat(2).batch(2))
    assert store.steps()[-1] == 20


def test_what_cannot_be_saved_is_told_before_the_first_item() -> None:
    taken: list[int] = []
    source = rs.from_iterable(taken.append(i) or i for i in range(9))  # type: ignore[func-returns-value]
    checkpointer = rs.Checkpointer(rs.Memory(), rs.EverySteps(4))
    with pytest.raises(rs.ExternalStateError, match="can only be read once"):
        checkpointer.resume(source)
    assert taken == []


def test_a_block_that_never_iterates_saves_nothing() -> None:
    store = rs.Memory()
    log = Events()
    with rs.Checkpointer(store, rs.EverySteps(4), listeners=[log]) as checkpointer:
        checkpointer.resume(pipeline())
    assert (store.steps(), log.log) == ([], [])


def test_misuse_is_told() -> None:
    checkpointer = rs.Checkpointer(rs.Memory(), rs.EverySteps(4))
    with pytest.raises(rs.InvalidArgument, match="before resume"):
        checkpointer.save()
    with pytest.raises(rs.InvalidType, match="pipeline must be a pipeline"):
        checkpointer.resume([1, 2])  # type: ignore[arg-type]
    checkpointer.resume(pipeline())
    with pytest.raises(rs.InvalidArgument, match="one pipeline"):
        checkpointer.resume(pipeline())
    checkpointer.close()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_after_close_nothing_is_saved_any_more(asynchronous: bool) -> None:
    store = rs.Memory()
    checkpointer = rs.Checkpointer(store, rs.EverySteps(2), asynchronous=asynchronous)
    loop = checkpointer.resume(pipeline())
    next(loop), next(loop)
    checkpointer.close()
    with pytest.raises(rs.IteratorClosed, match="the checkpointer was closed"):
        checkpointer.save()
    with pytest.raises(rs.IteratorClosed):
        next(loop)
    assert store.steps() == []


def test_the_model_of_a_resumed_step_exists(tmp_path: Path) -> None:
    class SaveModel(rs.CheckpointListener):
        def before_save(self, step: int) -> None:
            np.save(tmp_path / f"model-{step}.npy", step)

    def run(steps: int) -> int:
        with rs.Checkpointer(
            tmp_path / "input", rs.EverySteps(3), listeners=[SaveModel()], save_at_end=False
        ) as checkpointer:
            loop = checkpointer.resume(pipeline())
            step = loop.step
            if step:
                assert np.load(tmp_path / f"model-{step}.npy") == step
            list(itertools.islice(loop, steps))
            return step

    assert [run(5), run(4), run(1)] == [0, 3, 6]


KILLED = """
import sys, resumable as rs
numbers = rs.range(10**6).shuffle(1).map(abs).batch(5).prefetch(2)
with rs.Checkpointer(sys.argv[1], rs.EverySteps(3)) as checkpointer:
    for batch in checkpointer.resume(numbers):
        print(checkpointer.step, *batch, flush=True)
"""


def test_killed_at_random_moments_it_repeats_only_what_no_checkpoint_holds(tmp_path: Path) -> None:
    chosen = random.Random(0)
    expected = rs.range(10**6).shuffle(1)[:100_000]
    effective: dict[int, list[int]] = {}
    for _ in range(12 if is_deep() else 4):
        saved = rs.Directory(tmp_path).steps()
        with started_code(KILLED, str(tmp_path)) as (process, printed):
            first = printed.readline()
            time.sleep(chosen.uniform(0, 0.05))
            process.kill()
            lines = [first, *printed.read().splitlines(keepends=True)]
        start = int(first.split()[0])
        assert start == max(saved, default=0) + 1, "it did not start from the newest"
        for line in lines:
            if line.endswith("\n"):
                step, *batch = map(int, line.split())
                assert effective.setdefault(step, batch) == batch, "a step has other items now"
    steps = sorted(effective)
    assert steps == list(range(1, len(steps) + 1))
    got = [item for step in steps for item in effective[step]]
    assert got == expected[: len(got)]
