"""Shared memory in slots: what is written is read, and nothing is left behind."""

from __future__ import annotations

import os
import sys
import tempfile
from multiprocessing import reduction

import pytest

from resumable.workers.arena import SHARES_MEMORY, Arena

pytestmark = pytest.mark.skipif(not SHARES_MEMORY, reason="memory is not shared on this system")


def read(shared: Arena, slot: int, lengths: list[int]) -> list[bytes]:
    return [bytes(part) for part in shared.read(slot, lengths)]


def test_each_slot_holds_what_was_last_written_to_it() -> None:
    shared = Arena(3, 8)
    shared.write(0, [b"abc", b"", memoryview(b"defgh")])
    shared.write(1, [b"12345678"])
    shared.write(2, [b"x"])
    assert read(shared, 0, [3, 0, 5]) == [b"abc", b"", b"defgh"]
    assert read(shared, 1, [8]) == [b"12345678"]
    assert read(shared, 2, [1]) == [b"x"]
    shared.write(1, [b"abcd"])
    assert read(shared, 1, [2, 2]) == [b"ab", b"cd"]
    assert read(shared, 0, [8]) == [b"abcdefgh"]
    shared.close()


def test_it_may_be_closed_twice_and_gives_its_descriptor_back() -> None:
    shared = Arena(1, 8)
    descriptor = shared._descriptor
    os.fstat(descriptor)
    shared.close()
    shared.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_dropped_one_gives_its_descriptor_back() -> None:
    shared = Arena(1, 8)
    descriptor = shared._descriptor
    del shared
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="counts blocks of memory")
def test_what_nobody_has_written_takes_no_memory() -> None:
    shared = Arena(9, 1 << 28)
    assert os.fstat(shared._descriptor).st_size == 9 << 28
    assert os.fstat(shared._descriptor).st_blocks == 0
    shared.close()


def test_without_anonymous_files_a_removed_one_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = Arena(2, 8)
    assert os.listdir(tmp_path) == []
    shared.write(1, [b"abc"])
    assert read(shared, 1, [3]) == [b"abc"]
    shared.close()


def test_a_copy_shares_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Duplicate:
        def __init__(self, descriptor: int) -> None:
            self.descriptor = os.dup(descriptor)

        def detach(self) -> int:
            return self.descriptor

    monkeypatch.setattr(reduction, "DupFd", Duplicate)
    ours = Arena(2, 8)
    theirs = Arena.__new__(Arena)
    theirs.__setstate__(ours.__getstate__())
    theirs.write(1, [b"abc"])
    assert read(ours, 1, [3]) == [b"abc"]
    ours.close()
    theirs.write(1, [b"xyz"])  # a worker may still be at it
    theirs.close()
