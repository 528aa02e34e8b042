"""Whatever a program does to a loader, the place of its loop is the one of a model of a page, or the call is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

torch = pytest.importorskip("torch", reason="torch is not installed")

from support.tiers import examples  # noqa: E402
from torch_adapter.data import LENGTH, loader_of, plain  # noqa: E402

import resumable as rs  # noqa: E402

ITEMS = {"map": LENGTH, "pipeline": LENGTH, "stream": LENGTH - 1}
REFUSED = "refused"
ENDED = "ended"
SOME = st.integers(0, 6)


@dataclass
class Loop:
    """What is known of an epoch in progress; a loop keeps the one in which it began."""

    got: int = 0
    begun: bool = False
    saved: bool = False
    looked: bool = False
    left_by: str = ""


@dataclass
class Model:
    """The place of a loop: where the next one begins, and which calls are refused."""

    batches: int  # in an epoch
    knows_the_end: bool  # before it is reached
    epoch: int = 0
    start: int = 0  # batches of the epoch before the loop
    loaded: bool = False
    chosen: bool = False
    loop: Loop = field(default_factory=Loop)

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.start + self.loop.got

    def go(self, epoch: int, start: int, by: str, *, loaded: bool = False) -> None:
        self.loop.left_by = by
        self.loop, self.epoch, self.start = Loop(), epoch, start
        self.loaded, self.chosen = loaded, False

    @property
    def left(self) -> bool:
        return self.loop.got > 0 and (self.place[1] < self.batches or not self.knows_the_end)

    def begin(self) -> Loop | str:
        loop = self.loop
        look = self.left and loop.got == 1
        if (self.left and loop.saved) or (look and loop.looked):
            return REFUSED
        if loop.got and not look:
            self.go(self.epoch if self.chosen else self.epoch + 1, 0, "loop")
        elif self.loaded and self.start == self.batches and not self.chosen:
            self.go(self.epoch + 1, 0, "loop")
        self.go(self.epoch, self.start, "loop")
        self.loop.begun, self.loop.looked = True, look
        return self.loop

    def take(self, loop: Loop) -> tuple[int, int] | str:
        if loop.left_by:
            return ENDED if loop.left_by == "end_epoch" else REFUSED
        place = self.place
        if place[1] == self.batches:
            self.go(self.epoch + 1, 0, "end_epoch")  # nothing more comes out of this loop
            return ENDED
        loop.got += 1
        return place

    def coming(self) -> tuple[int, int] | str:
        over = self.place[1] == self.batches
        stays = not self.loop.got and (self.loop.begun or self.chosen)
        if over and stays:
            return REFUSED
        return (self.epoch + 1, 0) if over else self.place

    def set_epoch(self, number: int) -> str | None:
        if (self.loaded and number < self.epoch) or (self.left and self.loop.saved):
            return REFUSED
        if number != self.epoch:
            self.go(number, 0, "set_epoch")
        self.chosen = True
        return None

    def follow(self, number: int) -> str | None:
        if number > self.epoch or (number == self.epoch and self.loaded):
            return self.set_epoch(number)
        return None

    def end_epoch(self) -> None:
        if self.loop.got or (self.loaded and self.start):
            self.go(self.epoch + 1, 0, "end_epoch")


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except rs.InvalidArgument:
        return REFUSED
    except StopIteration:
        return ENDED


class Machine(RuleBasedStateMachine):
    """A loader of ``kind`` with so many workers, and the model."""

    kind = "map"
    workers = 0
    known: ClassVar[dict[tuple[str, int], list[Any]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(-(-ITEMS[self.kind] // 3), self.kind != "stream")
        self.loader: Any = loader_of(self.kind, num_workers=self.workers)
        self.loops: list[list[Any]] = []  # an iterator, and the loop of the model once it has begun
        self.states: list[tuple[Any, tuple[int, int]]] = []

    def batch_at(self, place: tuple[int, int] | str) -> Any:
        """The batch at a place; the refusal or the end as it is."""
        if isinstance(place, str):
            return place
        key = self.kind, place[0]
        if key not in self.known:
            fresh: Any = loader_of(self.kind)
            fresh.set_epoch(place[0])
            self.known[key] = [plain(batch) for batch in fresh]
        return self.known[key][place[1]]

    def take(self, count: int, back: int = 0) -> None:
        """Take batches from the newest loop, or from one before it."""
        loop = self.loops[-1 - back % min(len(self.loops), 3)] if self.loops else None
        for _ in range(count if loop else 0):
            assert loop
            if loop[1] is None:
                begun = self.model.begin()
                if begun == REFUSED:
                    assert outcome(lambda: next(loop[0])) == REFUSED
                    return
                loop[1] = begun
            expected = self.batch_at(self.model.take(loop[1]))
            found = outcome(lambda: next(loop[0]))
            assert (found if isinstance(found, str) else plain(found)) == expected

    @rule(count=SOME)
    def begin_a_loop(self, count: int) -> None:
        self.loops.append([iter(self.loader), None])
        self.take(count)

    @precondition(lambda self: self.loops)
    @rule(count=SOME, back=st.integers(0, 2))
    def take_batches(self, count: int, back: int) -> None:
        self.take(count, back)

    @precondition(lambda self: self.loops)
    @rule()
    def leave_a_loop(self) -> None:
        self.loops.pop()

    @rule(number=st.integers(0, 4), count=SOME)
    def set_epoch(self, number: int, count: int) -> None:
        assert outcome(lambda: self.loader.set_epoch(number)) == self.model.set_epoch(number)
        self.take(count)

    @rule(number=st.integers(0, 4), count=SOME)
    def set_epoch_of_the_sampler(self, number: int, count: int) -> None:
        found = outcome(lambda: self.loader.sampler.set_epoch(number))
        assert found == self.model.follow(number)
        self.take(count)

    @rule(count=SOME)
    def end_epoch(self, count: int) -> None:
        self.loader.end_epoch()
        self.model.end_epoch()
        self.take(count)

    @rule()
    def peek(self) -> None:
        found = outcome(self.loader.peek)
        assert (found if isinstance(found, str) else plain(found)) == self.batch_at(
            self.model.coming()
        )

    @rule()
    def save(self) -> None:
        state = self.loader.state_dict()
        found = rs.loads(state["resumable"])
        epoch, batches = self.model.place
        assert (found["epoch"], found["step"]) == (epoch, min(3 * batches, ITEMS[self.kind]))
        self.model.loop.saved |= self.model.loop.got > 0
        self.states.append((state, (epoch, batches)))

    @precondition(lambda self: self.states)
    @rule(back=st.integers(0, 5), fresh=st.booleans(), count=SOME)
    def load(self, back: int, fresh: bool, count: int) -> None:
        state, place = self.states[-1 - back % len(self.states)]
        if fresh:
            self.replace(loader_of(self.kind, num_workers=self.workers))
        self.loader.load_state_dict(state)
        self.model.go(place[0], place[1], "load_state_dict", loaded=True)
        self.take(count)

    @rule()
    def copy(self) -> None:
        got, place = self.model.loop.got, self.model.place
        if self.model.loop.begun or self.model.loop.got:
            self.replace(pickle.loads(pickle.dumps(self.loader)))
            if got:
                self.model.go(place[0], place[1], "copy", loaded=True)

    def replace(self, loader: Any) -> None:
        self.loader = loader
        self.loops.clear()

    def teardown(self) -> None:
        self.loops.clear()


@pytest.mark.parametrize("kind", ["map", "pipeline", "stream"])
def test_the_place_of_a_loop_is_that_of_the_model(kind: str) -> None:
    machine = type("Machine", (Machine,), {"kind": kind})
    count = (
        8 * examples()
    )  # a sequence takes some 10 ms, and few of them come to where a fault shows
    run_state_machine_as_test(
        machine, settings=settings(max_examples=count, stateful_step_count=25)
    )


@pytest.mark.parametrize("kind", ["map", "stream"])
def test_the_place_of_a_loop_over_workers_is_that_of_the_model(kind: str) -> None:
    machine = type("Machine", (Machine,), {"kind": kind, "workers": 2})
    count = -(-examples() // 4)  # it starts processes at each step
    run_state_machine_as_test(
        machine, settings=settings(max_examples=count, stateful_step_count=12)
    )
