"""The buffer of a partition grows where its worker stopped for want of room, and then was late."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until, waits_in

import resumable as rs
from resumable.workers import items_ahead, running_partition
from resumable.workers.items_ahead import FIRST, MOST, MOST_BYTES, ItemsAhead


def used_up(ahead: ItemsAhead, items: list[Any], wanted: int) -> int:
    """The size after ``items`` were delivered and used up before the next were there."""
    ahead.note_delivery(items, wanted)
    ahead.note_wait()
    return ahead.size


def test_a_buffer_that_was_full_and_then_empty_is_doubled_up_to_a_limit() -> None:
    ahead = ItemsAhead(None, 3)
    sizes = [ahead.size]
    while sizes[-1] < MOST:
        sizes.append(used_up(ahead, [0] * sizes[-1], sizes[-1]))
    assert sizes == [FIRST * 2**step for step in range(5)]
    assert used_up(ahead, [0] * MOST, MOST) == MOST


def test_a_buffer_stays_where_its_worker_never_had_to_stop() -> None:
    ahead = ItemsAhead(None, 3)
    assert [used_up(ahead, [0] * count, FIRST) for count in range(FIRST)] == [FIRST] * FIRST


def test_a_buffer_stays_where_its_items_are_there_in_time() -> None:
    ahead = ItemsAhead(None, 3)
    for _ in range(9):
        ahead.note_delivery([0] * FIRST, FIRST)
    assert ahead.size == FIRST


def test_one_wait_is_counted_once() -> None:
    ahead = ItemsAhead(None, 3)
    assert used_up(ahead, [0] * FIRST, FIRST) == 2 * FIRST
    ahead.note_wait()
    assert ahead.size == 2 * FIRST


def test_a_buffer_that_was_given_is_kept() -> None:
    for given in (1, 5, 300):
        assert used_up(ItemsAhead(given, 1), [np.zeros(MOST_BYTES, np.int8)], 1) == given


def test_large_items_are_few() -> None:
    partitions, held = 4, 3 * FIRST
    item = np.zeros(MOST_BYTES // partitions // held, np.int8)
    ahead = ItemsAhead(None, partitions)
    assert used_up(ahead, [0] * FIRST, FIRST) == 2 * FIRST  # nothing is known of large ones yet
    assert used_up(ahead, [item] * FIRST, FIRST) == held
    assert used_up(ahead, [np.concatenate([item, item])] * held, held) == held // 2
    ahead.note_delivery([np.zeros(MOST_BYTES, np.int8)], 2)
    assert ahead.size == FIRST  # at once, though nothing was waited for


@pytest.mark.parametrize("most", [FIRST, 32])
def test_a_buffer_grows_while_a_loop_runs_and_changes_no_item(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_ahead, "MOST", most)
    monkeypatch.setattr(running_partition, "LONGEST_SECONDS", math.inf)  # no task is cut short
    made, loop = 0, threading.current_thread()

    def slowly(batch: Any) -> list[int]:
        if threading.current_thread() is not loop:  # which works too, for a state
            wait_until(lambda: waits_in(loop, "wait"))  # until it has used up all that was made
        return list(batch)

    def note(item: int) -> int:
        nonlocal made
        made += 1
        return item

    def in_bursts(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
        return part.map_batches(slowly, 40).map(note)

    with ThreadPoolExecutor(1) as executor:
        numbers = rs.range(800).partition(2, in_bursts, workers=1, executor=executor)
        with iter(numbers) as iterator:
            ahead = []
            for had, item in enumerate(iterator, 1):
                assert item == had - 1
                ahead.append(made - had)
    assert max(ahead) <= 2 * most
    assert most == FIRST or max(ahead) >= 4 * FIRST


def test_a_buffer_begins_small() -> None:
    numbers = rs.range(100)
    with ThreadPoolExecutor(1) as executor:
        parts = numbers.partition(2, lambda part: part, workers=1, executor=executor)
        with iter(parts) as iterator:
            assert list(islice(iterator, 1)) == [0]
            sizes = [one.ahead.size for one in iterator._running.root._upstreams]  # type: ignore[attr-defined]
    assert sizes == [FIRST, FIRST]
