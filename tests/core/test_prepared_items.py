"""Items at many indices, prepared together: the same as looked up one by one, and no sooner."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import catalogue, columns
from support.tiers import thinned

import resumable as rs
from resumable.core import block_items
from resumable.core.indexed import Indexed
from resumable.core.prepared_items import ChosenItems, Computed, choose, grouped
from resumable.core.stage import by_index
from resumable.testing.comparing import assert_same
from resumable.testing.strategies import pipelines


class Looked:
    """A sequence of 2,000 items of a user's, which calls a function for each that is asked for."""

    def __init__(self, fn: Callable[[int], Any]) -> None:
        self.fn = fn

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> Any:
        return self.fn(index)


Combined = Callable[[Callable[[int], Any]], rs.Pipeline[Any]]

# Each calls the function with 0 to 1999, in some order, and is looked up by index.
COMBINED: dict[str, Combined] = {
    "map": lambda fn: rs.range(2000).shuffle(0).map(fn).skip(0),
    "sequence": lambda fn: rs.from_sequence(Looked(fn)).shuffle(3).enumerate().map(itemgetter(1)).skip(0),
    "mix": lambda fn: rs.mix(
        rs.range(1000).map(fn), rs.range(1000, 2000).map(fn), seed=1, stop="all"
    ),
    "mix in a mix": lambda fn: rs.mix(
        rs.mix(rs.range(700).map(fn), rs.range(700, 1400).map(fn), stop="all"),
        rs.range(1400, 2000).map(fn),
        stop="all",
    ),
    "concatenate": lambda fn: rs.concatenate(
        rs.range(900).map(fn), rs.range(900, 2000).map(fn)
    ).shuffle(2),
    "repeat": lambda fn: rs.range(1000).enumerate().repeat(2).enumerate()
    .map(lambda pair: fn(pair[1][0] + pair[0] // 1000 * 1000)).shuffle(1),
    "zip": lambda fn: rs.zip(rs.range(2000).map(fn), rs.range(2000)).map(itemgetter(0)).skip(0),
    "enumerate": lambda fn: rs.range(2000).map(fn).enumerate().map(itemgetter(1)).skip(0),
    "random_map": lambda fn: rs.range(2000).random_map(lambda item, _: fn(item)).shuffle(1),
}  # fmt: skip


def runs_alike(pipeline: rs.Pipeline[Any], indices: Any, cuts: list[int]) -> None:
    """The run at ``indices`` gives between ``cuts`` what is looked up there."""
    indexed = by_index(pipeline.stage)
    run = indexed.prepared(np.array(indices, np.int64))
    looked_up = [indexed.item(index) for index in indices]
    for start, stop in pairwise(cuts):
        places = range(start, stop)
        assert_same(list(run.items(places)), looked_up[start:stop], "one by one")
        assert_same(list(map(next, run.iterators_for(places))), looked_up[start:stop], "in turns")
        assert_same(list(block_items(run.gather(places))), looked_up[start:stop], "gathered")


@given(st.data())
def test_a_run_gives_what_is_looked_up(data: st.DataObject) -> None:
    pipeline = data.draw(pipelines())
    if not pipeline.random_access or not pipeline.length:
        return
    count = int(min(pipeline.length, 1000))
    indices = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(indices)), max_size=5)))
    runs_alike(pipeline, indices, [0, *cuts, len(indices)])


@pytest.mark.parametrize("name", thinned(catalogue(Path()), 20, __name__))
def test_a_run_of_every_pipeline_of_the_catalogue_does(catalogue_data: Path, name: str) -> None:
    pipeline = catalogue(catalogue_data)[name]()
    if pipeline.random_access and pipeline.length:
        count = int(min(pipeline.length, 30))
        runs_alike(pipeline, [*range(count), *range(count - 1, -1, -3)], [0, 1, count // 2, count])


@pytest.mark.parametrize("name", COMBINED)
def test_a_function_is_called_for_each_item_as_it_is_handed_out(name: str) -> None:
    called: list[int] = []

    def noting(item: int) -> int:
        called.append(item)
        return item

    items = []
    with iter(COMBINED[name](noting)) as iterator:
        assert called == []
        for item in iterator:
            items.append(item)
            assert called == items
    assert sorted(items) == list(range(2000))


@pytest.mark.parametrize("name", COMBINED)
@pytest.mark.parametrize("size", [1, 7, 600])
def test_a_function_is_called_for_the_items_of_a_batch_alone(name: str, size: int) -> None:
    called: list[int] = []

    def noting(item: int) -> int:
        called.append(item)
        return item

    taken: list[int] = []
    for batch in COMBINED[name](noting).batch(size, collate=list):
        assert sorted(called[len(taken) :]) == sorted(batch)
        taken += batch
    assert sorted(taken) == list(range(2000))


@pytest.mark.parametrize("name", COMBINED)
def test_blocks_of_any_sizes_follow_each_other(name: str) -> None:
    pipeline = COMBINED[name](int)
    order, pulled = list(pipeline), []
    with iter(pipeline) as iterator:
        for size in (1, 5, 300, 300, 7):
            pulled += block_items(iterator.pull(size))
            pulled.append(next(iterator))
        iterator.skip(3)
        assert pulled == order[: len(pulled)]
        assert list(iterator) == order[len(pulled) + 3 :]


@pytest.mark.parametrize("name", COMBINED)
@pytest.mark.parametrize("place", [0, 510, 511, 512, 1999])
def test_a_stop_iteration_of_a_function_is_no_end_of_a_run(name: str, place: int) -> None:
    order = list(COMBINED[name](int))

    def stops(item: int) -> int:
        if item == order[place]:
            raise StopIteration
        return item

    with iter(COMBINED[name](stops)) as iterator:
        assert list(islice(iterator, place)) == order[:place]
        with pytest.raises(RuntimeError, match="StopIteration"):
            next(iterator)


@pytest.mark.parametrize("name", COMBINED)
def test_an_item_that_failed_comes_next(name: str) -> None:
    failed = set()

    def fails_once(item: int) -> int:
        if item % 40 == 3 and item not in failed:
            failed.add(item)
            raise OSError(item)
        return item

    items: list[int] = []
    with iter(COMBINED[name](fails_once)) as iterator:
        while len(items) < 2000:
            try:
                items.append(next(iterator))
            except OSError:
                state = iterator.get_state()
                assert state["step"] == len(items)
    assert items == list(COMBINED[name](int))


def test_items_of_nested_choices_are_taken_from_where_they_are() -> None:
    stages = rs.from_sequence(range(8))
    for number in range(20):
        further = rs.from_sequence(range(8 * number, 8 * number + 8))
        stages = rs.mix(stages, further, stop="all")
    run = by_index(stages.stage).prepared(np.arange(len(stages)))
    assert isinstance(run, ChosenItems)
    assert len(run.inputs) == 21
    assert list(run.items(range(len(stages)))) == [stages[index] for index in range(len(stages))]


def test_numbers_of_many_inputs_are_computed_at_once() -> None:
    inputs = [rs.range(8 * number, 8 * number + 8) for number in range(5)]
    nested = rs.mix(rs.mix(*inputs, seed=0), rs.range(9), seed=1)
    run = by_index(nested.stage).prepared(np.arange(len(nested)))
    assert isinstance(run, Computed)
    assert list(run.items(range(len(nested)))) == nested[:]
    run.gather(range(3))[:] = -1  # which is a copy
    assert run.gather(range(3)).tolist() == nested[:3]


def test_one_input_is_its_own_run() -> None:
    def run_of(number: int, indices: Any) -> Any:
        return number, indices.tolist()

    assert choose(np.array([3, 3]), np.array([5, 4]), run_of) == (3, [5, 4])  # type: ignore[comparison-overlap]


@given(st.lists(st.sampled_from([0, 1, 2, 70_000, 2**62]) | st.integers(0, 2**62)))
def test_numbers_are_grouped_in_a_stable_order(numbers: list[int]) -> None:
    order, groups = grouped(np.array(numbers, np.int64))
    assert order.tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)
    assert [number for number, _, _ in groups] == sorted(set(numbers))
    for number, start, stop in groups:
        assert [numbers[place] for place in order[start:stop]] == [number] * (stop - start)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 9), st.booleans())
def test_batches_behind_an_order_are_the_batches(
    sizes: list[int], size: int, drop_last: bool
) -> None:
    items = rs.concatenate(*[rs.range(count).shuffle(count) for count in sizes])
    batches = items.batch(size, drop_last=drop_last, collate=list)
    order = list(rs.range(len(batches)).shuffle(1)) if len(batches) else []
    in_order = list(batches)
    assert list(batches.shuffle(1)) == [in_order[number] for number in order]


@pytest.mark.parametrize("structure", ["x", "y", "dict", "tuple", "record", "object", "text"])
def test_a_row_by_its_index_is_the_row_of_a_block_and_a_copy(structure: str) -> None:
    arrays: Any = {
        **columns(5),
        "dict": columns(5),
        "tuple": tuple(columns(5).values()),
        "record": np.zeros(5, np.dtype([("a", np.int32), ("b", np.float64)])),
        "object": np.array([None, "a", [1], 2, 3.5], object),
        "text": np.array(["a", "bc", "", "d", "e"]),
    }[structure]
    indexed = by_index(rs.from_arrays(arrays).stage)
    rows = block_items(indexed.gather(np.arange(5)))
    for index in range(5):
        row = indexed.item(index)
        assert type(row) is type(rows[index])
        assert_same([row], [rows[index]], "looked up")
        if isinstance(row, (np.ndarray, np.void)):
            assert row.base is None or not np.shares_memory(row, np.asarray(arrays))
    part = indexed.gather_range(1, 4)
    assert_same(block_items(part), rows[1:4], "cut out")
    cut = list(part.values()) if isinstance(part, dict) else part
    for column in cut if isinstance(cut, (list, tuple)) else [cut]:
        assert column.base is None
    if structure == "record":
        indexed.item(0)["a"] = 7
        assert arrays[0]["a"] == 0


def test_a_gather_alone_is_enough_behind_any_stage() -> None:
    gathered: list[list[int]] = []

    def gather(indices: Any) -> list[int]:
        gathered.append(indices.tolist())
        return [index**2 for index in indices.tolist()]

    squares: Indexed[int] = Indexed(gather)
    pairs: Indexed[Any] = Indexed.joined([squares, squares], _pairs, zip)
    turns = Indexed.chosen(
        [squares, pairs].__getitem__, lambda indices: (indices % 2, indices // 2)
    )
    run = turns.prepared(np.arange(8))
    assert gathered == []
    assert run.gather(range(4)) == [0, (0, 0), 1, (1, 1)]
    assert list(run.items(range(4, 8))) == [4, (4, 4), 9, (9, 9)]
    assert turns.item(7) == (9, 9)


def _pairs(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    return list(zip(left, right, strict=True))
