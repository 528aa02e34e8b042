"""Whichever call of a save fails, the loop tells its caller, loses no item and saves again."""

from __future__ import annotations

import errno
import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from checkpoint.faulty_os import Fault, FaultyOs, faults, faulty_os, open_descriptors
from checkpoint.saving_loops import files_in, unfinished_in, until_written
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint.envelope import decode
from resumable.checkpoint.files import NO_LINKS

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks into /proc/self/fd"
)

CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EACCES]
every_code = pytest.mark.parametrize("code", thinned(CODES, 3, __name__), ids=errno.errorcode.get)
once_and_lasting = pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])


def resumed(store: rs.Store, **options: Any) -> tuple[rs.Checkpointer, Any]:
    """A loop over 0 .. 11 that saves after every second item and keeps two checkpoints."""
    checkpointer = rs.Checkpointer(
        store, rs.EverySteps(2), retention=rs.Retention(2), save_at_end=False, **options
    )
    return checkpointer, checkpointer.resume(rs.range(12))


def at_step_6(folder: Path, **options: Any) -> tuple[rs.Checkpointer, Any]:
    """A loop that saves step 6 when it is asked for its next item; 2 and 4 are saved."""
    store = rs.Directory(folder)
    earlier, loop = resumed(store)
    assert [next(loop) for _ in range(5)] == [0, 1, 2, 3, 4]
    earlier.close()
    checkpointer, loop = resumed(store, **options)
    assert [next(loop), next(loop)] == [4, 5]
    return checkpointer, loop


def next_or_failure(loop: Any) -> Any:
    """The next item, or the error of the save that was due before it."""
    try:
        return next(loop)
    except rs.SaveError as failure:
        return failure


@contextmanager
def only_about_retention() -> Iterator[list[str]]:
    """The warnings, all of which say that old checkpoints could not be removed."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told += [str(warning.message) for warning in caught]
    assert all(warning.category is RuntimeWarning for warning in caught)
    assert all(re.search("could not be (removed|read|listed)", text) for text in told)


def every_fault(folder: Path, code: int, lasting: bool) -> Iterator[Fault]:
    checkpointer, loop = at_step_6(folder)
    with faulty_os() as system:
        assert next(loop) == 6
        checkpointer.close()
    assert rs.Directory(folder).steps() == [4, 6]
    assert {"listdir", "read", "unlink"} <= set(system.calls[9:]), "retention is not among them"
    yield from faults(system.calls, code, lasting=lasting)


def check_valid(store: rs.Store) -> None:
    for step in store.steps():
        assert decode(store.load(step)).step == step


def was_saved(system: FaultyOs) -> bool:
    """Whether only what comes after the commit failed, or what it can do without."""
    if "listdir" not in system.calls:
        return False
    fault = system.fault
    assert fault is not None
    without_harm = ["unlink"], ["link"] * (fault.late or fault.code in NO_LINKS)
    assert fault.at >= system.calls.index("listdir") or system.failed in without_harm
    return True


def check_outcome(store: rs.Store, outcome: Any, system: FaultyOs) -> None:
    """Step 6 was saved under the fault of ``system``: it is old, new, or in doubt."""
    check_valid(store)
    if not isinstance(outcome, rs.SaveError):
        assert (outcome, was_saved(system)) == (6, True), (system.fault, system.calls)
        assert store.steps()[-2:] == [4, 6]
        return
    assert not was_saved(system)
    assert (outcome.step, outcome.errno) == (6, system.fault and system.fault.code)
    assert "step 6 could not be saved" in str(outcome)
    assert isinstance(outcome.__cause__, OSError)
    assert store.steps() == [2, 4, 6] if system.leaves_doubt else [2, 4]


def check_going_on(
    checkpointer: rs.Checkpointer, loop: Any, outcome: Any, system: FaultyOs
) -> set[int]:
    """The fault is gone: no item is lost, and step 8 is saved; returns the steps there are."""
    store = checkpointer.store
    failed = isinstance(outcome, rs.SaveError)
    if failed and system.leaves_doubt:
        checkpointer.close()
        checkpointer, loop = resumed(store)
    elif not failed:
        loop = itertools.chain([outcome], loop)
    assert next(loop) == 6
    assert 6 in store.steps(), "the failed step counts as saved"
    assert [next(loop), next(loop)] == [7, 8]
    checkpointer.close()
    check_valid(store)
    return set(store.steps())


@every_code
@once_and_lasting
def test_the_loop_tells_and_goes_on(tmp_path: Path, code: int, lasting: bool) -> None:
    before = open_descriptors()
    for number, fault in enumerate(every_fault(tmp_path / "unharmed", code, lasting)):
        folder = tmp_path / str(number)
        checkpointer, loop = at_step_6(folder)
        with only_about_retention(), faulty_os(fault) as system:
            outcome = next_or_failure(loop)
            loop._saver.collect(wait_for_it=True)  # the retention, which the loop does not wait for
        check_outcome(checkpointer.store, outcome, system)
        steps = check_going_on(checkpointer, loop, outcome, system)
        assert steps == {6, 8}, (fault, system.calls)
        assert lasting or not unfinished_in(folder) or system.failed == ["unlink"]
        resumed(rs.Directory(folder))[0].close()
        assert not unfinished_in(folder)
        assert open_descriptors() == before, (fault, system.calls)


@every_code
@once_and_lasting
def test_a_save_beside_the_loop_fails_exactly_once(
    tmp_path: Path, code: int, lasting: bool
) -> None:
    before = open_descriptors()
    for number, fault in enumerate(every_fault(tmp_path / "unharmed", code, lasting)):
        store = rs.Directory(tmp_path / str(number))
        checkpointer, loop = at_step_6(store.folder, asynchronous=True)
        with only_about_retention(), faulty_os(fault) as system:
            # The loop or the end tells it, as the writing is done sooner or later.
            outcomes = [next_or_failure(loop)]
            try:
                checkpointer.close()
            except rs.SaveError as failure:
                outcomes.append(failure)
        failures = [outcome for outcome in outcomes if isinstance(outcome, rs.SaveError)]
        assert len(failures) <= 1
        check_outcome(store, failures[0] if failures else 6, system)
        assert open_descriptors() == before, (fault, system.calls)
        checkpointer.close()
        assert len(store.steps()) >= 2


@every_code
@pytest.mark.parametrize("asynchronous", [False, True], ids=["direct", "beside"])
def test_a_last_save_that_fails_is_told_and_leaves_nothing_open(
    tmp_path: Path, code: int, asynchronous: bool
) -> None:
    def consume() -> None:
        with rs.Checkpointer(tmp_path, rs.EverySteps(100), asynchronous=asynchronous) as run:
            for item in run.resume(rs.range(3)):
                if item == 1:
                    system.fault = Fault(0, code, lasting=True)

    before = open_descriptors()
    with faulty_os() as system, pytest.raises(rs.SaveError, match="step 3") as told:
        consume()
    assert told.value.step == 3
    assert open_descriptors() == before
    assert rs.Directory(tmp_path).steps() == []
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as another:
        assert list(another.resume(rs.range(3))) == [0, 1, 2]
    assert files_in(tmp_path) == ["input-000000000003.ckpt"]


@every_code
def test_a_loop_goes_on_after_a_save_in_doubt(tmp_path: Path, code: int) -> None:
    checkpointer, loop = at_step_6(tmp_path)
    try:
        with faulty_os(Fault(5, code, lasting=True)), pytest.raises(rs.SaveError):
            next(loop)
        assert rs.Directory(tmp_path).steps() == [2, 4, 6]
        assert next(loop) == 6
        until_written(checkpointer)
        check_valid(rs.Directory(tmp_path))
    finally:
        checkpointer.close()


@every_code
@once_and_lasting
def test_a_resume_loses_no_checkpoint(tmp_path: Path, code: int, lasting: bool) -> None:
    at_step_6(tmp_path)[0].close()
    kept = [(tmp_path / name).read_bytes() for name in files_in(tmp_path)]
    store = rs.Directory(tmp_path)
    with faulty_os() as system:
        resumed(store)[0].close()
    before = open_descriptors()
    for fault in faults(system.calls, code, lasting=lasting):
        with (
            warnings.catch_warnings(),
            suppress(OSError, rs.NoValidCheckpoint),
            faulty_os(fault),
        ):
            warnings.simplefilter("ignore", RuntimeWarning)  # of the one that cannot be read
            resumed(store)[0].close()
        assert open_descriptors() == before, (fault, system.calls)
        assert [(tmp_path / name).read_bytes() for name in files_in(tmp_path)] == kept
        for path in tmp_path.glob("*.damaged*"):
            path.rename(str(path).partition(".damaged")[0])
