"""Items that a map drops: told once each with their number, counted, and the same with workers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from golden.write import FOLDER
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs

ITEMS = 24


class Dropped(Exception):
    """Of an item that is dropped."""


def failing_on(bad: set[int]) -> Callable[[int], int]:
    def fn(item: int) -> int:
        if item in bad:
            raise Dropped(item)
        return -item

    return fn


class Told:
    """What `on_skip` was called with."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def __call__(self, number: int, error: Exception) -> None:
        assert isinstance(error, Dropped)
        assert error.args == (number,)
        self.numbers.append(number)


def mapped(
    bad: set[int], told: Told, workers: int, indexed: bool = True, **options: Any
) -> rs.Pipeline[int]:
    upstream = rs.range(ITEMS) if indexed else stream(ITEMS)
    return upstream.map(failing_on(bad), workers=workers, on_error="skip", on_skip=told, **options)


@given(
    st.sets(st.integers(0, ITEMS - 1)),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 2])), max_size=5),
)
def test_each_dropped_item_is_told_once_over_any_number_of_resumes(
    bad: set[int], indexed: bool, lives: list[tuple[int, int]]
) -> None:
    told = Told()
    got: list[int] = []
    state = None
    for taken, workers in [*lives, (ITEMS + 1, 0)]:
        pipeline = mapped(bad, told, workers, indexed)
        with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
            got += itertools.islice(iterator, taken)
            assert iterator.skipped == {"pipeline": len(told.numbers)}
            state = rs.loads(rs.dumps(iterator.get_state()))
    assert got == [-item for item in range(ITEMS) if item not in bad]
    assert told.numbers == sorted(bad)
    assert state is not None
    assert state["pipeline"] | {"upstream": None} == {
        "tried": ITEMS,
        "dropped": len(bad),
        "upstream": None,
    }


@given(st.sets(st.integers(0, ITEMS - 1)), st.integers(1, 9))
def test_blocks_drop_and_tell_what_single_items_do(bad: set[int], size: int) -> None:
    for workers in (0, 2):
        told = Told()
        with iter(mapped(bad, told, workers)) as iterator:
            while len(iterator.pull(size)) == size:
                pass
        assert told.numbers == sorted(bad)


def test_an_executor_and_the_lines_of_a_file_tell_what_they_drop(tmp_path: Path) -> None:
    told = Told()
    with ThreadPoolExecutor(2) as pool:
        assert len(list(mapped({3, 4, 20}, told, 2, executor=pool))) == ITEMS - 3
    assert told.numbers == [3, 4, 20]

    lines: list[tuple[int, str]] = []
    path = tmp_path / "x.jsonl"
    path.write_text('1\n\n{bad\n3\n"also bad\n')
    pipeline = rs.jsonl(
        path, on_error="skip", on_skip=lambda number, error: lines.append((number, str(error)))
    )
    assert list(pipeline) == [1, 3]
    assert [number for number, _ in lines] == [1, 3]
    assert "line 3" in lines[0][1]
    assert "line 5" in lines[1][1]


class Stubborn(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def raise_stubborn(item: int) -> int:
    raise Stubborn("here")


def test_an_error_that_cannot_be_pickled_is_described_by_an_executor() -> None:
    told: list[Exception] = []
    with ProcessPoolExecutor(1) as pool:
        options: Any = {"workers": 1, "executor": pool, "on_error": "skip"}
        list(
            rs.range(1).map(raise_stubborn, **options, on_skip=lambda _, error: told.append(error))
        )
    assert type(told[0]) is rs.WorkerError
    assert "Stubborn: here (this exception cannot be pickled" in str(told[0])


def test_a_told_error_has_the_frames_of_the_function_alone() -> None:
    depths = []

    def note(number: int, error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None:
            depths.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next

    list(rs.range(1).map(failing_on({0}), workers=1, on_error="skip", on_skip=note))
    assert depths == ["fn"]


@pytest.mark.parametrize("indexed", [True, False])
def test_numbers_after_a_state_that_counted_no_items_tried(indexed: bool) -> None:
    numbers: list[int] = []
    bad = failing_on({9, 15})
    for workers in (0, 2):
        upstream = rs.range(ITEMS) if indexed else stream(ITEMS)
        pipeline = upstream.map(
            bad, workers=workers, on_error="skip", on_skip=lambda number, _: numbers.append(number)
        )
        with iter(pipeline) as iterator:
            list(itertools.islice(iterator, 6))
            state = iterator.get_state()
        state["pipeline"] = {"skipped": 4, "upstream": state["pipeline"]["upstream"]}
        state["fingerprint"] = state["fingerprint"].replace("Map@2", "Map")
        with pipeline.resume(rs.loads(rs.dumps(state))) as iterator:
            list(iterator)
            saved = iterator.get_state()["pipeline"]
        kept = {"tried": ITEMS, "dropped": 6} if indexed else {"skipped": 6}
        assert {key: saved[key] for key in saved if key != "upstream"} == kept
    # Of a stream only what came since the resume was counted.
    assert numbers == 2 * ([9, 15] if indexed else [3, 9])


def test_published_states_of_both_shapes_stay_what_they_are() -> None:
    for name, keys in (("states-1", {"skipped"}), ("states-2", {"tried", "dropped"})):
        entry = json.loads((FOLDER / f"{name}.json").read_text())["map skipping"]
        state = rs.loads(bytes.fromhex(entry["state"]))
        while "batch" in str(state.keys()) or not keys & state.keys():
            state = state.get("pipeline") or state["upstream"]
        assert keys <= state.keys()


def test_what_each_stage_dropped_is_told_by_its_path() -> None:
    thirds = failing_on(set(range(0, ITEMS, 3)))
    first = rs.range(ITEMS).map(thirds, workers=2, on_error="skip")
    second = rs.range(ITEMS).map(failing_on({1}), on_error="skip")
    pipeline = rs.zip(first, second.map(abs)).prefetch(2).map(list).batch(2)
    with iter(pipeline) as iterator:
        list(iterator)
        assert iterator.skipped == {
            "pipeline.upstream.upstream.upstreams[0]": 8,
            "pipeline.upstream.upstream.upstreams[1].upstream": 1,
        }
    with iter(rs.range(3).map(abs, workers=2)) as iterator:
        assert iterator.skipped == {}


@pytest.mark.parametrize("workers", [0, 2])
@given(st.sets(st.integers(0, ITEMS - 1)), st.booleans(), st.integers(0, 5))
def test_the_number_is_that_in_the_source_and_the_item_comes_third(
    workers: int, bad: set[int], drops_before: bool, pull: int
) -> None:
    told: list[tuple[int, int]] = []

    def note(number: int, error: Exception, item: int) -> None:
        assert error.args == (item,)
        told.append((number, item))

    upstream = rs.range(ITEMS).shuffle(1).repeat(2)
    if drops_before:  # so it is the number in the epoch
        upstream = upstream.filter(lambda item: item % 3)
    pipeline = upstream.map(failing_on(bad), workers=workers, on_error="skip", on_skip=note)
    with iter(pipeline) as iterator:
        iterator.pull(pull)
        list(iterator)
    numbered = enumerate(upstream) if drops_before else zip(upstream, upstream, strict=True)
    assert told == [(number, item) for number, item in numbered if item in bad]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_number_behind_enumerate_is_that_in_the_source(workers: int) -> None:
    told: list[int] = []

    def refuse(pair: tuple[int, int]) -> None:
        raise ValueError(pair)

    numbers = rs.range(ITEMS).shuffle(1)
    dropping = numbers.enumerate().map(
        refuse, workers=workers, on_error="skip", on_skip=lambda number, error: told.append(number)
    )
    assert list(dropping) == []
    assert told == list(numbers)


def test_a_third_argument_with_a_default_is_not_the_items() -> None:
    found: list[Any] = []
    numbers = rs.range(2).random_map(
        lambda item, rng: 1 // item,
        seed=0,
        on_error="skip",
        on_skip=lambda number, error, found=found: found.append(number),
    )
    assert list(numbers) == [1]
    assert found == [0]
    placed = rs.range(2).random_map(
        lambda item, rng: 1 // item,
        seed=0,
        on_error="skip",
        on_skip=lambda number, error, item: found.append(item),
    )
    assert list(placed) == [1]
    assert found == [0, 0]


def test_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(
        rs.InvalidArgument, match="on_skip needs on_error='skip', got on_error='raise'"
    ):
        rs.range(3).map(abs, on_skip=print)
    with pytest.raises(rs.InvalidType, match="on_skip must be"):
        rs.range(3).map(abs, on_error="skip", on_skip=3)  # type: ignore[arg-type]
