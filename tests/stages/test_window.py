"""Sliding windows are those that a slice for each multiple of the shift would give."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs
from resumable.core import block_items
from resumable.testing.laws import (
    resumes_at_every_position,
    resumes_for_generations,
    skip_agrees_with_next,
)

SIZES = st.integers(1, 9)


def expected(count: int, size: int, shift: int, drop_last: bool) -> list[list[int]]:
    """The windows of a list of ``count`` numbers."""
    windows = [list(range(begin, min(begin + size, count))) for begin in range(0, count, shift)]
    return [window for window in windows if not drop_last or len(window) == size]


def listed(windows: Any) -> list[list[int]]:
    return [window.tolist() for window in windows]


@given(st.integers(0, 30), SIZES, SIZES, st.booleans())
def test_windows_are_the_slices_at_multiples_of_the_shift(
    count: int, size: int, shift: int, drop_last: bool
) -> None:
    wanted = expected(count, size, shift, drop_last)
    sources = {
        "stream": stream(count),
        "look-up": rs.range(count),
        "order": rs.range(count).shuffle(3).shuffle(4),
    }
    for name, source in sources.items():
        windows = source.window(size, shift=shift, drop_last=drop_last)
        items = list(source)
        assert listed(windows) == [[items[index] for index in window] for window in wanted]
        assert windows.length == (None if name == "stream" else len(wanted))
        if windows.random_access:
            gathered = block_items(windows.gather(np.arange(len(wanted))))
            assert listed(gathered) == listed(windows)
            assert listed(windows[index] for index in range(len(wanted))) == listed(windows)


@given(st.integers(0, 30), SIZES, SIZES, st.booleans(), st.lists(st.integers(0, 9), max_size=4))
def test_a_run_is_resumed_at_every_window_and_for_generations(
    count: int, size: int, shift: int, drop_last: bool, cuts: list[int]
) -> None:
    windows = stream(count).window(size, shift=shift, drop_last=drop_last)
    resumes_at_every_position(windows)
    resumes_for_generations(windows.repeat(2), cuts)
    skip_agrees_with_next(windows, cuts)
    skip_agrees_with_next(rs.range(count).window(size, shift=shift, drop_last=drop_last), cuts)


@pytest.mark.parametrize("count", [0, 1, 4, 23, 24])
@pytest.mark.parametrize("by_index", [False, True])
def test_every_token_comes_exactly_once_an_epoch_over_three_generations(
    count: int, by_index: bool
) -> None:
    tokens = np.arange(count, dtype=np.uint16)
    source = rs.from_arrays(tokens) if by_index else rs.from_iterable(lambda: iter(tokens))
    windows = source.window(4)
    pipeline = (windows.shuffle(1) if by_index else windows.shuffle(1, window=3)).repeat(2)
    every = Counter([*tokens.tolist()] * 2)
    for cut in range(len(list(pipeline)) + 1):
        got: list[Any] = []
        state = iter(pipeline).get_state()
        for _ in range(3):
            iterator = pipeline.resume(rs.loads(rs.dumps(state)))
            got += islice(iterator, cut)
            state = iterator.get_state()
        got += pipeline.resume(state)
        assert Counter(token for window in got for token in window.tolist()) == every


def test_a_token_file_is_read_by_slices_into_arrays_of_its_dtype(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "train.bin")
    tokens = np.memmap(tmp_path / "train.bin", np.uint16, mode="r")
    windows = rs.from_arrays(tokens).window(33, shift=32, drop_last=True)
    assert len(windows) == 31
    batches = list(windows.shuffle(0).batch(8))
    assert batches[0].shape == (8, 33)
    assert batches[0].dtype == np.uint16
    assert sorted(batch[0] for batch in np.concatenate(batches).tolist()) == [*range(0, 992, 32)]
    assert type(windows[3]) is np.ndarray


def test_a_window_may_be_written_into() -> None:
    tokens = np.arange(20)
    for source in (rs.from_arrays(tokens), stream(20)):
        iterator = iter(source.window(5, shift=2))
        assert next(iterator).tolist() == [0, 1, 2, 3, 4]
        next(iterator)[:] = -1
        assert next(iterator).tolist() == [4, 5, 6, 7, 8]
    assert tokens.tolist() == [*range(20)]


def test_a_window_is_made_as_a_batch_is() -> None:
    rows = rs.from_sequence([{"text": "a", "id": 1}, {"text": "b", "id": 2}])
    (window,) = rows.window(2)
    assert window["text"] == ["a", "b"]
    assert window["id"].tolist() == [1, 2]
    pairs = rs.from_arrays((np.arange(5), np.eye(5, dtype=np.float32)))
    numbers, vectors = pairs.window(3, shift=1)[1]
    assert numbers.tolist() == [1, 2, 3]
    assert (vectors.shape, vectors.dtype) == ((3, 5), np.float32)
    with pytest.raises(rs.MalformedItem, match="cannot stack arrays of shapes"):
        list(stream(3).map(np.ones).window(3))


@pytest.mark.parametrize(("size", "shift"), [(4, 1), (4, 4), (5, 2), (2, 5), (9, 3)])
def test_nothing_is_read_beyond_what_a_window_needs(size: int, shift: int) -> None:
    read: list[int] = []

    def note(item: int) -> int:
        read.append(item)
        return item

    windows = stream(40).map(note).window(size, shift=shift)
    expected = listed(windows)
    iterator = iter(windows)
    read.clear()
    for number, window in enumerate(expected):
        assert next(iterator).tolist() == window
        assert read == [
            item for item in range(40) if any(item in w for w in expected[: number + 1])
        ]


def test_a_resume_reads_only_what_two_windows_share() -> None:
    made: list[int] = []

    def note(item: int) -> int:
        made.append(item)
        return item

    pipeline = rs.range(40).map(note).window(6, shift=2)
    iterator = iter(pipeline)
    for start in range(2, 30, 2):
        next(iterator)
        state = iterator.get_state()
        assert state["pipeline"] == {"gap": 0, "upstream": {"upstream": {"position": start}}}
        made.clear()
        assert next(pipeline.resume(state))[0] == start
        assert made == [*range(start, start + 6)]


def test_a_state_is_small_however_many_windows_an_item_is_in() -> None:
    pipeline = stream(500).shuffle(0, window=50).window(200, shift=1).batch(2)
    iterator = iter(pipeline)
    list(islice(iterator, 40))
    assert len(rs.dumps(iterator.get_state()["pipeline"])) <= 300
    assert len(rs.dumps(iter(stream(500).window(200, shift=1)).get_state())) <= 300


def test_skipping_computes_only_the_last_window() -> None:
    made: list[int] = []
    iterator = iter(rs.range(1000).map(made.append).window(4, shift=2))
    assert iterator.skip(300) == 300
    assert len(made) == 4


def test_size_and_shift_may_change_on_resume() -> None:
    iterator = iter(stream(20).window(4, shift=2))
    assert listed(islice(iterator, 3))[-1] == [4, 5, 6, 7]
    resumed = stream(20).window(5, shift=9).resume(iterator.get_state())
    assert listed(resumed) == [[6, 7, 8, 9, 10], [15, 16, 17, 18, 19]]
    with_gap = iter(stream(20).window(2, shift=5))
    next(with_gap)
    resumed = stream(20).window(8).resume(with_gap.get_state())
    assert listed(resumed) == [[*range(5, 13)], [*range(13, 20)]]
    shuffled = iter(rs.range(20).window(4).shuffle(0))
    next(shuffled)
    with pytest.raises(rs.StateMismatch, match="saved size=4, this pipeline has size=5"):
        rs.range(20).window(5).shuffle(0).resume(shuffled.get_state())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"size": 3, "shift": 0}, "shift must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(rs.InvalidArgument, match=says):
        rs.range(9).window(**arguments)
    with pytest.raises(rs.InvalidType, match="drop_last must be"):
        rs.range(9).window(3, drop_last=1)  # type: ignore[arg-type]
