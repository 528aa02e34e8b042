"""A power cut between the parts of a step, or within one, costs no step that all ranks have saved."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path

import pytest
from checkpoint.crash_checks import FOLDER, Killed
from checkpoint.crash_model import Recorder, build, power_cuts, recording
from checkpoint.wrapped import WrappedParts
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint import directory, files
from resumable.checkpoint.ranks.part import RankPart
from resumable.checkpoint.ranks.parts import WholeSteps
from resumable.checkpoint.reading import newest_valid

NUMBERS = rs.range(99)


@dataclass(frozen=True)
class Promise:
    """What a power cut must leave.

    Attributes:
      begun: step, part and bytes of what was ever given to `save`.
      saved: what was acknowledged or synced by another rank, and not removed.
    """

    begun: frozenset[tuple[int, RankPart, bytes]] = frozenset()
    saved: frozenset[tuple[int, RankPart]] = frozenset()

    @property
    def newest(self) -> int:
        """The newest step of which all parts were acknowledged."""
        whole = [
            step for step, part in self.saved if {(step, p) for p in part.siblings} <= self.saved
        ]
        return max(whole, default=0)


class Promising(WrappedParts):
    """A folder that says before and after each save what a power cut must leave from then on."""

    part_saved = RankPart()

    def __init__(self, root: Path, recorder: Recorder[Promise]) -> None:
        super().__init__(rs.Directory(root / FOLDER))
        self._recorder = recorder

    def part(self, part: RankPart) -> Promising:
        one = super().part(part)
        one.part_saved = part
        return one

    def save(self, step: int, data: bytes) -> str:
        begun = self._promised.begun | {(step, self.part_saved, data)}
        self._recorder.promise(replace(self._promised, begun=begun))
        path = super().save(step, data)
        saved = self._promised.saved | {(step, self.part_saved)}
        self._recorder.promise(replace(self._promised, saved=saved))
        return path

    def sync(self) -> None:
        super().sync()
        saved = self._promised.saved | set(self.parts())
        self._recorder.promise(replace(self._promised, saved=saved))

    def remove(self, step: int) -> None:
        saved = self._promised.saved - {(step, self.part_saved)}
        promised = replace(self._promised, saved=saved)
        assert promised.newest >= self._promised.newest, "the newest whole step is removed"
        self._recorder.promise(promised)
        super().remove(step)

    @property
    def _promised(self) -> Promise:
        return self._recorder.log[-1].promise


def loop_of(
    store: rs.Store, rank: int, ranks: int, retention: rs.Retention | None
) -> Iterator[int]:
    """The steps of a rank, which saves after each of them, until it is closed."""
    checkpointer = rs.Checkpointer(
        store,
        rs.EverySteps(1),
        rank=rank,
        ranks=ranks,
        retention=retention,
        wall_clock=lambda: 1.0,
        save_at_end=False,
    )
    try:
        for _ in checkpointer.resume(NUMBERS.shard(rank, ranks)):
            yield checkpointer.step
    finally:
        checkpointer.close()


def check_cuts(folder: Path, recorder: Recorder[Promise], after: int = 0) -> int:
    """Cut the power at moments of a run, and resume; returns how many moments there were."""
    cuts = list(power_cuts((), recorder.log, after))
    for promise, state in thinned(cuts, 30, "power cuts"):
        root = folder / "cut"
        build(root, state)
        # Recorded for the sake of speed: then nothing is synced.
        with recording(Recorder(root, state, None), (directory, files)):
            check_recovery(rs.Directory(root / FOLDER), promise)
        shutil.rmtree(root)
    return len(cuts)


def check_recovery(store: rs.Store, promise: Promise) -> None:
    """See that nothing is lost, and that three ranks can go on."""
    found = {(step, part, store.part(part).load(step)) for step, part in store.parts()}
    assert found <= promise.begun, "something damaged stands under a final name"
    latest = newest_valid(WholeSteps(store))
    newest = latest.step if latest else 0
    assert newest >= promise.newest, "a whole step is lost"
    loops = [loop_of(store, rank, 3, None) for rank in range(3)]
    assert [next(loop) for loop in loops] == [newest + 1] * 3
    for loop in loops:
        next(loop)
        loop.close()  # type: ignore[attr-defined]
    assert WholeSteps(store).steps()[-1] == newest + 1


@pytest.mark.parametrize("retention", [None, rs.Retention(1)], ids=str)
def test_no_power_cut_costs_a_step_that_all_ranks_have_saved(
    tmp_path: Path, retention: rs.Retention | None
) -> None:
    recorder = Recorder(tmp_path / "live", (), Promise(), longest_write=1000)
    build(tmp_path / "live", ())
    with recording(recorder, (directory, files)):
        for ranks, steps in ((2, 2), (1, 1), (2, 1)):
            loops = [
                loop_of(Promising(tmp_path / "live", recorder), rank, ranks, retention)
                for rank in range(ranks)
            ]
            for _ in range(steps + 1):
                for loop in loops:
                    next(loop)
            for loop in loops:
                loop.close()  # type: ignore[attr-defined]
    assert check_cuts(tmp_path, recorder) >= 60


@pytest.mark.deep
def test_what_others_name_and_have_not_synced_costs_nothing(tmp_path: Path) -> None:
    """Rank 1 is killed in a save, and begins again; rank 0 goes on before that, and within the next save."""
    calls = range(4, calls_of_a_save(tmp_path / "calls") + 1)  # before that nothing has its name
    for killed_at, ahead_at in product(calls, calls[::2]):
        root = tmp_path / f"{killed_at} {ahead_at}"
        recorder = Recorder(root / "live", (), Promise(), longest_write=1000)
        build(root / "live", ())
        with recording(recorder, (directory, files)):
            run_ahead(root / "live", recorder, killed_at, ahead_at)
        check_cuts(root, recorder, after=len(recorder.log) * 3 // 4)


def calls_of_a_save(root: Path) -> int:
    recorder = Recorder(root, (), Promise(), longest_write=1000)
    build(root, ())
    with recording(recorder, (directory, files)):
        loop = loop_of(Promising(root, recorder), 1, 2, rs.Retention(1))
        next(loop)
        calls: list[int] = []
        recorder.before = calls.append
        next(loop)
        loop.close()  # type: ignore[attr-defined]
    return len(calls)


def run_ahead(root: Path, recorder: Recorder[Promise], killed_at: int, ahead_at: int) -> None:
    def loop(rank: int) -> Iterator[int]:
        return loop_of(Promising(root, recorder), rank, 2, rs.Retention(1))

    first, second = loop(0), loop(1)
    for _ in range(3):
        next(first)
        next(second)
    recorder.before = after_calls(killed_at, lambda: die(recorder))
    with suppress(Killed):
        next(second)
    recorder.before = lambda calls: None
    second.close()  # type: ignore[attr-defined]
    next(first)
    next(first)
    second = loop(1)
    next(second)

    def run() -> None:
        recorder.before = lambda calls: None
        next(first)

    recorder.before = after_calls(ahead_at, run)
    next(second)
    recorder.before = lambda calls: None
    for each in (first, second):
        each.close()  # type: ignore[attr-defined]


def die(recorder: Recorder[Promise]) -> None:
    raise Killed


def after_calls(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    """What `Recorder.before` is to be for ``act`` to be done before its call ``number``, and each later one."""
    numbers = count()

    def before(_: int) -> None:
        if next(numbers) >= number:
            act()

    return before
