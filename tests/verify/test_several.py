"""What `resumable verify` does with several ranks: it starts, kills and compares them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.forks import verify_by_forks

import resumable as rs
from resumable.testing import processes
from resumable.verify import work
from resumable.verify.processes import TaskProcesses
from resumable.verify.runs import Digests, PipelineRun, draw
from resumable.verify.several import (
    TOGETHER,
    Verdict,
    _different,
    _of_life,
    check_several,
)
from resumable.verify.target import Target
from resumable.verify.work import ResumedRun

Check = Callable[[str], Verdict]

MINE = """
import resumable as rs


def kept(item):
    return item % 5


def fails(item):
    return 1 // (item - 41)


plain = rs.range(60).shuffle(0).shard(0, 2, uneven="keep").map(abs)
parts = rs.range(60).partition(6, lambda part: part.filter(kept)).shard(0, 2)
grouped = rs.range(60).partition(6, lambda part: part.filter(kept)).shard(0, 2).batch(4)
endless = rs.range(60).partition(6, lambda part: part.filter(kept).repeat()).shard(1, 2)
filtered = rs.range(60).shard(0, 2).filter(kept)
few = rs.range(3).shard(0, 2)
one_part = rs.range(9).partition(1, lambda part: part)
two_parts = rs.range(40).partition(2, lambda part: part.filter(kept))
twice_dealt = rs.range(60).shard(0, 2).shard(0, 2)
broken = rs.range(60).shard(0, 2).map(fails)
"""


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Tries several ranks of one of these pipelines; the processes are forks."""
    verify_by_forks(monkeypatch)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "work").mkdir()
    # So that what a target loads here is no module of a later test.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))

    def check(name: str) -> Verdict:
        target = Target(f"{tmp_path / 'mine.py'}:{name}")
        limit = 50 if name == "endless" else None
        with TaskProcesses(target, tmp_path / "work", 2) as workers:
            return check_several(target.load().stage, workers, limit, may_change=True)

    return check


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("plain", "as 3 instead of 2 ranks"),
        ("parts", "as 3 instead of 2 ranks"),
        ("two_parts", "as 1 instead of 2 ranks"),
        (
            "grouped",
            "as 3 instead of 2 ranks, without Batch(batch_size=4) and what follows: from there on the "
            "items depend on the number of ranks",
        ),
    ],
)
def test_what_is_exact_was_tried_in_every_way(checked: Check, name: str, others: str) -> None:
    assert checked(name) == Verdict(None, (TOGETHER, others))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("endless", ["not resumed as 3 instead of 2 ranks: that takes runs to the end"]),
        ("filtered", ["not resumed as 3 instead of 2 ranks: step 3 of 2 ranks: the states of"]),
        ("few", [f"not resumed {TOGETHER}: a rank has too few", "a rank has too few items"]),
        ("one_part", ["several ranks were not tried: Partition(count=1) has no more than one"]),
        ("twice_dealt", ["several ranks were not tried: Shard(index=0, count=2) deals out what"]),
        ("broken", ["ZeroDivisionError", "ZeroDivisionError"]),
    ],
)
def test_what_is_refused_is_told_and_is_no_finding(
    checked: Check, name: str, notes: list[str]
) -> None:
    found = checked(name)
    assert found.finding is None
    assert len(found.notes) == len(notes)
    for told, expected in zip(found.notes, notes, strict=True):
        assert expected in told


def run_of(items: list[int], expected: Digests | None = None, **options: Any) -> PipelineRun:
    return draw(iter(items), None, lambda count: None, expected=expected, texts=9, **options)


def resumed(first: int, run: PipelineRun) -> ResumedRun:
    return ResumedRun(first, run, None)


def test_a_life_that_starts_over_or_differs_is_wrong(tmp_path: Path) -> None:
    whole = run_of([0, 1, 2, 3], keep=str(tmp_path / "whole"))
    rest = Digests(str(tmp_path / "whole")).after(2)
    assert _of_life(resumed(2, run_of([2, 3], rest, first=2)), 2, 1, whole) is None
    assert _of_life(resumed(3, run_of([3], rest.after(1), first=3)), 2, 1, whole) is None
    lost = _of_life(resumed(0, whole), 2, 1, whole)
    assert lost is not None
    assert lost.reason.name == "ranks start over"
    assert "All had saved step 2, and a resume began after 0 items." in lost.details
    other = _of_life(resumed(2, run_of([2, 7], rest, first=2)), 2, 1, whole)
    assert other is not None
    assert (other.reason.name, other.item) == ("a rank goes astray", 3)
    assert (other.expected, other.got) == ("3", "7")


def test_a_run_that_fails_is_wrong(tmp_path: Path) -> None:
    def failing() -> Iterator[int]:
        yield 2
        raise KeyError("lost")

    failed = draw(failing(), None, lambda count: None)
    wrong = _different(_of_life(resumed(0, failed), 1, 0, failed).reason, failed, failed, 2)  # type: ignore[union-attr]
    assert wrong is not None
    assert wrong.details == "It ended with KeyError: 'lost'."


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no such signal")
def test_a_rank_is_killed_while_its_checkpoints_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    monkeypatch.setattr(os, "_exit", lambda status: None)
    left_open: list[object] = []
    for module in (work, processes):
        monkeypatch.setattr(module, "left_open", left_open)
    for is_killed in (False, True):
        folder = str(tmp_path / f"{is_killed}")
        done = work.resumed(
            rs.range(9).stage,
            lambda count: None,
            folder=folder,
            expected=None,
            until=4,
            every=3,
            is_killed=is_killed,
        )
        assert (done.first, done.run.items) == (0, 4)
        assert rs.Checkpointer(folder, rs.AtEnd()).steps() == [3]
        resuming = pytest.raises(rs.NameInUse) if is_killed else nullcontext()
        with resuming, rs.Checkpointer(folder, rs.AtEnd()) as other:
            other.resume(rs.range(9))
        processes.be_killed()
    assert killed == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.parametrize(
    ("until", "items", "saved"), [(7, 100, 6), (6, 100, 3), (None, 9, 9), (20, 9, 9), (20, 8, 6)]
)
def test_a_step_is_saved_when_the_next_item_is_asked_for(
    until: int | None, items: int, saved: int
) -> None:
    done = []
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(3), save_at_end=False) as checkpointer:
        for number, _ in enumerate(checkpointer.resume(rs.range(items)), start=1):
            done.append(checkpointer.latest())
            if number == until:
                done = [checkpointer.latest()]
                break
        else:
            done = [checkpointer.latest()]
        assert done[-1] is not None
        assert done[-1].step == saved
