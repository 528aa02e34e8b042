"""Compressed files: the same items as the plain ones, resumed where they can be, and damage that is noticed."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.compressing import COMPRESS, IN_PARTS, PART
from support.interrupting import some_interrupters
from support.tiers import thinned

import resumable as rs
from resumable.formats.data_files import found_data_files
from resumable.formats.io import pieces, scan_buffer
from resumable.formats.io.compression import compression_of
from resumable.formats.io.open_files import DataFile
from resumable.formats.io.pieces import Decompressed, Start, StoredPieces
from resumable.formats.record import ByteReader, Format, FoundRecords
from resumable.formats.records import records
from resumable.testing.fresh_process import resume_in_a_fresh_process
from resumable.testing.laws import (
    blocks_agree_with_pull,
    pull_agrees_with_next,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    resumes_for_generations,
    skip_agrees_with_next,
    state_is_a_value,
    stays_ended,
)

LINES = [f"{number} fünf {'x' * (number % 23)}" for number in range(300)]
TEXT = "\n".join(LINES).encode()
ALL = COMPRESS | IN_PARTS

each = pytest.mark.parametrize("suffix", sorted(ALL))


def write(folder: Path, suffix: str, text: bytes = TEXT) -> Path:
    path = folder / f"data{suffix}"
    path.write_bytes(ALL[suffix](text))
    return path


@each
def test_a_compressed_file_has_the_items_of_the_plain_one(tmp_path: Path, suffix: str) -> None:
    for text in (TEXT, TEXT + b"\n", b"", b"\n", b"a", b"\n\na\n\n"):
        (tmp_path / "plain").write_bytes(text)
        path = write(tmp_path, suffix, text)
        for options in ({}, {"skip_blank": True}, {"encoding": None}):
            assert list(rs.lines(path, **options)) == list(rs.lines(tmp_path / "plain", **options))


@each
def test_a_compressed_file_obeys_the_laws(tmp_path: Path, suffix: str) -> None:
    write(tmp_path, suffix, TEXT[:2500])
    (tmp_path / "empty.gz").write_bytes(b"")
    (tmp_path / "last.gz").write_bytes(gzip.compress(b"last\n"))
    paths = [tmp_path / f"data{suffix}", tmp_path / "empty.gz", tmp_path / "last.gz"]
    pipeline = rs.lines(paths)
    length = len(list(pipeline))
    resumes_at_every_position(pipeline, positions=thinned(range(length + 1), 5, suffix))
    resumes_for_generations(pipeline, [3, 50, 0, 10])
    stays_ended(pipeline)
    state_is_a_value(pipeline, 7)
    refused_states_leave_no_trace(pipeline, 7)
    pull_agrees_with_next(pipeline, [1, 2, 0, 60, 300])
    blocks_agree_with_pull(pipeline, [1, 3, 700])
    skip_agrees_with_next(pipeline, [0, 1, 60, 300])


def test_what_other_programs_compress_is_read(tmp_path: Path) -> None:
    programs = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}
    for program, suffix in programs.items():
        if suffix not in COMPRESS or not shutil.which(program):
            continue
        for number in range(2):
            (tmp_path / f"{number}.txt").write_bytes(TEXT)
            subprocess.run([program, "-q", tmp_path / f"{number}.txt"], check=True)
        assert list(rs.lines(tmp_path / f"*{suffix}")) == LINES * 2


def test_files_come_in_order_whatever_their_compression(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl.xz").write_bytes(lzma.compress(b"3\n\n"))
    (tmp_path / "b.jsonl").write_bytes(b"2\n")
    (tmp_path / "a.jsonl.GZ").write_bytes(gzip.compress(b"0\n1"))
    assert list(rs.jsonl(tmp_path / "*.jsonl*")) == [0, 1, 2, 3]


def test_zeros_after_a_member_are_padding(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n") + bytes(600) + gzip.compress(b"2\n"))
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"3\n") + bytes(4))
    assert list(rs.jsonl([tmp_path / "a.gz", tmp_path / "b.xz"])) == [1, 2, 3]


# What a resume reads.


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were read of files, at each reading."""
    counts: list[int] = []
    plainly = StoredPieces.read_some

    def read_some(self: StoredPieces, most: int) -> bytes:
        counts.append(len(piece := plainly(self, most)))
        return piece

    monkeypatch.setattr(StoredPieces, "read_some", read_some)
    monkeypatch.setattr(pieces, "INPUT", 256)
    return counts


@pytest.mark.parametrize("suffix", sorted({*IN_PARTS, ".txt", ".gz"}))
def test_a_resume_reads_what_can_be_decoded_by_itself(
    tmp_path: Path, suffix: str, read: list[int]
) -> None:
    dice = random.Random(0)
    text = b"".join(b"%032x\n" % dice.getrandbits(128) for _ in range(2000))
    path = write(tmp_path, suffix, text)
    pipeline = rs.lines([path, path])
    with iter(pipeline) as iterator:
        iterator.skip(2000 + 1900)
        state = rs.dumps(iterator.get_state())
    read.clear()
    with pipeline.resume(rs.loads(state)) as iterator:
        assert read == []
        assert rs.dumps(iterator.get_state()) == state
        assert list(iterator) == text.decode().split()[1900:]
    size = path.stat().st_size
    assert sum(read) <= (size if suffix == ".gz" else size // 20 + 2 * 1000 + 256)
    assert len(state) <= 300


def test_members_are_decoded_before_more_is_read(
    tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "INPUT", 1 << 12)
    text = random.Random(0).randbytes(60 * PART)
    (file,) = found_data_files([write(tmp_path, "m.gz", text)], None)
    assert isinstance(file, DataFile)
    compression = compression_of("m.gz")
    assert compression is not None
    content = Decompressed(StoredPieces(file), compression, Start(0, 0))
    found = b""
    while len(found) < 30 * PART:
        found += content.read_some(PART)
    assert text.startswith(found)
    assert sum(read) < file.size // 2 + (2 << 12)
    content.close()


@each
def test_a_state_does_not_depend_on_the_way_there(tmp_path: Path, suffix: str) -> None:
    pipeline = rs.lines([write(tmp_path, suffix)] * 2)
    with iter(pipeline) as iterator:
        states = []
        for _ in iterator:
            states.append(rs.dumps(iterator.get_state()))
    for first, second in ((0, 299), (20, 250), (298, 301), (300, 599)):
        with pipeline.resume(rs.loads(states[first])) as iterator:
            assert iterator.skip(second - first) == second - first
            assert rs.dumps(iterator.get_state()) == states[second]


def test_a_resume_in_a_fresh_process(tmp_path: Path) -> None:
    pipeline = rs.lines([write(tmp_path, "m.bgz"), write(tmp_path, ".gz")]).batch(7, collate=list)
    expected = list(pipeline)
    states = []
    with iter(pipeline) as iterator:
        for _ in iterator:
            states.append(rs.dumps(iterator.get_state()))
    chosen = [0, 20, 42, 43, len(states) - 1]
    runs = resume_in_a_fresh_process(pipeline, [states[n] for n in chosen], [5] * len(chosen))
    assert [run.items for run in runs] == [expected[n + 1 : n + 6] for n in chosen]


def test_nothing_is_read_before_the_first_item(tmp_path: Path, read: list[int]) -> None:
    pipeline = rs.lines([write(tmp_path, ".gz"), write(tmp_path, ".xz")])
    with iter(pipeline) as iterator:
        assert iterator.get_state()["step"] == 0
        assert not read
        next(iterator)
        assert sum(read) <= os.path.getsize(tmp_path / "data.gz")


def test_two_ranks_are_continued_by_three(tmp_path: Path) -> None:
    def ranks(count: int) -> list[rs.Pipeline[Any]]:
        return [lines.shard(rank, count, uneven="keep") for rank in range(count)]

    lines = rs.lines([write(tmp_path, "m.bgz"), write(tmp_path, ".xz")])
    iterators = [iter(rank) for rank in ranks(2)]
    got = [next(iterator) for _ in range(60) for iterator in iterators]
    states = {rs.dumps(iterator.get_state()) for iterator in iterators}
    assert len(states) == 1
    rest = [list(rank.resume(rs.loads(min(states)))) for rank in ranks(3)]
    woven = itertools.chain.from_iterable(itertools.zip_longest(*rest))
    assert got + [line for line in woven if line is not None] == LINES * 2


# What is raised in a finalizer goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_changes_nothing(tmp_path: Path) -> None:
    pipeline = rs.lines([write(tmp_path, ".bz2", b"1\n2\n3\n"), write(tmp_path, ".gz", b"4\n5")])
    for interrupt in some_interrupters("streams"):
        with iter(pipeline) as iterator:
            seen: list[str] = []
            interrupt(partial(take_all, iterator, seen))
            assert iterator.step == iterator.get_state()["step"] == len(seen)
            take_all(iterator, seen)
            assert seen == list("12345")


def take_all(items: Any, seen: list[str]) -> None:
    for item in items:
        seen.append(item)


# Damage.


@pytest.mark.parametrize("suffix", sorted(COMPRESS.keys() - {".txt"} | {"m.gz"}))
def test_of_a_file_that_is_cut_the_items_before_are_right(tmp_path: Path, suffix: str) -> None:
    text = b"".join(b'{"number": %d}\n' % number for number in range(400))
    content = ALL[suffix](text)
    right = [json.loads(line) for line in text.splitlines()]
    (tmp_path / "z.jsonl").write_bytes(b"7")
    for size in thinned(range(1, len(content)), 8, suffix):
        path = tmp_path / f"cut{suffix}"
        path.write_bytes(content[:size])
        bad: list[tuple[int, str]] = []
        pipeline = rs.jsonl(
            [path, tmp_path / "z.jsonl"],
            on_error="skip",
            on_skip=partial(note, bad),
        )
        with iter(pipeline) as iterator:
            got = list(iterator)
            skipped = sum(iterator.skipped.values())
        assert got.pop() == 7
        assert got == right[: len(got)]
        if len(got) < len(right):
            assert skipped == len(bad) == 1 or suffix == "m.gz", (size, skipped)
        # A cut between two members leaves a sound file, whose last line may be cut: json names a column.
        for number, message in bad:
            assert re.search(f"cut{suffix}, line {number + 1}[:,] ", message)
        if bad:
            with pytest.raises(rs.MalformedItem, match=f"cut{suffix}, line {len(got) + 1}[:,] "):
                list(rs.jsonl(path))


@pytest.mark.parametrize("place", ["middle", "end"])
@pytest.mark.parametrize("suffix", sorted(ALL.keys() - {".txt"}))
def test_damage_is_noticed_at_the_same_record_wherever_reading_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, place: str
) -> None:
    monkeypatch.setattr(pieces, "PIECE", 1 << 12)
    monkeypatch.setattr(pieces, "INPUT", 1 << 10)
    numbers = range(10**8, 10**8 + 2000)  # five pieces, or members of 100 numbers
    damaged = bytearray(ALL[suffix](b"".join(b"%d\n" % number for number in numbers)))
    damaged[-3 if place == "end" else len(damaged) // 2] ^= 1
    (tmp_path / f"a{suffix}").write_bytes(damaged)
    (tmp_path / "z.jsonl").write_bytes(b"7")
    pipeline = rs.jsonl([tmp_path / f"a{suffix}", tmp_path / "z.jsonl"], on_error="skip")
    length = len(list(pipeline))
    resumes_at_every_position(
        pipeline, limit=length + 1, positions=thinned(range(length + 1), 4, (suffix, place))
    )


def test_a_record_right_before_damage_is_lost_wherever_reading_begins(tmp_path: Path) -> None:
    # The output of the last call, half a piece, is lost with the checksum; before it is a MiB, as a scan reads.
    line = b'"%s"\n' % (b"x" * 61)
    damaged = bytearray(gzip.compress(line * ((1 << 20) + pieces.PIECE // 2 >> 6)))
    damaged[-8] ^= 1
    (tmp_path / "a.jsonl.gz").write_bytes(damaged)
    pipeline = rs.jsonl(tmp_path / "a.jsonl.gz", on_error="skip")
    assert len(list(pipeline)) == (1 << 20) // 64 - 1
    resumes_at_every_position(pipeline, limit=1 << 15, positions=[0, 1, 9999])


def note(bad: list[tuple[int, str]], number: int, error: Exception) -> None:
    bad.append((number, str(error)))


def test_what_stands_behind_damage_is_not_read_by_a_resume(tmp_path: Path) -> None:
    rest = b"".join(b"%d\n" % number for number in range(4000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'n\n1\n2\n"open\n' + rest))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"n\n3"))
    pipeline = rs.csv(tmp_path / "*.csv.gz", on_error="skip")
    assert list(pipeline) == [{"n": "1"}, {"n": "2"}, {"n": "3"}]
    resumes_at_every_position(pipeline)
    located = rs.Pipeline(pipeline.stage.inputs[0])
    resumes_at_every_position(located.map(lambda record: record.number))


def test_a_scan_may_have_found_nothing_since_the_damage(tmp_path: Path) -> None:
    nothing = np.empty(0, np.int64)

    def scan(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
        reader.read(4)
        yield FoundRecords(np.array([4], np.int64), nothing)
        reader.skip(1 << 20)
        yield FoundRecords(nothing, nothing)

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1234" + bytes(99))[:-2])
    located = rs.Pipeline(records(Format("test", "piece", scan), tmp_path / "a.gz"))
    with iter(located.map(lambda record: record.data)) as iterator:
        assert next(iterator) == b"1234"
        with pytest.raises(rs.MalformedItem, match=r"a\.gz, piece 1: the compressed file ends"):
            next(iterator)


def test_a_damaged_record_does_not_move_the_iterator(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(
        gzip.compress(b"1\n2\n" + os.urandom(9999).hex().encode())[:5000]
    )
    with iter(rs.jsonl(tmp_path / "a.gz")) as iterator:
        assert [next(iterator), next(iterator)] == [1, 2]
        for _ in range(2):
            with pytest.raises(rs.MalformedItem, match="line 3: the compressed file ends"):
                next(iterator)
        assert iterator.step == iterator.get_state()["step"] == 2


@pytest.mark.parametrize("suffix", sorted(COMPRESS.keys() - {".txt"}))
def test_a_flipped_bit_is_noticed(tmp_path: Path, suffix: str) -> None:
    text = b"".join(b"%d\n" % number for number in range(250))
    content = bytearray(COMPRESS[suffix](text))
    path = tmp_path / f"flipped{suffix}"
    for place in thinned(range(8 * len(content)), 12, suffix):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with suppress(rs.MalformedItem):
            # Or it is in what says when the file was made, and the like.
            assert list(rs.lines(path)) == text.decode().split()


def test_workers_skip_a_damaged_record(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n")[:-3])
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"3\n"))
    located = rs.jsonl(tmp_path / "*.gz").stage.inputs[0]
    kept = rs.Pipeline(located).map(as_json, workers=1, executor="process", on_error="skip")
    with iter(kept) as iterator:
        assert list(iterator) == [1, 3]
        assert list(iterator.skipped.values()) == [1]


def as_json(record: Any) -> Any:
    return json.loads(record.data)


def test_what_is_not_compressed_as_its_name_says_is_malformed(tmp_path: Path) -> None:
    for suffix in COMPRESS.keys() - {".txt"}:
        (tmp_path / f"a{suffix}").write_bytes(b"plain text\n" * 9)
        with pytest.raises(rs.MalformedItem, match=f"a{suffix}, line 1: .*"):
            list(rs.lines(tmp_path / f"a{suffix}"))


def test_rubbish_after_a_member_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n") + b"rubbish")
    with pytest.raises(rs.MalformedItem, match=r"a.gz, line 2: not gzip, or damaged"):
        list(rs.lines(tmp_path / "a.gz"))


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ".gz")
    pipeline = rs.lines(path)
    path.write_bytes(gzip.compress(TEXT[1:]))
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        next(iter(pipeline))


def test_a_plain_file_beside_a_compressed_one_is_refused_if_it_is_compressed(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, ".gz")
    path.rename(tmp_path / "b")
    pipeline = rs.lines([write(tmp_path, ".gz", b"1"), tmp_path / "b"])
    with iter(pipeline) as iterator:
        next(iterator)
        with pytest.raises(rs.InvalidArgument, match=r"uncompressed files.*by gzip.*suffix"):
            next(iterator)


def test_a_place_that_a_file_does_not_have_is_refused(tmp_path: Path) -> None:
    pipeline = rs.lines([write(tmp_path, ".gz"), write(tmp_path, ".txt")])
    with iter(pipeline) as iterator:
        next(iterator)
        state = iterator.get_state()
    here = state["pipeline"]["upstream"]
    stored, inside = here["from"]
    for change in (
        {"file": 3}, {"file": 2}, {"from": [10**6, inside]}, {"from": [stored, here["offset"] + 1]},
        {"record": 0}, {"file": 1, "from": [stored, 3]}, {"file": 1, "from": [10**6, inside]}, {"offset": -1},
        {"offset": 2**63 - 1}, {"record": 2**63 - 1}, {"items": [2**63 - 1, 0]}, {"items": [1, 2**63 - 1]},
    ):  # fmt: skip
        state["pipeline"]["upstream"] = here | change
        with pytest.raises(rs.StateMismatch, match=r"RecordStream at pipeline\.upstream"):
            pipeline.resume(state)
    state["pipeline"]["upstream"] = here | {"offset": 10**6, "from": [stored, 10**6]}
    with pytest.raises(rs.MalformedItem, match=r"data.gz ends before the saved record 1"):
        next(pipeline.resume(state))


def test_files_are_known_by_names_and_sizes(tmp_path: Path) -> None:
    pipeline = rs.lines(write(tmp_path, ".gz"))
    with iter(pipeline) as iterator:
        next(iterator)
        state = iterator.get_state()
    (tmp_path / "moved").mkdir()
    moved = Path(shutil.copy(tmp_path / "data.gz", tmp_path / "moved"))
    assert list(rs.lines(moved).resume(state)) == LINES[1:]
    moved.write_bytes(gzip.compress(b"1"))
    with pytest.raises(rs.StateMismatch, match=r"saved files of paths='?data.gz"):
        rs.lines(moved).resume(state)


def test_a_pipeline_of_streams_can_be_pickled(tmp_path: Path) -> None:
    for suffix in sorted(ALL):
        pipeline = rs.lines([write(tmp_path, suffix), write(tmp_path, ".gz")])
        assert list(pickle.loads(pickle.dumps(pipeline))) == LINES * 2


# Memory.


def peak_of(move: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        move()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", sorted(COMPRESS.keys() - {".txt"}))
def test_what_expands_to_much_takes_the_memory_of_a_record(tmp_path: Path, suffix: str) -> None:
    count = 1 << 15
    text = (b"x" * 1023 + b"\n") * count
    path = write(tmp_path, suffix, text)
    with iter(rs.lines(path)) as iterator:
        peak = peak_of(lambda: iterator.skip(2 * count))
        assert iterator.step == count
    assert peak < 15 << 20  # of which the window of xz takes 8


def test_a_record_without_end_is_malformed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_buffer, "LARGEST_RECORD", 3 << 20)
    (tmp_path / "a.bz2").write_bytes(bz2.compress(b"first\n" + bytes(30 << 20)))
    (tmp_path / "b.bz2").write_bytes(bz2.compress(b"1"))
    pipeline = rs.jsonl([tmp_path / "a.bz2", tmp_path / "b.bz2"], on_error="skip")
    errors: list[Exception] = []
    skipping = rs.jsonl(
        [tmp_path / "a.bz2", tmp_path / "b.bz2"],
        on_error="skip",
        on_skip=lambda number, error: errors.append(error),
    )
    assert peak_of(lambda: list(pipeline)) < 24 << 20
    assert list(skipping) == [1]
    assert [str(error).partition("a.bz2, ")[2] for error in errors] == [
        "line 1, column 1: Expecting value",
        "line 2: longer than 3145728 bytes",
    ]


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    (tmp_path / "a.lz4").write_bytes(b"\x04\x22\x4d\x18")
    with pytest.raises(rs.MissingDependency, match=r"by lz4 needs lz4: pip install .*compressed"):
        list(rs.lines(tmp_path / "a.lz4"))


@pytest.mark.parametrize(
    ("suffix", "kind", "content"),
    [
        (".Z", "compress", b"\x1f\x9d\x90a\n"),
        (".lzma", "lzma", lzma.compress(b"a\n", lzma.FORMAT_ALONE)),
    ],
)
def test_files_compressed_in_ways_that_are_not_read_are_refused(
    suffix: str, kind: str, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(content)
    for read in (rs.jsonl, rs.lines):
        with pytest.raises(rs.InvalidArgument, match=f"is compressed by {kind}; decompress it"):
            read(path)
