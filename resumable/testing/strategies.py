"""Hypothesis strategies: random pipelines over all stages, items, and where to cut them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from hypothesis import strategies as st

from .. import pipeline as rs
from ..errors import InvalidArgument
from ..pipeline import Pipeline
from .samples import (
    Counter,
    MadeAhead,
    any_dtype,
    as_document,
    as_two_fields,
    columns,
    fails_on_some,
    stream,
    with_noise,
    without_last,
)

PARTS: Final[Sequence[Callable[[Pipeline[Any]], Pipeline[Any]]]] = (
    lambda part: part,
    lambda part: part.filter(lambda item: len(repr(item)) % 3).batch(2, collate=list),
    lambda part: part.map(fails_on_some, on_error="skip").enumerate(),
    lambda part: part.flat_map(lambda item: [item] * (len(repr(item)) % 4)).shuffle(3, window=4),
    lambda part: part.map(as_document).pack(5, group=3, key="tokens"),
    lambda part: part.shuffle(2).random_map(with_noise, 5).repeat(2),
)
"""Pipelines within partitions."""


def items() -> st.SearchStrategy[Any]:
    """Items of a source: None, numbers, short strings, and tuples of these."""
    plain = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
    return plain | st.tuples(plain, plain)


def cut_points(most: int = 12) -> st.SearchStrategy[list[int]]:
    """Numbers of items after which a run is stopped and resumed, one resume after another."""
    return st.lists(st.integers(0, most), min_size=1, max_size=4)


@st.composite
def pipelines(draw: st.DrawFn, depth: int = 5) -> Pipeline[Any]:
    """Random graphs over all sources and stages; each graph resumes exactly.

    Items are hashable or arrays, functions are pure, and no epoch is longer than some thousand
    items, unless the graph repeats endlessly.

    Args:
      draw: passed by Hypothesis.
      depth: the largest number of stages after one another.
    """
    try:
        pipeline = draw(st.one_of(_sources(), _combinations())) if depth else draw(_sources())
    except InvalidArgument:  # a mix of inputs with threads
        pipeline = draw(_sources())
    for _ in range(draw(st.integers(0, depth))):
        try:
            pipeline = draw(_transformed(pipeline))
        except InvalidArgument:  # a thread before a stage that looks items up by index
            # These stages may follow any other.
            anywhere = [pipeline.enumerate(), pipeline.batch(3, collate=list)]
            pipeline = draw(st.sampled_from(anywhere))
    return pipeline


def _sources() -> st.SearchStrategy[Pipeline[Any]]:
    counts = st.integers(0, 40)
    return st.one_of(
        counts.map(rs.range),
        counts.map(stream),
        counts.map(lambda count: Pipeline(MadeAhead(count))),
        counts.map(lambda count: rs.from_iterable(Counter(count))),
        st.lists(items(), max_size=20).map(rs.from_sequence),
        st.integers(1, 30).map(lambda count: rs.from_arrays(columns(count)["y"])),
        st.integers(1, 30).map(lambda count: rs.from_arrays(columns(count))),
        st.tuples(st.integers(1, 30), st.sampled_from(list(any_dtype()))).map(
            lambda pair: rs.from_arrays(any_dtype(pair[0])[pair[1]])
        ),
        st.integers(1, 30).map(lambda count: rs.from_arrays(any_dtype(count))),
        st.tuples(st.integers(1, 20), st.integers(1, 8)).map(
            lambda pair: rs.range(pair[0]).repeat().take(pair[1] * 5)
        ),
        st.tuples(st.integers(3, 40), st.sets(st.integers(0, 2), max_size=2)).map(
            lambda pair: rs.range(pair[0]).shuffle(1).exclude(pair[1])
        ),
    )


def _combinations() -> st.SearchStrategy[Pipeline[Any]]:
    inputs = st.lists(pipelines(depth=1), min_size=1, max_size=3)
    return st.one_of(
        inputs.map(lambda chosen: rs.zip(*chosen)),
        inputs.map(lambda chosen: rs.concatenate(*chosen)),
        st.builds(_interleaved, inputs, st.integers(1, 3)),
        st.builds(_by_epoch, inputs, st.integers(1, 2), nested=st.booleans()),
        st.builds(_mixed, inputs, st.none() | st.integers(0, 9), st.sampled_from(["first", "all"])),
        st.builds(
            _mixed_anew, inputs, seed=st.integers(0, 9), stop=st.sampled_from(["first", "cycle"])
        ),
    )


def _interleaved(inputs: Sequence[Pipeline[Any]], length: int) -> Pipeline[Any]:
    return rs.interleave(*inputs, block_length=length)


def _mixed(inputs: Sequence[Pipeline[Any]], seed: int | None, stop: Any) -> Pipeline[Any]:
    return rs.mix(*inputs, weights=_rising(inputs), seed=seed, stop=stop)


def _mixed_anew(inputs: Sequence[Pipeline[Any]], **options: Any) -> Pipeline[Any]:
    never_empty = [rs.concatenate(rs.range(1), one) for one in inputs]
    rising = _rising(inputs)
    return rs.mix(*never_empty, weights={0: rising, 9: rising[::-1]}, reshuffle=True, **options)


def _by_epoch(inputs: Sequence[Pipeline[Any]], epochs: int, *, nested: bool) -> Pipeline[Any]:
    changing = rs.by_epoch({epochs * number: one for number, one in enumerate(inputs)})
    return changing.repeat(2).repeat(2) if nested else changing.repeat(4)


def _rising(inputs: Sequence[object]) -> list[int]:
    return [number + 1 for number in range(len(inputs))]


def _transformed(pipeline: Pipeline[Any]) -> st.SearchStrategy[Pipeline[Any]]:
    seeds, sizes, flags = st.integers(0, 2**64 - 1), st.integers(1, 9), st.booleans()
    packed = partial(st.builds, group=sizes, how=st.sampled_from(["best_fit", "concatenate"]))
    as_list = st.just(list)
    choices: list[st.SearchStrategy[Pipeline[Any]]] = [
        st.just(pipeline.map(lambda item: (item, 1))),
        st.just(pipeline.map(fails_on_some, on_error="skip")),
        st.just(pipeline.map(repr, workers=2)),
        st.just(pipeline.filter(lambda item: len(repr(item)) % 3)),
        st.just(pipeline.flat_map(lambda item: [item] * (len(repr(item)) % 4))),
        st.just(pipeline.flat_map(lambda item: [item, (item, 1)], size=2)),
        st.just(pipeline.enumerate()),
        st.just(pipeline.scan(lambda carry, item: (carry + 1, (carry, item)), 0)),
        st.just(pipeline.scan(lambda carry, item: (carry + 1, item), 0, lambda carry: [0] * carry)),
        seeds.map(lambda seed: pipeline.random_map(with_noise, seed)),
        sizes.map(lambda size: pipeline.batch(size, collate=list).unbatch()),
        sizes.map(
            lambda size: pipeline.batch(size, collate=list, drop_last=True).unbatch(size=size)
        ),
        st.builds(pipeline.batch, sizes, collate=as_list, drop_last=flags),
        st.builds(pipeline.map_batches, st.just(without_last), sizes, workers=st.integers(0, 2)),
        packed(partial(pipeline.map(as_document).pack, key="tokens"), sizes),
        packed(pipeline.map(as_two_fields).pack, st.fixed_dictionaries({"x": sizes, "y": sizes})),
        packed(
            partial(pipeline.map(as_document).pack, align=2, eos=0, key="tokens", parts=True),
            sizes.map(lambda size: 4 * size),
            max_documents=st.none() | sizes,
        ),
        st.builds(
            partial(pipeline.bucket, lambda item: len(repr(item)), collate=list),
            batch_size=sizes,
            group=sizes,
            seed=seeds,
        ),
        st.integers(1, 9).map(
            lambda bound: pipeline.take_while(lambda item: len(repr(item)) % 10 != bound)
        ),
        sizes.map(pipeline.map(repr).batch).flatmap(
            lambda batches: st.builds(batches.rebatch, sizes, drop_last=flags)
        ),
        st.builds(pipeline.map(repr).window, sizes, shift=st.none() | sizes, drop_last=flags),
        st.builds(pipeline.shuffle, seeds, window=sizes),
        st.integers(0, 3).map(pipeline.repeat),
        st.integers(0, 60).map(pipeline.take),
        st.integers(0, 9).map(pipeline.skip),
        st.builds(
            lambda count, uneven: pipeline.shard(count - 1, count, uneven=uneven),
            st.integers(1, 4),
            st.sampled_from(["drop", "pad", "keep"]),
        ),
        st.integers(0, 3).map(pipeline.prefetch),
        st.builds(
            partial(pipeline.interleave_map, lambda item: [item] * (len(repr(item)) % 4)),
            st.integers(1, 4),
            sizes,
        ),
    ]
    if pipeline.length != float("inf"):
        choices.append(st.just(pipeline.cache()))
        choices.append(
            st.builds(partial(pipeline.map(repr).shuffle, carry=True), seeds, window=sizes)
        )
    if pipeline.random_access and pipeline.length != float("inf"):
        choices += [seeds.map(pipeline.shuffle)] * 2
        if length := len(pipeline):
            weighted = partial(pipeline.sample, range(1, length + 1))
            choices.append(st.builds(weighted, seed=seeds, count=st.none() | sizes))
        choices.append(
            st.builds(
                lambda partitions, build, workers, ranks: pipeline.partition(
                    partitions, build, workers=workers, buffer_size=ranks % 3 or None
                ).shard(0, min(partitions, ranks)),
                sizes,
                st.sampled_from(PARTS),
                st.integers(0, 2),
                st.integers(1, 3),
            )
        )
        choices.append(st.builds(pipeline.shuffle, seeds, block=sizes))
    return st.one_of(choices)
