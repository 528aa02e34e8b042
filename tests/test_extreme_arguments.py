"""Every argument of a pipeline at every extreme: what is raised is the library's own error."""

# Nothing here says what is refused (tests/test_bad_arguments.py does), only how: at once, by an error
# that the library raises on purpose.

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.facts import STAGE_FACTS, Extreme
from support.graphs import catalogue, stream
from support.samples import floats, tokens
from support.tiers import thinned

import resumable as rs
from resumable.core.lookup import looks_up
from resumable.testing.comparing import same

NUMBERS: list[Any] = [
    *(0, 1, 3, -1, -(2**63), -(2**64), -(10**400)),
    *(
        2**16,
        2**31 - 1,
        2**31,
        2**53,
        2**62 - 1,
        2**62,
        2**62 + 1,
        2**63 - 1,
        2**63,
        2**64,
        10**400,
    ),
    *(10**5000, -(10**5000)),
    *(math.nan, math.inf, -math.inf, 0.5, 1e300, 5e-324, 2j, complex(math.nan), True, False),
    *(Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400)),
    *(np.int8(3), np.int64(-1), np.int64(2**62), np.uint64(2**64 - 1), np.float32("inf")),
    *(np.float64("nan"), np.longdouble("1e4000"), np.complex128(1), np.bool_(True)),
    *(
        np.array(3),
        np.array([1, 2]),
        np.array([]),
        "3",
        "",
        b"3",
        None,
        [],
        (1, 2),
        {},
        object(),
        str,
    ),
]
SOURCES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "range": lambda: rs.range(7),
    "nearly all integers": lambda: rs.range(2**62),
    "empty": lambda: rs.range(0),
    "endless": lambda: rs.range(7).repeat(),
    "arrays": lambda: rs.from_arrays({"x": np.arange(7), "y": np.eye(7)}),
    "sequence": lambda: rs.from_sequence("abcdefg"),
    "stream": lambda: stream(7),
    "empty stream": lambda: stream(0),
    "endless stream": lambda: rs.from_iterable(itertools.count),
}


BUILDERS: dict[str, Extreme] = {
    **STAGE_FACTS.merged(lambda facts: facts.extremes),
    "padded": lambda p, x: p.map(tokens).batch(2, collate=rs.padded(x)),
    "padded floats": lambda p, x: p.map(floats).batch(2, collate=rs.padded({"x": x})),
    "range stop": lambda p, x: rs.range(x),
    "range start": lambda p, x: rs.range(x, 5),
    "range step": lambda p, x: rs.range(0, 5, x),
    "range downwards": lambda p, x: rs.range(5, x, -(2**62)),
    "sequence": lambda p, x: rs.from_sequence(range(x) if type(x) is int else x),
    "iterable": lambda p, x: rs.from_iterable(range(x) if type(x) is int else x),
    "iterable policy": lambda p, x: rs.from_iterable([1], external_state_policy=x),
    "arrays": lambda p, x: rs.from_arrays(x),
    "of a stage": lambda p, x: rs.Pipeline(x),
    "apply": lambda p, x: p.apply(x),
}
# What reads, or holds, as much as it is told to before it gives an item is not told much here.
PATIENT = STAGE_FACTS.merged(lambda facts: facts.endless_over)


def own(call: Callable[..., Any], *arguments: Any) -> Any:
    """What ``call`` returns, or the error that it raised on purpose."""
    try:
        return call(*arguments)
    except (rs.ResumableError, IndexError, StopIteration) as error:
        return error


def use(pipeline: rs.Pipeline[Any], *, reads: bool) -> None:
    """Ask everything of ``pipeline``; without ``reads`` only what takes no item."""
    length = own(len, pipeline)
    own(lambda: repr(pipeline) + pipeline.describe() + pipeline.fingerprint)
    iterator = own(iter, pipeline)
    if isinstance(iterator, Exception):
        return
    with iterator:
        states = [own(iterator.get_state)]
        if reads:
            own(next, iterator)
            states.append(own(iterator.get_state))
            own(iterator.skip, 2)
        if reads and looks_up(pipeline.stage):
            own(iterator.skip, 2**63 - 1)
            own(next, iterator)
            states.append(own(iterator.get_state))
    if reads:
        last = length - 1 if isinstance(length, int) else 2**62 - 1
        for index in (0, -1, last, 2**62, 2**63, -(2**64), 10**5000):
            own(pipeline.__getitem__, index)
            own(pipeline.gather, [index], 1)
    for state in states:
        if isinstance(state, dict):
            resumed = own(pipeline.resume, rs.loads(rs.dumps(state)))
            assert not isinstance(resumed, Exception), resumed
            with resumed:
                assert same(resumed.get_state(), state)


# A quick run takes each argument with some of the sources, and each source with some arguments. Of the
# numbers, pairs take one half and the other in turn, so that each argument is tried with all of them.
PAIRS = [(builder, source) for builder in BUILDERS for source in thinned(SOURCES, 2, builder)]


@pytest.mark.parametrize(("builder", "source"), PAIRS)
def test_whatever_an_argument_is_only_errors_of_the_library_are_raised(
    builder: str, source: str
) -> None:
    half = NUMBERS[PAIRS.index((builder, source)) % 2 :: 2]
    for value in thinned(half, 4, (builder, source)):
        pipeline = own(BUILDERS[builder], SOURCES[source](), value)
        if isinstance(pipeline, rs.Pipeline):
            waits = source in PATIENT.get(builder, ())
            use(pipeline, reads=not waits or value in (0, 1, 3))


@pytest.mark.parametrize("buffer_size", [2**40, 2**63 - 1])
@pytest.mark.parametrize("source", ["range", "stream"])
def test_a_buffer_with_more_places_than_memory_has_begins_at_once(
    buffer_size: int, source: str
) -> None:
    pipeline = SOURCES[source]()
    assert list(pipeline.prefetch(buffer_size)) == list(pipeline)


def crafted(value: Any) -> Iterator[Any]:
    """Copies of ``value`` in which one integer is an extreme, but for what an object of the user has saved."""
    if type(value) is int:
        yield from (-1, value + 1, 2**31, 2**62, 2**63 - 1, 2**63, 10**400)
    elif isinstance(value, (dict, list)):
        keys = [*value] if isinstance(value, dict) else range(len(value))
        for key in keys:
            for other in crafted(value[key]) if key != "object" else ():
                copied = value.copy()
                copied[key] = other
                yield copied


@pytest.mark.parametrize(
    ("builder", "source"), [pair for pair in PAIRS if pair[1] != "endless stream"]
)
def test_whatever_a_position_is_only_errors_of_the_library_are_raised(
    builder: str, source: str
) -> None:
    pipeline = own(BUILDERS[builder], SOURCES[source](), 3)
    if not isinstance(pipeline, rs.Pipeline):
        return
    with iter(pipeline) as iterator:
        own(next, iterator)
        state = own(iterator.get_state)
    for hostile in thinned(crafted(state), 6, (builder, source)):
        use_resumed(pipeline, hostile)


@pytest.mark.parametrize(
    ("name", "steps"),
    thinned(zip(catalogue(Path()), itertools.cycle([1, 8]), strict=False), 40, "extremes"),
)
def test_whatever_a_position_of_any_source_and_stage_is_only_errors_of_the_library_are_raised(
    catalogue_data: Path, name: str, steps: int
) -> None:
    make = catalogue(catalogue_data)[name]
    with iter(make()) as iterator:
        for _ in range(steps):
            own(next, iterator)
        state = iterator.get_state()
    for hostile in thinned(crafted(state), 6, (name, steps)):
        use_resumed(make(), hostile)


def use_resumed(pipeline: rs.Pipeline[Any], hostile: Any) -> None:
    resumed = own(pipeline.resume, hostile)
    if not isinstance(resumed, Exception):
        with resumed:
            own(resumed.get_state)
            own(next, resumed)
            own(resumed.skip, 2)
            rs.dumps(resumed.get_state())


def test_an_endless_pipeline_is_exact_up_to_its_last_countable_item_and_refuses_the_next() -> None:
    endless, last = rs.range(7).repeat(), 2**62 - 1
    looked_up: list[tuple[rs.Pipeline[Any], int]] = [
        (endless.skip(5), last - 5),
        (endless.shard(1, 2), 2**61 - 1),
        (endless.shard(2**40 - 1, 2**40), 2**22 - 1),
        (endless.batch(2).map(max), 2**61 - 1),
        (endless.batch(2**4).map(lambda batch: batch[-1]), 2**58 - 1),
        (endless.enumerate().map(lambda pair: pair[1]), last),
    ]
    expected = {last % 7, max(last % 7, (last - 1) % 7)}
    for pipeline, index in looked_up:
        assert pipeline[index] in expected
        assert pipeline.gather(np.array([index]))[0] in expected
        for beyond in {index + 1, max(index + 1, last), 2**62, 2**63}:
            if beyond > last:
                with pytest.raises(IndexError, match="out of range"):
                    pipeline[beyond]
            else:
                with pytest.raises(rs.InvalidArgument, match=r"among the first 2\*\*62, got item"):
                    pipeline[beyond]
        near = index - 2**17  # an iterator computes up to 2**16 indices ahead
        with iter(pipeline.shard(0, 1)) as iterator:
            assert iterator.skip(near) == near
            assert next(iterator) == pipeline[near]
            state = iterator.get_state()
        assert next(pipeline.shard(0, 1).resume(state)) == pipeline[near + 1]


def test_the_length_of_what_is_cut_from_an_endless_pipeline_is_one_that_python_has() -> None:
    endless = rs.range(7).repeat()
    assert len(endless.take(2**63 - 1)) == 2**62
    assert len(rs.mix(rs.range(2**62), *[endless] * 8)) == 2**62
    assert endless[2**62 : 2**63 : 2**70] == []
    assert endless[2**62 - 2 : 2**63] == [(2**62 - 2) % 7, (2**62 - 1) % 7]
    assert rs.range(5)[1 :: 2**70] == [1]
