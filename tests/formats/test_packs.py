"""The cache that the small files of a folder share: right or built anew, whoever else writes it."""

from __future__ import annotations

import gzip
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.formats.index import cache_file, pack_file, packs, pages, record_index
from resumable.formats.index.pack_file import BEGIN
from resumable.formats.index.pages import digest_of, loaded_pages, mapped_pages
from resumable.formats.io.open_files import DataFile, mapped_files, read_files

CACHE_SUFFIX = ".lines.idx"
PACK_NAME = f".folder{CACHE_SUFFIX}"

FILES = 20


def lines_of(name: str) -> list[bytes]:
    """What stands in a file, before anybody changes it; one of them is empty."""
    number = int(name[1:])
    return [
        b"%s line %d" % (name.encode(), line) if line % 7 else b"" for line in range(40 * number)
    ]


def written(folder: Path, first: str, files: int = FILES) -> list[Path]:
    """Files of some hundred lines, 80 KB together."""
    paths = [folder / f"{first}{number:02}" for number in range(files)]
    for path in paths:
        path.write_bytes(b"".join(line + b"\n" for line in lines_of(path.name)))
    return paths


@pytest.fixture(params=["loaded", "mapped"])
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small files, whose indexes are not written yet."""
    if request.param == "mapped":
        monkeypatch.setattr(pages, "LARGEST_LOADED", 0)
    written(tmp_path, "a")
    return tmp_path


def read_all(pattern: Path, names: Iterable[str]) -> None:
    """Compare all lines with what they are, in order and by shuffle."""
    expected = [line for name in sorted(names) for line in lines_of(name)]
    lines = rs.lines(pattern, encoding=None)
    assert list(lines) == expected
    order = np.random.default_rng(0).permutation(len(expected))
    assert lines.gather(order) == [expected[number] for number in order.tolist()]
    filled = rs.lines(pattern, encoding=None, skip_blank=True)
    assert list(filled) == [line for line in expected if line]


NAMES = [f"a{number:02}" for number in range(FILES)]


def refuse(*arguments: object) -> Any:
    raise PermissionError("must not be")


def forget() -> None:
    """Keep nothing in memory, as if other files had driven it out."""
    for cache in (loaded_pages, mapped_pages, mapped_files, read_files):
        cache.clear()
    record_index.short_indexes.clear()


def test_many_small_files_share_one_cache_which_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all(folder / "a*", NAMES)
    assert sorted(path.name for path in folder.iterdir()) == [PACK_NAME, *NAMES]
    for module in (packs, record_index):
        monkeypatch.setattr(module, "scanned", refuse)
    read_all(folder / "*", NAMES)


def test_opening_opens_each_file_and_their_cache_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rs.lines(folder / "a*")
    opened = Counter[str]()
    real = os.open

    def counting(path: Any, *arguments: Any) -> int:
        opened[os.path.basename(path)] += 1
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", counting)
    rs.lines(folder / "a*")
    assert opened == dict.fromkeys([*NAMES, PACK_NAME], 1)


def test_the_cache_is_written_once_and_not_forced_to_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "fsync", refuse)

    def counting(source: str, target: str) -> None:
        replaced.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", counting)
    rs.lines(folder / "a*")
    rs.lines(folder / "a*")
    assert replaced == [str(folder / PACK_NAME)]


def test_a_block_looks_at_the_shared_cache_once_and_at_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LARGEST_LOADED", 0)
    monkeypatch.setattr("resumable.formats.io.open_files.SMALL", 0)
    written(tmp_path, "a")
    lines = rs.lines(tmp_path / "a*").shuffle(0)
    batches = iter(lines.batch(200))
    for _ in range(10):
        next(batches)
    looked = Counter[str]()
    real = os.stat

    def counting(path: Any, **options: Any) -> os.stat_result:
        looked[os.path.basename(path)] += 1
        return real(path, **options)

    monkeypatch.setattr(os, "stat", counting)
    next(batches)
    assert looked[PACK_NAME] == 1
    assert set(looked.values()) == {1}
    assert len(looked) > 10


def flipped(content: bytes, place: int, bit: int) -> bytes:
    at = place % len(content)
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


PLACES = st.integers(0, 1 << 20)
DAMAGES: st.SearchStrategy[Callable[[bytes], bytes]] = st.one_of(
    st.builds(lambda at, bit: lambda data: flipped(data, at, bit), PLACES, st.integers(0, 7)),
    st.builds(lambda at: lambda data: data[:at] + bytes(len(data) - at), PLACES.map(lambda at: at % 30_000)),
    st.builds(lambda size: lambda data: data[: size % len(data)], PLACES),
    st.builds(lambda more: lambda data: data + more, st.binary(min_size=1, max_size=16)),
    st.builds(lambda data: lambda _: data, st.binary(max_size=200)),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=DAMAGES, writable=st.booleans())
def test_a_damaged_one_is_built_anew(
    folder: Path, damage: Callable[[bytes], bytes], writable: bool
) -> None:
    cache = folder / PACK_NAME
    if not cache.exists():
        rs.lines(folder / "a*")
    original = cache.read_bytes()
    cache.write_bytes(damage(original))
    with pytest.MonkeyPatch.context() as patch:
        if not writable:
            patch.setattr(packs, "write_pack", refuse)
            patch.setattr(record_index, "write_index", refuse)
        read_all(folder / "a*", NAMES)
    read_all(folder / "a*", NAMES)
    assert cache.read_bytes() == original


def cut(cache: Path) -> None:
    os.truncate(cache, BEGIN)


def zero(cache: Path) -> None:
    with cache.open("r+b") as file:
        file.seek(BEGIN)
        file.write(bytes(8000))


def replace_by_fifo(cache: Path) -> None:
    cache.unlink()
    os.mkfifo(cache)


def replace_by_folder(cache: Path) -> None:
    cache.unlink()
    cache.mkdir()


def replace_by_link(cache: Path) -> None:
    cache.rename(cache.with_name("elsewhere"))
    cache.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "damage", [cut, zero, Path.unlink, replace_by_fifo, replace_by_folder, replace_by_link]
)
def test_one_that_is_damaged_in_mid_epoch_is_done_without(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    passes: list[Any] = [
        iter(rs.lines(folder / "a*", encoding=None)),
        iter(rs.lines(folder / "a*", encoding=None).batch(10).unbatch()),
    ]
    expected = [line for name in NAMES for line in lines_of(name)]
    begun = [list(islice(lines, 20)) for lines in passes]
    damage(folder / PACK_NAME)
    forget()
    for lines, first in zip(passes, begun, strict=True):
        assert first + list(lines) == expected
    read_all(folder / "a*", NAMES)


def test_one_that_cannot_be_opened_for_a_moment_is_not_taken_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rs.lines(folder / "a*", encoding=None)
    forget()
    real = cache_file.open_cache
    failing = [OSError(24, "Too many open files")]

    def open_cache(path: str) -> Any:
        if failing:
            raise failing.pop()
        return real(path)

    monkeypatch.setattr(pack_file, "open_cache", open_cache)
    monkeypatch.setattr(record_index, "scanned", refuse)
    assert list(lines) == [line for name in NAMES for line in lines_of(name)]
    assert (folder / PACK_NAME).exists()


def test_what_is_found_again_of_a_damaged_one_is_bounded_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rs.lines(folder / "a*", encoding=None)
    zero(folder / PACK_NAME)
    forget()
    monkeypatch.setattr(record_index.short_indexes, "most", 8000)
    assert sorted(lines.shuffle(0).batch(300).unbatch()) == sorted(lines)
    assert 0 < len(record_index.short_indexes) < FILES


def test_one_that_another_process_replaced_in_mid_epoch_is_read_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rs.lines(folder / "a*", encoding=None)
    expected = list(lines)
    for first in "bc":  # more than once
        written(folder, first)
        rs.lines(folder / f"{first}*")
        forget()
        with monkeypatch.context() as patch:
            for module in (packs, record_index):
                patch.setattr(module, "scanned", refuse)
            assert list(lines) == expected


def test_who_reads_other_files_of_the_folder_keeps_what_is_known(folder: Path) -> None:
    written(folder, "b")
    names = [f"b{number:02}" for number in range(FILES)]
    rs.lines(folder / "a*")
    rs.lines(folder / "b*")
    cache = folder / PACK_NAME
    before = cache.stat().st_ino, cache.stat().st_mtime_ns
    read_all(folder / "a*", NAMES)
    read_all(folder / "b*", names)
    read_all(folder / "*", [*NAMES, *names])
    assert (cache.stat().st_ino, cache.stat().st_mtime_ns) == before


def test_it_forgets_files_that_are_no_longer_there(folder: Path) -> None:
    rs.lines(folder / "a*")
    for name in NAMES:
        (folder / name).unlink()
    written(folder, "b")
    rs.lines(folder / "b*")
    known = pack_file.PackFile.found(str(folder / PACK_NAME))
    assert known is not None
    assert sorted(known.rows) == [f"b{number:02}" for number in range(FILES)]


@pytest.mark.parametrize("change", ["append", "rewrite", "touch"])
def test_what_it_knows_of_a_file_that_changed_is_not_used(folder: Path, change: str) -> None:
    rs.lines(folder / "a*")
    path = folder / NAMES[3]
    data = path.read_bytes()
    path.write_bytes({"append": data + b"more\n", "rewrite": data[::-1], "touch": data}[change])
    os.utime(path, ns=(1, 10**18 + len(change)))
    expected = [line for name in NAMES for line in (folder / name).read_bytes().splitlines()]
    assert list(rs.lines(folder / "a*", encoding=None)) == expected


def test_a_few_new_files_do_not_write_all_again_and_many_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "SMALLEST_CACHED", 0)
    rs.lines(folder / "a*")
    cache = folder / PACK_NAME
    before = cache.read_bytes()
    new = [f"b{number:02}" for number in range(FILES)]
    written(folder, "b", 12)
    read_all(folder / "*", NAMES + new[:12])  # too few
    assert cache.read_bytes() == before
    monkeypatch.setattr(packs, "MOST_REWRITTEN", 1)
    for name in new[12:]:
        (folder / name).write_bytes(b"")
    rs.lines(folder / "*")  # too small beside what is known
    assert cache.read_bytes() == before
    written(folder, "b")
    read_all(folder / "*", NAMES + new)
    assert len(cache.read_bytes()) > 1.9 * len(before)


def test_caches_of_single_files_by_an_older_version_are_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("record_index", "packs"):
        monkeypatch.setattr(f"resumable.formats.index.{module}.SMALLEST_CACHED", 0)
    for name in NAMES:
        rs.lines(folder / name)
    caches = sorted(folder.glob(f"*{CACHE_SUFFIX}"))
    assert len(caches) == FILES
    written(folder, "b")
    names = [f"b{number:02}" for number in range(FILES)]
    read_all(folder / "*", [*NAMES, *names])
    known = pack_file.PackFile.found(str(folder / PACK_NAME))
    assert known is not None
    # An empty file has none of its own.
    assert set(known.rows) == {*names, NAMES[0]}
    caches[3].write_bytes(b"damaged")
    read_all(folder / "*", [*NAMES, *names])


@pytest.mark.parametrize(("user", "believed"), [(0, True), (1, False)])
def test_one_of_another_user_is_not_believed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, believed: bool
) -> None:
    mine = folder.stat().st_uid
    rs.lines(folder / "a*")
    monkeypatch.setattr(cache_file, "_user", lambda: mine + user)
    found = pack_file.PackFile.found(str(folder / PACK_NAME))
    assert found is not None
    data = DataFile.found(str(folder / NAMES[1]), (folder / NAMES[1]).stat())
    assert (found.row(data._replace(owner=mine + 2)) is not None) == believed
    assert found.row(data) is not None  # the owner of the data may


def test_writers_at_once_do_no_harm(folder: Path) -> None:
    written(folder, "b")
    failed: list[BaseException] = []

    def read(first: str) -> None:
        try:
            read_all(folder / f"{first}*", [f"{first}{number:02}" for number in range(FILES)])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(first,)) for first in "abab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(list(folder.iterdir())) == 2 * FILES + 1


def test_a_writer_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", refuse)
    read_all(folder / "a*", NAMES)
    assert sorted(path.name for path in folder.iterdir()) == NAMES


def test_a_compressed_file_among_many_is_refused_also_the_next_time(folder: Path) -> None:
    (folder / "a99").write_bytes(gzip.compress(b"line\n"))
    for _ in range(2):
        with pytest.raises(rs.InvalidArgument, match=r"uncompressed files, got '.*a99'"):
            rs.lines(folder / "a*")


def test_caches_of_folders_may_be_kept_elsewhere(tmp_path: Path) -> None:
    for part in "xy":
        (tmp_path / part).mkdir()
        written(tmp_path / part, "a")
    lines = rs.lines(tmp_path / "*" / "*", encoding=None, index_dir=tmp_path / "index")
    assert list(lines) == 2 * [line for name in NAMES for line in lines_of(name)]
    assert len(list((tmp_path / "index").iterdir())) == 2
    assert all(len(list((tmp_path / part).iterdir())) == FILES for part in "xy")


def test_the_layout_is_pinned(folder: Path) -> None:
    rs.lines(folder / "a*")
    numbers, names, rows = b"", b"", b""
    for name in NAMES:
        lines = lines_of(name)
        ends = np.cumsum([len(line) + 1 for line in lines]).tolist() if lines else []
        blank = [number for number, line in enumerate(lines) if not line]
        filled = [number - place for place, number in enumerate(blank)]
        own = struct.pack(f"<{len(ends) + len(filled)}q", *ends, *filled)
        numbers += own
        names += name.encode() + b"\0"
        status = (folder / name).stat()
        rows += struct.pack("<4q", status.st_size, status.st_mtime_ns, len(ends), len(filled))
        data = (folder / name).read_bytes()
        ends_of_data = digest_of(data if len(data) <= 8192 else data[:4096] + data[-4096:], 16)
        pages = [digest_of(own[at : at + 4096], 8) for at in range(0, len(own), 4096)]
        rows += digest_of(b"".join([*pages, ends_of_data]), 16)
    table = names + rows
    header = struct.pack(
        "<8sQQQ16s", b"RSMPACK2", len(numbers) // 8, FILES, len(names), digest_of(table, 16)
    )
    digests = [digest_of(numbers[at : at + 4096], 8) for at in range(0, len(numbers), 4096)]
    pinned = header + digest_of(header, 16) + numbers + b"".join(digests) + table
    assert (folder / PACK_NAME).read_bytes() == pinned
