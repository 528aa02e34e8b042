"""What every power cut must leave of a store, checked by the real recovery."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType

from checkpoint.crash_model import Event, Recorder, State, build, power_cuts, recording
from checkpoint.saving_loops import unfinished_in

import resumable as rs
from resumable.checkpoint import directory, files
from resumable.checkpoint.envelope import decode, encode
from resumable.checkpoint.reading import newest_valid

FOLDER = Path("run/input")
DAMAGED = "something damaged stands under a final name"
FEWER = "there are fewer valid checkpoints than before"
LOST = "an acknowledged save is lost"
LEFT = "a temporary file is left"
STUCK = "the save after the recovery does not work"


@dataclass(frozen=True)
class Promise:
    """What a power cut must leave, as pairs of a step and the bytes saved under it.

    Attributes:
      begun: what was ever given to `save`; nothing else may be found.
      kept: what was acknowledged, and no retention removed.
      fewest: how many valid ones there must be.
      damaged: what was damaged before the run.
    """

    begun: frozenset[tuple[int, bytes]] = frozenset()
    kept: frozenset[tuple[int, bytes]] = frozenset()
    fewest: int = 0
    damaged: frozenset[tuple[int, bytes]] = frozenset()


@dataclass(frozen=True)
class Subject:
    """The modules of a store, whose calls are recorded."""

    directory: ModuleType = directory
    files: ModuleType = files

    def open(self, root: Path) -> rs.Store:
        store = self.directory.Directory(root / FOLDER)
        assert isinstance(store, rs.Store)
        return store

    def recording(self, recorder: Recorder[Promise]) -> AbstractContextManager[object]:
        return recording(recorder, (self.directory, self.files))


class Witness:
    """Stands before a store, and says at each call what a power cut must leave from then on."""

    def __init__(
        self, store: rs.Store, recorder: Recorder[Promise], retention: rs.Retention | None
    ) -> None:
        self._save, self._remove = store.save, store.remove
        self._recorder = recorder
        self._retention = retention
        vars(store).update(save=self.save, remove=self.remove)

    def save(self, step: int, data: bytes) -> str:
        promise = self._recorder.log[-1].promise
        fewest = len(promise.kept)
        if self._retention is not None:
            fewest = min(fewest, self._retention.latest)
        promise = replace(promise, begun=promise.begun | {(step, data)}, fewest=fewest)
        self._recorder.promise(promise)
        path = self._save(step, data)
        self._recorder.promise(replace(promise, kept=promise.kept | {(step, data)}))
        return path

    def remove(self, step: int) -> None:
        promise = self._recorder.log[-1].promise
        times = {step: decode(data).time for step, data in promise.kept}
        if step in times:
            assert self._retention is not None, "nothing may be removed"
            assert step in self._retention.expired(times), f"{step} may not be removed yet"
        kept = frozenset(pair for pair in promise.kept if pair[0] != step)
        self._recorder.promise(replace(promise, kept=kept))
        self._remove(step)


Scenario = Callable[[Subject, Recorder[Promise], Path], None]


def train(
    subject: Subject,
    recorder: Recorder[Promise],
    root: Path,
    items: int = 3,
    retention: rs.Retention | None = None,
) -> None:
    """A loop up to so many items, resumed from what is there, with a save after each of them."""
    store = subject.open(root)
    Witness(store, recorder, retention)
    with (
        warnings.catch_warnings(),
        rs.Checkpointer(
            store,
            rs.EverySteps(1),
            retention=retention,
            wall_clock=partial(next, count(0.0, 3600.0)),
        ) as checkpointer,
    ):
        warnings.filterwarnings("ignore", "the checkpoint of step . is damaged", RuntimeWarning)
        for item in checkpointer.resume(rs.range(99)):
            if item + 1 >= items:
                break


def save_twice(subject: Subject, recorder: Recorder[Promise], root: Path) -> None:
    store = subject.open(root)
    Witness(store, recorder, None)
    with suppress(FileExistsError):
        for time in (1.0, 2.0):
            store.save(1, encode(rs.Checkpoint(1, time, {})))


def recover(store: rs.Store) -> rs.Checkpoint | None:
    """As `Checkpointer.resume` does it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the checkpoint of step . is damaged", RuntimeWarning)
        newest = newest_valid(store, set_aside=True)
    store.remove_unfinished()
    return newest


def recover_only(subject: Subject, recorder: Recorder[Promise], root: Path) -> None:
    recover(subject.open(root))


def pairs(store: rs.Store) -> set[tuple[int, bytes]]:
    return {(step, store.load(step)) for step in store.steps()}


def check(subject: Subject, root: Path, state: State, promise: Promise) -> list[Event[Promise]]:
    """Recover after a power cut and save once more; returns what the recovery did."""
    recorder = Recorder(root, state, promise)
    with subject.recording(recorder):
        store = subject.open(root)
        found = pairs(store)
        assert found <= promise.begun | promise.damaged, DAMAGED
        valid = found - promise.damaged
        assert len(valid) >= promise.fewest, FEWER
        assert promise.kept <= valid, LOST
        assert recover(store) == (decode(max(valid)[1]) if valid else None)
        assert not unfinished_in(root / FOLDER), LEFT
        recovery = list(recorder.log)
        step = max((step for step, _ in promise.begun), default=0) + 1
        following = (step, encode(rs.Checkpoint(step, 0.0, {})))
        store.save(*following)
        assert newest_valid(store) == decode(following[1]), STUCK
    return recovery


def check_all(
    subject: Subject,
    folder: Path,
    start: State,
    log: list[Event[Promise]],
    cuts: int = 1,
    after: int = 0,
) -> int:
    """Check what so many power cuts may leave, all but the first during a recovery."""
    checked = 0
    root = folder / f"{cuts} to come"
    for promise, state in power_cuts(start, log, after):
        build(root, state)
        recovery = check(subject, root, state, promise)
        shutil.rmtree(root)
        checked += 1
        if cuts > 1:
            checked += check_all(subject, folder, state, recovery, cuts - 1)
    return checked


def check_scenario(
    scenario: Scenario,
    folder: Path,
    subject: Subject | None = None,
    start: State = (),
    promise: Promise | None = None,
    cuts: int = 1,
    links: bool = True,
) -> int:
    """Check every power cut of ``scenario`` on a disk that holds ``start``; returns how many.

    Without ``links`` the file system has none.
    """
    subject = subject or Subject()
    build(folder / "live", start)
    recorder = Recorder(folder / "live", start, promise or Promise())
    recorder.links = links
    with subject.recording(recorder):
        scenario(subject, recorder, folder / "live")
    return check_all(subject, folder, start, recorder.log, cuts)


class Killed(BaseException):
    """The process is gone, the system goes on."""


def check_kills(folder: Path, start: State) -> int:
    """Kill a loop before each of its calls, resume it at once, and cut the power later."""
    subject = Subject()
    for kill in count():
        root = folder / str(kill)
        build(root, start)
        recorder = Recorder(root, start, Promise(), longest_write=1000)

        def die(calls: int, kill: int = kill) -> None:
            if calls >= kill:
                raise Killed

        with subject.recording(recorder):
            recorder.before = die
            with suppress(Killed):
                train(subject, recorder, root, items=1)
                return kill
            recorder.before = lambda calls: None
            killed = len(recorder.log)
            train(subject, recorder, root, items=2)
        check_all(subject, folder / "cut", start, recorder.log, after=killed)
    return 0
