"""What follows in remote files is asked for before it is needed, and what is read is what they have."""

from __future__ import annotations

import asyncio
import gc
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.native_forks import holds_in_a_fork

import resumable as rs
from resumable.core.foreseen import foreseeing
from resumable.core.process_counts import process_counts
from resumable.core.weak_sets import members
from resumable.formats.data_files import AnyFile, found_data_files
from resumable.formats.io import fetching, stored_files
from resumable.formats.io.cached_parts import uses_in_order
from resumable.formats.io.stored_files import UNIT, StoredFiles

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )

RANGE = 64
"""The largest in these tests."""
PART = 1 << 16


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("FIRST_RANGE", 8), ("SMALL_RANGE", 8), ("LARGEST_RANGE", RANGE)):
        monkeypatch.setattr(stored_files, name, size)


def contents(sizes: list[int]) -> list[bytes]:
    return [Random(number).randbytes(size) for number, size in enumerate(sizes)]


def in_memory(found: list[bytes]) -> list[str]:
    """URLs of fsspec's file system in memory, of files that have what was ``found``."""
    import fsspec

    urls = [f"memory://{uuid.uuid4().hex}/{number:04}" for number in range(len(found))]
    for url, content in zip(urls, found, strict=True):
        fsspec.filesystem("memory").pipe_file(url, content)
    return urls


def files_of(found: list[bytes], **read: int) -> list[AnyFile]:
    return found_data_files(in_memory(found), {"read": read})


def held() -> int:
    """Bytes that all streams of this process have asked for ahead."""
    return sum(stream.held for stream in members(stored_files._reading))


class Asked:
    """Stands in for `fetching.begin`.

    Args:
      fails: called for each request; whether it brings nothing.

    Attributes:
      spans: URL, start and end of what was asked for.
      most: how much was asked for at a time.
      given_up: how many requests were.
    """

    def __init__(self, fails: Callable[[], bool] = lambda: False) -> None:
        self.fails = fails
        self.spans: list[tuple[str, int, int]] = []
        self.most = self.given_up = 0

    def __call__(self, requests: Any, patience: Any, done: Any, gate: Any) -> Callable[[], None]:
        (request,) = requests
        _, start, end, _ = request.call.args
        self.spans.append((request.url, start, end))
        self.most = max(self.most, held() + end - start)
        if self.fails():
            done(0, None)
        else:
            fetching.begin(requests, patience, done, gate)
        return self._give_up

    def _give_up(self) -> None:
        self.given_up += 1


@contextmanager
def noting(fails: Callable[[], bool] = lambda: False) -> Iterator[Asked]:
    asked = Asked(fails)
    with mock.patch.object(stored_files, "begin", asked):
        yield asked


steps = st.tuples(st.booleans(), st.integers(1, 100))
visits = st.tuples(st.floats(0, 1), st.floats(0, 1), st.lists(steps, max_size=12))


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=6),
    st.lists(visits, min_size=1, max_size=8),
    st.sampled_from([0, 8, 100, 1000]),
    st.integers(1, 4),
    st.randoms(),
)
def test_however_files_are_read_and_passed_over_the_bytes_are_theirs(
    sizes: list[int], visited: list[Any], ahead: int, at_once: int, dice: Any
) -> None:
    found = contents(sizes)
    files = StoredFiles(files_of(found, ahead=ahead, at_once=at_once))
    with noting(lambda: dice.random() < 0.2) as asked:
        for where, start, moves in visited:
            number = int(where * (len(found) - 1))
            place = int(start * sizes[number])
            pieces = files.remote(number, place)
            for reads, count in moves:
                expected = found[number][place : place + count]
                if reads:
                    piece = pieces.read_some(count)
                    assert piece == expected[: len(piece)]
                    assert bool(piece) == bool(expected)
                    place += len(piece)
                else:
                    assert pieces.skip(count) == len(expected)
                    place += len(expected)
                assert len(files._queue) <= at_once
        files.close()
    assert asked.most <= ahead


def read_whole(files: StoredFiles, number: int) -> bytes:
    return b"".join(iter(partial(files.open(number).read_some, 50), b""))


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.sampled_from([0, 64, 10_000]))
def test_from_start_to_end_every_byte_is_read_once(sizes: list[int], ahead: int) -> None:
    found = contents(sizes)
    files, before = StoredFiles(files_of(found, ahead=ahead)), process_counts.bytes_read
    assert [read_whole(files, number) for number in range(len(found))] == found
    assert process_counts.bytes_read - before == sum(sizes)
    assert files not in members(stored_files._reading)


def test_the_files_after_are_asked_for_while_one_is_read() -> None:
    found = contents([400, 0, 30, 30, 400, 400])
    files = files_of(found)
    with noting() as asked:
        pieces, read = StoredFiles(files).open(0), 0
        while read < 350:
            read += len(pieces.read_some(50))
    assert {url for url, _, _ in asked.spans} >= {files[n].path for n in (0, 2, 3, 4)}
    assert files[1].path not in {url for url, _, _ in asked.spans}


def test_who_reads_little_asks_for_little() -> None:
    stream = StoredFiles(files_of(contents([10_000])))
    with noting() as asked:
        pieces, read = stream.open(0), 0
        while read < 200:
            read += len(pieces.read_some(1))
            assert sum(end - start for _, start, end in asked.spans) <= 3 * max(read, RANGE)


def test_what_was_passed_over_is_not_asked_for() -> None:
    stream = StoredFiles(files_of(contents([10_000])))
    pieces, before = stream.remote(0), process_counts.bytes_read
    with noting() as asked:
        for _ in range(50):
            pieces.read_some(1)
            pieces.skip(2 * RANGE)
    assert not asked.spans
    assert process_counts.bytes_read - before <= 50 * 8


def test_streams_share_what_may_be_asked_for() -> None:
    found = contents([4000] * 4)
    streams = [StoredFiles([file]) for file in files_of(found, ahead=400)]
    with noting() as asked:
        pieces = [stream.open(0) for stream in streams]
        read = [b""] * 4
        while streams[0].held < 300:  # of all while it is alone
            read[0] += pieces[0].read_some(10)
        while read != found:
            for number, one in enumerate(pieces):
                read[number] += one.read_some(10)
    assert read == found
    shares: Counter[str] = Counter()
    for url, start, end in asked.spans:
        shares[url] += end - start
    assert len(shares) == 4
    assert min(shares.values()) > 3000, "one has taken the share of another"
    assert asked.most <= 400


def test_many_streams_ask_for_nothing_ahead_and_for_much_at_a_time() -> None:
    streams = [StoredFiles([file]) for file in files_of(contents([4 * RANGE] * 9), ahead=64)]
    opened = [stream.open(0) for stream in streams]
    for pieces in opened:
        pieces.read_some(1)
    before = process_counts.requests
    with noting() as asked:
        for _ in range(3 * RANGE):
            for pieces in opened:
                pieces.read_some(1)
    assert not asked.spans
    assert process_counts.requests - before <= 5 * len(streams)


@given(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=4),
    st.floats(0, 1),
    st.integers(0, 100),
    st.integers(0, 2500),
)
def test_a_cache_is_told_when_each_part_is_needed_in_this_epoch_and_the_next(
    sizes: list[int], share: float, begin: int, end: int
) -> None:
    cache = rs.FileCache("no folder yet", 1 << 24, PART)
    files = found_data_files(in_memory(contents(sizes)), {"cache": cache})
    stream = StoredFiles(files, epochs=True)
    stream._offset = place = int(share * sum(sizes))
    expected, first = [], -place
    for number, size in [*enumerate(sizes)] * 2:
        for start in range(0, size, PART):
            if first + min(start + PART, size) > 0:
                expected.append((number, start // PART, max(first + start, 0) // UNIT))
        first += size
    assert stream in members(foreseeing)
    assert [use for use in expected if begin <= use[2] < end] == [
        use
        for uses in stream.foreseen(begin, end)
        for use in zip(uses.file_of.tolist(), uses.parts.tolist(), uses.at.tolist(), strict=True)
    ]


def test_of_many_files_only_the_next_ones_are_cut_into_parts() -> None:
    cache = rs.FileCache("no folder yet", 1 << 24, PART)
    files = found_data_files(in_memory(contents([5 * PART, 100, 9 * PART])), {"cache": cache})
    stream = StoredFiles(files, epochs=True)
    stream._offset = 3 * PART
    with mock.patch.object(stored_files, "uses_in_order", wraps=uses_in_order) as cut:
        (uses,) = stream.foreseen(0, stream.horizon(1))
    assert uses.parts.tolist() == [3]
    assert uses.files == files, "all are in use"
    assert [call.args[0] for call in cut.call_args_list] == [files[:1]]


def test_a_stream_that_is_closed_needs_nothing_of_its_cache() -> None:
    cache = rs.FileCache("no folder yet", 1 << 24, PART)
    stream = StoredFiles(found_data_files(in_memory([b"x"]), {"cache": cache}), epochs=True)
    assert stream in members(foreseeing)
    stream.close()
    assert stream not in members(foreseeing)


@pytest.mark.parametrize("how", ["close", "drop", "go back"])
def test_what_is_not_needed_any_longer_is_given_up(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_files, "LARGEST_RANGE", 1 << 18)
    urls = in_memory([b"\n".join(b"%04000d" % number for number in range(2000))])
    pipeline = rs.lines(urls).map(int)
    with noting() as asked:
        iterator: Any = iter(pipeline)
        assert [next(iterator) for _ in range(400)] == list(range(400))
        before, waiting = asked.given_up, held()
        assert waiting
        if how == "close":
            iterator.close()
        elif how == "drop":
            del iterator
            gc.collect()
        else:
            iterator.set_state(iterator.get_state())
            gc.collect()
        assert held() == 0
        assert asked.given_up > before


def test_a_request_that_is_given_up_ends_and_says_that_it_brings_nothing() -> None:
    answers: SimpleQueue[Any] = SimpleQueue()
    begun: SimpleQueue[bool] = SimpleQueue()
    ended: SimpleQueue[BaseException] = SimpleQueue()

    async def call() -> None:
        begun.put(True)
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            ended.put(error)
            raise

    give_up = fetching.begin(
        [fetching.Request("x", call)], fetching.Patience(), lambda *answer: answers.put(answer)
    )
    assert begun.get(timeout=60)
    give_up()
    assert answers.get(timeout=60) == (0, None)
    assert isinstance(ended.get(timeout=60), asyncio.CancelledError)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_asks_for_itself() -> None:
    found = contents([3000])
    stream = StoredFiles(files_of(found))
    pieces, read = stream.open(0), b""
    while len(read) < 1500:
        read += pieces.read_some(50)
    stream.close()
    with mock.patch.object(stored_files, "begin", return_value=lambda: None):
        stream._ask_ahead()  # and no answer has come when the process is forked
        while not stream.held:
            read += pieces.read_some(50)
            stream._ask_ahead()

    def rest() -> bytes:
        return b"".join(iter(partial(pieces.read_some, 50), b""))

    assert holds_in_a_fork(lambda: read + rest() == found[0])
    stream.close()
    assert read + rest() == found[0]


class TakenMeanwhile:
    """Stands in for bytes that were asked for; another thread takes them while this one adds up what is held."""

    def __init__(self, stream: StoredFiles) -> None:
        self._queue = stream._queue

    @property
    def size(self) -> int:
        self._queue.popleft()
        return 10


def test_what_a_stream_holds_is_told_while_another_thread_reads_it() -> None:
    stream = StoredFiles(files_of(contents([100])))
    asked: Any = [TakenMeanwhile(stream) for _ in range(3)]
    stream._queue.extend(asked)
    assert stream.held == 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_what_the_parent_reads_takes_nothing_of_what_a_forked_child_may_ask_for() -> None:
    most = 6 * RANGE
    read, unread = (StoredFiles([file]) for file in files_of(contents([4000] * 2), ahead=most))
    pieces, count = read.open(0), 0
    while count < 2000:
        count += len(pieces.read_some(50))
    read._ask_ahead()
    assert read.held == most

    def asks() -> bool:
        with noting(lambda: True) as asked:
            read_whole(unread, 0)
        return bool(asked.spans)

    assert holds_in_a_fork(asks)
    read.close()
