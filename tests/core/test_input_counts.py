"""What `stats` says of the inputs of a mixture is what a count by hand says, or it is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import catalogue
from support.tiers import thinned

import resumable as rs
from resumable.core.best_effort import BestEffort
from resumable.testing.samples import stream

Build = Callable[[], rs.Pipeline[Any]]
Tail = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]
WEB, MATH = 5, 11
NAMES = list(catalogue(Path()))


@pytest.fixture(autouse=True)
def nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a counter raises is raised here, and not left out."""
    monkeypatch.setattr(BestEffort, "__call__", lambda _, call, default: call())


def named(name: str, number: Any) -> tuple[str, Any]:
    return name, number


def inputs(web: rs.Pipeline[Any], math: rs.Pipeline[Any]) -> dict[str, rs.Pipeline[Any]]:
    return {"web": web.map(partial(named, "web")), "math": math.map(partial(named, "math"))}


KINDS: dict[str, Callable[[], dict[str, rs.Pipeline[Any]]]] = {
    "by index": lambda: inputs(rs.range(WEB), rs.range(MATH)),
    "streams": lambda: inputs(stream(WEB), stream(MATH)),
    "both": lambda: inputs(stream(WEB), rs.range(MATH)),
}


def mixture(kind: str, how: str) -> rs.Pipeline[Any]:
    if how == "concatenate":
        return rs.concatenate(KINDS[kind]())
    if how == "interleave":
        return rs.interleave(KINDS[kind](), block_length=3)
    return rs.mix(KINDS[kind](), weights=[2, 3], seed=1, stop=how)


def more() -> rs.Pipeline[Any]:
    return rs.range(5).map(partial(named, "more"))


def twice(item: Any) -> list[Any]:
    return [item, item]


TAILS: dict[str, Tail] = {
    "none": lambda mixed: mixed,
    "batch": lambda mixed: mixed.batch(4, collate=list),
    "batch in epochs": lambda mixed: mixed.batch(4, collate=list, drop_last=True).repeat(3),
    "epochs in batches": lambda mixed: mixed.repeat(3).batch(4, collate=list),
    "filter": lambda mixed: mixed.filter(lambda item: item[1] % 3),
    "take": lambda mixed: mixed.take(11),
    "skip in epochs": lambda mixed: mixed.skip(5).repeat(2),
    "skip after epochs": lambda mixed: mixed.repeat(2).skip(5),
    "enumerate": lambda mixed: mixed.enumerate(),
    "concatenate": lambda mixed: rs.concatenate(mixed, more()),
    "skip of several": lambda mixed: rs.concatenate(mixed, more()).repeat(2).skip(2),
    "zip": lambda mixed: rs.zip(mixed, rs.range(20)),
    "unbatch": lambda mixed: mixed.batch(3, collate=list).unbatch(),
    "flat_map": lambda mixed: mixed.flat_map(twice),
    "pack": lambda mixed: mixed.map(lambda item: [item[1]] * (item[1] % 4)).pack(5, group=4),
    "window": lambda mixed: mixed.window(3, shift=2),
    "shuffle": lambda mixed: mixed.shuffle(1, window=5),
    "cache": lambda mixed: mixed.cache().repeat(2),
}
HOW = ("first", "all", "concatenate", "interleave")
UNKNOWN = {"window", "shuffle", "cache"}
HELD = {"unbatch", "flat_map", "pack"}  # known only if the length of the mixture is


def counted(order: list[Any], given: int) -> dict[str, int]:
    """How many of the first ``given`` items in ``order`` are of each input."""
    found = Counter(name for name, _ in order[:given])
    return {name: found[name] for name in ("web", "math")}


class HandCount:
    """Notes the last item that a mixture has given, among all in its order."""

    def __init__(self, order: list[Any]) -> None:
        self.order = order
        self.given = 0

    def __call__(self, item: Any) -> Any:
        # An item may come several times in an epoch. In the next one the order begins again.
        later = self.order[self.given :]
        self.given = (self.given if item in later else 0) + 1
        self.given += later.index(item) if item in later else self.order.index(item)
        return item


def of_inputs(stats: dict[str, Any]) -> dict[str, int]:
    """The counts of ``web`` and ``math``, wherever their mixture stands."""
    found = {name.rpartition("/")[2]: count for name, count in stats["inputs"].items()}
    return {name: count for name, count in found.items() if name in ("web", "math")}


@pytest.mark.parametrize("how", ["first", "all", "cycle", "concatenate", "interleave"])
@pytest.mark.parametrize("kind", KINDS)
def test_items_of_inputs_are_those_that_the_mixture_has_given(kind: str, how: str) -> None:
    order = list(mixture(kind, how))
    for name in thinned(TAILS, 2, (kind, how)):
        hand, tail = HandCount(order), TAILS[name]
        with iter(tail(mixture(kind, how).map(hand))) as iterator:
            found, expected = [of_inputs(iterator.stats())], [counted(order, 0)]
            for _ in iterator:
                found.append(of_inputs(iterator.stats()))
                expected.append(counted(order, hand.given))
        for here, there in zip(found, expected, strict=True):
            assert here.items() <= there.items(), name
        assert name in HELD or (name in UNKNOWN) != any(found[1:]), name
        with iter(tail(mixture(kind, how)).map(twice, workers=2).prefetch(2)) as iterator:
            for here in found:
                assert of_inputs(iterator.stats()) == here, name
                next(iterator, None)


@pytest.mark.parametrize("how", ["first", "all", "cycle"])
@given(ranks=st.integers(1, 5), epochs=st.integers(1, 3))
def test_ranks_count_the_items_of_all_of_them_also_after_a_mixture_has_ended(
    how: str, ranks: int, epochs: int
) -> None:
    order = list(mixture("by index", how))
    both = rs.concatenate(mixture("by index", how), more())
    with iter(both.repeat(epochs).shard(0, ranks, uneven="keep")) as iterator:
        for step, _ in enumerate(iterator, 1):
            given = min(ranks * step, epochs * len(both)) - 1
            assert of_inputs(iterator.stats()) == counted(order, given % len(both) + 1)


def test_records_that_are_left_out_are_passed_over_in_each_epoch() -> None:
    order = list(mixture("by index", "all"))
    left_out = {"web": [2, 4], "math": [0, 7, 8]}
    shuffled = rs.mix(
        {name: one.shuffle(3) for name, one in KINDS["by index"]().items()},
        weights=[2, 3],
        stop="all",
    )
    for mixed in (mixture("by index", "all"), shuffled):
        epochs = [list(one) for one in (mixed, mixed.repeat(2).skip(len(order)))]
        with iter(mixed.exclude(left_out).repeat(2)) as iterator:
            for item in iterator:
                expected = counted(epochs[iterator.epoch], epochs[iterator.epoch].index(item) + 1)
                assert of_inputs(iterator.stats()) == expected


def mixed_parts(web: rs.Pipeline[Any], math: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    return rs.mix(inputs(web, math), weights=[3, 1], stop="all")


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("ranks", [1, 2])
def test_items_of_partitions_are_added(workers: int, ranks: int) -> None:
    sources = {"web": rs.range(80).shuffle(0), "math": rs.range(35)}
    parts = rs.partition(sources, 4, mixed_parts, workers=workers)
    seen = 0
    for rank in range(ranks):
        hand: Counter[str] = Counter(web=0, math=0)
        with iter(parts.shard(rank, ranks)) as iterator:
            for name, _ in iterator:
                hand[name] += 1
                seen += 1
                if seen % 5 == 0:
                    assert of_inputs(iterator.stats()) == hand
            passes = iterator.stats()["passes"]
        assert passes == {"web": 1.0, "math": 1.0}
    assert seen == 115


@pytest.fixture
def make(request: pytest.FixtureRequest, catalogue_data: Path) -> Build:
    return catalogue(catalogue_data)[request.param]


def joined(made: rs.Pipeline[Any], how: str) -> rs.Pipeline[Any]:
    """``made`` and another input, which begin together if they do not follow each other."""
    both = inputs(made, rs.range(40))
    if how == "concatenate":
        return rs.concatenate({"more": rs.range(3).map(partial(named, "more")), **both})
    return rs.interleave(both) if how == "interleave" else rs.mix(both, stop=how, weights=[3, 1])


def partitioned(made: rs.Pipeline[Any], workers: int) -> rs.Pipeline[Any]:
    sources = {"web": made, "math": rs.range(40)}
    return rs.partition(sources, 3, mixed_parts, workers=workers)


# Where the state of an input does not say alone how many items it has given.
AT_LEAST = ("zip streams", "cache stateful", "collate stateful")
COUNTED = sorted({*AT_LEAST, *thinned(NAMES[::2], 10, "counts of inputs")})


@pytest.mark.parametrize("make", COUNTED, indirect=True)
def test_any_pipeline_can_be_counted_as_an_input(make: Build) -> None:
    with iter(make()) as iterator:
        for step, _ in enumerate(islice(iterator, 6), 1):
            stats = iterator.stats()
            assert (stats["steps"], stats["items"]) == (step, step)
    builds: list[Build] = [
        *(lambda how=how: joined(make(), how) for how in HOW),
        lambda: mixed_parts(make(), rs.range(40)).map(tuple, workers=2),
        *(lambda workers=workers: partitioned(make(), workers) for workers in (0, 1, 2)),
    ]
    for build in builds:
        try:
            iterator = iter(build())
        except (rs.InvalidArgument, rs.InvalidType):
            continue  # not every pipeline can be every input
        hand: Counter[str] = Counter(web=0, math=0)
        with iterator:
            for name, _ in islice(iterator, 16):
                hand[name] += 1
                assert of_inputs(iterator.stats()).items() <= hand.items()


def test_passes_are_items_in_lengths_of_the_input_and_known_only_with_a_length() -> None:
    web, math = rs.range(10).shuffle(0).repeat().map(str), rs.range(100).filter(bool).repeat()
    with iter(rs.mix({"web": web, "math": math})) as iterator:
        for _ in range(26):
            next(iterator)
        assert iterator.stats()["passes"] == {"web": 1.3}
    with iter(rs.mix({"web": rs.range(10), "math": rs.range(13)}, stop="cycle")) as iterator:
        assert len(list(iterator)) == 27
        assert iterator.stats()["passes"] == {"web": 1.4, "math": 1.0}


def test_dropped_items_are_counted_in_copies_of_stages_too(tmp_path: Path) -> None:
    def odd(item: int) -> int:
        if item % 2 == 0:
            raise ValueError(item)
        return item

    def dropping(count: int, workers: int = 0) -> rs.Pipeline[int]:
        return rs.range(count).map(odd, on_error="skip", workers=workers)

    cases: dict[str, tuple[rs.Pipeline[Any], int, dict[str, int]]] = {
        "workers": (dropping(20, 1), 3, {"pipeline": 3}),
        "a partition": (
            rs.range(40).partition(2, lambda part: part.map(odd, on_error="skip"), workers=1),
            20,
            {"pipeline.upstream": 20},
        ),
        "epochs": (
            rs.by_epoch({0: dropping(10), 1: dropping(20)}).repeat(),
            8,
            {"pipeline.upstream": 3},
        ),
    }
    for name, (pipeline, count, expected) in cases.items():
        with iter(pipeline) as iterator:
            assert len(list(islice(iterator, count))) == count
            assert iterator.stats()["skipped"] == expected, name


def rows(count: int) -> Iterator[int]:
    yield from range(count)


def test_tokens_are_those_that_the_loop_has_counted_over_resumes() -> None:
    store = rs.Memory()
    for total in (30, 60):
        with rs.Checkpointer(store, rs.EverySteps(1), stats=True) as checkpointer:
            loop = checkpointer.resume(rs.from_iterable(partial(rows, 100)))
            for _ in islice(loop, 3):
                loop.count_tokens({"web": 10, "math": 0})
        assert loop.stats()["tokens"] == {"web": total, "math": 0}
    with pytest.raises(rs.InvalidArgument, match=r"tokens\['web'\] must be at least 0, got -1"):
        loop.count_tokens({"web": -1})
    with pytest.raises(rs.InvalidType, match="names of inputs must be strings, got 1"):
        loop.count_tokens({1: 3})  # type: ignore[dict-item]
