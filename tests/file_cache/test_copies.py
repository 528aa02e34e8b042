"""Whole copies in the folder of a cache: within its limit, whole or not there, and nothing foreign is touched."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import BinaryIO

import pytest
from file_cache.remote import PART, File, Network, Span, opened, some_files
from support.damaged import flip_last_bit

import resumable as rs
from resumable.file_cache import copies
from resumable.file_cache.contents import clear, kept_files
from resumable.file_cache.part_file import HEADER
from resumable.file_cache.reading import CacheReader
from resumable.file_cache.room import IN_USE, kept_parts

ROOM = 8 * (PART + HEADER.size)


def cache_in(folder: Path, **options: str) -> rs.FileCache:
    return rs.FileCache(folder / "cache", ROOM, PART, **options)  # type: ignore[arg-type]


def writes(file: File, made: list[str] | None = None) -> Callable[[BinaryIO], None]:
    """Writes the content of ``file``, and notes that in ``made``."""

    def write(opened: BinaryIO) -> None:
        if made is not None:
            made.append(file.path)
        opened.write(file.content)

    return write


def copied(reader: CacheReader, file: File, made: list[str] | None = None) -> str:
    path = reader.copy_of(file, writes(file, made))
    assert path is not None
    assert Path(path).read_bytes() == file.content
    return path


def taken(cache: rs.FileCache) -> int:
    parts, unfinished = kept_parts(cache.path)
    return sum(part.size for part in parts) + unfinished


def test_a_copy_is_made_once_for_all_readers(tmp_path: Path) -> None:
    (file,), made, cache = some_files(3 * PART), list[str](), cache_in(tmp_path)
    readers = [CacheReader(cache) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        paths = set(pool.map(lambda reader: copied(reader, file, made), readers))
    assert len(paths) == len(made) == 1
    assert taken(cache) == file.size
    (kept,) = kept_files(cache.path)
    assert (kept.url, kept.kept) == (file.path, file.size)
    for reader in readers:
        reader.close()


def test_copies_take_the_room_of_parts_and_stay_while_their_files_are_read(tmp_path: Path) -> None:
    files, cache = some_files(8 * PART, 3 * PART, 4 * PART, 2 * PART), cache_in(tmp_path)
    reader, network = opened(cache), Network()
    for start in range(0, 8 * PART, PART):
        reader.read([Span(files[0], start, start + PART)], network)
    assert taken(cache) == ROOM
    paths = [copied(reader.reader, file) for file in files[1:3]]
    assert taken(cache) <= ROOM
    before = taken(cache)
    assert reader.reader.copy_of(files[3], writes(files[3])) is None, "the others are in use"
    assert taken(cache) == before
    # The parts that are left are worth no place to a copy that finds none even so.
    assert all(map(os.path.exists, paths))
    reader.close()
    other = CacheReader(cache)
    copied(other, files[0])
    assert not any(map(os.path.exists, paths))
    assert taken(cache) <= ROOM
    other.close()


def test_a_copy_that_nobody_reads_makes_room_for_parts(tmp_path: Path) -> None:
    (large, other), cache = some_files(7 * PART, 8 * PART), cache_in(tmp_path)
    first = CacheReader(cache)
    path, reader, network = copied(first, large), opened(cache), Network()
    for _ in range(2):
        for start in range(0, 8 * PART, PART):
            reader.read([Span(other, start, start + PART)], network)
            assert taken(cache) <= ROOM
        assert os.path.exists(path) == (first is not None)
        if first is not None:
            first.close()
            first = None  # type: ignore[assignment]
            reader.close()
            reader = opened(cache)
    reader.close()


@pytest.mark.parametrize("name", ["copy", "copy.tmp"])
def test_what_no_cache_has_written_is_left_alone(name: str, tmp_path: Path) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    reader = CacheReader(cache)
    place = Path(copied(reader, file))
    foreign = place.with_name(f"{place.stem}.{name}")
    made = tmp_path / "made"
    made.write_bytes(b"somebody else's")
    place.unlink()
    made.replace(foreign)
    assert reader.copy_of(file, writes(file)) is None
    reader.close()
    kept_parts(cache.path)
    clear(cache.path)
    assert foreign.read_bytes() == b"somebody else's"


def test_what_is_put_in_the_place_of_a_copy_while_it_is_made_is_left_alone(tmp_path: Path) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    reader = CacheReader(cache)

    def write(opened: BinaryIO) -> None:
        opened.write(file.content)
        foreign.write_bytes(b"somebody else's")

    foreign = Path(copied(reader, file))
    foreign.unlink()
    used = Path(cache.path, IN_USE).read_bytes()
    assert reader.copy_of(file, write) is None
    assert foreign.read_bytes() == b"somebody else's"
    assert Path(cache.path, IN_USE).read_bytes() == used, "its room is given back"
    reader.close()


def test_a_damaged_copy_is_made_anew_by_the_next_process(tmp_path: Path) -> None:
    (file,), made, cache = some_files(2 * PART), list[str](), cache_in(tmp_path)
    reader = CacheReader(cache)
    path = Path(copied(reader, file, made))
    status = path.stat()
    flip_last_bit(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    copied(CacheReader(cache), file, made)
    assert len(made) == 2


@pytest.mark.parametrize("refused", ["reading", "removing"])
def test_a_copy_that_the_disk_refuses_to_read_or_remove_is_done_without(
    tmp_path: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    reader, other, tries = CacheReader(cache), CacheReader(cache), list[object]()
    path = copied(reader, file)

    def refuses(tried: object) -> None:
        tries.append(tried)
        assert len(tries) < 9, "it is tried for ever"
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        is_read = refused == "reading"
        patched.setattr(copies, "checksum_of", refuses if is_read else lambda file: -1)
        if not is_read:
            patched.setattr(os, "unlink", refuses)
        assert other.copy_of(file, writes(file)) is None
    assert os.path.exists(path)
    reader.close()
    other.close()


def test_a_process_that_is_killed_leaves_no_copy_and_takes_no_room(tmp_path: Path) -> None:
    (file,), cache = some_files(4 * PART), cache_in(tmp_path)
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:

        def write(opened: BinaryIO) -> None:
            opened.write(file.content[: 2 * PART])
            opened.flush()
            os.write(sender, b"x")
            Event().wait()

        CacheReader(cache).copy_of(file, write)
        os._exit(1)
    os.read(receiver, 1)
    assert taken(cache) == file.size
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert taken(cache) == 0
    reader = CacheReader(cache)
    copied(reader, file)
    reader.close()
    os.close(receiver)
    os.close(sender)


def test_a_copy_that_fails_is_given_up(tmp_path: Path) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    reader = CacheReader(cache)

    def fails(opened: BinaryIO) -> None:
        opened.write(b"begin")
        raise ConnectionError("the network is down")

    with pytest.raises(ConnectionError):
        reader.copy_of(file, fails)
    assert taken(cache) == 0
    assert reader._store.has_room(ROOM - HEADER.size), "none of it counts any longer"
    copied(reader, file)
    reader.close()


def test_a_disk_that_is_full_is_an_error_or_one_warning(tmp_path: Path) -> None:
    (file,) = some_files(2 * PART)

    def is_full(opened: BinaryIO) -> None:
        raise OSError(copies.DISK_IS_FULL[0], "No space left on device")

    with pytest.raises(rs.ReadError, match="cannot be used"):
        CacheReader(cache_in(tmp_path, on_full="error")).copy_of(file, is_full)
    reader = CacheReader(cache_in(tmp_path))
    with pytest.warns(RuntimeWarning, match="reading without it"):
        assert reader.copy_of(file, is_full) is None
    assert reader.copy_of(file, writes(file)) is None
    assert not list(tmp_path.rglob("*.copy*"))[1:], "but a note"


def test_a_stopped_process_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    monkeypatch.setattr(copies, "STALLED", 0.05)
    began, ends = Event(), Event()

    def stops(opened: BinaryIO) -> None:
        began.set()
        ends.wait()
        opened.write(file.content)

    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(CacheReader(cache).copy_of, file, stops)
        began.wait()
        assert CacheReader(cache).copy_of(file, writes(file)) is None
        ends.set()
        assert stopped.result() is not None


def test_clearing_removes_copies_and_their_notes(tmp_path: Path) -> None:
    (file,), cache = some_files(2 * PART), cache_in(tmp_path)
    reader = CacheReader(cache)
    copied(reader, file)
    reader.close()
    assert clear(cache.path) == file.size
    assert not [path for path in Path(cache.path).rglob("*") if path.is_file()]


def test_a_file_that_is_larger_than_the_cache_empties_nothing(tmp_path: Path) -> None:
    (small, large), cache = some_files(2 * PART, 9 * PART), cache_in(tmp_path)
    first = CacheReader(cache)
    path = copied(first, small)
    first.close()
    assert CacheReader(cache).copy_of(large, writes(large)) is None
    assert os.path.exists(path)
