"""Lines of files: every ending, an index that is right and stays right."""

from __future__ import annotations

import os
import pickle
import threading
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.core.regular_files import open_regular
from resumable.formats import line_file, line_scan, record_file, record_files
from resumable.formats.index import record_index, scanning
from resumable.formats.index.record_index import SMALLEST_CACHED
from resumable.formats.io import open_files
from resumable.formats.io.open_files import found_file
from resumable.formats.lines import LINES

CACHE_SUFFIX = ".lines.idx"

BIG = b"".join(b"line %d \n" % number for number in range(20_000))


def split(data: bytes) -> list[bytes]:
    """The lines of ``data``, told by another implementation."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    ended = data.endswith(b"\n")
    return [
        line[:-1] if line.endswith(b"\r") and (ended or number < len(lines) - 1) else line
        for number, line in enumerate(lines)
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xff", b"bc "]), max_size=30))
def test_any_bytes_are_split_at_newlines(tmp_path: Path, parts: list[bytes]) -> None:
    path = tmp_path / "data"
    data = b"".join(parts)
    path.write_bytes(data)
    assert list(rs.lines(path, encoding=None)) == split(data)
    kept = [line for line in split(data) if line]
    assert list(rs.lines(path, encoding=None, skip_blank=True)) == kept


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n"]), max_size=6))
def test_blocks_of_lines_are_the_lines_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[bytes]
) -> None:
    monkeypatch.setattr(record_files, "FEW_RECORDS", 0)
    path = tmp_path / "data"
    path.write_bytes(b"".join(parts))
    for skip_blank in (False, True):
        for files in (path, [path, path]):
            lines = rs.lines(files, encoding=None, skip_blank=skip_blank)
            expected = list(lines)
            assert lines.start().pull(100) == expected
            assert lines.gather(np.arange(len(expected))[::-1]) == expected[::-1]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_lines_across_the_chunks_of_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(line_scan, "CHUNK", chunk)
    monkeypatch.setattr(record_index, "SMALLEST_CACHED", 0)
    for number, data in enumerate([b"a\r\n\r\n\nbc\n\n", b"\n", b"x", b"\r\n\r\n", b"abcdefgh\r"]):
        path = tmp_path / f"data{number}"
        path.write_bytes(data)
        for _ in range(2):  # the second time from the cache
            assert list(rs.lines(path, encoding=None)) == split(data)
            kept = [line for line in split(data) if line]
            assert list(rs.lines(path, encoding=None, skip_blank=True)) == kept


def test_a_large_file_has_a_cache_beside_it_which_is_used(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    assert len(BIG) >= SMALLEST_CACHED
    expected = [line.decode() for line in split(BIG)]
    assert list(rs.lines(path)) == expected
    cache = tmp_path / f"data{CACHE_SUFFIX}"
    written = cache.stat().st_mtime_ns
    assert list(rs.lines(path).shuffle(0).batch(100)) != []
    assert cache.stat().st_mtime_ns == written
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", cache.name]


def test_a_small_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"a\nb\n")
    assert len(rs.lines(tmp_path / "data")) == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_the_cache_may_be_kept_in_a_folder(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "data").write_bytes(BIG + part.encode())
    paths = [tmp_path / "a" / "data", tmp_path / "b" / "data"]
    pipeline = rs.lines(paths, index_dir=tmp_path / "index")
    assert len(pipeline) == 40_002
    assert len(list((tmp_path / "index").iterdir())) == 2
    assert len(list((tmp_path / "a").iterdir())) == 1
    assert [pipeline[20_000], pipeline[-1]] == ["a", "b"]


@pytest.mark.parametrize("change", ["append", "rewrite", "touch"])
def test_the_index_is_built_anew_when_size_or_mtime_changes(tmp_path: Path, change: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    pipeline = rs.lines(path)
    list(pipeline.take(3))
    data = {"append": BIG + b"more\n", "rewrite": BIG[::-1], "touch": BIG}[change]
    path.write_bytes(data)
    os.utime(path, ns=(1, 10**18 + len(change)))
    assert list(rs.lines(path, encoding=None)) == split(data)
    open_files.read_files.clear()
    open_files.mapped_files.clear()
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        list(pipeline)


def test_a_folder_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(record_index, "write_index", refuse)
    (tmp_path / "data").write_bytes(BIG)
    assert len(rs.lines(tmp_path / "data")) == 20_000


def test_ranks_that_build_the_index_at_once_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(BIG)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(rs.lines(tmp_path / "data"))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20_000] * 8
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pickled_pipeline_holds_paths_and_no_index(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(BIG)
    pipeline = rs.lines(tmp_path / "data").shuffle(1).batch(10)
    data = pickle.dumps(pipeline)
    assert len(data) < 2000
    assert list(pickle.loads(data)) == list(pipeline)


def test_a_line_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"good\nb\xffd\n")
    pipeline = rs.lines(tmp_path / "data")
    with pytest.raises(rs.MalformedItem, match=r"data, line 2, byte 2: cannot decode as utf-8"):
        list(pipeline)
    assert list(rs.lines(tmp_path / "data", errors="replace")) == ["good", "b\ufffdd"]
    (tmp_path / "more").write_bytes(b"good\n" * 300 + b"b\xffd\n" + b"good\n" * 300)
    with iter(rs.lines(tmp_path / "more").batch(200)) as batches:
        next(batches)
        with pytest.raises(rs.MalformedItem, match=r"more, line 301, byte 2"):
            next(batches)


def test_the_same_files_elsewhere_are_the_same_pipeline(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data").write_bytes(b"1\n2\n3\n")
    state = iter(rs.lines(tmp_path / "a" / "*")).get_state()
    assert list(rs.lines(tmp_path / "b" / "*").resume(state)) == ["1", "2", "3"]


def test_many_files_are_read_through_a_bounded_number_of_open_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "SMALL", 10)
    monkeypatch.setattr(open_files.mapped_files, "most", 3)
    open_files.mapped_files.clear()
    for number in range(40):
        (tmp_path / f"{number:02}").write_text(f"{number} is the number\n" * 3)
    pipeline = rs.lines(tmp_path / "*").shuffle(0)
    assert sorted(pipeline) == sorted(
        f"{number} is the number" for number in range(40) for _ in "abc"
    )
    assert len(open_files.mapped_files) == 3


def test_index_files_are_not_data(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(BIG)
    for _ in range(3):
        assert len(rs.lines(tmp_path / "*")) == 20_000


def test_a_large_file_cut_short_under_a_pipeline_is_an_error_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(BIG * 8)
    iterator = iter(rs.lines(tmp_path / "data"))
    next(iterator)
    os.truncate(tmp_path / "data", 100)
    with pytest.raises(rs.MalformedItem, match="changed since"):
        list(iterator)


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_file_cut_short_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    monkeypatch.setattr(open_files, "SMALL", small)
    lines = rs.lines(path)
    found = open_files.DataFile.open

    def open_and_cut(data: open_files.DataFile) -> FileIO:
        file = found(data)
        os.truncate(path, 10)
        return file

    monkeypatch.setattr(open_files.DataFile, "open", open_and_cut)
    with pytest.raises(rs.MalformedItem, match="changed since"):
        lines[0]


@pytest.mark.parametrize("data", [b"", b"a\nb\n", BIG * 2])
def test_a_file_that_changes_while_its_lines_are_found_is_an_error(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG * 8)
    found = scanning.scanned(open_files.DataFile.found(str(path), path.stat()), LINES)
    next(found)
    path.write_bytes(data)
    os.utime(path, ns=(1, 10**18))
    with pytest.raises(rs.MalformedItem, match="changed since"):
        list(found)
    path.write_bytes(BIG * 8)
    found = scanning.scanned(open_files.DataFile.found(str(path), path.stat()), LINES)
    next(found)
    with path.open("ab") as file:
        file.write(b"more\n")
    with pytest.raises(rs.MalformedItem, match="changed since"):
        list(found)


def test_recursive_patterns_and_sorted_matches(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/d.md"):
        (tmp_path / name).write_text(f"{name}\n")
    assert list(rs.lines(f"{tmp_path}/**/*.txt")) == ["a.txt", "b.txt", "sub/c.txt"]


def test_lines_one_after_the_other_are_read_a_page_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    looked = 0
    data = open_files.FileContent.data

    def counting(content: open_files.FileContent) -> open_files.FileData:
        nonlocal looked
        looked += 1
        return data(content)

    monkeypatch.setattr(open_files.FileContent, "data", counting)
    assert list(rs.lines(path, encoding=None)) == split(BIG)
    assert looked <= 2 + len(split(BIG)) / 500


def test_lines_here_and_there_are_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    monkeypatch.delattr(record_file.RecordFile, "read_page")
    indexed = rs.lines(path, encoding=None).stage.indexed()
    assert indexed is not None
    item = indexed.item
    assert [item(index) for index in (5, 3, 5, 7, 9, 0)] == [
        b"line %d " % n for n in (5, 3, 5, 7, 9, 0)
    ]


def test_what_is_read_ahead_of_long_lines_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(
        b"".join(
            b"%d" % number * size + b"\n"
            for number, size in [(1, 9), (2, 30_000)] + 5 * [(3, 40_000)]
        )
    )
    (file,) = record_file.open_record_files([found_file(str(path))], None, LINES)
    assert isinstance(file, record_file.RecordFile)
    sizes = [len(file.read_page(np.arange(first, 7))) for first in range(7)]
    assert sizes == [2, 2, 2, 2, 2, 2, 1]


def test_an_error_comes_with_the_line_it_is_about_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "data"
    good = [f"line {number}" for number in range(100)]
    path.write_bytes("\n".join(good).encode() + b"\nb\xffd\n")
    iterator = iter(rs.lines(path))
    assert [next(iterator) for _ in good] == good
    with pytest.raises(rs.MalformedItem, match="line 101, byte 2"):
        next(iterator)
    assert iterator.get_state()["step"] == 100


@pytest.mark.parametrize("ends", [[2], [1, 6], [4, 6], [2, 3, 6], [2, 4, 5, 6]])
def test_an_index_with_newlines_elsewhere_is_followed(ends: list[int]) -> None:
    assert line_file._split(b"a\nb\nc\n", 0, np.array([2, 4, 6])) == [b"a", b"b", b"c"]
    text = b"a\nb\nc\n" if ends != [2] else b"ab"
    found = line_file._split(text, 0, np.array(ends))
    assert found == ([b"ab"] if ends == [2] else None)


def test_threads_may_take_lines_one_after_the_other_from_one_source(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(BIG)
    indexed = rs.lines(path, encoding=None).stage.indexed()
    assert indexed is not None
    item, found = indexed.item, list[bool]()

    def take(first: int) -> None:
        found.append(all(item(index) == b"line %d " % index for index in range(first, 20_000)))

    threads = [threading.Thread(target=take, args=(first,)) for first in (0, 1, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "ascii", "latin-1", "utf-8-sig", None])
@pytest.mark.parametrize("errors", ["strict", "replace"])
@pytest.mark.parametrize("skip_blank", [False, True])
def test_batches_hold_the_lines_as_they_are_one_by_one(
    encoding: str | None, errors: str, skip_blank: bool, tmp_path: Path
) -> None:
    marked = "\ufeffb" if encoding not in ("ascii", "latin-1") else "b"
    accents = "h\u00e9\x85\x0c" if encoding != "ascii" else "h\x0c"
    text = f"a\n\n{marked}\r\n{accents}\n\r\n \r\rx\n\nlast\r"
    for number in range(2):
        (tmp_path / f"{number}.txt").write_bytes(text.encode(encoding or "utf-8"))
    pipeline = rs.lines(tmp_path / "*.txt", encoding=encoding, errors=errors, skip_blank=skip_blank)
    one_by_one = [pipeline[index] for index in range(len(pipeline))]
    for size in (1, 2, 3, 5, 100):
        assert [item for batch in pipeline.batch(size) for item in batch] == one_by_one


def test_a_batch_names_the_line_that_cannot_be_decoded(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"fine\n" * 5 + b"caf\xe9\n" + b"fine\n" * 5)
    batches = iter(rs.lines(path).batch(4))
    assert next(batches) == ["fine"] * 4
    with pytest.raises(rs.MalformedItem, match=r"text.txt, line 6, byte 4: cannot decode"):
        next(batches)


def test_reading_ahead_keeps_the_exception_of_a_signal_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines").write_bytes(b"a line\n" * 9)

    def interrupted(*_: object) -> list[bytes]:
        raise TimeoutError("late")

    with iter(rs.lines(tmp_path / "lines")) as iterator:
        assert next(iterator) == "a line"
        monkeypatch.setattr(record_file.RecordFile, "read_page", interrupted)
        with pytest.raises(TimeoutError, match="late"):
            list(iterator)
        monkeypatch.undo()
        assert len(list(iterator)) == 8


def test_a_file_is_closed_once_whatever_a_signal_handler_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines").write_bytes(b"a\n")
    closed: list[int] = []

    def interrupted(_: int) -> None:
        raise TimeoutError("late")

    monkeypatch.setattr(os, "close", closed.append)
    monkeypatch.setattr(os, "fstat", interrupted)
    with pytest.raises(TimeoutError, match="late"):
        open_regular(str(tmp_path / "lines"))
    assert not closed
    monkeypatch.undo()
    assert open_regular(str(tmp_path)) is None
