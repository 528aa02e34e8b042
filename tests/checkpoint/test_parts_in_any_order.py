"""In whatever order ranks come to their store, and whoever is killed: what is whole is right, and stays."""

from __future__ import annotations

from functools import partial

import pytest
from checkpoint.interleaving import Life
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.checkpoint.ranks.parts import WholeSteps
from resumable.checkpoint.reading import read_checkpoint

# A rank's turn: which one of those that live, how many calls of its store, and what then: it is
# killed and begins anew alone in one case of eight.
turns = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 7).map(lambda n: n == 0)),
    max_size=40,
)
# So many ranks, whether they begin their work together, and their turns. Then all are killed.
eras = st.lists(st.tuples(st.integers(1, 3), st.booleans(), turns), min_size=1, max_size=4)
retentions = st.sampled_from(
    [None, rs.Retention(1), rs.Retention(2), rs.Retention(1, every_steps=4)]
)


class Ranks:
    """The ranks of one era, each with its life, over a store that outlives them."""

    def __init__(
        self, store: rs.Store, ranks: int, retention: rs.Retention | None, every: int
    ) -> None:
        self.store, self.retention, self.every = store, retention, every
        self.resumed: dict[int, int] = {}
        self.go_on = not ranks
        self.lives: list[Life] = []
        for rank in range(ranks):
            self.lives.append(Life(partial(self.work, rank, ranks), store))

    def work(self, rank: int, ranks: int, store: rs.Store) -> None:
        with rs.Checkpointer(
            store, rs.EverySteps(self.every), rank=rank, ranks=ranks, retention=self.retention
        ) as checkpointer:
            loop = checkpointer.resume(rs.range(10**6).shard(rank, ranks))
            self.resumed[rank] = loop.step
            for _ in loop:
                while not self.go_on:  # its turns pass
                    checkpointer.steps()

    def begin_together(self) -> None:
        while len(self.resumed) < len(self.lives):
            for life in self.lives:
                life.turn()
                self.check_none_failed()
        assert len(set(self.resumed.values())) == 1, f"they resumed from {self.resumed}"

    def begin_anew(self, rank: int) -> None:
        self.lives[rank].kill()
        self.lives[rank] = Life(partial(self.work, rank, len(self.lives)), self.store)

    def check_none_failed(self) -> None:
        for life in self.lives:
            if life.error is not None:
                raise life.error

    def end(self) -> None:
        for life in self.lives:
            life.kill()


def newest_whole(store: rs.Store) -> int:
    """The newest step that is whole, or 0; the parts of all that are fit together."""
    whole = WholeSteps(store)
    steps = whole.steps()
    for step in steps:
        read_checkpoint(whole, step)
    return max(steps, default=0)


@pytest.mark.filterwarnings("ignore:no step in")  # a rank may be far ahead of all others
@given(eras, retentions, st.integers(1, 2))
def test_in_any_order_whole_steps_are_right_and_none_is_removed_in_vain(
    eras: list[tuple[int, bool, list[tuple[int, int, bool]]]],
    retention: rs.Retention | None,
    every: int,
) -> None:
    store = rs.Memory()
    for count, together, turns in eras:
        begun_at = newest_whole(store)
        ranks = Ranks(store, count, retention, every)
        try:
            if together:
                ranks.begin_together()
                assert set(ranks.resumed.values()) == {begun_at}
            ranks.go_on = True
            for number, calls, dies in turns:
                for _ in range(calls):
                    ranks.lives[number % count].turn()
                    ranks.check_none_failed()
                    assert newest_whole(store) >= begun_at, "what they resumed from is gone"
                if dies:
                    ranks.begin_anew(number % count)
        finally:
            ranks.end()
