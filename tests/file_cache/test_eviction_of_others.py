"""What the tests of MosaicML's and LitData's caches assert, for this one.

MosaicML Streaming: `tests/test_eviction.py`. LitData: `tests/streaming/test_cache_eviction.py` and
`test_shared_chunk_deletion.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from file_cache.remote import (
    PART,
    JoiningReader,
    Network,
    Order,
    Span,
    kept_bytes,
    opened,
    some_files,
)

import resumable as rs
from resumable.file_cache.contents import clear
from resumable.file_cache.part_file import HEADER

ROOM = PART + HEADER.size
COUNT = 12
FILES = some_files(*[PART] * COUNT)
WANTED = [Span(file, 0, PART) for file in FILES]


def read_twice(reader: JoiningReader, network: Network) -> None:
    for _ in range(2):
        for span in WANTED:
            assert reader.read([span], network) == [span.data]


def test_a_limit_above_the_size_of_the_data_removes_nothing(tmp_path: Path) -> None:
    network = Network()
    read_twice(opened(rs.FileCache(tmp_path, 1000 * ROOM, PART)), network)
    assert len(list(tmp_path.rglob("*.part"))) == COUNT
    assert network.bytes == COUNT * PART


def test_a_limit_below_it_is_kept_and_everything_is_read(tmp_path: Path) -> None:
    network = Network()
    read_twice(opened(rs.FileCache(tmp_path, 5 * ROOM, PART)), network)
    assert kept_bytes(tmp_path) <= 5 * ROOM


def test_what_was_removed_by_hand_is_fetched_again(tmp_path: Path) -> None:
    network = Network()
    reader = opened(rs.FileCache(tmp_path, 1000 * ROOM, PART))
    reader.read(WANTED, network)
    full = sorted(path.name for path in tmp_path.rglob("*.part"))
    assert clear(str(tmp_path)) == COUNT * ROOM
    assert not list(tmp_path.rglob("*.part"))
    assert reader.read(WANTED, network) == [span.data for span in WANTED]
    assert sorted(path.name for path in tmp_path.rglob("*.part")) == full
    assert network.bytes == 2 * COUNT * PART


def test_a_limit_that_is_too_low_is_refused_with_what_it_must_be(tmp_path: Path) -> None:
    with pytest.raises(
        rs.InvalidArgument, match=rf"max_bytes must be at least {4 * ROOM}, .* got 1000"
    ):
        rs.FileCache(tmp_path, 1000, PART)


def test_no_more_is_fetched_ahead_than_there_is_room_for(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART, read_ahead=100 * PART)
    reader, network = opened(cache), Network()
    order = Order(cache, FILES, [np.arange(COUNT)])
    for span in order.spans():
        assert reader.read([span], network) == [span.data]
        assert kept_bytes(tmp_path) <= 4 * ROOM
    assert network.bytes == COUNT * PART, (
        "nothing that is needed soon made room for what is needed later"
    )


def test_what_another_worker_still_needs_is_not_removed(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 6 * ROOM, PART, read_ahead=0)
    slow, quick = opened(cache), opened(cache)
    network = Network()
    needs = Order(cache, FILES, [np.arange(4)])  # as worker 0 says, which is slow
    spans = needs.spans()
    slow.read([next(spans)], network)
    for span in WANTED[1:4]:
        slow.read([span], network)
    slow.reader._eviction.publish([])
    for span in WANTED[4:]:
        assert quick.read([span], network) == [span.data]
    before = network.bytes
    for span in spans:
        assert slow.read([span], network) == [span.data]
    assert network.bytes == before, "all were still there"


def test_a_reader_that_is_dropped_keeps_nothing_from_being_removed(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART)
    network = Network()
    dropped = opened(cache)
    dropped.read(WANTED[:4], network)
    dropped.close()
    reader = opened(cache)
    for _ in range(2):
        reader.read(WANTED[4:8], network)
    assert network.bytes == 8 * PART
    assert not list(tmp_path.rglob("*.cnt"))
    assert not list(tmp_path.rglob("*.tmp"))
