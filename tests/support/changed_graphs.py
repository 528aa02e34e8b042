"""Random pipelines with an argument that may change, for the law of changed runs, and what an error says to write."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import strategies as st
from support.facts import STAGE_FACTS, Step

import resumable as rs

Value = Mapping[int, Any]
"""What a changed argument says, by the position from which on."""


STEPS: Final[Mapping[str, Step]] = STAGE_FACTS.merged(lambda facts: facts.around_changes)
REPEATS: Final = {
    "Repeat(epochs=3)": "repeat",
    "Repeat(epochs=2)": "repeat twice",
    "Repeat()": "repeat without end",
}


@dataclass(frozen=True)
class Source:
    """Numbers from ``start`` on.

    Args:
      kind: how they are read.
    """

    kind: str
    start: int = 0

    def made(self, variant: int = 0) -> rs.Pipeline[Any]:
        """A pipeline of them; another ``variant`` has other numbers, and other many."""
        first, count = self.start + 100 * variant, 7 + variant
        if self.kind == "stream":
            return rs.from_iterable(_Stream(first, count), identity=f"{first} {count}")
        numbers = rs.range(first, first + count)
        return numbers.shuffle(1) if self.kind == "shuffled" else numbers


class _Stream:
    def __init__(self, first: int, count: int) -> None:
        self.numbers = range(first, first + count)

    def __iter__(self) -> Any:
        return iter(self.numbers)


@dataclass(frozen=True)
class Graph:
    """A pipeline with one argument that changes, and steps before and after it.

    Args:
      argument: which one changes.
      sources: of the inputs.
      before: names of steps between each source and what changes.
      after: names of steps after what changes.
    """

    argument: str
    sources: Sequence[Source]
    before: Sequence[str]
    after: Sequence[str]

    def made(self, program: Program) -> rs.Pipeline[Any]:
        """The pipeline of ``program``.

        Raises:
          InvalidArgument: if it cannot be built.
        """
        return self._until(len(self.after), program)

    def _until(self, count: int, program: Program) -> rs.Pipeline[Any]:
        made = self._changing(program.value)
        for place in range(count):
            name = self.after[place]
            if name == program.before_repeat:
                made = rs.by_epoch(
                    {first: self._until(place, one) for first, one in program.by_epoch.items()}
                )
            made = STEPS[name](made)
        if program.by_epoch and program.before_repeat is None and count == len(self.after):
            return rs.by_epoch({first: self.made(one) for first, one in program.by_epoch.items()})
        return made

    def _changing(self, value: Value) -> rs.Pipeline[Any]:
        if self.argument == "by_epoch":
            return rs.by_epoch({first: self._input(0, each) for first, each in value.items()})
        if self.argument == "exclude":
            return self._input(0).exclude(dict(value))
        inputs = [self._input(number) for number in range(len(self.sources))]
        if self.argument == "inputs":
            return rs.concatenate(*inputs[: value[0]])
        return rs.mix(*inputs, weights=dict(value))

    def _input(self, number: int, variant: int = 0) -> rs.Pipeline[Any]:
        made = self.sources[number].made(variant)
        for name in self.before:
            made = STEPS[name](made)
        return made


@dataclass(frozen=True)
class Program:
    """What of a graph may change.

    Args:
      value: of the argument.
      by_epoch: programs by the epoch from which on each holds, if an error asked for that.
      before_repeat: the name of the step before which they stand; None: the whole pipeline changes.
    """

    value: Value
    by_epoch: Mapping[int, Program] = field(default_factory=dict)
    before_repeat: str | None = None

    def __hash__(self) -> int:
        return hash(repr(self))


VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "weights": st.tuples(st.integers(0, 3), st.integers(1, 2)),
    "exclude": st.lists(st.integers(0, 6), max_size=3, unique=True).map(sorted),
    "by_epoch": st.integers(0, 3),
}


def timelines(argument: str) -> st.SearchStrategy[Value]:
    """Values of ``argument``."""
    if argument == "inputs":
        return st.integers(1, 3).map(lambda count: {0: count})
    positions = st.lists(st.integers(1, 12), max_size=2, unique=True).map(sorted)
    return positions.flatmap(
        lambda later: st.tuples(*[VALUES[argument]] * (1 + len(later))).map(
            lambda values: dict(zip([0, *later], values, strict=True))
        )
    )


@st.composite
def changes(draw: st.DrawFn) -> tuple[Graph, Program, Program]:
    """A graph with two programs, which often agree at first."""
    argument = draw(st.sampled_from(["weights", "exclude", "by_epoch", "inputs"]))
    kinds = st.sampled_from(["range", "shuffled", "stream"])
    sources = [Source(draw(kinds), 1000 * number) for number in range(3)]
    steps = st.sampled_from(list(STEPS))
    before = draw(st.lists(steps, max_size=0 if argument == "by_epoch" else 2))
    after = draw(st.lists(steps, max_size=4))
    graph = Graph(argument, sources[: {"inputs": 3, "weights": 2}.get(argument, 1)], before, after)
    old = draw(timelines(argument))
    new = draw(timelines(argument))
    if argument != "inputs" and draw(st.booleans()):
        first = draw(st.integers(1, 12))
        new = {**_until(old, first), first: new[0]}
    return graph, Program(old), Program(new)


def _until(value: Value, position: int) -> dict[int, Any]:
    return {first: each for first, each in value.items() if first < position}


def at(value: Value, position: int) -> Any:
    """What ``value`` says at ``position``."""
    return value[max(first for first in value if first <= position)]


def with_advice(
    error: rs.StateMismatch, graph: Graph, old: Program, new: Program
) -> Program | None:
    """``new`` changed as ``error`` says to; None if it says to write nothing."""
    found = re.search(r"write (\w+)=(.*?)$", str(error), re.MULTILINE)
    if found and found[1] in ("weights", "records"):
        written = literal_eval(found[2])
        return replace(new, value=written if isinstance(written, dict) else {0: written})
    found = re.search(
        r"write by_epoch\((\{.*?\})\)(?: before (Repeat\(.*?\)))?(, or before Partition)?",
        str(error),
    )
    if not found:
        return None
    chosen = literal_eval(re.sub(r"(as saved|as here)", r"'\1'", found[1]))
    if graph.argument == "by_epoch" and found[2] is None and not new.by_epoch:
        then, now = old.value, new.value
        value = {
            first: at(then if one == "as saved" else now, first) for first, one in chosen.items()
        }
        return replace(new, value=value)
    programs = {
        first: _at_epoch(old if one == "as saved" else new, first) for first, one in chosen.items()
    }
    step = found[2] and REPEATS[found[2]]
    if found[3]:
        step = next(name for name in graph.after if name.startswith("partition"))
    return Program(new.value, programs, step)


def _at_epoch(program: Program, epoch: int) -> Program:
    return at(program.by_epoch, epoch) if program.by_epoch else program
