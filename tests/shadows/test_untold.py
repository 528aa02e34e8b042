"""What a function or an object keeps to itself is not guessed, and never moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import resumable as rs
from resumable.core.graph import without_threads
from resumable.core.origin import BatchOrigin, Origin, PartOrigin
from resumable.errors import ExternalStateError
from resumable.shadows.shadow import shadow_of

FIRST = BatchOrigin(tuple(Origin("Range", number) for number in range(3)))


def reversed_list(items: list[Any]) -> list[Any]:
    return items[::-1]


@pytest.mark.parametrize(
    "pipeline",
    [
        rs.range(6).batch(3).map(lambda batch: batch[::-1]).unbatch(),
        rs.range(6).batch(3).map(lambda batch: batch[::-1]).unbatch(size=3),
        rs.range(6).batch(3, collate=reversed_list).shuffle(seed=0, window=1).unbatch(),
        rs.range(6).batch(3).flat_map(reversed_list, size=3),
        rs.range(6).batch(3).flat_map(reversed_list),
    ],
    ids=["map", "map of known size", "collate", "flat map of known size", "flat map"],
)
def test_rows_that_a_function_may_have_moved_are_parts_of_the_batch(
    pipeline: rs.Pipeline[int],
) -> None:
    assert next(iter(pipeline)) == 2
    assert list(rs.origins(pipeline))[:3] == [PartOrigin(FIRST, part) for part in range(3)]


@pytest.mark.parametrize(
    "batches",
    [
        rs.range(6).batch(3),
        rs.range(6).batch(3, collate=list),
        rs.range(6).window(3).shuffle(0).filter(len),
        rs.range(6).batch(3).repeat(2).prefetch(1).cache(),
    ],
)
def test_rows_that_none_has_moved_are_the_items_themselves(batches: rs.Pipeline[Any]) -> None:
    for pipeline in (
        (batches.unbatch(), batches.unbatch(size=3))
        if batches.stage.random_access
        else (batches.unbatch(),)
    ):
        assert list(rs.origins(pipeline)) == [Origin("Range", item) for item in pipeline]


def test_parts_have_the_same_numbers_whether_items_travel_or_not() -> None:
    pipeline = rs.range(5).flat_map(lambda _: rs.range(4).filter(bool), size=3).shuffle(seed=0)
    pairs = rs.Pipeline(shadow_of(without_threads(pipeline.stage), paired=True))
    assert [pair.origin for pair in pairs] == list(rs.origins(pipeline))
    assert [pair.item for pair in pairs] == list(pipeline)


def test_origins_are_items_like_others() -> None:
    chosen = rs.origins(rs.range(9)).filter(lambda origin: origin.record % 2)  # type: ignore[attr-defined]
    assert list(rs.origins(chosen)) == list(chosen) == [Origin("Range", n) for n in (1, 3, 5, 7)]
    assert list(rs.origins(rs.origins(rs.range(9).batch(2)))) == list(
        rs.origins(rs.range(9).batch(2))
    )


class Counter:
    """An iterator with a state."""

    def __init__(self) -> None:
        self.number = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.number == 9:
            raise StopIteration
        self.number += 1
        return self.number - 1

    def get_state(self) -> int:
        return self.number

    def set_state(self, state: int) -> None:
        self.number = state


class Loader(Counter):
    """Can be iterated anew, and keeps its place itself."""

    def __iter__(self) -> Iterator[int]:
        while self.number < 9:
            self.number += 1
            yield self.number - 1
        self.number = 0


@pytest.mark.parametrize("kind", [Counter, Loader])
def test_an_object_with_a_place_of_its_own_is_not_moved(kind: type[Counter]) -> None:
    pipeline = rs.from_iterable(kind()).filter(lambda item: item != 1)
    with iter(pipeline) as iterator:
        before = list(islice(iterator, 3))
        state = iterator.get_state()
        origins = list(rs.origins(pipeline))
        assert before + list(iterator) == [0, 2, 3, 4, 5, 6, 7, 8]
    assert origins == [Origin("FromIterable", number) for number in (0, 2, 3, 4, 5, 6, 7, 8)]
    with iter(rs.origins(pipeline)) as shadow:
        shadow.set_state(state)
        assert list(shadow) == origins[3:]


@pytest.mark.parametrize("name", ["generator", "iterator", "file"])
def test_what_can_be_read_once_or_not_be_copied_is_refused_and_left_alone(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("0\n1\n2\n")
    opened: dict[str, Callable[[], Any]] = {
        "generator": lambda: (number for number in range(3)),
        "iterator": lambda: iter(range(3)),
        "file": path.open,
    }
    source = opened[name]()
    pipeline = rs.from_iterable(source, external_state_policy="ignore").map(int)
    with pytest.raises(ExternalStateError, match="pass a function that makes the iterator"):
        list(rs.origins(pipeline))
    assert list(pipeline) == [0, 1, 2]
    if name == "file":
        source.close()


@pytest.mark.parametrize("kept", [bool, None], ids=["filter", "by index"])
def test_a_state_from_before_a_change_resumes_the_origins_after_it(kept: Any) -> None:
    def mixed(weights: dict[int, tuple[int, int]]) -> rs.Pipeline[Any]:
        numbers = rs.mix(rs.range(1, 90).shuffle(1), rs.range(1, 90), weights=weights)
        return (numbers if kept is None else numbers.filter(kept)).shard(0, 2).batch(2)

    with iter(mixed({0: (7, 3)})) as iterator:
        iterator.skip(4)
        state = iterator.get_state()
    changed = mixed({0: (7, 3), 60: (3, 7)})
    with iter(rs.origins(changed)) as shadow:
        shadow.set_state(state)
        assert list(shadow) == list(rs.origins(changed))[4:]
