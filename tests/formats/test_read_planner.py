"""Runs of neighbouring remote records: each is read by one request, kept until it is used, and no longer."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.formats import read_planner
from resumable.formats.io import held_ranges, remote_content
from resumable.formats.io.held_ranges import HeldRange, HeldRanges, Ranges
from resumable.formats.io.remote import RemoteFile
from resumable.formats.io.remote_content import Span

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

MEMORY = 1 << 16


class Store:
    """Files in memory, and the ranges that are read of them.

    Attributes:
      asked: file, start and end of each range.
      most_held: the most bytes that an iterator held at a time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import fsspec

        self.asked: list[tuple[str, int, int]] = []
        self.most_held = 0
        self.folder = f"/{uuid.uuid4().hex}"
        self.system = fsspec.filesystem("memory")
        read, hold = self.system.cat_file, HeldRanges.hold

        def noting(path: str, start: int, end: int) -> Any:
            self.asked.append((path, start, end))
            return read(path, start, end)

        def holding(held: HeldRanges, ranges: Any) -> None:
            hold(held, ranges)
            self.most_held = max(self.most_held, held.most - held.free)

        monkeypatch.setattr(self.system, "cat_file", noting)
        monkeypatch.setattr(HeldRanges, "hold", holding)

    def lines(self, index_dir: Path, *files: list[str]) -> rs.Pipeline[str]:
        """The lines of each of ``files``; what is asked for until then does not count."""
        self.folder = f"/{uuid.uuid4().hex}"
        for number, lines in enumerate(files):
            content = "".join(f"{line}\n" for line in lines).encode()
            self.system.pipe_file(f"{self.folder}/{number:03}", content)
        pipeline = rs.lines(f"memory:/{self.folder}/*", index_dir=index_dir)
        self.asked.clear()
        self.most_held = 0
        return pipeline

    @property
    def bytes_read(self) -> int:
        return sum(end - start for _, start, end in self.asked)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(remote_content, "LARGEST_RANGE", 1 << 14)
    monkeypatch.setattr(read_planner, "LARGEST_RUN", 1 << 14)
    monkeypatch.setattr(read_planner, "SMALL_GAP", 8)
    monkeypatch.setattr(held_ranges, "NEAR", 8)
    monkeypatch.setattr(read_planner, "MOST_BYTES", 1 << 14)
    monkeypatch.setattr(held_ranges, "HELD_BYTES", MEMORY)
    return Store(monkeypatch)


def numbered(count: int, size: int) -> list[str]:
    return [f"{number} ".ljust(size - 1, "y") for number in range(count)]


@pytest.mark.parametrize("batch", [None, 16])
def test_a_shuffle_in_blocks_reads_each_block_once_by_one_request(
    store: Store, tmp_path: Path, batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resumable.order.block_permutation.GROUP_ITEMS", 0)
    lines = numbered(4000, 100)  # a group of 8 blocks has 32,000 of 65,536 bytes
    pipeline = store.lines(tmp_path, lines[:2500], lines[2500:]).shuffle(3, block=40)
    if batch is None:
        assert sorted(pipeline) == sorted(lines)
    else:
        batches = pipeline.batch(batch, collate=list)
        assert sorted(line for found in batches for line in found) == sorted(lines)
    assert store.bytes_read == 400_000
    # Blocks that happen to be neighbours are read together, the first items alone.
    assert 60 < len(store.asked) < 100 + 30
    assert store.most_held <= MEMORY


def test_a_global_shuffle_of_what_fits_into_memory_reads_it_once(
    store: Store, tmp_path: Path
) -> None:
    lines = numbered(600, 100)
    assert sorted(store.lines(tmp_path, lines).shuffle(1)) == sorted(lines)
    assert store.bytes_read == 60_000
    assert len(store.asked) < 20


def test_blocks_that_do_not_fit_into_memory_are_read_in_parts_and_still_once(
    store: Store, tmp_path: Path
) -> None:
    lines = numbered(4000, 100)  # a group has 1,040 items, so 104,000 bytes
    assert sorted(store.lines(tmp_path, lines).shuffle(1, block=40)) == sorted(lines)
    assert store.bytes_read == 400_000
    assert store.most_held <= MEMORY


def test_a_few_long_records_do_not_make_it_keep_more(store: Store, tmp_path: Path) -> None:
    lines = [f"{number} " + "y" * (20_000 if number % 50 == 0 else 10) for number in range(600)]
    assert sorted(store.lines(tmp_path, lines).shuffle(1)) == sorted(lines)
    assert 0 < store.most_held <= MEMORY


def test_the_first_items_are_read_alone(store: Store, tmp_path: Path) -> None:
    pipeline = store.lines(tmp_path, numbered(1000, 100)).shuffle(1, block=40)
    with iter(pipeline) as iterator:
        next(iterator)
        assert store.bytes_read == 100
        state = iterator.get_state()
    store.asked.clear()
    with iter(pipeline.batch(3)) as batches:
        next(batches)
        assert store.bytes_read == 300
    with pipeline.resume(state) as iterator:
        assert list(iterator) == list(pipeline)[1:]


@given(
    st.lists(st.lists(st.integers(1, 3000), max_size=40), min_size=1, max_size=3),
    st.integers(0, 100),
    st.sampled_from([None, 1, 2, 7]),
    st.sampled_from([1 << 8, 1 << 12, 1 << 16]),
    st.integers(0, 120),
    st.integers(1, 9),
)
def test_whatever_sizes_order_and_memory_each_line_comes_at_its_turn(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[list[int]],
    seed: int,
    block: int | None,
    memory: int,
    position: int,
    batch: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_ranges, "HELD_BYTES", memory)
        patch.setattr(read_planner, "SMALL_GAP", 100)
        patch.setattr(read_planner, "LARGEST_RUN", 1 << 12)
        store = Store(patch)
        files = [[f"{n} {'y' * size}" for n, size in enumerate(one)] for one in sizes]
        lines = [line for file in files for line in file]
        pipeline = store.lines(tmp_path_factory.mktemp("index"), *files)
        shuffled = pipeline.shuffle(seed, block=block) if lines else pipeline
        order = rs.from_sequence(lines)
        expected = list(order.shuffle(seed, block=block)) if lines else []
        assert list(shuffled) == expected
        assert store.most_held <= memory
        batches = shuffled.batch(batch, collate=list)
        with iter(batches) as iterator:
            iterator.skip(position // batch)
            rest = [line for found in iterator for line in found]
        assert rest == expected[position // batch * batch :]


def test_an_error_in_a_run_that_is_read_ahead_is_raised_at_its_turn(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = numbered(600, 100)
    pipeline = store.lines(tmp_path, lines)
    read = store.system.cat_file

    def failing(path: str, start: int, end: int) -> Any:
        if end > 30_000:
            raise PermissionError("not this part")
        return read(path, start, end)

    monkeypatch.setattr(store.system, "cat_file", failing)
    with iter(pipeline) as iterator:
        assert [next(iterator) for _ in range(300)] == lines[:300]
        with pytest.raises(rs.ReadError, match="not this part"):
            next(iterator)
        monkeypatch.setattr(store.system, "cat_file", read)
        assert list(iterator) == lines[300:]


class Named(NamedTuple):
    """Stands in for a remote file."""

    path: str


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=4),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), min_size=1),
)
def test_ranges_are_cut_out_of_what_is_held_and_the_rest_is_read(
    kept: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    content, file = bytes(range(140)), cast(RemoteFile, Named("a"))
    spans = [Span(file, start, start + size) for start, size in sorted(dict(kept).items())]
    held, read = HeldRanges(), list[Span]()
    held.hold(
        [
            HeldRange(span, [bytes([byte]) for byte in content[span.start : span.end]], n, n, 0)
            for n, span in enumerate(spans)
        ]
    )

    def reading(asked: list[Span]) -> list[bytes]:
        read.extend(asked)
        return [content[span.start : span.end] for span in asked]

    def is_held(start: int, stop: int) -> bool:
        before = [span for span in spans if span.start <= start]
        return bool(before) and before[-1].end >= stop

    ranges = [(start, start + size) for start, size in wanted]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_ranges, "read_spans", reading)
        patch.setattr(held_ranges, "NEAR", 0)
        (found,) = held.read([(file, Ranges.of(*ranges))])
    assert found == [content[start:stop] for start, stop in ranges]
    lacking = [pair for pair in ranges if not is_held(*pair)]
    covered = {byte for span in read for byte in range(span.start, span.end)}
    assert covered == {byte for pair in lacking for byte in range(*pair)}
