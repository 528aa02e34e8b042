"""One law for all that may change in a run: changes in a row, while ranks and workers change too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gzipped import gzipped_numbers

import resumable as rs
from resumable.checkpoint.standing import run_standing
from resumable.core.argument_change import ArgumentChange


def compressed() -> list[str]:
    """Two files of numbers."""
    return gzipped_numbers(range(4000, 4006), range(4006, 4040))


@dataclass(frozen=True)
class Program:
    """What a program says that may change.

    Attributes:
      weights: of the inputs by their names, from each item on.
      parts: how many inputs are read one after another.
      records: what is left out, from each item on.
      data: numbers of the data, from each epoch on.
    """

    weights: Mapping[int, Mapping[str, int]]
    parts: int = 1
    records: Mapping[int, Sequence[int]] = field(default_factory=dict)
    data: Mapping[int, int] = field(default_factory=lambda: {0: 0})

    def input(self, kind: str) -> rs.Pipeline[int]:
        """The input of this kind, whose items are its own."""
        if kind == "stream":
            numbers = rs.lines(compressed()).map(int)
            return numbers.exclude({first: {"b.gz": each} for first, each in self.records.items()})
        if kind == "joined":
            parts = [rs.range(100 * part, 100 * part + 9 + 5 * part) for part in range(self.parts)]
            return rs.concatenate(*parts)
        if kind == "epochs":
            chosen = {
                first: rs.range(1000 + 100 * number, 1000 + 100 * number + 3 + 4 * number)
                for first, number in self.data.items()
            }
            return rs.by_epoch(chosen).shuffle(1).repeat(7)
        if kind == "excluded":
            return rs.range(2000, 2012).shuffle(2).repeat(4).exclude(self.records)
        return rs.range(3000, 3045).shuffle(3)


@dataclass(frozen=True)
class Shape:
    """What of a program does not change.

    Args:
      kinds: of the inputs, in the order in which they join; one alone is no mix.
      seed: of the mix.
      reshuffle: whether its turns are drawn anew in each epoch.
      stream: whether it has no random access.
      deal: how its items are dealt to ranks.
    """

    kinds: Sequence[str]
    seed: int | None
    reshuffle: bool
    stream: bool
    deal: str

    def pipeline(
        self, program: Program, rank: int = 0, ranks: int = 1, workers: int = 0
    ) -> rs.Pipeline[Any]:
        made = self._made(program)
        if self.stream:
            made = made.filter(is_no_seventh)
        return DEALS[self.deal](made, rank, ranks, workers)

    def used(self, program: Program) -> list[str]:
        """The inputs that have a weight anywhere."""
        return [
            name for name in self.kinds if any(name in each for each in program.weights.values())
        ]

    def _made(self, program: Program) -> rs.Pipeline[Any]:
        if len(self.kinds) == 1:
            return program.input(self.kinds[0])
        return rs.mix(
            {name: program.input(name) for name in self.used(program)},
            weights=program.weights,
            seed=self.seed,
            reshuffle=self.reshuffle,
        )


def is_no_seventh(number: int) -> bool:
    return number % 7 > 0


Deal = Callable[[rs.Pipeline[Any], int, int, int], rs.Pipeline[Any]]
DEALS: Mapping[str, Deal] = {
    "shard": lambda made, rank, ranks, workers: made.shard(rank, ranks).map(
        abs, workers=workers, executor="thread"
    ),
    "shard, batch": lambda made, rank, ranks, workers: (
        made.shard(rank, ranks).map(abs, workers=workers, executor="thread").batch(2)
    ),
    "partition": lambda made, rank, ranks, workers: made.partition(
        4, lambda part: part.map(abs), workers=workers, executor="thread"
    ).shard(rank, ranks),
    "partition, window": lambda made, rank, ranks, workers: made.partition(
        4, lambda part: part.map(abs).shuffle(5, window=2), workers=workers, executor="thread"
    ).shard(rank, ranks),
}


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    kinds = draw(st.permutations(["joined", "epochs", "excluded", "plain"]))
    if draw(st.booleans()):  # a stream cannot join what has random access
        kinds = ["stream", *[kind for kind in kinds if kind != "excluded"]]
    if kinds[0] != "plain" and draw(st.integers(0, 3)) == 0:
        kinds = kinds[:1]
    seed = draw(st.none() | st.just(3))
    stream = "stream" in kinds or draw(st.booleans())
    deals = [name for name in DEALS if not (stream and name.startswith("partition"))]
    return Shape(
        kinds, seed, seed is not None and draw(st.booleans()), stream, draw(st.sampled_from(deals))
    )


def changed(
    draw: st.DrawFn, shape: Shape, program: Program, told: Mapping[str, ArgumentChange]
) -> Program:
    """Another program that may follow, where ``told`` says from where on what may change."""
    used = shape.used(program)
    argument = draw(st.sampled_from([name for name in CHANGES if name in told]))
    found, ahead = told[argument], draw(st.integers(0, 3))
    if found.is_fixed:
        return program
    first = int(found.reached) + ahead
    if argument == "upstreams":
        return replace(program, parts=program.parts + 1)
    if argument == "records":
        left_out = draw(st.lists(st.integers(0, 11), max_size=5))
        return replace(program, records={**_until(program.records, first), first: left_out})
    if argument == "pipelines":
        return replace(
            program, data={**_until(program.data, first), first: draw(st.integers(0, 4))}
        )
    joining = shape.kinds[len(used) : len(used) + draw(st.integers(0, 1))]
    names = [*used, *joining]
    numbers = draw(
        st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)).filter(any)
    )
    new = dict(zip(names, numbers, strict=True))
    return replace(program, weights={**_until(program.weights, first), first: new})


CHANGES = ("weights", "upstreams", "records", "pipelines")


def _until(values: Mapping[int, Any], first: int) -> dict[int, Any]:
    return {position: value for position, value in values.items() if position < first}


def numbers(items: Iterable[Any]) -> list[int]:
    """The numbers in items, which may be batches."""
    return [int(number) for item in items for number in np.atleast_1d(item)]


class Run:
    """A run over several starts, on any number of ranks.

    Attributes:
      store: of its checkpoints.
      passed: what it has delivered up to the newest of these.
    """

    def __init__(self, shape: Shape) -> None:
        self.store = rs.Memory()
        self.passed: list[int] = []
        self._shape = shape

    def go_on(self, program: Program, ranks: int, workers: int, steps: int | None) -> None:
        """Make so many steps and save; to the end for None. Near the end, where ranks may differ, it makes none."""
        checkpointers = [
            rs.Checkpointer(self.store, NEVER, rank=rank, ranks=ranks, save_at_end=False)
            for rank in range(ranks)
        ]
        try:
            loops = [
                each.resume(self._shape.pipeline(program, rank, ranks, workers))
                for rank, each in enumerate(checkpointers)
            ]
            items = [list(islice(loop, steps)) for loop in loops]
            left = len(numbers(self._shape.pipeline(program))) - len(self.passed)
            at_end = steps is not None and 2 * ranks * (steps + 1) > left
            if steps is None or not (at_end or any(len(each) < steps for each in items)):
                # Ranks have the items of the global order in turns.
                self.passed += chain.from_iterable(zip(*map(numbers, items), strict=True))
                for each in checkpointers if steps else ():
                    each.save()
        finally:
            for each in checkpointers:
                each.close()

    def told(self, program: Program, ranks: int) -> dict[str, ArgumentChange]:
        """What may change where it stands, by its name."""
        found = run_standing(self.store, self._shape.pipeline(program, ranks - 1, ranks).stage)
        return {
            one.value.argument.argument: one.value
            for one in (found.arguments if found else ())
            if "'begin': 2000"
            not in str(one.value.saved)  # of the data there, all epochs are the same
        }


NEVER = rs.EverySteps(1_000_000)
ERAS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 2, 3]), st.integers(1, 9)),
    min_size=4,
    max_size=4,
)


@pytest.mark.filterwarnings("ignore:this run had come to its end")
@given(data=st.data(), shape=shapes(), eras=ERAS)
def test_whatever_changes_the_items_are_those_of_a_run_from_nothing_with_the_last_program(
    data: st.DataObject, shape: Shape, eras: list[tuple[int, int, int]]
) -> None:
    program = Program({0: dict.fromkeys(shape.kinds[:2], 1)})
    run = Run(shape)
    for number, (ranks, workers, steps) in enumerate(eras):
        told = run.told(program, ranks)
        new = program
        if number and told:
            new = data.draw(st.composite(changed)(shape, program, told), label="changed")
        try:
            run.go_on(new, ranks, workers, steps)
        except rs.StateMismatch:
            # Where the mix ends decides on the order of the round in which it ends.
            assert shape.reshuffle
            assert len(shape.kinds) > 1
            run.go_on(program, ranks, workers, steps)
        else:
            program = new
    run.go_on(program, 1, 0, None)
    expected = numbers(shape.pipeline(program))
    if shape.deal.startswith("partition"):
        assert Counter(run.passed) == Counter(expected)
    else:
        assert run.passed == expected
