"""Whatever is read through a cache is what is in the files, and no more is fetched than without it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_cache.remote import PART, File, Network, Order, Span, kept_bytes, opened, some_files
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.file_cache import reading
from resumable.file_cache.part_file import HEADER, PartName
from resumable.file_cache.parts import PartCutter, Piece
from resumable.file_cache.parts import Span as Gap

SIZES = (3 * PART, 5, 2 * PART + 100, PART)
FILES = some_files(*SIZES)
ROOM = PART + HEADER.size

spans = st.builds(
    lambda file, ends: Span(file, *sorted(ends)),
    st.sampled_from(FILES),
    st.tuples(st.floats(0, 1), st.floats(0, 1)) | st.floats(0, 1).map(lambda end: (end, end)),
).map(lambda span: Span(span.file, *(int(end * span.file.size) for end in span[1:])))
reads = st.tuples(st.lists(spans, min_size=1, max_size=4), st.booleans(), st.integers(0, 1))
damage = st.sampled_from(["flip", "cut", "empty", "remove", "foreign"])


@given(st.lists(reads | damage, min_size=1, max_size=12), st.integers(4, 9), st.randoms())
def test_whatever_happens_to_the_folder_the_bytes_are_those_of_the_files(
    calls: list[Any], parts: int, dice: Any
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "cache")
        cache = rs.FileCache(folder, parts * ROOM, PART)
        readers, network = [opened(cache), opened(cache)], Network()
        foreign: dict[Path, bytes] = {}
        for call in calls:
            if isinstance(call, tuple):
                wanted, whole, reader = call
                found = readers[reader].read(wanted, network, whole=whole)
                assert found == [span.data for span in wanted]
                ours = kept_bytes(folder) - sum(map(len, foreign.values()))
                assert ours <= parts * ROOM
                continue
            files = sorted(path for path in folder.rglob("*.part") if path not in foreign)
            if not files:
                continue
            path = dice.choice(files)
            data = bytearray(path.read_bytes())
            if call == "flip" and data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            elif call == "cut":
                del data[dice.randrange(len(data) + 1) :]
            elif call == "empty":
                data.clear()
            elif call == "remove":
                path.unlink()
                continue
            elif call == "foreign":
                data[:] = foreign[path] = b"not yours"
            if data[:16] != b"resumable part 1"[: len(data)] and data:
                foreign[path] = bytes(data)
            path.write_bytes(data)
        for path, content in foreign.items():
            assert path.read_bytes() == content
        for one in readers:
            one.close()


def test_what_is_put_in_the_place_of_a_part_while_it_is_fetched_stays_and_the_cache_is_used(
    tmp_path: Path,
) -> None:
    class Meanwhile(Network):
        def read(self, wanted: Sequence[Any]) -> list[bytes]:
            if wanted:
                foreign.write_bytes(b"not yours")
            return super().read(wanted)

    cache = rs.FileCache(tmp_path, 9 * ROOM, PART)
    foreign = Path(PartName(FILES[0].content_name, 0).path(str(tmp_path)))
    first, second = (Span(FILES[0], start, start + PART) for start in (0, PART))
    reader, network = opened(cache), Network()
    assert reader.read([first], Meanwhile()) == [first.data]
    assert (tmp_path / ".in-use").read_bytes().strip(b"0") == b"", "its room is given back"
    for wanted in (second, first, second):
        assert reader.read([wanted], network) == [wanted.data]
    assert foreign.read_bytes() == b"not yours"
    assert network.fetched == [second, first]
    reader.close()


@given(st.lists(spans, min_size=1, max_size=5), st.randoms())
def test_bytes_are_put_together_whichever_parts_are_kept(wanted: list[Span], dice: Any) -> None:
    cutter, pieces = PartCutter(PART), dict[PartName, Piece]()
    contents = {file.content_name: file.content for file in FILES}
    for part, needed in cutter.wanted_parts(wanted).items():
        if dice.random() < 0.5:
            begin = part.number * PART
            data = contents[part.content][begin + needed.start : begin + needed.end]
            pieces[part] = Piece(needed.start, data)
    found = [cutter.assembled(span, pieces) for span in wanted]
    assert all(found), "nothing, in place of a piece without bytes"
    filled = [
        [Span(*each).data if isinstance(each, Gap) else each for each in one] for one in found
    ]
    assert [b"".join(each) for each in filled] == [span.data for span in wanted]
    for one in found:
        gaps = [isinstance(each, Gap) for each in one]
        assert not any(map(all, pairwise(gaps))), "neighbours are one request"


def test_each_part_is_fetched_once_by_all_readers(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 100 * ROOM, PART)
    network, wanted = Network(), [Span(file, 0, file.size) for file in FILES]
    for _ in range(3):
        reader = opened(cache)
        assert reader.read(wanted, network) == [file.content for file in FILES]
    assert network.bytes == sum(SIZES)
    assert [span.end - span.start for span in network.fetched] == list(SIZES), "not a request each"


@given(
    st.integers(1, 12), st.integers(4, 12), st.integers(2, 4), st.integers(0, 2**32), st.booleans()
)
def test_what_is_needed_last_goes_first_so_no_more_is_fetched_than_by_last_use(
    count: int, room: int, epochs: int, seed: int, ahead: bool
) -> None:
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(count) for _ in range(epochs)]
    with tempfile.TemporaryDirectory() as folder:
        cache = rs.FileCache(folder, room * ROOM, PART, read_ahead=2 * PART if ahead else 0)
        reader, network = opened(cache), Network()
        order = Order(cache, some_files(*[PART] * count), orders)
        for span in order.spans():
            assert reader.read([span], network) == [span.data]
            assert kept_bytes(Path(folder)) <= room * ROOM
        reader.close()
    fetched = len(network.fetched)
    assert fetched <= by_last_use(orders, room)
    # No more than the room can be kept over the end of an epoch.
    best = count + (epochs - 1) * max(count - room, 0)
    assert best <= fetched <= best + (epochs - 1) * ahead


def by_last_use(orders: list[Any], room: int) -> int:
    """How many parts are fetched if that used longest ago goes first."""
    kept: dict[int, None] = {}
    fetched = 0
    for number in np.concatenate(orders).tolist():
        if number in kept:
            del kept[number]
        else:
            fetched += 1
            if len(kept) == room:
                del kept[next(iter(kept))]
        kept[number] = None
    return fetched


@given(st.integers(4, 12), st.integers(0, 2**32))
def test_little_bytes_of_many_parts_cost_no_more_than_without_a_cache(room: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    (file,) = some_files(16 * PART)
    with tempfile.TemporaryDirectory() as folder:
        reader, network, wanted = opened(rs.FileCache(folder, room * ROOM, PART)), Network(), 0
        for start in generator.integers(0, file.size - 500, 100).tolist():
            span = Span(file, start, start + 500)
            assert reader.read([span], network) == [span.data]
            wanted += 500
        reader.close()
    assert network.bytes <= wanted + room * PART


def test_a_part_that_another_process_fetches_is_waited_for_unless_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = some_files(PART)
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART)
    slow, quick, network = opened(cache), opened(cache), Network()
    span = Span(file, 0, PART)

    class Meanwhile(Network):
        def read(self, wanted: Any) -> list[bytes]:
            monkeypatch.setattr(reading, "WAIT", 0.0)
            if wanted:
                assert quick.read([span], network) == [file.content]
            return super().read(wanted)

    assert slow.read([span], Meanwhile()) == [file.content]
    assert network.bytes == PART
    assert quick.read([span], network) == [file.content]
    assert network.bytes == PART, "it was there"


def test_what_fails_to_be_fetched_is_claimed_by_nobody(tmp_path: Path) -> None:
    (file,) = some_files(PART)
    reader, network = opened(rs.FileCache(tmp_path, 4 * ROOM, PART)), Network()
    network.fails = True
    with pytest.raises(ConnectionError):
        reader.read([Span(file, 0, PART)], network)
    assert kept_bytes(tmp_path) == 0
    network.fails = False
    for _ in range(2):
        assert reader.read([Span(file, 0, PART)], network) == [file.content]
    assert network.bytes == PART


def test_what_fails_ahead_is_fetched_when_it_is_needed(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 9 * ROOM, PART, read_ahead=4 * PART)
    reader, network = opened(cache), Network()
    order = Order(cache, some_files(*[PART] * 6), [np.arange(6)])
    for place, span in enumerate(order.spans()):
        network.fails = place == 0
        if place == 0:
            with pytest.raises(ConnectionError):
                reader.read([span], network)
            network.fails = False
        assert reader.read([span], network) == [span.data]
    assert network.bytes == 6 * PART


@pytest.mark.parametrize("parts", [4, 20])
def test_parts_of_which_little_is_needed_are_fetched_ahead_as_far_as_there_is_room(
    tmp_path: Path, parts: int
) -> None:
    files = some_files(*[PART] * 12)
    cache = rs.FileCache(tmp_path, parts * ROOM, PART, read_ahead=3 * PART)

    class Little(Order):
        def span(self, number: int) -> Span:
            return Span(self.files[number], 0, 500)

    reader, network = opened(cache), Network()
    counts = []
    for span in Little(cache, files, [np.arange(12)]).spans():
        assert reader.read([span], network) == [span.data]
        counts.append(len(network.fetched))
    if parts == 20:
        assert counts[0] == 4, "the first part, and three ahead"
        assert network.bytes == 12 * PART, "each part once"
    else:
        assert kept_bytes(tmp_path) <= parts * ROOM
        assert network.bytes <= 4 * PART + 12 * 500
    reader.close()


@pytest.mark.parametrize("on_full", ["warn", "error"])
@pytest.mark.parametrize("fault", ["write", "folder"])
def test_a_disk_that_refuses_is_an_error_or_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_full: str, fault: str
) -> None:
    folder = tmp_path / "cache"
    if fault == "folder":
        folder.write_text("a file")
    cache = rs.FileCache(folder, 9 * ROOM, PART, on_full=on_full)
    reader, network = opened(cache), Network()
    wanted = [Span(file, 0, file.size) for file in FILES]

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patches:
        if fault == "write":
            patches.setattr("resumable.file_cache.claim.os.write", full)
        if on_full == "error":
            with pytest.raises(
                rs.ReadError, match=rf"cache in {folder} cannot be used: .*bytes of room"
            ):
                reader.read(wanted, network)
        else:
            with pytest.warns(RuntimeWarning, match="reading without it"):
                assert reader.read(wanted, network) == [span.data for span in wanted]
    if on_full == "warn":
        assert reader.read(wanted, network) == [span.data for span in wanted]  # without a warning
    if folder.is_dir():
        assert kept_bytes(folder) == 0


def test_parts_of_files_that_nobody_reads_any_longer_go_first(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART)
    old, new = some_files(3 * PART, 4 * PART)
    before, network = opened(cache), Network()
    before.read([Span(old, 0, old.size)], network, whole=True)
    before.close()
    reader = opened(cache)
    for _ in range(2):
        for number in range(4):
            span = Span(new, number * PART, (number + 1) * PART)
            assert reader.read([span], network, whole=True) == [span.data]
    assert network.bytes == 7 * PART


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_process_that_dies_leaves_no_claim_and_no_plan(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 6 * ROOM, PART)
    (file,) = some_files(2 * PART)

    class Dies(Network):
        def read(self, wanted: Any) -> list[bytes]:
            os.kill(os.getpid(), 9)
            raise AssertionError

    child = os.fork()
    if not child:
        opened(cache).read([Span(file, 0, file.size)], Dies())
        os._exit(0)
    os.waitpid(child, 0)
    assert list(tmp_path.rglob("*.part.tmp"))
    assert list(tmp_path.rglob("*.plan"))
    reader, network = opened(cache), Network()
    assert reader.read([Span(file, 0, file.size)], network) == [file.content]
    big = some_files(*[PART] * 9)[1:]
    for other in big:
        reader.read([Span(other, 0, PART)], network)
    assert len(list(tmp_path.rglob("*.plan"))) == 1
    assert not list(tmp_path.rglob("*.part.tmp"))


def test_a_folder_in_use_by_a_stopped_process_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resumable.core import file_locks
    from resumable.file_cache import room

    monkeypatch.setattr(room, "PATIENCE", 0.01)
    (file,) = some_files(PART)
    reader, network = opened(rs.FileCache(tmp_path, 4 * ROOM, PART)), Network()
    holder = os.open(tmp_path / room.IN_USE, os.O_RDWR | os.O_CREAT)
    file_locks.lock(holder)
    try:
        assert reader.read([Span(file, 0, PART)], network) == [file.content]
    finally:
        os.close(holder)
    assert kept_bytes(tmp_path) == 0
    assert reader.read([Span(file, 0, PART)], network) == [file.content]
    assert kept_bytes(tmp_path) == ROOM


def test_what_is_there_from_an_earlier_run_is_not_fetched_again(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path / "one", 9 * ROOM, PART)
    network, wanted = Network(), [Span(file, 0, file.size) for file in FILES]
    first = opened(cache)
    first.read(wanted, network)
    first.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    network.fails = True
    copied = opened(rs.FileCache(tmp_path / "two", 9 * ROOM, PART))
    assert copied.read(wanted, network) == [span.data for span in wanted]


def test_no_more_is_known_of_parts_than_there_is_room_for(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path, 4 * ROOM, PART, read_ahead=0)
    reader, network = opened(cache), Network()
    for file in some_files(*[PART] * 20):
        for _ in range(2):
            assert reader.read([Span(file, 0, PART)], network) == [file.content]
        assert 0 < len(reader.reader._store._checked) <= 4
    assert network.bytes == 20 * PART
    reader.close()


def test_another_version_of_a_file_is_another_file(tmp_path: Path) -> None:
    reader, network = opened(rs.FileCache(tmp_path, 9 * ROOM, PART)), Network()
    for content in (b"old" * 99, b"new" * 99):
        file = File("s3://bucket/a", content)
        assert reader.read([Span(file, 0, file.size)], network) == [content]


@pytest.mark.parametrize("kind", ["flip", "cut", "longer", "empty"])
@given(st.floats(0, 1, exclude_max=True))
def test_a_damaged_part_is_fetched_again(kind: str, place: float) -> None:
    (file,) = some_files(PART)
    with tempfile.TemporaryDirectory() as folder:
        cache, network = rs.FileCache(folder, 4 * ROOM, PART), Network()
        first, second = opened(cache), opened(cache)
        first.read([Span(file, 0, PART)], network)
        (path,) = Path(folder).rglob("*.part")
        data = bytearray(path.read_bytes())
        where = 16 + int(place * (len(data) - 16))  # behind what tells that a cache has written it
        if kind == "flip":
            data[where] ^= 1
        elif kind == "longer":
            data.append(0)
        else:
            del data[where if kind == "cut" else 0 :]
        path.write_bytes(data)
        os.utime(path, ns=(0, 1))  # as if it were written at another time
        for reader in (first, second):
            assert reader.read([Span(file, 0, PART)], network) == [file.content]
        assert network.bytes == 2 * PART
        first.close()
        second.close()
