"""Leases taken and ended in any order, saved, killed, and resumed by other ranks: each item once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support.tiers import examples

import resumable as rs


def numbers() -> Iterator[int]:
    return iter(range(60))


PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "random access": lambda: rs.range(40).shuffle(seed=3),
    "batches": lambda: rs.range(90).shuffle(seed=1).repeat(2).batch(4).prefetch(2),
    "epochs": lambda: rs.range(9).shuffle(seed=2).repeat(4).map(str),
    "stream": lambda: rs.from_iterable(numbers).filter(lambda n: n % 3).shuffle(5, window=7),
}


def plain(item: Any) -> Any:
    return item.tolist() if isinstance(item, np.ndarray) else item


class LeaseLives(RuleBasedStateMachine):
    """Lives of a run with some ranks. What is done in a life counts from the next save on."""

    make: Callable[[], rs.Pipeline[Any]]

    @initialize(ranks=st.integers(1, 3), max_open=st.sampled_from([None, 1, 5]))
    def begin(self, ranks: int, max_open: int | None) -> None:
        self.expected = [plain(item) for item in self.make()]
        self.saved: dict[str, Any] | None = None
        self.ended_before: set[int] = set()
        self.start(ranks, max_open, None)

    def start(self, ranks: int, max_open: int | None, max_ahead: int | None) -> None:
        self.lives = [
            rs.Leases(
                self.make(),
                max_open=max_open,
                max_ahead=max_ahead,
                rank=rank,
                ranks=ranks,
                state=self.saved,
            )
            for rank in range(ranks)
        ]
        self.ended = set(self.ended_before)
        self.held: list[dict[int, rs.Lease[Any]]] = [{} for _ in range(ranks)]
        self.released: list[set[int]] = [set() for _ in range(ranks)]
        self.open_before: list[list[int]] = [self.dealt()[rank::ranks] for rank in range(ranks)]

    def dealt(self) -> list[int]:
        """The numbers that were handed out, or dealt, and not finished when the run was saved."""
        if self.saved is None:
            return []
        ranges = self.saved["leases"]["unfinished"]
        return sorted(number for one in ranges for number in range(*one))

    def hold(self, rank: int, lease: rs.Lease[Any]) -> None:
        assert lease.number not in self.ended
        assert all(lease.number not in held for held in self.held)
        assert plain(lease.item) == self.expected[lease.number]
        self.held[rank][lease.number] = lease

    @rule(rank=st.integers(0, 2), count=st.integers(1, 9))
    def take(self, rank: int, count: int) -> None:
        rank %= len(self.lives)
        for _, lease in zip(range(count), self.lives[rank].available(), strict=False):
            if self.released[rank]:
                assert lease.number == min(self.released[rank])
                self.released[rank].remove(lease.number)
            elif self.open_before[rank]:
                assert lease.number == self.open_before[rank].pop(0)
            self.hold(rank, lease)

    @rule(rank=st.integers(0, 2), place=st.integers(0, 99), how=st.sampled_from(["done", "drop"]))
    def end(self, rank: int, place: int, how: str) -> None:
        rank %= len(self.lives)
        if held := self.held[rank]:
            lease = held.pop(sorted(held)[place % len(held)])
            getattr(lease, how)()
            self.ended.add(lease.number)

    @rule(rank=st.integers(0, 2), place=st.integers(0, 99))
    def release(self, rank: int, place: int) -> None:
        rank %= len(self.lives)
        if held := self.held[rank]:
            lease = held.pop(sorted(held)[place % len(held)])
            self.lives[rank].release(lease.number)
            self.released[rank].add(lease.number)

    @rule(rank=st.integers(0, 2), place=st.integers(0, 99))
    def claim(self, rank: int, place: int) -> None:
        rank %= len(self.lives)
        before, reached = self.open_before[rank], (self.saved or {"step": 0})["step"]
        here = [number for number in before if number < reached]
        if here and self.make().random_access:
            number = here[place % len(here)]
            before.remove(number)
            self.hold(rank, self.lives[rank].claim(number))

    @rule(data=st.data(), forget=st.booleans())
    def save(self, data: st.DataObject, forget: bool) -> None:
        states = []
        done = set()
        for leases, held in zip(self.lives, self.held, strict=True):
            chosen = data.draw(st.sets(st.sampled_from(sorted(held)))) if held else set()
            states.append(rs.loads(rs.dumps(leases.get_state(done=chosen))))
            done |= chosen
            leases.done(*chosen)
            for number in chosen:
                del held[number]
        self.ended |= done
        self.ended_before = set(self.ended)
        self.saved = rs.merge_states(data.draw(st.permutations(states)))
        counts = self.saved["leases"]
        assert counts["done"] + counts["dropped"] == len(self.ended_before)

    @rule(
        ranks=st.integers(1, 4),
        max_open=st.sampled_from([None, 1, 3, 8]),
        max_ahead=st.sampled_from([None, 1, 20]),
    )
    def die(self, ranks: int, max_open: int | None, max_ahead: int | None) -> None:
        for leases in self.lives:
            leases.close()
        self.start(ranks, max_open, max_ahead)

    def teardown(self) -> None:
        """Finish everything: each item was ended exactly once."""
        if not hasattr(self, "lives"):
            return
        for rank, leases in enumerate(self.lives):
            leases.done(*self.held[rank])
            self.ended |= self.held[rank].keys()
            self.held[rank] = {}
            leases.done(*leases.open)  # some are left only if a rule has failed
            for lease in leases:
                self.hold(rank, lease)
                del self.held[rank][lease.number]
                lease.done()
                self.ended.add(lease.number)
            leases.close()
        assert self.ended == set(range(len(self.expected)))


@pytest.mark.parametrize("kind", PIPELINES)
def test_each_item_is_done_once_whatever_happens(kind: str) -> None:
    machine = type("Machine", (LeaseLives,), {"make": staticmethod(PIPELINES[kind])})
    limits = settings(max_examples=4 * examples(), stateful_step_count=30)
    run_state_machine_as_test(machine, settings=limits)
