"""Caches of line indexes: believed because they are right, or built anew; never an error."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.formats import record_file
from resumable.formats.index import cache_file, pages, record_index
from resumable.formats.index.cache_file import HEADER, NUMBERS
from resumable.formats.index.pages import digest_of, loaded_pages, mapped_pages
from resumable.formats.io import open_files
from resumable.formats.io.open_files import found_file
from resumable.formats.lines import LINES as FORMAT

CACHE_SUFFIX = ".lines.idx"

LINES = [b"", b"a", b"\r", b"bc", b"def"] * 700
DATA = b"\n".join(LINES)
STRIPPED = [line.removesuffix(b"\r") for line in LINES]
FILLED = [line for line in STRIPPED if line]


@pytest.fixture(params=["loaded", "mapped"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every index is kept in a cache; it is large enough to be mapped, or it is not."""
    monkeypatch.setattr(record_index, "SMALLEST_CACHED", 0)
    if request.param == "mapped":
        monkeypatch.setattr(pages, "LARGEST_LOADED", 0)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, kept: str) -> Path:
    """A file with an index of several pages, in its cache."""
    path = tmp_path / "data"
    path.write_bytes(DATA)
    read_all(path)
    return path


@pytest.fixture
def cache(path: Path) -> Path:
    return path.with_name(path.name + CACHE_SUFFIX)


def read_all(path: Path) -> None:
    """Compare all lines of ``path`` with what they are, by block and one by one."""
    lines, filled = (rs.lines(path, encoding=None, skip_blank=skip) for skip in (False, True))
    order = np.random.default_rng(0).permutation(len(LINES))
    assert lines.gather(order) == [STRIPPED[number] for number in order.tolist()]
    assert list(lines) == STRIPPED
    assert list(filled) == FILLED
    assert filled.gather(np.arange(len(FILLED))) == FILLED


def refuse(*arguments: object) -> None:
    raise PermissionError("read-only")


# What is done to the bytes of a cache.
Damage = Callable[[bytes], bytes]
PLACES = st.integers(0, 1 << 20)


def flipped(content: bytes, place: int, bit: int) -> bytes:
    at = place % len(content)
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def blanked(content: bytes, place: int, size: int) -> bytes:
    at = place % len(content)
    return (content[:at] + bytes(size) + content[at + size :])[: len(content)]


def with_field(content: bytes, number: int, value: int) -> bytes:
    """Another number in the header, whose digest is right."""
    fields = list(HEADER.unpack_from(content.ljust(NUMBERS, b"\0")))
    fields[number] = value
    header = HEADER.pack(*fields)
    return header + digest_of(header, NUMBERS - HEADER.size) + content[NUMBERS:]


DAMAGES: st.SearchStrategy[Damage] = st.one_of(
    st.builds(lambda at, bit: lambda data: flipped(data, at, bit), PLACES, st.integers(0, 7)),
    st.builds(
        lambda at, size: lambda data: blanked(data, at, size),
        PLACES | st.just(NUMBERS),
        st.sampled_from([1, 8, 4096, 1 << 20]),
    ),
    st.builds(lambda size: lambda data: data[: size % len(data)], PLACES),
    st.builds(lambda more: lambda data: data + more, st.binary(min_size=1, max_size=16)),
    st.builds(lambda data: lambda _: data, st.binary(max_size=200)),
)  # fmt: skip
# A header whose digest is right is no accident. It is tried alone: with bytes added that make the
# size of the file fit its number of records, it would be the header of another, whole cache.
FORGERIES: st.SearchStrategy[Damage] = st.one_of(
    st.builds(
        lambda number, value: lambda data: with_field(data, number, value),
        st.sampled_from([1, 3, 4]),
        st.sampled_from([0, 1, len(LINES) - 1, len(LINES) + 1, 2**63, 2**64 - 1]),
    ),
    st.builds(lambda value: lambda data: with_field(data, 2, value), st.integers(-(2**63), 2**63 - 1)),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damages=st.lists(DAMAGES, min_size=1, max_size=3) | st.lists(FORGERIES, min_size=1, max_size=1),
    writable=st.booleans(),
)
def test_a_damaged_cache_is_built_anew(
    path: Path, cache: Path, damages: list[Damage], writable: bool
) -> None:
    original = content = cache.read_bytes()
    for damage in damages:
        content = damage(content) if content else content
    cache.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        if not writable:
            patch.setattr(record_index, "write_index", refuse)
        read_all(path)
    assert cache.read_bytes() == (original if writable else content)
    cache.write_bytes(original)


@pytest.mark.parametrize(
    "header",
    [(0, 0), (len(LINES), 0), (0, len(LINES)), (1, 2**64 - 1), (2**64 - 1, 2**64 - 1)],
)
def test_a_header_of_other_counts_is_not_believed(
    path: Path, cache: Path, header: tuple[int, int]
) -> None:
    original = cache.read_bytes()
    content = with_field(with_field(original, 3, header[0]), 4, header[1])
    for size in (len(content), NUMBERS, NUMBERS + 16):
        cache.write_bytes(content[:size])
        read_all(path)
        assert cache.read_bytes() == original


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.getcwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            server.bind(path.name)
        finally:
            os.chdir(folder)


def make_link(path: Path) -> None:
    path.symlink_to("elsewhere")  # where the cache itself was moved to


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_link, Path.mkdir])
def test_what_is_no_file_is_no_cache(path: Path, cache: Path, make: Callable[[Path], None]) -> None:
    original = cache.read_bytes()
    cache.rename(path.with_name("elsewhere"))
    make(cache)
    read_all(path)
    assert not cache.is_symlink()
    assert cache.is_dir() or cache.read_bytes() == original
    assert path.with_name("elsewhere").read_bytes() == original


@pytest.fixture
def forged(path: Path, cache: Path) -> list[bytes]:
    """The lines that a cache of other data with the same size and time claims."""
    status = path.stat()
    other = b"\n".join(sorted(LINES))
    path.write_bytes(other)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    cache.unlink()
    rs.lines(path)
    path.write_bytes(DATA)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return list(rs.lines(path, encoding=None))


@pytest.mark.parametrize(
    ("user", "owner", "believed"), [(1, 2, False), (1, None, True), (None, 2, True)]
)
def test_a_cache_is_believed_of_this_user_and_of_the_owner_of_the_data(
    path: Path,
    forged: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    user: int | None,
    owner: int | None,
    believed: bool,
) -> None:
    assert forged != STRIPPED
    mine = path.stat().st_uid
    if user is not None:
        monkeypatch.setattr(cache_file, "_user", lambda: mine + user)
    if owner is not None:
        found = open_files.DataFile.found
        monkeypatch.setattr(
            open_files.DataFile,
            "found",
            lambda name, status: found(name, status)._replace(owner=mine + owner),
        )
    if believed:
        assert list(rs.lines(path, encoding=None)) == forged
    else:
        read_all(path)


def test_data_older_than_the_epoch_have_a_cache(path: Path, cache: Path) -> None:
    cache.unlink()
    os.utime(path, ns=(-(10**18), -(10**18)))
    read_all(path)
    assert cache.exists()


def test_opening_reads_headers_alone(path: Path, cache: Path) -> None:
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    cache.write_bytes(cache.read_bytes()[:NUMBERS].ljust(cache.stat().st_size, b"\0"))
    assert len(rs.lines(path)) == len(LINES)
    assert len(rs.lines(path, skip_blank=True)) == len(FILLED)


def test_each_page_is_checked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Counter[bytes]()

    def counting(content: Any, size: int) -> bytes:
        checked[bytes(content)] += 1
        return digest_of(content, size)

    monkeypatch.setattr(pages, "digest_of", counting)
    lines = rs.lines(path)
    assert not checked
    assert [lines[number] for number in (3000, 2999)] == ["", "def"]
    assert len(checked) == 1
    assert lines[513] == "bc"
    assert len(checked) == 2
    assert lines[512] == ""  # it begins where another page ends
    assert len(checked) == 3
    for _ in range(3):
        list(lines)
        list(lines.shuffle(0).batch(64))
    assert len(checked) == len(LINES) // 512 + 1
    assert set(checked.values()) == {1}


def test_blank_lines_are_known_to_be_right_after_ends_were_read(path: Path) -> None:
    index = record_file.open_record_files([found_file(str(path))], None, FORMAT)[0].positions
    index.ends([0])
    blank = [number for number, line in enumerate(STRIPPED) if not line]
    filled_before = [number - place for place, number in enumerate(blank)]
    assert index.kept_before().tolist() == filled_before


def cut(cache: Path) -> None:
    os.truncate(cache, NUMBERS)


def zero(cache: Path) -> None:
    """Empty all pages, which other files have driven out of memory."""
    loaded_pages.clear()
    mapped_pages.clear()
    with cache.open("r+b") as file:
        file.seek(NUMBERS)
        file.write(bytes(cache.stat().st_size - NUMBERS))


def replace_by_fifo(cache: Path) -> None:
    cache.unlink()
    os.mkfifo(cache)


def replace_by_that_of_other_data(cache: Path) -> None:
    """Put one in its place that has as many lines."""
    zero(cache)
    other = cache.with_name("other")
    other.write_bytes(b"\n".join(sorted(LINES)))
    rs.lines(other)
    other.with_name(other.name + CACHE_SUFFIX).replace(cache)
    assert cache.stat().st_size > NUMBERS


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize(
    "damage", [cut, zero, Path.unlink, replace_by_fifo, replace_by_that_of_other_data]
)
def test_a_cache_that_is_damaged_in_mid_epoch_is_built_anew(
    path: Path,
    cache: Path,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    writable: bool,
) -> None:
    original = cache.read_bytes()
    passes: list[Iterator[Any]] = [
        iter(rs.lines(path, encoding=None)),
        iter(rs.lines(path, encoding=None).batch(10).unbatch()),
        iter(rs.lines(path, encoding=None, skip_blank=True)),
    ]
    begun = [list(islice(lines, 20)) for lines in passes]
    damage(cache)
    # It is held in memory only where it cannot be written.
    monkeypatch.setattr(record_index, "_all_records" if writable else "write_index", refuse)
    for lines, first, expected in zip(passes, begun, [STRIPPED, STRIPPED, FILLED], strict=True):
        assert first + list(lines) == expected
    # What is in memory, or of a file that only lost its name, is all there is to know.
    read_again = damage in (zero, replace_by_that_of_other_data)
    if writable and (read_again or (kept == "mapped" and damage is cut)):
        assert cache.read_bytes() == original


def test_what_was_checked_stays_right_in_memory(path: Path, cache: Path, kept: str) -> None:
    lines = rs.lines(path, encoding=None)
    assert list(lines) == STRIPPED
    cut(cache)
    assert list(lines) == STRIPPED
    assert (cache.stat().st_size == NUMBERS) == (kept == "loaded")


def test_data_that_changed_are_not_read_by_another_index(path: Path, cache: Path) -> None:
    lines = rs.lines(path)
    zero(cache)
    path.write_bytes(DATA[::-1])
    os.utime(path, ns=(1, 10**18))
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        list(lines)
    open_files.read_files.clear()
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        lines[5]


def test_data_replaced_by_a_fifo_are_changed_data(path: Path) -> None:
    lines = rs.lines(path)
    open_files.read_files.clear()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        lines[0]
    with pytest.raises(rs.InvalidArgument, match="regular files"):
        rs.lines(path)


def test_one_flipped_bit_or_a_page_of_zeros_in_an_index_of_real_size(tmp_path: Path) -> None:
    path, count = tmp_path / "data", 140_000
    path.write_bytes(b"".join(b"%d\n" % number for number in range(count)))
    cache = path.with_name(f"data{CACHE_SUFFIX}")
    rs.lines(path)
    original = cache.read_bytes()
    assert len(original) > pages.LARGEST_LOADED
    expected = [str(number) for number in range(count)]
    for damage in (flipped(original, 700_000, 3), blanked(original, 3 * 4096, 4096)):
        cache.write_bytes(damage)
        assert list(rs.lines(path)) == expected
        assert cache.read_bytes() == original


def test_threads_may_read_what_hardly_fits(
    tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(DATA)
    lines = rs.lines(tmp_path / "*", encoding=None).shuffle(0)
    expected = list(lines)
    monkeypatch.setattr(loaded_pages, "most", 100_000)
    monkeypatch.setattr(mapped_pages, "most", 3)
    monkeypatch.setattr(open_files.read_files, "most", 3 * len(DATA))
    loaded_pages.clear()
    mapped_pages.clear()
    open_files.read_files.clear()
    found: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda size=size: found.append(
                [line for batch in lines.batch(size) for line in batch]
            )
        )
        for size in (256, 300, 1000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [part == expected for part in found] == [True] * 3
    assert len(mapped_pages) <= 3
    assert len(loaded_pages) <= 3


def test_the_layout_is_pinned(path: Path, cache: Path) -> None:
    ends = np.cumsum([len(line) + 1 for line in LINES])
    ends[-1] -= 1
    blank = [number for number, line in enumerate(STRIPPED) if not line]
    filled = [number - place for place, number in enumerate(blank)]
    numbers = struct.pack(f"<{len(ends) + len(filled)}q", *ends.tolist(), *filled)
    status = path.stat()
    digests = [digest_of(numbers[at : at + 4096], 8) for at in range(0, len(numbers), 4096)]
    fields = (b"RSMLINE3", len(DATA), status.st_mtime_ns, len(ends), len(filled))
    ends_of_data = digest_of(DATA[:4096] + DATA[-4096:], 16)
    content = digest_of(b"".join([*digests, ends_of_data]), 16)
    header = struct.pack("<8sQqQQ16s", *fields, content)
    assert cache.read_bytes() == header + digest_of(header, 16) + numbers + b"".join(digests)
