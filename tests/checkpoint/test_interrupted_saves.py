"""An interrupt between any two steps of the interpreter leaves a save whole or not there."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from checkpoint.faulty_os import open_descriptors
from checkpoint.saving_loops import files_in, unfinished_in
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint import directory, files, locking

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks into /proc/self/fd"
)

TRACED = {directory.__file__, files.__file__, locking.__file__}


class Interrupts:
    """Raises KeyboardInterrupt before the opcodes of the store with these numbers."""

    def __init__(self, *moments: int) -> None:
        self.moments = moments
        self.opcodes = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.opcodes += 1
            if self.opcodes in self.moments:
                raise KeyboardInterrupt
        return self


def interrupted(action: Callable[[], object], *moments: int) -> int:
    """The number of opcodes that ``action`` took, interrupted at these ones."""
    interrupts, before = Interrupts(*moments), sys.gettrace()
    opened = open_descriptors()
    sys.settrace(interrupts)
    try:
        with suppress(KeyboardInterrupt):
            action()
    finally:
        sys.settrace(before)
    # An interrupt between a call and what is to become of its result costs a descriptor.
    for descriptor in open_descriptors().keys() - opened.keys():
        os.close(int(descriptor))
    return interrupts.opcodes


@pytest.fixture(scope="module", autouse=True)
def opcodes_are_traced(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Python 3.12 does so only once a frame has asked for it."""
    opcodes_of_a_save(tmp_path_factory.mktemp("first"))


def check(store: rs.Directory, again: bytes) -> None:
    """Step 2 was being saved as `new`, and is saved once more."""
    left = store.steps()
    assert left in ([1], [1, 2])
    assert store.load(left[-1]) == (b"new" if 2 in left else b"old")
    whole = 2 in left
    try:
        store.save(2, again)
    except FileExistsError:
        assert whole
        assert again != b"new"
        assert store._in_doubt is None, "one that nobody was told of is in the way"
        again = b"new"
    store.save(3, b"later")
    assert [store.load(step) for step in store.steps()] == [b"old", again, b"later"]
    assert len(unfinished_in(store.folder)) <= 2
    store.remove_unfinished()
    assert len(files_in(store.folder)) == 3


def store_in(folder: Path) -> rs.Directory:
    store = rs.Directory(folder)
    store.save(1, b"old")
    return store


def opcodes_of_a_save(folder: Path) -> int:
    store = store_in(folder)
    return interrupted(lambda: store.save(2, b"new"))


@pytest.mark.parametrize("again", [b"new", b"other"], ids=["the same", "another"])
def test_an_interrupt_at_any_moment(tmp_path: Path, again: bytes) -> None:
    count = opcodes_of_a_save(tmp_path / "unharmed")
    assert count > 100
    for moment in thinned(range(1, count + 1), 40, again):
        store = store_in(tmp_path / str(moment))
        interrupted(lambda store=store: store.save(2, b"new"), moment)  # type: ignore[misc]
        check(store, again)


@pytest.mark.parametrize("again", [b"new", b"other"], ids=["the same", "another"])
def test_a_second_interrupt_while_the_first_is_dealt_with(tmp_path: Path, again: bytes) -> None:
    count = opcodes_of_a_save(tmp_path / "unharmed")
    # The second one comes within what the first one sets off.
    pairs = [(first, first + more) for first in range(1, count + 1) for more in range(1, 80, 9)]
    for number, moments in enumerate(thinned(pairs, 50, again)):
        store = store_in(tmp_path / str(number))
        interrupted(lambda store=store: store.save(2, b"new"), *moments)  # type: ignore[misc]
        check(store, again)


def test_setting_aside_at_any_moment(tmp_path: Path) -> None:
    unharmed = store_in(tmp_path / "unharmed")
    count = interrupted(lambda: unharmed.set_aside(1, "damaged"))
    assert count > 50
    for moment in thinned(range(1, count + 1), 30, "aside"):
        store = store_in(tmp_path / str(moment))
        interrupted(lambda store=store: store.set_aside(1, "damaged"), moment)  # type: ignore[misc]
        if store.steps():
            assert store.load(1) == b"old"
            store.set_aside(1, "damaged")
        assert files_in(store.folder) == ["input-000000000001.ckpt.damaged"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a finalizer
def test_a_lock_that_is_taken_at_any_moment(tmp_path: Path) -> None:
    store = rs.Directory(tmp_path)
    count = interrupted(lambda: store.lock().close())
    assert count > 50
    for moment in thinned(range(1, count + 1), 30, "lock"):
        interrupted(lambda: store.lock().close(), moment)
        gc.collect()
        store.lock().close()


def test_a_lock_that_is_closed_at_any_moment(tmp_path: Path) -> None:
    store = rs.Directory(tmp_path)
    count = interrupted(store.lock().close)
    assert count > 10
    for moment in range(1, count + 1):
        lock = store.lock()
        interrupted(lock.close, moment)
        lock.close()
        assert not lock.is_held
        store.lock().close()
