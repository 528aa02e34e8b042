"""What Grain's elastic iterator promises where hosts come and go, and what it refuses."""

# The scenarios are those that Grain tests of its `ElasticIterator`: the same numbers of hosts, sizes of batches and
# items. There each host is an iterator over the whole data set; here each is a rank's `shard` of the
# pipeline. Beyond them the order is compared: the steps of all hosts together are those of one.

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import neg
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

grain = pytest.importorskip("grain", reason="grain is not installed")
pytest.importorskip("loky", reason="loky is not installed")

from jax_adapter.grain_data import is_even, numbers  # noqa: E402
from resumable_jax.grain import from_grain  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.testing import check_resumes_everywhere  # noqa: E402

Make = Callable[[], Any]
Host = Callable[[int, int, int], Any]
"""Returns the pipeline of a host, by its number, the number of hosts and the size of its batches."""

STEPS = 7  # before the hosts change
PARTITIONS = 24
PROCESSES = {"workers": 2, "executor": "process"}


# Functions of this module make a process import it, and JAX with it. So processes are given others.
def double(number: int) -> int:
    return 2 * number


def less(number: int) -> int:
    return number - 1


def ours(length: int) -> Any:
    return rs.range(length).shuffle(seed=42)


def theirs(length: int) -> Any:
    return from_grain(numbers(length).shuffle(42))


SOURCES = pytest.mark.parametrize("source", [ours, theirs])


class Fleet(NamedTuple):
    """So many hosts, with batches of so many items each."""

    hosts: int
    batch: int

    @property
    def step(self) -> int:
        """Items of a step of all hosts."""
        return self.hosts * self.batch


def dealt(pipeline: Any, *, fn: Any = None, **workers: Any) -> Host:
    """Hosts that share the items of ``pipeline`` out, and call ``fn`` with theirs."""

    def host(number: int, hosts: int, batch: int) -> Any:
        own = pipeline.shard(number, hosts)
        return (own.map(fn, **workers) if fn else own).batch(batch, drop_last=True)

    return host


def started(host: Host, fleet: Fleet, state: Any = None) -> list[Any]:
    """An iterator of each host, at ``state``."""
    pipelines = [host(number, *fleet) for number in range(fleet.hosts)]
    return [iter(one) if state is None else one.resume(rs.loads(state)) for one in pipelines]


def steps(iterators: list[Any]) -> Iterator[list[Any]]:
    """The items of each step of all hosts, in the global order, until they end together."""
    while True:
        batches = [next(iterator, None) for iterator in iterators]
        if any(batch is None for batch in batches):
            assert all(batch is None for batch in batches)
            return
        yield [item for row in zip(*batches, strict=True) for item in row]


def flat(parts: Any) -> list[Any]:
    return [item for part in parts for item in part]


def plain(items: Any) -> list[Any]:
    return list(np.asarray(items).tolist())


def resized(host: Host, before: Fleet, after: Fleet, first: int = STEPS) -> list[Any]:
    """All items of ``first`` steps of some hosts, and of those of other hosts that go on.

    The state of any one host serves all others: they are the same.
    """
    iterators = started(host, before)
    done = flat(islice(steps(iterators), first))
    states = {rs.dumps(iterator.get_state()) for iterator in iterators}
    assert len(states) == 1
    for iterator in iterators:
        iterator.close()
    iterators = started(host, after, states.pop())
    done += flat(steps(iterators))
    for iterator in iterators:
        iterator.close()
    return done


@pytest.mark.parametrize("workers", [{"workers": 0}, {"workers": 7}])
@pytest.mark.parametrize(
    ("host", "hosts", "batch", "expected"),
    [
        (0, 1, 5, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]),
        (0, 2, 1, [[1], [3], [5], [7], [9]]),
        (2, 4, 2, [[3, 7]]),
    ],
)
@pytest.mark.parametrize("source", [rs.range, lambda length: from_grain(numbers(length))])
def test_each_host_gets_its_items(
    source: Any, host: int, hosts: int, batch: int, expected: Any, workers: Any
) -> None:
    pipeline = dealt(source(10), fn=(1).__add__, **workers)(host, hosts, batch)
    with iter(pipeline) as iterator:
        assert [item.tolist() for item in iterator] == expected


@SOURCES
@pytest.mark.parametrize("workers", [{"workers": 0}, {"workers": 2}])
def test_a_host_resumes_everywhere(source: Any, workers: Any) -> None:
    check_resumes_everywhere(dealt(source(100), fn=double, **workers)(0, 1, 5), generations=1)


SIZES = [
    (1024, Fleet(32, 2), Fleet(16, 2)),
    (2**16, Fleet(8, 32), Fleet(4, 32)),
    (2**16, Fleet(8, 16), Fleet(64, 2)),
    (2**16, Fleet(4, 16), Fleet(6, 16)),
]


@SOURCES
@pytest.mark.parametrize(("length", "before", "after"), SIZES)
def test_every_item_comes_once_in_the_order_of_one_host(
    source: Any, length: int, before: Fleet, after: Fleet
) -> None:
    pipeline = source(length).map(less)
    done = plain(resized(dealt(pipeline), before, after))
    assert done == plain(list(pipeline))
    assert sorted(done) == list(range(-1, length - 1))


@pytest.mark.parametrize(
    ("source", "workers"),
    [(ours, {"workers": 2}), (theirs, {"workers": 2}), (theirs, PROCESSES)],
)
@pytest.mark.parametrize(("length", "before", "after"), [SIZES[1], SIZES[3]])
def test_workers_change_nothing(
    source: Any, length: int, before: Fleet, after: Fleet, workers: Any
) -> None:
    short = length // 32  # the position is that of Grain's scenario, the rest is shorter
    pipeline = source(short)
    done = plain(resized(dealt(pipeline, fn=neg, **workers), before, after))
    assert done == [neg(item) for item in pipeline][: len(done)]
    assert len(done) > short - after.step


def test_processes_change_nothing() -> None:
    pipeline = theirs(64)
    host = dealt(pipeline, fn=neg, **PROCESSES)
    done = resized(host, Fleet(1, 4), Fleet(2, 2), first=3)
    assert plain(done) == [neg(item) for item in pipeline]
    parts = ours(64).partition(2, lambda part: part.filter((1).__and__).batch(2), **PROCESSES)
    with iter(parts) as iterator:
        done = [next(iterator) for _ in range(5)]
        state = rs.dumps(iterator.get_state())
    ranks = [iter(parts.shard(rank, 2).resume(rs.loads(state))) for rank in range(2)]
    done += turns(ranks[1:] + ranks[:1])
    for rank in ranks:
        rank.close()
    assert sorted(flat(map(plain, done))) == list(range(1, 64, 2))


@given(
    length=st.integers(0, 200),
    before=st.builds(Fleet, st.integers(1, 5), st.integers(1, 4)),
    after=st.builds(Fleet, st.integers(1, 5), st.integers(1, 4)),
    first=st.integers(0, 9),
)
def test_any_hosts_go_on_where_any_others_stopped(
    length: int, before: Fleet, after: Fleet, first: int
) -> None:
    for pipeline in (rs.range(length).shuffle(0), from_grain(numbers(length).map(double))):
        done = plain(resized(dealt(pipeline), before, after, first))
        assert done == plain(list(pipeline))[: len(done)]
        assert len(done) > length - before.step - after.step


def documents(pipeline: Any) -> Any:
    return pipeline.map(lambda number: [number] * (1 + number % 5)).pack(16, group=8)


def rows(batch: Any) -> list[Any]:
    """The tokens of each row of a packed batch."""
    return [row.tolist() for row in batch["tokens"]]


BEFORE_THE_DEAL: dict[str, Callable[[Any], Any]] = {
    "filter": lambda source: source.filter(is_even),
    "pack": lambda source: documents(source).map(
        lambda row: row["tokens"].sum() * 1000 + row["tokens"][0]
    ),
    "mix": lambda source: rs.mix(source, rs.range(5000, 9000), weights=(7, 3)),
    "mix of what is kept": lambda source: rs.mix(
        {"a": source.filter(is_even), "b": rs.range(5000, 9000)}, weights={"a": 2, "b": 1}
    ),
}
RESIZES = [(Fleet(8, 2), Fleet(4, 2)), (Fleet(4, 2), Fleet(6, 3)), (Fleet(2, 4), Fleet(16, 1))]


@SOURCES
@pytest.mark.parametrize("stage", BEFORE_THE_DEAL)
@pytest.mark.parametrize(("before", "after"), RESIZES)
def test_what_grain_refuses_before_the_deal_may_stand_there(
    source: Any, stage: str, before: Fleet, after: Fleet
) -> None:
    pipeline = BEFORE_THE_DEAL[stage](source(1024))
    expected = plain(list(pipeline))
    done = plain(resized(dealt(pipeline), before, after))
    assert done == expected[: len(done)]
    assert len(done) > max(len(expected) - after.step, STEPS * before.step)


def test_what_a_data_set_of_grain_filters_is_dealt_too() -> None:
    pipeline = from_grain(numbers(1024).shuffle(42).filter(is_even))
    done = plain(resized(dealt(pipeline), Fleet(8, 2), Fleet(4, 2)))
    assert done == list(pipeline)[: len(done)]
    assert sorted(done) == list(range(0, 1024, 2))


def filtered(part: Any) -> Any:
    return part.filter(is_even).map(double).batch(2)


def packed(part: Any) -> Any:
    return documents(part.filter(is_even)).batch(2)


def values(batch: Any) -> list[Any]:
    """The items of a batch, or all tokens of a packed one."""
    if isinstance(batch, dict):
        return [token for row in batch["tokens"].tolist() for token in row if token]
    return plain(batch)


def turns(iterators: list[Any]) -> Iterator[Any]:
    """Batches of the hosts in turn, as far as all have one."""
    while True:
        batches = [next(iterator, None) for iterator in iterators]
        yield from (batch for batch in batches if batch is not None)
        if all(batch is None for batch in batches):
            return


@pytest.mark.parametrize("source", [ours, theirs])
@pytest.mark.parametrize("fn", [filtered, packed])
@pytest.mark.parametrize(
    ("hosts", "others", "workers"),
    [(*fleets, {"workers": workers}) for workers in (0, 2) for fleets in ((8, 4), (4, 6), (2, 12))],
)
def test_partitions_filter_and_pack_on_hosts_that_change(
    hosts: int, others: int, fn: Any, source: Any, workers: Any
) -> None:
    pipeline = source(2048).partition(PARTITIONS, fn, **workers)
    ranks = [iter(pipeline.shard(rank, hosts)) for rank in range(hosts)]
    done = [values(next(rank)) for _ in range(STEPS) for rank in ranks]
    state = rs.merge_states([rank.get_state() for rank in ranks])
    for rank in ranks:
        rank.close()
    ranks = [iter(pipeline.shard(rank, others).resume(state)) for rank in range(others)]
    first = hosts * STEPS % others  # the rank of the partition whose turn it is
    done += [values(batch) for batch in turns(ranks[first:] + ranks[:first])]
    for rank in ranks:
        rank.close()
    with iter(pipeline) as uninterrupted:
        expected = [values(batch) for batch in uninterrupted]
    # Once a partition has ended, each rank takes turns among those it has left.
    alike = PARTITIONS * _least_batches(source(2048).partition(PARTITIONS, fn))
    assert alike > STEPS * hosts
    assert done[:alike] == expected[:alike]
    assert sorted(done) == sorted(expected)
    kept = [double(n) if fn is filtered else n for n in range(0, 2048, 2)]
    assert sorted(set(flat(done))) == [n for n in kept if n or fn is filtered]


def _least_batches(pipeline: Any) -> int:
    """How many batches the partition has that has the fewest."""
    return min(len(list(pipeline.shard(part, PARTITIONS))) for part in range(PARTITIONS))
