"""Which steps a loop saves, against a plain model of it: jumps, resumes, a clock that misbehaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.clocks import Clock

import resumable as rs

Tree = Any


leaves = st.one_of(
    st.tuples(st.just("steps"), st.integers(1, 7)),
    st.tuples(st.just("seconds"), st.integers(1, 30)),
    st.tuples(st.just("at"), st.frozensets(st.integers(1, 60), min_size=1, max_size=5)),
    st.tuples(st.just("when"), st.integers(2, 9)),
    st.tuples(st.just("end"), st.just(0)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["or", "and"]), st.tuples(inner, inner)),
    max_leaves=6,
)


def trigger_of(tree: Tree) -> rs.Trigger:
    kind, value = tree
    if kind == "or":
        return trigger_of(value[0]) | trigger_of(value[1])
    if kind == "and":
        return trigger_of(value[0]) & trigger_of(value[1])
    made: dict[str, rs.Trigger] = {
        "steps": rs.EverySteps(value if kind == "steps" else 1),
        "seconds": rs.EverySeconds(value if kind == "seconds" else 1),
        "at": rs.AtSteps(value if kind == "at" else [1]),
        "when": rs.When(lambda progress: progress.step % value == 1),
        "end": rs.AtEnd(),
    }
    return made[kind]


def is_due(tree: Tree, step: int, saved: int, elapsed: float, at_end: bool) -> bool:
    """What the trigger of ``tree`` should say, said in the plainest way."""
    kind, value = tree
    if kind in ("or", "and"):
        answers = [is_due(part, step, saved, elapsed, at_end) for part in value]
        return any(answers) if kind == "or" else all(answers)
    passed = range(saved + 1, step + 1)
    if kind == "steps":
        return any(number % value == 0 for number in passed)
    if kind == "at":
        return any(number in value for number in passed)
    if kind == "seconds":
        return elapsed >= float(value)
    return bool(at_end if kind == "end" else step % value == 1)


@dataclass
class Model:
    """The loop in plain words: when the last save was, and which steps are saved."""

    tree: Tree
    save_at_end: bool
    saved: list[int]
    step: int = 0
    elapsed: float = 0.0

    def boundary(self, at_end: bool = False) -> None:
        last = self.saved[-1] if self.saved else None
        if self.step == last:
            return
        if is_due(self.tree, self.step, last or 0, self.elapsed, at_end) or (
            at_end and self.save_at_end
        ):
            self.save()

    def save(self) -> None:
        if self.step not in self.saved:
            self.saved.append(self.step)
            self.elapsed = 0.0


# A life of the loop: what the clock does during each step, whether the step saves by itself, how
# the life ends, and how long the process is away after.
ticks = st.lists(
    st.tuples(st.integers(-20, 20), st.sampled_from([False] * 4 + [True])), max_size=12
)
lives = st.lists(st.tuples(ticks, st.booleans(), st.integers(0, 40)), min_size=1, max_size=5)


@given(trees, lives, st.booleans())
def test_the_steps_saved_are_those_of_the_model(
    tree: Tree, lives: list[tuple[list[tuple[int, bool]], bool, int]], save_at_end: bool
) -> None:
    store, wall = rs.Memory(), Clock(1e9)
    model = Model(tree, save_at_end, [])
    for ticks, crashes, away in lives:
        clock = Clock(float(away))  # a monotonic clock starts anywhere
        model.step = model.saved[-1] if model.saved else 0
        if not model.saved:
            model.elapsed = 0.0
        try:
            _live(store, tree, ticks, crashes, clock, wall, save_at_end, model)
        except ZeroDivisionError:
            assert crashes
        assert store.steps() == model.saved
        wall.now += away
        model.elapsed += away


def _live(
    store: rs.Store,
    tree: Tree,
    ticks: list[tuple[int, bool]],
    crashes: bool,
    clock: Clock,
    wall: Clock,
    save_at_end: bool,
    model: Model,
) -> None:
    """One process: resumes, does a step for each tick, then crashes or ends."""
    with rs.Checkpointer(
        store, trigger_of(tree), save_at_end=save_at_end, clock=clock, wall_clock=wall
    ) as checkpointer:
        loop = checkpointer.resume(rs.range(10**6))
        assert loop.step == model.step
        for number, (tick, saves) in enumerate(ticks):
            if number:
                model.boundary()
            assert next(loop) == model.step
            model.step += 1
            clock.now += tick
            # Set back, it goes on from where it was.
            passed = max(0, tick)
            wall.now += passed
            model.elapsed += passed
            if saves:
                assert (checkpointer.save() is None) == (model.step in model.saved)
                model.save()
        if crashes:
            raise ZeroDivisionError
        if ticks:
            model.boundary(at_end=True)


def test_a_run_that_is_always_cut_short_before_a_save_is_due_comes_to_one() -> None:
    store, wall = rs.Memory(), Clock(1e9)
    trigger = rs.EverySeconds(10) | rs.AtSteps([1])
    for life in range(6):
        clock = Clock(1000.0 * life)
        checkpointer = rs.Checkpointer(store, trigger, clock=clock, wall_clock=wall)
        loop = checkpointer.resume(rs.range(100))
        for _ in range(4):
            next(loop)
            clock.now += 1
            wall.now += 1
        checkpointer.close()
    assert len(store.steps()) > 1


def test_a_wall_clock_set_back_while_away_does_not_save_early() -> None:
    store, wall = rs.Memory(), Clock(1e9)
    with rs.Checkpointer(
        store, rs.AtSteps([3]), save_at_end=False, wall_clock=wall
    ) as checkpointer:
        for _ in checkpointer.resume(rs.range(5)):
            pass
    wall.now -= 10**6
    checkpointer = rs.Checkpointer(store, rs.EverySeconds(10), clock=Clock(), wall_clock=wall)
    loop = checkpointer.resume(rs.range(5))
    next(loop), next(loop)
    assert store.steps() == [3]
    checkpointer.close()
