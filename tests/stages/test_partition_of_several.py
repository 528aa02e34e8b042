"""A part of each of several sources in every partition: mixtures that are exact on any number of ranks."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs

Joins = Callable[..., rs.Pipeline[Any]]

# Of two parts; an item is a number of the source that it came from, or a tuple or list of such.
JOINS: dict[str, Joins] = {
    "mix": lambda one, two: rs.mix(one.filter(odd), two, weights=(1, 2), stop="all"),
    "cycle": lambda one, two: rs.mix(one.map(abs), two.shuffle(1, window=3), stop="cycle"),
    "zip": lambda one, two: rs.zip(one.shuffle(2), two),
    "concatenate": lambda one, two: rs.concatenate(one, two.map(abs)).batch(2, collate=tuple),
    "interleave": lambda one, two: rs.interleave(one, two, one.map(abs)),
}
FINITE = [name for name in JOINS if name != "mix"]  # those of known lengths

sizes = st.integers(1, 30)
plans = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 2), st.integers(0, 6)), min_size=3, max_size=3
)


def odd(number: int) -> int:
    return number % 2


def sources(first: int, second: int) -> list[rs.Pipeline[int]]:
    return [rs.range(first), rs.range(1000, 1000 + second)]


def parts_of(first: int, second: int, count: int, join: Joins) -> list[list[Any]]:
    """What each partition delivers, from parts that are made by hand."""
    whole = [list(source) for source in sources(first, second)]
    return [
        list(join(*(rs.from_sequence(items[number::count]) for items in whole)))
        for number in range(count)
    ]


@given(sizes, sizes, st.integers(1, 7), st.sampled_from([*JOINS]), plans)
def test_whoever_runs_the_partitions_each_delivers_what_is_made_of_its_parts(
    first: int, second: int, count: int, name: str, plan: list[tuple[int, int, int]]
) -> None:
    # An input without items ends a mix that cycles for ever at once, whichever partition it is in.
    first, second = max(first, count), max(second, count)
    expected = parts_of(first, second, count, JOINS[name])
    found: list[list[Any]] = [[] for _ in range(count)]
    state = None
    for ranks, workers, steps in [*plan, (1, 0, 10**6)]:
        states = []
        for rank in range(min(ranks, count)):
            made = rs.partition(sources(first, second), count, JOINS[name], workers=workers)
            made = made.shard(rank, min(ranks, count))
            with iter(made) if state is None else made.resume(state) as iterator:
                for _ in range(steps):
                    before = positions(iterator)
                    for item in islice(iterator, 1):
                        after = positions(iterator)
                        (number,) = (at for at in after if after[at] != before[at])
                        found[number].append(item)
                        break
                    else:
                        break
                states.append(iterator.get_state())
        state = rs.loads(rs.dumps(rs.merge_states(states)))
    assert found == expected


def positions(iterator: Any) -> dict[int, int]:
    state = iterator.get_state()["pipeline"]
    return dict(zip(state["partitions"], state["positions"], strict=True))


@given(sizes, sizes, st.integers(1, 7), st.sampled_from(FINITE), st.integers(1, 5))
def test_lengths_are_those_of_parts_of_sources_of_any_lengths(
    first: int, second: int, count: int, name: str, ranks: int
) -> None:
    first, second = max(first, count), max(second, count)
    ranks = min(ranks, count)
    parts = parts_of(first, second, count, JOINS[name])
    own = [sum(map(len, parts[rank::ranks])) for rank in range(ranks)]
    made = rs.partition(sources(first, second), count, JOINS[name])
    for uneven, lengths in (
        ("keep", own),
        ("drop", [min(own)] * ranks),
        ("pad", [max(own)] * ranks),
    ):
        if uneven == "pad" and not min(own):
            continue
        found = [made.shard(rank, ranks, uneven=uneven) for rank in range(ranks)]
        assert [one.length for one in found] == lengths == [len(list(one)) for one in found]


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_a_mixture_of_rows_is_exact_at_every_round_of_any_number_of_ranks(ranks: int) -> None:
    def rows(part: rs.Pipeline[int], token: int) -> rs.Pipeline[Any]:
        documents = part.filter(lambda number: number % 5).map(lambda n: [token] * (1 + n % 5))
        return documents.pack(8, group=4, key=None).map(lambda row: int(row["tokens"][0]))

    def mixed(code: rs.Pipeline[int], prose: rs.Pipeline[int]) -> rs.Pipeline[int]:
        weights = {"code": 1, "prose": 3}
        return rs.mix({"code": rows(code, 7), "prose": rows(prose, 9)}, weights=weights)

    made = rs.partition({"code": rs.range(600), "prose": rs.range(1800)}, 6, mixed)
    iterators = [iter(made.shard(rank, ranks)) for rank in range(ranks)]
    steps = 6 // ranks * 4  # four rows of each partition
    for _ in range(3):
        drawn = [next(iterator) for _ in range(steps) for iterator in iterators]
        assert (drawn.count(7), drawn.count(9)) == (6, 18)


def test_a_part_that_is_used_twice_delivers_its_items_in_both_places() -> None:
    assert list(rs.range(4).partition(2, lambda part: rs.zip(part, part.skip(1)))) == [
        (0, 2),
        (1, 3),
    ]


def test_names_that_are_no_identifiers_are_taken_as_a_dict_of_parts() -> None:
    corpora = {"web-en": rs.range(4), "c++": rs.range(10, 14)}
    made = rs.partition(corpora, 2, lambda **parts: rs.interleave(parts))
    assert sorted(made) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_one_source_of_several_is_partitioned_as_it_is_alone() -> None:
    def fn(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        return part.filter(odd).batch(2)

    alone = rs.range(30).partition(3, fn)
    for several in (
        rs.partition([rs.range(30)], 3, fn),
        rs.partition({"part": rs.range(30)}, 3, fn),
    ):
        assert several.fingerprint == alone.fingerprint
        with iter(alone) as one, iter(several) as other:
            assert one.skip(4) == other.skip(4)
            assert one.get_state() == other.get_state()


OTHER = rs.range(9)
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "another source in fn": (
        lambda: rs.range(3).partition(2, lambda part: rs.mix(part, OTHER.map(abs), stop="all")),
        rs.InvalidArgument,
        "fn must build upon the parts that it gets alone, got Range(stop=9) in it: each of the 2 "
        "partitions would deliver all of its items; to deal it out too, write rs.partition({",
    ),
    "another source in one input of several": (
        lambda: rs.partition([OTHER, OTHER], 2, lambda a, b: rs.zip(a, rs.concatenate(b, OTHER))),
        rs.InvalidArgument,
        "got Range(stop=9) in it",
    ),
    "a part left out": (
        lambda: rs.partition({"code": OTHER, "prose": OTHER}, 2, lambda code, prose: code),
        rs.InvalidArgument,
        "fn must build upon the part of source 'prose' that it gets",
    ),
    "a part left out of a list": (
        lambda: rs.partition([OTHER, OTHER], 2, lambda one, two: one),
        rs.InvalidArgument,
        "the part of source number 1",
    ),
    "other names": (
        lambda: rs.partition({"code": OTHER, "prose": OTHER}, 2, lambda code, web: code),
        rs.InvalidArgument,
        "fn must take a keyword argument for each name, 'code', 'prose', or **parts; got fn(code, web)",
    ),
    "too few places": (
        lambda: rs.partition([OTHER, OTHER], 2, lambda one: one),
        rs.InvalidArgument,
        "fn must take 2 positional arguments, a pipeline for each source; got fn(one)",
    ),
    "a source that is a stream": (
        lambda: rs.partition({"a": OTHER, "b": OTHER.filter(odd)}, 2, rs.zip),
        rs.InvalidType,
        "partition needs items by their index, got Range(stop=9) -> Filter",
    ),
    "one pipeline": (
        lambda: rs.partition(OTHER, 2, lambda part: part),  # type: ignore[arg-type]
        rs.InvalidType,
        "sources must be a dict or a list of pipelines, got Pipeline(Range(stop=9)); for one pipeline "
        "write pipeline.partition(count, fn)",
    ),
    "what is no pipeline": (
        lambda: rs.partition({"a": [1, 2]}, 2, lambda a: a),
        rs.InvalidType,
        "sources['a'] must be a pipeline",
    ),
    "none": (lambda: rs.partition({}, 2, lambda: OTHER), rs.InvalidArgument, "got none"),
    "numbers as names": (
        lambda: rs.partition({1: OTHER}, 2, lambda part: part),  # type: ignore[dict-item]
        rs.InvalidType,
        "names of sources must be strings, got 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_partitioned_together_is_refused_when_it_is_built(name: str) -> None:
    build, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        build()


def test_a_partition_that_never_ends_needs_no_evening_out() -> None:
    endless = rs.range(8).partition(4, lambda part: part.repeat())
    assert list(endless.shard(1, 2, uneven="pad").take(5)) == [1, 3, 5, 7, 1]
