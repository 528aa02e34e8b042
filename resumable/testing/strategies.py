"""Hypothesis strategies: random pipelines over all stages, items, and where to cut them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    lambda part: part.map(as_document).pack(5, window=3, key="tokens"),
    lambda part: part.shuffle(2).random_map(with_noise, 5).repeat(2),
)
"""What is done in partitions."""


def items() -> st.SearchStrategy[Any]:
    """Items as a source may deliver them: None, numbers, short strings, and tuples of these."""
    plain = st.none() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
    return plain | st.tuples(plain, plain)


def cut_points(most: int = 12) -> st.SearchStrategy[list[int]]:
    """Numbers of items after which a run is stopped and resumed, one after another."""
    return st.lists(st.integers(0, most), min_size=1, max_size=4)


@st.composite
def pipelines(draw: st.DrawFn, depth: int = 5) -> Pipeline[Any]:
    """Random graphs over all sources and stages; each of them resumes exactly.

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
            pipeline = draw(_threadless(pipeline))
    return pipeline


def _threadless(pipeline: Pipeline[Any]) -> st.SearchStrategy[Pipeline[Any]]:
    """Stages that may follow any other."""
    return st.sampled_from([pipeline.enumerate(), pipeline.batch(3, collate=list)])


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
        st.tuples(inputs, st.integers(1, 3)).map(
            lambda pair: rs.interleave(*pair[0], block_length=pair[1])
        ),
        st.tuples(inputs, st.integers(1, 2), st.booleans()).map(
            lambda chosen: _by_epoch(chosen[0], chosen[1], nested=chosen[2])
        ),
        st.tuples(inputs, st.none() | st.integers(0, 9), st.sampled_from(["first", "all"])).map(
            lambda chosen: rs.mix(
                *chosen[0], weights=_rising(chosen[0]), seed=chosen[1], stop=chosen[2]
            )
        ),
        st.tuples(inputs, st.integers(0, 9), st.sampled_from(["first", "cycle"])).map(
            lambda chosen: rs.mix(
                *[rs.concatenate(rs.range(1), one) for one in chosen[0]],
                weights={0: _rising(chosen[0]), 9: _rising(chosen[0])[::-1]},
                seed=chosen[1],
                stop=chosen[2],
                reshuffle=True,
            )
        ),
    )


def _by_epoch(inputs: Sequence[Pipeline[Any]], epochs: int, *, nested: bool) -> Pipeline[Any]:
    changing = rs.by_epoch({epochs * number: one for number, one in enumerate(inputs)})
    return changing.repeat(2).repeat(2) if nested else changing.repeat(4)


def _rising(inputs: Sequence[object]) -> list[int]:
    return [number + 1 for number in range(len(inputs))]


def _transformed(pipeline: Pipeline[Any]) -> st.SearchStrategy[Pipeline[Any]]:
    seeds, sizes = st.integers(0, 2**64 - 1), st.integers(1, 9)
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
        st.tuples(sizes, st.booleans()).map(
            lambda pair: pipeline.batch(pair[0], collate=list, drop_last=pair[1])
        ),
        st.tuples(sizes, st.integers(0, 2)).map(
            lambda pair: pipeline.map_batches(without_last, pair[0], workers=pair[1])
        ),
        st.tuples(sizes, sizes, st.sampled_from(["best_fit", "concatenate"])).map(
            lambda chosen: pipeline.map(as_document).pack(
                chosen[0], window=chosen[1], how=chosen[2], key="tokens"
            )
        ),
        st.tuples(sizes, sizes, sizes, st.sampled_from(["best_fit", "concatenate"])).map(
            lambda chosen: pipeline.map(as_two_fields).pack(
                {"x": chosen[0], "y": chosen[1]}, window=chosen[2], how=chosen[3]
            )
        ),
        st.tuples(
            sizes, st.none() | sizes, sizes, st.sampled_from(["best_fit", "concatenate"])
        ).map(
            lambda chosen: pipeline.map(as_document).pack(
                4 * chosen[0],
                align=2,
                eos=0,
                max_documents=chosen[1],
                window=chosen[2],
                how=chosen[3],
                key="tokens",
                parts=True,
            )
        ),
        st.tuples(sizes, sizes, seeds).map(
            lambda chosen: pipeline.bucket(
                lambda item: len(repr(item)),
                batch_size=chosen[0],
                window=chosen[1],
                seed=chosen[2],
                collate=list,
            )
        ),
        st.integers(1, 9).map(
            lambda bound: pipeline.take_while(lambda item: len(repr(item)) % 10 != bound)
        ),
        st.tuples(sizes, sizes, st.booleans()).map(
            lambda chosen: (
                pipeline.map(repr).batch(chosen[0]).rebatch(chosen[1], drop_last=chosen[2])
            )
        ),
        st.tuples(sizes, st.none() | sizes, st.booleans()).map(
            lambda chosen: pipeline.map(repr).window(
                chosen[0], shift=chosen[1], drop_last=chosen[2]
            )
        ),
        st.tuples(seeds, sizes).map(lambda pair: pipeline.shuffle(pair[0], window=pair[1])),
        st.integers(0, 3).map(lambda epochs: pipeline.repeat(epochs)),
        st.integers(0, 60).map(pipeline.take),
        st.integers(0, 9).map(pipeline.skip),
        st.tuples(st.integers(1, 4), st.sampled_from(["drop", "pad", "keep"])).map(
            lambda pair: pipeline.shard(pair[0] - 1, pair[0], uneven=pair[1])
        ),
        st.integers(0, 3).map(pipeline.prefetch),
        st.tuples(st.integers(1, 4), sizes).map(
            lambda pair: pipeline.interleave(
                lambda item: [item] * (len(repr(item)) % 4), pair[0], pair[1]
            )
        ),
    ]
    if pipeline.length != float("inf"):
        choices.append(st.just(pipeline.cache()))
        choices.append(
            st.tuples(seeds, sizes).map(
                lambda pair: pipeline.map(repr).shuffle(pair[0], window=pair[1], carry=True)
            )
        )
    if pipeline.random_access and pipeline.length != float("inf"):
        choices += [seeds.map(pipeline.shuffle)] * 2
        if length := len(pipeline):
            choices.append(
                st.tuples(seeds, st.none() | sizes).map(
                    lambda pair: pipeline.sample(range(1, length + 1), seed=pair[0], count=pair[1])
                )
            )
        choices.append(
            st.tuples(sizes, st.sampled_from(PARTS), st.integers(0, 2), st.integers(1, 3)).map(
                lambda chosen: pipeline.partition(
                    chosen[0], chosen[1], workers=chosen[2], buffer_size=chosen[3] % 3 or None
                ).shard(0, min(chosen[0], chosen[3]))
            )
        )
        choices.append(
            st.tuples(seeds, sizes).map(lambda pair: pipeline.shuffle(pair[0], block=pair[1]))
        )
    return st.one_of(choices)
