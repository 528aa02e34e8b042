"""Items without those of some records, from some item on."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from support.samples import RunningSum
from support.tiers import thinned

import resumable as rs
from resumable.testing import check_resumes_everywhere

MOST = 120
"""Items of an endless pipeline that are looked at."""
SOURCES: Mapping[str, Callable[[int], rs.Pipeline[int]]] = {
    "in order": rs.range,
    "shuffled": lambda count: rs.range(count).shuffle(3),
    "shuffled in blocks": lambda count: rs.range(count).shuffle(3, block=4),
    "shuffled twice": lambda count: rs.range(count).shuffle(3, block=2).map(int).shuffle(5),
    "long": lambda count: rs.range(5000 + count).shuffle(3),
}
REPEATED = st.sampled_from([0, 1, 2, 3, None])


def by_looking(items: list[Any], records: Mapping[int, Collection[Any]]) -> list[Any]:
    """The items that remain, one after the other."""
    remaining = list[Any]()
    for item in items:
        now = max(first for first in records if first <= len(remaining))
        if item not in records[now]:
            remaining.append(item)
    return remaining


@given(
    source=st.sampled_from(list(SOURCES)),
    count=st.integers(1, 30),
    repeated=REPEATED,
    data=st.data(),
)
def test_what_remains_is_in_its_order(
    source: str, count: int, repeated: int | None, data: st.DataObject
) -> None:
    pipeline = SOURCES[source](count)
    records = st.lists(st.integers(0, len(pipeline) - 1), max_size=count - 1)
    changes = data.draw(st.dictionaries(st.integers(1, 60), records, max_size=3))
    if repeated != 1:
        pipeline = pipeline.repeat(repeated)
    left_out = {0: data.draw(records), **changes}
    excluded = pipeline.exclude(left_out)
    expected = by_looking(list(islice(pipeline, 40 * MOST)), left_out)[:MOST]
    assert list(islice(excluded, MOST)) == expected
    assert excluded[:MOST] == expected
    backwards = np.arange(len(expected))[::-1]
    indexed = excluded.stage.indexed()
    assert indexed is not None
    assert list(indexed.gather(backwards)) == expected[::-1]
    if excluded.stage.length is not None and excluded.stage.length < MOST:
        assert len(excluded) == len(expected)


@st.composite
def several(draw: st.DrawFn, depth: int = 2, name: str = "") -> tuple[rs.Pipeline[str], Any]:
    """A pipeline of one or several sources, whose items tell their records, and some of these records."""
    kind = "source"
    if depth:
        kind = draw(st.sampled_from(["source", "mix", "mix", "concatenate", "in a row", "zip"]))
    if kind == "source":
        count = draw(st.integers(1, 12))
        made = rs.range(count).map(lambda number: f"{name}{number}")
        records: Any = draw(st.lists(st.integers(0, count - 1), max_size=4))
    elif kind == "in a row":
        counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
        starts = [sum(counts[:at]) for at in range(len(counts))]
        made = rs.concatenate(
            *[
                rs.range(start, start + count).map(lambda number: f"{name}{number}")
                for start, count in zip(starts, counts, strict=True)
            ]
        )
        records = draw(st.lists(st.integers(0, sum(counts) - 1), max_size=4))
    elif kind == "zip":
        count = draw(st.integers(1, 9))
        made = rs.zip(rs.range(count), rs.range(100, 100 + count)).map(
            lambda row: f"{name}{row[0]}"
        )
        records = draw(st.lists(st.integers(0, count - 1), max_size=4))
    else:
        names = "abc"[: draw(st.integers(1, 3))]
        inputs = {one: draw(several(depth - 1, f"{name}{one}.")) for one in names}
        pipelines = {one: pipeline for one, (pipeline, _) in inputs.items()}
        chosen = {one for one in names if draw(st.booleans())}
        records = {one: inputs[one][1] for one in chosen}
        made = joined(draw, kind, pipelines)
    for _ in range(draw(st.integers(0, 2))):
        made = then(draw, made)
    return made, records


def joined(draw: st.DrawFn, kind: str, pipelines: Mapping[str, rs.Pipeline[str]]) -> Any:
    if kind == "concatenate":
        return rs.concatenate(pipelines)
    stop = draw(st.sampled_from(["first", "all", "cycle"]))
    parts = st.tuples(*[st.integers(1, 3) for _ in pipelines])
    weights: Any = draw(parts)
    if stop == "cycle" and any(one.stage.length == 0 for one in pipelines.values()):
        reject()
    if stop != "all" and draw(st.booleans()):
        weights = {0: weights, draw(st.integers(1, 20)): draw(parts)}
    seed = draw(st.none() | st.integers(0, 5))
    reshuffle = seed is not None and draw(st.booleans())
    return rs.mix(pipelines, weights=weights, seed=seed, stop=stop, reshuffle=reshuffle)


def then(draw: st.DrawFn, made: rs.Pipeline[str]) -> rs.Pipeline[str]:
    step = draw(st.sampled_from(["shuffle", "blocks", "repeat", "endless", "take", "skip", "map"]))
    is_finite = made.stage.random_access and made.stage.length != math.inf
    if step == "shuffle" and is_finite:
        return made.shuffle(draw(st.integers(0, 3)))
    if step == "blocks" and is_finite:
        return made.shuffle(1, block=3)
    if step == "repeat":
        return made.repeat(draw(st.integers(1, 3)))
    if step == "endless":
        return made.repeat()
    if step == "take":
        return made.take(draw(st.integers(1, 30)))
    if step == "skip":
        return made.skip(draw(st.integers(0, 5)))
    return made.map(str)


def items_of(records: Any, name: str = "") -> set[str]:
    """The items of ``records``."""
    if isinstance(records, Mapping):
        return set().union(*(items_of(one, f"{name}{key}.") for key, one in records.items()))
    return {f"{name}{number}" for number in records}


@given(made=several(), cut=st.integers(0, 40), first=st.integers(0, 30), epoch=st.integers(0, 2))
def test_records_of_several_sources_are_left_out_by_name(
    made: tuple[rs.Pipeline[str], Any], cut: int, first: int, epoch: int
) -> None:
    pipeline, records = made
    if not pipeline.stage.random_access:  # behind what follows an endless epoch
        reject()
    left_out = items_of(records)
    whole = list(islice(pipeline.start(epoch), 10 * MOST))
    try:
        excluded = pipeline.exclude({0: [], first: records})
    except rs.InvalidArgument as error:
        if re.search(
            "as many of them in every epoch|must leave some|another number of items", str(error)
        ):
            reject()
        raise
    if epoch and excluded.stage._first_epoch_only:
        return
    remaining = by_looking(whole, {0: set(), first: left_out})
    expected = remaining[:MOST]
    with excluded.start(epoch) as iterator:
        assert list(islice(iterator, MOST)) == expected
    indexed = excluded.stage.indexed(epoch)
    assert indexed is not None
    backwards = np.arange(len(expected))[::-1]
    assert list(indexed.gather(backwards)) == expected[::-1]
    assert list(indexed.gather(backwards[::3])) == expected[::-3]
    if excluded.stage.length not in (None, math.inf):
        assert excluded.stage.length == len(remaining)
    if epoch or not whole:
        return
    # A run that has not planned it may be anywhere before.
    cut = min(cut, first, len(whole) - 1)  # who was at the end may have seen it
    with iter(pipeline) as iterator:
        passed = list(islice(iterator, cut))
        state = iterator.get_state()
    with excluded.resume(state) as iterator:
        assert passed + list(islice(iterator, MOST)) == remaining[: MOST + cut]


OVER: dict[str, tuple[rs.Pipeline[Any], Any]] = {
    "concatenate": (rs.concatenate(rs.range(9), rs.range(9, 14), rs.range(14, 30)), [11, 16, 22]),
    "concatenate, named": (
        rs.concatenate({"a": rs.range(9), "b": rs.range(9, 30).shuffle(1)}),
        {"b": [2, 7, 13]},
    ),
    "zip": (rs.zip(rs.range(30), rs.range(30)).map(lambda row: row[0]), [11, 16, 22]),
    "zip, shuffled alike": (
        rs.zip(rs.range(30).shuffle(4), rs.range(30).shuffle(4)).map(lambda row: row[0]),
        [11, 16, 22],
    ),
    "take": (rs.range(40).take(30), [11, 16, 22]),
    "take of epochs without end": (rs.range(9).shuffle(2).repeat().take(30), [4, 7]),
    "take, shuffled": (rs.range(40).shuffle(2).take(30), [11, 16, 22]),
    "skip": (rs.range(40).skip(9).shuffle(1), [11, 16, 22]),
    "by epoch": (rs.by_epoch({0: rs.range(5), 2: rs.range(11)}).shuffle(2).repeat(5), [1, 9]),
    "by epoch, at last fewer": (
        rs.by_epoch({0: rs.range(11), 2: rs.range(5)}).shuffle(2).repeat(4),
        [1, 9],
    ),
    "by epoch, without an input": (
        rs.by_epoch(
            {0: rs.concatenate({"a": rs.range(9), "b": rs.range(9, 14)}), 2: rs.range(9)}
        ).repeat(4),
        {"b": [2, 3]},
    ),
    "mix of all": (
        rs.mix({"a": rs.range(20).shuffle(1), "b": rs.range(100, 110)}, seed=3, stop="all").repeat(
            2
        ),
        {"a": [11, 16, 18]},
    ),
    "mix, cycling": (
        rs.mix({"a": rs.range(20), "b": rs.range(100, 104).shuffle(0)}, stop="cycle"),
        {"a": [11, 16, 18], "b": [1]},
    ),
}


BEFORE: Mapping[str, Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = {
    "enumerated": lambda numbers: numbers.enumerate(),
    "with random numbers": lambda numbers: numbers.random_map(lambda item, rng: item, seed=1),
    "nothing left out": lambda numbers: numbers.repeat(2).exclude([]),
    "left out later": lambda numbers: numbers.repeat(2).exclude({0: [], 17: [3]}),
    "in batches": lambda numbers: numbers.batch(2, collate=tuple),
    "in whole batches": lambda numbers: numbers.batch(2, drop_last=True, collate=tuple),
    "in windows": lambda numbers: numbers.window(3, shift=2).map(tuple),
    "in windows with gaps": lambda numbers: numbers.window(2, shift=3).map(tuple),
    "of a rank": lambda numbers: numbers.shard(0, 2),
    "of a rank with fewer": lambda numbers: numbers.shard(1, 2),
    "several of each": lambda numbers: numbers.flat_map(lambda item: (item, -item - 1), size=2),
    "out of batches": lambda numbers: numbers.batch(2, drop_last=True).unbatch(size=2),
}
OVER |= {
    f"behind {name}": (
        rs.concatenate({"a": make(rs.range(11).map(int)), "b": rs.range(100, 110)}),
        {"b": [1, 5]},
    )
    for name, make in BEFORE.items()
}
OVER["random_map"] = (BEFORE["with random numbers"](rs.range(30)), [3, 8])
OVER["exclude"] = (rs.range(30).repeat(2).exclude([]), [3, 8])


@pytest.mark.parametrize("name", OVER)
def test_a_run_goes_on_from_anywhere(name: str) -> None:
    pipeline, records = OVER[name]
    whole = list(pipeline)
    gone = {item for item in whole if item not in set(pipeline.exclude(records))}
    assert gone
    for cut in thinned(range(len(whole) - 1), 3, name):
        changed = pipeline.exclude({0: [], cut: records})
        expected = by_looking(whole, {0: set(), cut: gone})
        with iter(pipeline) as iterator:
            passed = list(islice(iterator, cut))
            state = iterator.get_state()
        with changed.resume(state) as iterator:
            passed += islice(iterator, 3)
            state = iterator.get_state()
        assert passed + list(changed.resume(state)) == expected


# Of the hundred records of "a", ten or eleven come in an epoch.
SOME = rs.mix({"a": rs.range(100).shuffle(0), "b": rs.range(10)}, weights=(1, 1))
LATER = next(record for record in range(100) if record not in set(SOME))


@pytest.mark.parametrize(
    ("pipeline", "records"),
    [
        (SOME, {"a": [LATER]}),
        (SOME.take(99), {"a": [LATER]}),
        (SOME.skip(0), {"a": [LATER]}),
        (SOME.shuffle(1), {"a": [LATER]}),
        (rs.zip(SOME, SOME), {"a": [LATER]}),
        (rs.concatenate({"m": SOME.shuffle(1), "n": rs.range(3)}), {"m": {"a": [LATER]}}),
        (rs.mix({"m": SOME.shuffle(1), "n": rs.range(99)}), {"m": {"a": [LATER]}}),
    ],
)
def test_what_first_comes_in_a_later_epoch_is_noticed_in_the_first(
    pipeline: rs.Pipeline[Any], records: Any
) -> None:
    assert len(pipeline.exclude(records)) == len(pipeline)
    with pytest.raises(rs.InvalidArgument, match="another number of items in each epoch"):
        pipeline.exclude(records).repeat(2)
    with pytest.raises(rs.InvalidArgument, match="as many of them in every epoch"):
        pipeline.repeat(2).exclude(records)


@pytest.mark.parametrize(("early", "late"), [(3, 6), (6, 3), (0, 6)])
def test_epochs_without_end_lack_a_record_that_only_some_of_them_have(
    early: int, late: int
) -> None:
    epochs = rs.by_epoch({0: rs.range(early), 2: rs.range(late).shuffle(1)})
    if not early:  # an epoch without items would be the end
        epochs = rs.concatenate({"always": rs.range(10, 12), "later": epochs})
    endless = epochs.repeat()
    records: Any = [4] if early else {"later": [4]}
    expected = [item for item in islice(endless, 90) if item != 4]
    excluded = endless.exclude(records)
    assert list(islice(excluded, len(expected))) == expected
    assert excluded[: len(expected)] == expected
    assert list(endless.take(90).exclude(records)) == expected


def test_streams_by_epoch_lack_their_records() -> None:
    streams = rs.by_epoch({epoch: rs.from_iterable(range(5 + epoch)) for epoch in (0, 2)})
    excluded = streams.exclude([1, 5]).repeat(3)
    assert list(excluded) == [0, 2, 3, 4] * 2 + [0, 2, 3, 4, 6]
    check_resumes_everywhere(excluded, positions=range(13))


def test_rows_of_sources_that_are_shuffled_apart_have_no_record() -> None:
    apart = rs.zip(rs.range(30).shuffle(4), rs.range(30).shuffle(5))
    with pytest.raises(rs.InvalidArgument, match="each made of one record of the source"):
        apart.exclude([3])
    assert len(rs.zip(rs.range(30).shuffle(4), rs.range(30).shuffle(5)).exclude([])) == 30


def test_records_that_only_later_epochs_have_are_left_out_of_these() -> None:
    longer = rs.by_epoch({0: rs.range(2), 3: rs.range(11)})
    for endless, count in ((longer.repeat(), 6 + 8 * 20), (longer.repeat(5), 6 + 8 * 2)):
        excluded = endless.exclude([5, 6, 9])
        assert excluded[:count] == [*[0, 1] * 3, *[0, 1, 2, 3, 4, 7, 8, 10] * 20][:count]
    shorter = rs.by_epoch({0: rs.range(11), 3: rs.range(2)}).repeat()
    assert shorter.exclude([5, 6, 9])[22:28] == [8, 10, 0, 1, 0, 1]


@given(
    shuffled=st.booleans(),
    epochs=st.integers(1, 3),
    first=st.integers(0, 7),
    records=st.sets(st.integers(0, 7), min_size=1, max_size=7),
)
@example(shuffled=False, epochs=1, first=0, records={1, 5})
@example(shuffled=True, epochs=2, first=0, records={0, 4})
@example(shuffled=True, epochs=3, first=3, records={0, 4, 1, 5})
def test_some_partitions_may_be_left_without_records(
    shuffled: bool, epochs: int, first: int, records: set[int]
) -> None:
    def within(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
        return (part.shuffle(2) if shuffled else part).repeat(epochs)

    left_out = {0: list[int](), first: sorted(records)}
    plain = rs.range(8).partition(4, within)
    excluded = rs.range(8).partition(4, lambda part: within(part).exclude(left_out))
    expected = [by_looking(list(plain.shard(rank, 4)), left_out) for rank in range(4)]
    assert [list(excluded.shard(rank, 4)) for rank in range(4)] == expected
    assert len(excluded) == sum(map(len, expected))


def test_a_partition_without_records_is_resumed_like_any_other() -> None:
    files = rs.from_sequence(["a", "bad", "c", "d"])
    pipeline = files.partition(4, lambda part: part.exclude([1]).flat_map(lambda file: [file] * 2))
    assert list(pipeline) == ["a", "c", "d", "a", "c", "d"]
    check_resumes_everywhere(pipeline)


@pytest.mark.parametrize("repeated", [None, 2])
@pytest.mark.parametrize("source", SOURCES)
def test_a_resume_goes_on_at_every_cut(source: str, repeated: int | None) -> None:
    excluded = SOURCES[source](20).repeat(repeated).exclude({0: [3, 4], 7: [3], 30: [19, 1, 5]})
    check_resumes_everywhere(excluded, positions=thinned(range(35), 5, (source, repeated)))


def test_every_rank_leaves_out_the_same_records() -> None:
    excluded = rs.range(40).shuffle(1).repeat(2).exclude({0: [], 11: [5, 6, 7]})
    ranks = [list(excluded.shard(rank, 3)) for rank in range(3)]
    dealt = [item for step in zip(*ranks, strict=True) for item in step]
    assert dealt == list(excluded)[: len(dealt)]


def test_a_pipeline_of_which_nothing_is_left_out_is_the_same_one() -> None:
    pipeline = rs.range(9).shuffle(0).map(int).repeat(2)
    with iter(pipeline) as iterator:
        passed = list(islice(iterator, 11))
        state = iterator.get_state()
    nothing: list[Any] = [{}, [], {0: [], 7: []}]
    for records in nothing:
        same = pipeline.exclude(records)
        with same.resume(state) as iterator:
            assert iterator.get_state() == state
            assert passed + list(iterator) == list(pipeline) == list(same)


def test_it_opens_without_reading_and_forgets_nothing_in_a_pickle() -> None:
    read = list[int]()

    class Records:
        def __len__(self) -> int:
            return 10**6

        def __getitem__(self, index: int) -> int:
            read.append(index)
            return index

    bad = range(0, 10**6, 100)
    excluded = rs.from_sequence(Records()).shuffle(7).exclude({0: [], 1000: bad})
    with iter(excluded) as iterator:
        assert next(iterator) == read[0]
        state = iterator.get_state()
    assert len(read) == 1
    assert 10**6 - 10**4 <= len(excluded) < 10**6 - 10**4 + 20
    assert len(rs.dumps(state)) < 512
    stage = rs.range(9).exclude({0: [], 2: [4, 8]}).stage
    assert list(pickle.loads(pickle.dumps(stage)).start()) == [0, 1, 2, 3, 5, 6, 7]


BEHIND_STREAMS: list[Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = [
    lambda stream: stream.take(4).exclude([0]),
    lambda stream: stream.skip(0).exclude([0]),
    lambda stream: stream.filter(bool).exclude([0]),
    lambda stream: stream.map(int, on_error="skip").exclude([0]),
    lambda stream: stream.map(RunningSum()).exclude([0]),
    lambda stream: stream.enumerate().exclude([0]),
    lambda stream: stream.random_map(lambda item, rng: item, seed=1).exclude([0]),
    lambda stream: stream.shuffle(1, window=4).exclude([0]),
    lambda stream: stream.shard(0, 2).exclude([0]),
    lambda stream: stream.batch(2).exclude([0]),
    lambda stream: stream.repeat(2).exclude([0]),
    lambda stream: stream.exclude([0]).exclude([0]),
    lambda stream: rs.concatenate({"a": stream, "b": rs.range(2)}).exclude({"b": [0]}),
    lambda stream: rs.mix({"a": stream, "b": rs.range(2)}).exclude({"b": [0]}),
]


@pytest.mark.parametrize(
    ("exclude", "error", "message"),
    [
        (lambda: rs.range(5).exclude([5]), rs.InvalidArgument, "must be less than .* 5, got 5"),
        (lambda: rs.range(5).exclude(np.array([2**63 + 5], np.uint64)), rs.InvalidArgument, "records must be at most"),
        (lambda: rs.range(5).exclude(np.array([3, -1], np.int8)), rs.InvalidArgument, "at least 0, got -1"),
        (lambda: rs.from_iterable(lambda: iter([1])).exclude([2**62]), rs.InvalidArgument, "records must be at most"),
        (lambda: rs.range(5).exclude([-1]), rs.InvalidArgument, "records must be at least 0, got -1"),
        (lambda: rs.range(3).exclude([0, 2, 1]), rs.InvalidArgument, "must leave some .* all 3"),
        (
            lambda: rs.range(4).partition(4, lambda part: part.exclude([0, 1, 2, 3])),
            rs.InvalidArgument,
            "must leave some .* all 4 of them$",
        ),
        (
            lambda: rs.range(4).partition(4, lambda part: part.repeat(2).exclude([0, 1, 2, 3])),
            rs.InvalidArgument,
            "must leave some .* all 4 of them$",
        ),
        (
            lambda: rs.range(4).partition(4, lambda part: part.repeat().exclude([1])),
            rs.InvalidArgument,
            "must leave some .* all 1 of them in a partition, which is repeated without end",
        ),
        (lambda: rs.range(3).exclude({-1: [0]}), rs.InvalidArgument, "keys of records .* got -1"),
        (lambda: rs.range(3).exclude(1), rs.InvalidType, "records must be several integers, got 1"),  # type: ignore[arg-type]
        (lambda: rs.range(3).exclude("1"), rs.InvalidType, "must be several integers, got '1'"),  # type: ignore[arg-type]
        (lambda: rs.range(3).exclude([True]), rs.InvalidType, "records"),
        (lambda: rs.range(9).filter(bool).exclude([1]), rs.InvalidArgument, "put it after the source"),
        (lambda: rs.range(9).shuffle(0).take(4).repeat(2).exclude([1]), rs.InvalidArgument, "as many of them in every epoch"),
        (
            lambda: rs.range(9).shuffle(0).take(4).exclude([8]).repeat(2),
            rs.InvalidArgument,
            "another number of items in each epoch, .*; put it before the take, .*, got .* begins again",
        ),
        (lambda: rs.range(9).repeat().skip(4).exclude([1]), rs.InvalidArgument, "as many of them in every epoch"),
        (lambda: rs.range(9).exclude([1]).exclude([1]), rs.InvalidArgument, "put it after the source"),
        (lambda: rs.range(9).batch(4).exclude([1]), rs.InvalidArgument, "put it after the source"),
        *[
            (partial(behind, rs.from_iterable(lambda: iter([1]))), rs.InvalidArgument, "put it after the source, in each input")
            for behind in BEHIND_STREAMS
        ],
        (
            lambda: rs.mix(rs.range(9), rs.range(9)).exclude([1]),
            rs.InvalidArgument,
            "records of Mix must be by name, since it has several inputs, which have no names here, got",
        ),
        (
            lambda: rs.mix({"web": rs.range(9)}).exclude([1]),
            rs.InvalidArgument,
            r"records of Mix must be a dict such as \{'web': \[12\]\}, since it has several inputs, got \[1\]",
        ),
        (
            lambda: rs.mix({"web": rs.range(9)}).exclude({"wbe": [1]}),
            rs.InvalidArgument,
            r"must name an input or a file of Mix, which has \['web'\], got 'wbe'",
        ),
        (
            lambda: rs.by_epoch({0: rs.range(9), 2: rs.range(5)}).exclude([9]),
            rs.InvalidArgument,
            "must be less than the number of those of the source, 9, got 9",
        ),
        (
            lambda: rs.by_epoch({0: rs.range(9), 2: rs.range(5)}).repeat().exclude({0: [], 40: [9]}),
            rs.InvalidArgument,
            "must be less than the number of those of the source, 9, got 9",
        ),
        (
            lambda: rs.by_epoch({0: rs.concatenate({"a": rs.range(9)}), 2: rs.range(5)}).exclude({"a": [1], "b": [1]}),
            rs.InvalidArgument,
            "got 'b'",
        ),
        (
            lambda: rs.range(9).exclude({"a": [1]}),
            rs.InvalidArgument,
            "must be numbers where a source has no files that can be named, got 'a'",
        ),
        (
            lambda: rs.mix({"a": rs.range(9).shuffle(1), "b": rs.range(5)}).exclude({"a": [1]}).repeat(2),
            rs.InvalidArgument,
            "another number of items in each epoch",
        ),
        (
            lambda: rs.zip(rs.range(9).repeat(), rs.range(9).repeat()).exclude([1]),
            rs.InvalidArgument,
            "exclude needs items by their index",
        ),
        (lambda: rs.range(9).exclude({"a": {2: [1]}}), rs.InvalidType, "names in records must be strings, got 2"),
        (lambda: rs.range(9).exclude({0: [], "a": [1]}), rs.InvalidType, "names in records must be strings, got 0"),  # type: ignore[arg-type]
        (
            lambda: rs.range(9).exclude({0: [], 3: [1]}).repeat(2),
            rs.InvalidArgument,
            "must stand after repeat; before repeat, leave records out from an epoch on, .* begins again",
        ),
        (
            lambda: rs.mix(rs.range(9).exclude({0: [], 3: [1]}), stop="cycle"),
            rs.InvalidArgument,
            "must stand after repeat; before repeat, leave records out from an epoch on, .* begins again",
        ),
        (
            lambda: next(rs.range(9).exclude({0: [], 3: [1]}).start(1)),
            rs.InvalidArgument,
            "must stand after repeat; .* got epoch 1",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_left_out(
    exclude: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        exclude()


def test_records_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"0": [], "3": [4, 8]}')
    assert list(rs.range(9).exclude(rs.read_exclusions(path))) == [0, 1, 2, 3, 5, 6, 7]
    path.write_text("[0, 1]")
    assert list(rs.range(4).exclude(rs.read_exclusions(path))) == [2, 3]
    path.write_text('{"0": [], "1": {"a": [1]}}')
    assert rs.read_exclusions(path) == {0: [], 1: {"a": [1]}}
    path.write_text('{"a": {"b": [1]}}')
    assert rs.read_exclusions(path) == {0: {"a": {"b": [1]}}}
    # As errors and commands print it.
    path.write_text("{0: [], 1_152: {'b.jsonl': [23]}}\n")
    assert rs.read_exclusions(path) == {0: [], 1152: {"b.jsonl": [23]}}
    for text in ("[]", "{}"):
        path.write_text(text)
        assert list(rs.range(2).exclude(rs.read_exclusions(path))) == [0, 1]
    for text in (
        "",
        "open(1)",
        "{3",
        "{-1: []}",
        "{0: [], '1_152': [2]}",
        "3",
        '{"a": 1}',
        '{"0": 1}',
        "[1.5]",
        '["1"]',
        "[[1]]",
        "[-1]",
    ):
        path.write_text(text)
        with pytest.raises(rs.InvalidArgument, match=r"bad\.json must hold a list of numbers"):
            rs.read_exclusions(path)
