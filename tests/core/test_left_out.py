"""Which items are left out of an order, and which remain, against lists of all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resumable.core.block import Indices
from resumable.core.epoch_runs import EpochRuns
from resumable.core.left_out import AtPlaces, LeftOut
from resumable.core.left_out_of_inputs import LeftOutInEpochs, OfInputs
from resumable.core.records import Records, read_known_as, records_known_as, shown_records

RUNS = st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=6)
"""Runs of items that are left out or remain, some of them long."""


def mask_of(runs: list[tuple[bool, int]]) -> list[bool]:
    return [is_out for is_out, count in runs for _ in range(count)]


def at_places(mask: list[bool]) -> AtPlaces:
    places = np.flatnonzero(np.array(mask, np.bool_))
    return AtPlaces(len(places), lambda: places[::-1])


def agrees(left_out: LeftOut, mask: list[bool], data: st.DataObject) -> None:
    """Check every answer of ``left_out`` about items of which ``mask`` tells whether they are left out."""
    everything = np.array(mask, np.bool_)
    kept = np.flatnonzero(~everything)
    assert left_out.total == everything.sum()
    index = data.draw(st.integers(0, len(mask)))
    assert left_out.before(index) == everything[:index].sum()
    assert left_out.kept_before(index) == index - everything[:index].sum()
    assert left_out.up_to(index).tolist() == np.flatnonzero(everything[:index]).tolist()
    some = st.lists(st.integers(0, max(len(mask) - 1, 0)), max_size=9 if mask else 0)
    for indices in (np.arange(index, len(mask)), np.array(data.draw(some), np.int64)):
        assert left_out.among(indices).tolist() == everything[indices].tolist()
    if not len(kept):
        return
    first = data.draw(st.integers(0, len(kept) - 1))
    some = st.lists(st.integers(0, len(kept) - 1), max_size=9)
    for places in (np.arange(first, len(kept)), np.array(data.draw(some), np.int64)):
        assert left_out.remaining(places).tolist() == kept[places].tolist()
        assert LeftOut.remaining(left_out, places).tolist() == kept[places].tolist()


@given(runs=RUNS, data=st.data())
def test_items_at_places(runs: list[tuple[bool, int]], data: st.DataObject) -> None:
    mask = mask_of(runs)
    agrees(at_places(mask), mask, data)


class Listed(NamedTuple):
    """An order of turns: the input of each, and the index there."""

    numbers: Indices
    items: Indices

    def items_of(self, outputs: Indices) -> tuple[Indices, Indices]:
        return self.numbers[outputs], self.items[outputs]

    def turns_before(self, count: int) -> list[int]:
        return [int((self.numbers[:count] == number).sum()) for number in range(3)]

    def turn_of(self, number: int, item: int) -> int:
        return int(np.flatnonzero((self.numbers == number) & (self.items == item))[0])


@given(
    runs=st.lists(RUNS, min_size=1, max_size=3),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_items_of_inputs(
    runs: list[list[tuple[bool, int]]], seed: int, data: st.DataObject
) -> None:
    masks = list(map(mask_of, runs))
    # In the order of the inputs, or in another one, in which those of each follow each other.
    numbers = np.repeat(np.arange(len(masks)), list(map(len, masks)))
    if seed:
        np.random.default_rng(seed).shuffle(numbers)
    items = np.zeros_like(numbers)
    for number in range(len(masks)):
        items[numbers == number] = np.arange(len(masks[number]))
    mask = [masks[number][item] for number, item in zip(numbers, items, strict=True)]
    left_out = OfInputs(list(map(at_places, masks)), len(mask), lambda: Listed(numbers, items))
    agrees(left_out, mask, data)


@given(
    runs=st.lists(
        RUNS.filter(lambda runs: not all(out for out, _ in runs)), min_size=1, max_size=3
    ),
    epochs=st.integers(1, 7),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_items_of_epochs(
    runs: list[list[tuple[bool, int]]], epochs: int, seed: int, data: st.DataObject
) -> None:
    masks = list(map(mask_of, runs))
    firsts = [2 * number for number in range(len(masks))]

    def in_epoch(epoch: int) -> list[bool]:
        mask = masks[max(number for number, first in enumerate(firsts) if first <= epoch)]
        return np.random.default_rng([seed, epoch]).permutation(mask).tolist() if seed else mask

    all_of_them = EpochRuns(firsts, list(map(len, masks)), epochs)
    left_out = LeftOutInEpochs(
        all_of_them,
        [len(mask) - sum(mask) for mask in masks[: len(all_of_them.firsts)]],
        lambda epoch: at_places(in_epoch(epoch)),
    )
    agrees(left_out, [out for epoch in range(epochs) for out in in_epoch(epoch)], data)


NUMBERS = st.lists(st.integers(0, 2**40), max_size=40)
GIVEN = st.recursive(
    NUMBERS, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=5
)


@given(given=GIVEN)
def test_a_fingerprint_tells_the_records_or_their_digest(given: object) -> None:
    records = Records.of(given)
    known = records.known_as
    assert read_known_as(known) == known
    assert repr(records) == shown_records(known)
    if "records>" not in repr(records):
        assert records_known_as(known) == records
    assert Records.of(given) == records
