"""What a map in a partition drops is told as soon as the loop can know, also if it ended its worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.core.graph import walk
from resumable.workers.watching import CallLog, CallWatch

ITEMS = 40
needs_processes = pytest.mark.skipif(
    sys.platform != "linux" or find_spec("loky") is None, reason="kills processes of loky"
)

AFTER: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "nothing": lambda part: part,
    "filter": lambda part: part.filter(lambda item: item >= 0),
    "window": lambda part: part.shuffle(1, window=4),
    "batch": lambda part: part.batch(3, collate=list),
    "map_batches": lambda part: part.map_batches(list, 5),
    "threads": lambda part: part.prefetch(2).map(abs, workers=2),
}


def partitioned(
    fn: Callable[[int], int], after: str, options: dict[str, Any], **of_map: Any
) -> rs.Pipeline[Any]:
    return (
        rs.range(ITEMS)
        .shuffle(2)
        .partition(4, lambda part: AFTER[after](part.map(fn, on_error="skip", **of_map)), **options)
    )


def flat(items: Any) -> list[int]:
    return [number for item in items for number in (item if isinstance(item, list) else [item])]


def failing(bad: set[int]) -> Callable[[int], int]:
    def fn(item: int) -> int:
        if item in bad:
            raise ValueError(f"no {item}")
        return item

    return fn


@given(st.sampled_from(sorted(AFTER)), st.sets(st.integers(0, ITEMS - 1)), st.integers(0, 3))
def test_whoever_runs_a_partition_the_loop_is_told_the_number_in_the_source(
    after: str, bad: set[int], workers: int
) -> None:
    told: list[tuple[int, str, int]] = []
    pipeline = partitioned(
        failing(bad),
        after,
        {"workers": workers},
        on_skip=lambda number, error, item: told.append((number, str(error), item)),
    )
    with iter(pipeline) as iterator:
        got = list(iterator)
        assert sum(iterator.skipped.values()) == len(bad)
    assert sorted(told) == [(item, f"no {item}", item) for item in sorted(bad)]
    assert sorted(flat(got)) == [item for item in range(ITEMS) if item not in bad]
    with iter(partitioned(failing(bad), after, {})) as plain:
        assert got == list(plain)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_group_was_made_without_is_counted_with_its_first_item(workers: int) -> None:
    told: list[int] = []
    bad = set(range(10))
    numbers = rs.range(ITEMS).partition(
        1,
        lambda part: part.map(
            failing(bad), on_error="skip", on_skip=lambda number, error: told.append(number)
        ).map_batches(list, ITEMS),
        workers=workers,
    )
    with iter(numbers) as iterator:
        assert next(iterator) == 10
        assert told == sorted(bad)
        assert sum(iterator.skipped.values()) == 10
        dropped = iterator.get_state()["pipeline"]["parts"]
        assert "10" not in str(dropped)  # the state is that of before the group
        resumed = numbers.resume(rs.loads(rs.dumps(iterator.get_state())))
    with resumed:
        assert list(resumed) == list(range(11, ITEMS))
    assert told == [*range(10), *range(10)], "told again by the resume, which makes the group again"


@needs_processes
@pytest.mark.parametrize(
    ("after", "poison"),
    [
        ("map_batches", {14}),
        *(
            pytest.param(after, {14, 15, 30}, marks=pytest.mark.deep)
            for after in ("nothing", "map_batches", "threads")
        ),
    ],
)
def test_items_that_end_their_process_are_found_and_dropped(after: str, poison: set[int]) -> None:
    bad = {20}

    def fn(item: int) -> int:
        if item in poison:
            os._exit(3)
        return failing(bad)(item)

    told: dict[int, str] = {}
    pipeline = partitioned(
        fn,
        after,
        {"workers": 2, "executor": "process"},
        on_skip=lambda number, error: told.setdefault(number, f"{type(error).__name__} {error}"),
    )
    expected = list(partitioned(failing(poison | bad), after, {}))
    with iter(pipeline) as iterator:
        head = list(islice(iterator, 3))
        state = rs.dumps(iterator.get_state())
        got = head + list(iterator)
        assert sum(iterator.skipped.values()) == len(poison | bad)
    assert got == expected
    with partitioned(failing(poison | bad), after, {}).resume(rs.loads(state)) as resumed:
        assert head + list(resumed) == expected
    assert told.keys() == poison | bad
    for number in poison:
        assert "WorkerError" in told[number]
        assert f"item {number} of Range, counted from 0, in partition" in told[number]


def test_a_watched_pipeline_has_the_items_and_states_of_the_other() -> None:
    for after in AFTER:
        stage = partitioned(failing({3}), after, {}).stage.inputs[0]
        watch = CallWatch(stage, {}, None)
        plain, watched = stage.start(0), watch.pipeline.start(0)
        watch.root = watched
        items = iter(watched.items())
        for item in plain.items():
            assert next(items) == item
            assert rs.dumps(watched.get_state()) == rs.dumps(plain.get_state())
        plain.close()
        watched.close()


def test_a_call_is_noted_while_it_is_made_and_the_file_removed() -> None:
    log = CallLog()
    seen: list[Any] = []

    def fn(item: int) -> int:
        seen.append(log.read())
        return item

    stage = partitioned(fn, "nothing", {}).stage.inputs[0]
    watch = CallWatch(stage, {(0, 0, 1): "left out"}, log.path)
    assert type(next(found for found, _ in walk(stage))).__name__ == "Map"
    watch.root = watch.pipeline.start(0)
    items = list(watch.root.items())
    assert len(items) == ITEMS // 4 - 1 == len(seen)
    assert seen[1].key == (0, 0, 2)
    assert f"item {items[1]} of Range, counted from 0" in seen[1].words
    assert log.read() is None
    log.close()
    assert not os.path.exists(log.path)
