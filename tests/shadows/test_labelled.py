"""Origins agree with labels that the items carry themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from support import said
from support.graphs import RunningSum

import resumable as rs
from resumable.core import Relation, Same, Transform, TransformIterator, block_items
from resumable.core.origin import (
    BatchOrigin,
    Origin,
    PackedOrigin,
    PartOrigin,
    UnknownOrigin,
    ZipOrigin,
)


def labelled(count: int = 30) -> rs.Pipeline[dict[str, Any]]:
    """Documents that carry their own number."""
    return rs.from_sequence(
        [{"tokens": [number] * (1 + number % 7), "label": number} for number in range(count)]
    )


def stream(count: int = 30) -> rs.Pipeline[dict[str, Any]]:
    return rs.from_iterable(lambda: iter(list(labelled(count))))


def label(item: dict[str, Any]) -> int:
    return int(item["label"])


def is_no_third(item: dict[str, Any]) -> bool:
    return label(item) % 3 != 0


def fails_on_fifths(item: dict[str, Any]) -> dict[str, Any]:
    if label(item) % 5 == 0:
        raise ValueError(item)
    return item


def thirds(item: dict[str, Any]) -> list[tuple[int, int]]:
    return [(label(item), part) for part in range(label(item) % 3)]


def some(documents: rs.Pipeline[Any]) -> dict[str, rs.Pipeline[Any]]:
    """Pipelines whose items have the labels of what they were made of."""
    return {
        "map": documents.map(label),
        "filter": documents.filter(is_no_third).map(label),
        "dropping": documents.map(fails_on_fifths, on_error="skip").map(label),
        "take while": documents.take_while(lambda item: label(item) < 9).map(label),
        "random map": documents.random_map(lambda item, rng: label(item), seed=1),
        "window shuffle": documents.shuffle(seed=1, window=4).map(label),
        "batch": documents.map(label).batch(4),
        "batch of dicts": documents.batch(4).map(lambda batch: batch["label"].tolist()),
        "windows": documents.map(label).window(4, shift=3),
        "unbatch": documents.map(label).batch(4).filter(len).unbatch(),
        "bucket": documents.bucket(
            lambda item: len(item["tokens"]), batch_size=3, group=8, collate=lambda items: items
        ).map(lambda items: list(map(label, items))),
        "flat map": documents.flat_map(thirds).map(lambda pair: pair[0]),
        "flat map of pipelines": documents.flat_map(
            lambda item: rs.from_sequence([label(item)] * 2)
        ),
        "interleave": documents.interleave_map(thirds, cycle_length=3).map(lambda pair: pair[0]),
        "pack": documents.pack(
            9, key="tokens", per_document=("label",), group=8, shuffle_rows=1
        ).map(lambda row: row["label"]),
        "concatenated rows": documents.pack(
            9, key="tokens", how="concatenate", per_document=("label",), group=8
        ).map(lambda row: row["label"]),
        "repeat": documents.shuffle(seed=1, window=5).map(label).repeat(2),
        "shard": documents.map(label).shard(1, 3),
        "zip": rs.zip(documents.map(label), documents.skip(2).map(label)),
        "mix": rs.mix(documents.map(label), documents.skip(3).map(label), weights=(1, 2), seed=0),
        "prefetch": documents.map(label, workers=2).prefetch(3).batch(3),
        "rebatch": documents.batch(3).unbatch().map(label).batch(5),
    }


def in_partitions(name: str) -> rs.Pipeline[Any]:
    return labelled().shuffle(1).partition(3, lambda part: some(part)[name])


MADE = {
    **{f"{name}, by index": pipeline for name, pipeline in some(labelled()).items()},
    **{f"{name}, stream": pipeline for name, pipeline in some(stream()).items()},
    **{
        f"{name}, partitions": in_partitions(name)
        for name in some(labelled())
        if name not in ("shard", "mix", "zip")
    },
}


def labels_in(item: Any) -> Iterator[int]:
    if isinstance(item, (list, tuple, np.ndarray)):
        for one in item:
            yield from labels_in(one)
    else:
        yield int(item)


def records_in(origin: Any) -> list[int]:
    """The records of the first source only, of items that opened a pipeline."""
    if isinstance(origin, PartOrigin):
        return [one.record for one in origin.whole.records()]
    return [one.record for one in origin.records()]


@pytest.mark.parametrize("name", MADE)
def test_origins_are_the_labels_of_the_items(name: str) -> None:
    pipeline = MADE[name]
    items, origins = list(pipeline), list(rs.origins(pipeline))
    assert [list(labels_in(item)) for item in items] == list(map(records_in, origins))
    assert items


def test_each_stage_tells_the_structure_of_what_it_makes() -> None:
    first = Origin("Range", 0)
    numbers = rs.range(3)
    assert rs.origins(numbers.batch(2))[0] == BatchOrigin((first, Origin("Range", 1)))
    assert rs.origins(rs.zip({"a": numbers, "b": numbers}))[0] == ZipOrigin(
        {"a": first, "b": first}
    )
    assert rs.origins(numbers.flat_map(lambda _: "ab", size=2))[1] == PartOrigin(first, 1)
    two = rs.mix({"a": rs.concatenate(numbers, numbers), "b": numbers}, weights=(3, 1))
    assert [one.inputs for origin in rs.origins(two) for one in origin.records()][:4] == [
        ("a", 0),
        ("a", 0),
        ("b",),
        ("a", 0),
    ]


def test_a_packed_row_tells_which_tokens_stand_where() -> None:
    documents = rs.from_sequence([[1, 2, 3], list(range(9))])
    for row, origin in zip(documents.pack(5), rs.origins(documents.pack(5)), strict=True):
        assert isinstance(origin, PackedOrigin)
        for segment in origin:
            (begin, end, place) = segment.spans[None]
            (record,) = segment.document.records()
            document = documents[record.record]
            assert row["tokens"][place : place + end - begin].tolist() == document[begin:end]


@pytest.mark.parametrize(
    "pipeline",
    [
        rs.range(4).scan(lambda carry, item: (carry + item, carry), 0),
        rs.range(4).map(RunningSum()),
    ],
    ids=["scan", "map"],
)
def test_what_a_function_keeps_is_said_to_be_unknown(pipeline: rs.Pipeline[Any]) -> None:
    for number, origin in enumerate(rs.origins(pipeline)):
        assert isinstance(origin, UnknownOrigin)
        assert origin.parts == (Origin("Range", number),)


def test_a_running_function_is_not_moved_by_the_shadow() -> None:
    pipeline = rs.range(6).map(RunningSum())
    with iter(pipeline) as iterator:
        before = list(islice(iterator, 3))
        list(rs.origins(pipeline))
        assert before + list(iterator) == [0, 1, 3, 6, 10, 15]


def test_no_function_is_called_where_items_decide_nothing() -> None:
    def fails(item: int) -> int:
        raise AssertionError(item)

    pipeline = rs.range(100).map(fails).shuffle(seed=0).batch(3, collate=fails).repeat(2)  # type: ignore[arg-type]
    assert len(list(rs.origins(pipeline))) == 68


class OfUser(Transform[int]):
    """A stage that knows nothing of origins."""

    def start(self, epoch: int = 0) -> TransformIterator[int]:
        return EveryOther(self, epoch)


class EveryOther(TransformIterator[int]):
    def pull(self, count: int) -> Any:
        return block_items(self._upstream.pull(2 * count))[::2]


@pytest.mark.parametrize("what", [said.GROUPED, said.NOTHING])
def test_a_stage_of_the_user_says_what_it_has_read(what: said.Said) -> None:
    read = (Origin("Range", 0), Origin("Range", 1))
    pipeline = rs.range(6).apply(what.by(OfUser))
    assert next(iter(rs.origins(pipeline))) == UnknownOrigin("what OfUser made it of", read)


class Doubled(Transform[int]):
    alone = True

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, in_order=True)

    def start(self, epoch: int = 0) -> TransformIterator[int]:
        return DoubledIterator(self, epoch)


class DoubledIterator(TransformIterator[int]):
    def pull(self, count: int) -> Any:
        return [2 * item for item in block_items(self._upstream.pull(count))]


@pytest.mark.parametrize("cut", range(7))
def test_a_stage_of_the_user_may_stand_anywhere(cut: int) -> None:
    pipeline = rs.range(20).shuffle(0).apply(Doubled).filter(lambda item: item % 3).batch(2)
    make: Callable[[], Any] = lambda: iter(pipeline)  # noqa: E731
    with make() as iterator:
        items = list(islice(iterator, cut))
        state = iterator.get_state()
        items += iterator
    with iter(rs.origins(pipeline)) as shadow:
        shadow.set_state(state)
        found = [[2 * one.record for one in origin.records()] for origin in shadow]
    assert found == [item.tolist() for item in items[cut:]]


class Reversed(Transform[Any]):
    """Pairs of items, each turned round; it reads the second of a pair before it delivers that one."""

    unchanged = True

    def start(self, epoch: int = 0) -> TransformIterator[Any]:
        return ReversedIterator(self, epoch)


class ReversedIterator(TransformIterator[Any]):
    def __init__(self, stage: Transform[Any], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._held: list[Any] = []

    def pull(self, count: int) -> Any:
        items = list[Any]()
        while len(items) < count:
            if not self._held:
                self._held = list(block_items(self._upstream.pull(2)))
            if not self._held:
                break
            items.append(self._held.pop())
        return items


def test_what_a_stage_holds_is_told_apart_by_the_object() -> None:
    one, two = [1], [2]
    known = rs.origins(rs.from_sequence([one, two]).apply(Reversed))
    assert [origin.to_json() for origin in known] == [
        {"source": "FromSequence", "record": record} for record in (1, 0)
    ]
    first, second = rs.origins(rs.from_sequence([one, one]).apply(Reversed))
    assert isinstance(first, UnknownOrigin)
    assert isinstance(second, UnknownOrigin)


class ReadsAhead(Reversed):
    """The items, of which it reads three at once."""

    alone = True

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, in_order=True)

    def start(self, epoch: int = 0) -> TransformIterator[Any]:
        return ReadsAheadIterator(self, epoch)


class ReadsAheadIterator(ReversedIterator):
    def pull(self, count: int) -> Any:
        if not self._held:
            self._held = list(block_items(self._upstream.pull(3)))
        items, self._held = self._held[:1], self._held[1:]
        return items


def test_items_that_were_read_ahead_keep_their_origins() -> None:
    origins = rs.origins(rs.range(8).apply(ReadsAhead))
    assert [one.record for origin in origins for one in origin.records()] == list(range(8))


def test_data_that_are_read_anew_by_every_iterator_are_not_copied() -> None:
    class Numbers(list[int]):
        def __deepcopy__(self, memo: Any) -> Numbers:
            raise AssertionError("copied")

    origins = rs.origins(rs.from_iterable(Numbers(range(3))))
    assert [one.record for origin in origins for one in origin.records()] == [0, 1, 2]
