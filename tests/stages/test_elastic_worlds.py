"""Ranks, workers and batches that change again and again: every item comes once, through the end of an epoch too."""

# The named sequences are those by which LitData tests what it calls elastic resumes: the same numbers of items, ranks,
# workers and batches. There each item comes at most once, and what has not filled a global batch at the save comes again.
# Here every item comes once, and where `shard` deals items out, in the order of a run in one piece.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs

PARTITIONS: Final = 24
MISSING: Final = object()


class Fleet(NamedTuple):
    """So many ranks with so many workers each, which take so many batches, or all that are left."""

    ranks: int
    workers: int
    batch_size: int
    batches: int | None = None


Deal = Callable[[int, int, Fleet], rs.Pipeline[Any]]
"""The batches of a rank of a fleet: the number of items, that of the rank, and its fleet."""


def kept(item: int) -> int:
    return item


def sharded(length: int, rank: int, fleet: Fleet) -> rs.Pipeline[Any]:
    dealt = rs.range(length).shuffle(seed=42).shard(rank, fleet.ranks, uneven="keep")
    return dealt.map(kept, workers=fleet.workers).batch(fleet.batch_size)


def partitioned(length: int, rank: int, fleet: Fleet) -> rs.Pipeline[Any]:
    order = rs.range(length).shuffle(seed=42)
    parts = order.partition(PARTITIONS, lambda part: part.map(kept), workers=fleet.workers)
    return parts.shard(rank, fleet.ranks).batch(fleet.batch_size)


def in_order(deal: Deal, length: int) -> list[int]:
    """The items of a run in one piece."""
    return list(chain.from_iterable(deal(length, 0, Fleet(1, 0, 1))))


def run(deal: Deal, length: int, fleets: list[Fleet]) -> list[list[list[int]]]:
    """The items that each fleet takes, by its steps; each fleet goes on where the one before has stopped."""
    found, state = [], None
    for fleet in fleets:
        batches, states = [], []
        for rank in range(fleet.ranks):
            pipeline = deal(length, rank, fleet)
            with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
                taken = islice(iterator, fleet.batches)
                batches.append([batch.tolist() for batch in taken])
                states.append(rs.loads(rs.dumps(iterator.get_state())))
        state = rs.merge_states(states) if deal is partitioned else states[0]
        found.append([turns(step) for step in zip_longest(*batches, fillvalue=[])])
    return found


def turns(batches: Any) -> list[int]:
    """One item of each batch in turn, as they were dealt out."""
    rounds = chain.from_iterable(zip_longest(*batches, fillvalue=MISSING))
    return [item for item in rounds if item is not MISSING]


SEQUENCES: Final[dict[str, tuple[int, list[Fleet]]]] = {
    "workers 2 to 8": (128, [Fleet(1, 2, 4, 6), Fleet(1, 8, 4)]),
    "workers 8 to 2": (128, [Fleet(1, 8, 4, 5), Fleet(1, 2, 4)]),
    "workers none to 6": (96, [Fleet(1, 0, 4, 7), Fleet(1, 6, 4)]),
    "a second resume": (96, [Fleet(1, 2, 4, 6), Fleet(1, 0, 4, 3), Fleet(1, 0, 4)]),
    "ranks 2 to 1": (80, [Fleet(2, 1, 4, 2), Fleet(1, 1, 4)]),
    "ranks 2 to 8": (64, [Fleet(2, 1, 4, 4), Fleet(8, 1, 4)]),
    "ranks 8 to 2": (64, [Fleet(8, 1, 4, 1), Fleet(2, 1, 4)]),
    "ranks 8 to 2 to 8": (64, [Fleet(8, 1, 4, 1), Fleet(2, 1, 4, 1), Fleet(8, 1, 4)]),
    "one global batch": (64, [Fleet(8, 1, 4, 1), Fleet(4, 1, 8)]),
    "other batches and ranks": (27, [Fleet(1, 0, 5, 1), Fleet(2, 3, 2)]),
    "within a global batch": (40, [Fleet(1, 0, 13, 1), Fleet(2, 1, 4)]),
    "nothing left": (10, [Fleet(2, 2, 2), Fleet(3, 1, 2)]),
}


@pytest.mark.parametrize("deal", [sharded, partitioned])
@pytest.mark.parametrize("name", SEQUENCES)
def test_every_item_comes_once_where_litdata_changes_the_world(name: str, deal: Deal) -> None:
    length, fleets = SEQUENCES[name]
    found = run(deal, length, fleets)
    order = in_order(deal, length)
    delivered: list[int] = []
    for step in chain.from_iterable(found):
        expected = order[len(delivered) : len(delivered) + len(step)]
        if deal is sharded:
            assert step == expected
        elif len(delivered) + len(step) <= length // PARTITIONS * PARTITIONS:  # until one ends
            assert sorted(step) == sorted(expected)
        delivered += step
    assert sorted(delivered) == list(range(length))


@pytest.mark.parametrize("deal", [sharded, partitioned])
def test_a_global_batch_has_its_items_whoever_takes_it(deal: Deal) -> None:
    length = 4 * 4 * PARTITIONS
    order = in_order(deal, length)
    for fleets in (
        [Fleet(8, 0, 6, 1), Fleet(4, 0, 12, 2), Fleet(12, 1, 4, 2), Fleet(1, 0, 48)],
        [Fleet(2, 2, 24, 3), Fleet(24, 0, 2, 1), Fleet(3, 1, 16)],
    ):
        steps = [step for fleet in run(deal, length, fleets) for step in fleet]
        assert [sorted(step) for step in steps] == [
            sorted(order[begin : begin + 48]) for begin in range(0, length, 48)
        ]


fleets = st.lists(
    st.builds(Fleet, st.integers(1, 8), st.integers(0, 2), st.integers(1, 4), st.integers(0, 6)),
    max_size=6,
)


@pytest.mark.parametrize("kind", ["random access", "stream"])
@given(st.integers(0, 40), st.sampled_from(["drop", "pad"]), fleets, st.integers(1, 8))
def test_epochs_go_on_through_any_sequence_of_worlds(
    kind: str, length: int, uneven: str, plan: list[Fleet], last: int
) -> None:
    def order() -> rs.Pipeline[int]:
        items = stream(length) if kind == "stream" else rs.range(length).shuffle(seed=42)
        return items.repeat(3)

    def deal(_: int, rank: int, fleet: Fleet) -> rs.Pipeline[Any]:
        dealt = order().shard(rank, fleet.ranks, uneven=uneven)
        return dealt.map(kept, workers=fleet.workers).batch(fleet.batch_size)

    expected = list(order())
    found = run(deal, length, [*plan, Fleet(last, 0, 1)])
    delivered = [item for fleet in found for step in fleet for item in step]
    whole = min(len(delivered), len(expected))
    assert delivered[:whole] == expected[:whole]
    ranks = max(fleet.ranks for fleet in [*plan, Fleet(last, 0, 1)])
    if uneven == "drop":  # what does not fill a round of the ranks that are there at the end
        assert 0 <= len(expected) - len(delivered) < ranks
    else:
        assert 0 <= len(delivered) - len(expected) < ranks
        assert Counter(delivered[whole:]) <= Counter(expected[-ranks:] * ranks)
