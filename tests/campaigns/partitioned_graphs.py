"""Build random partitioned graphs, change their ranks and workers again and again, and compare what comes.

Run as `PYTHONPATH=tests python -m campaigns.partitioned_graphs --graphs 20000`; the suite runs a short form.
"""

# An uninterrupted run says what each partition delivers, and each rank. Where ranks change, each partition
# must deliver the same; where they stay, each rank. A generation that is refused goes on with the ranks before.

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
from campaigns.partitioned_graph import Graph, exactly, numbers_in

import resumable as rs

__all__ = ["Report", "campaign"]

MOST_SHOWN: Final = 20


@dataclass
class Report:
    """What a campaign found.

    Attributes:
      graphs: how many were tried.
      changes: generations that went on with another number of ranks.
      exact: graphs of which all was as in an uninterrupted run.
      refused: generations that could not begin, by what was other than it must be.
      inexact: graphs that delivered something else, or failed, with what happened.
    """

    graphs: int = 0
    changes: int = 0
    exact: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    inexact: dict[int, str] = field(default_factory=dict)


def campaign(graphs: int, seed: int = 0, first: int = 0) -> Report:
    """Run graphs ``first`` to ``first`` + ``graphs``."""
    report = Report()
    for number in range(first, first + graphs):
        report.graphs += 1
        graph = Graph.buildable(seed, number)
        try:
            told = _Run(graph, report).difference()
        except Exception as error:  # whatever it is, it is not a state that is refused
            told = f"{type(error).__name__}: {error}"
        if told is None:
            report.exact += 1
        else:
            report.inexact[number] = f"{told} in {graph}"
    return report


class _Run:
    """One run of a graph through all its generations."""

    def __init__(self, graph: Graph, report: Report) -> None:
        self._graph = graph
        self._report = report
        self._changed = False
        # The items of each generation's ranks.
        self._done: list[list[list[Any]]] = []

    def difference(self) -> str | None:
        """What the run delivered otherwise than an uninterrupted one; None if nothing."""
        graph = self._graph
        first = graph.plan[0].ranks
        expected = [list(graph.rank(rank, first, 0)) for rank in range(first)]
        states: list[rs.State] | None = None
        for ranks, workers, steps in graph.plan:
            states = self._generation(states, ranks, workers, steps)
        if self._changed:
            return self._difference_by_partition(expected)
        found = [[item for own in self._done for item in own[rank]] for rank in range(first)]
        for rank, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            if exactly(ours) != exactly(theirs):
                return f"rank {rank} of {first} delivered {ours} and not {theirs}"
        return None

    def _generation(
        self, states: list[rs.State] | None, ranks: int, workers: int, steps: int
    ) -> list[rs.State]:
        """The states of the ranks after a generation, which `states` of the last one begin."""
        found = None if states is None else self._begun(states, ranks, workers)
        if found is None:
            ranks = ranks if states is None else len(states)
            made = [self._graph.rank(rank, ranks, workers) for rank in range(ranks)]
            if states is None:
                found = [iter(pipeline) for pipeline in made]
            else:
                found = [one.resume(state) for one, state in zip(made, states, strict=True)]
        self._done.append([])
        following = []
        for iterator in found:
            with iterator:
                self._done[-1].append(list(islice(iterator, steps)))
                following.append(rs.loads(rs.dumps(iterator.get_state())))
        return following

    def _begun(self, states: list[rs.State], ranks: int, workers: int) -> list[Any] | None:
        """The iterators of other ranks at the joined ``states``; None if they are refused."""
        if ranks == len(states):
            self._check_others(states, workers)
            return None
        begun: list[Any] = []
        try:
            whole = rs.loads(rs.dumps(rs.merge_states(states)))
            for rank in range(ranks):
                begun.append(self._graph.rank(rank, ranks, workers).resume(whole))
        except rs.StateMismatch as error:
            for iterator in begun:
                iterator.close()
            self._report.refused[_reason(error)] += 1
            return None
        self._changed = True
        self._report.changes += 1
        return begun

    def _check_others(self, states: list[rs.State], workers: int) -> None:
        """Make sure that no rank takes the state of another one."""
        if len(states) > 1:
            pipeline = self._graph.rank(1, len(states), workers)
            try:
                pipeline.resume(states[0]).close()
            except rs.StateMismatch:
                return
            raise AssertionError("rank 1 takes the state of rank 0")

    def _difference_by_partition(self, expected: Sequence[Sequence[Any]]) -> str | None:
        partition_of = self._graph.partition_of()

        def by_partition(items: Iterator[Any]) -> dict[int, list[Any]]:
            parts: dict[int, list[Any]] = {}
            for item in items:
                for piece in item if isinstance(item, (list, np.ndarray)) else [item]:
                    (number,) = {partition_of[number] for number in numbers_in(piece)}
                    parts.setdefault(number, []).append(piece)
            return parts

        ours = by_partition(item for ranks in self._done for own in ranks for item in own)
        theirs = by_partition(item for own in expected for item in own)
        for number in range(self._graph.count):
            one, other = ours.get(number, []), theirs.get(number, [])
            if exactly(one) != exactly(other):
                return f"partition {number} delivered {one} and not {other}"
        return None


def _reason(error: rs.StateMismatch) -> str:
    """What was other than it must be."""
    found = re.search(r"differ: ([\w.]+)|saved ([\w ]+)=", str(error))
    name = (found[1] or found[2]) if found else str(error)
    return name.rpartition(".")[2]


def main() -> int:
    """Run a campaign, and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    report = campaign(options.graphs, options.seed, options.first)
    for number, told in islice(report.inexact.items(), MOST_SHOWN):
        print(f"graph {number}: {told}\n")
    for reason, times in report.refused.most_common():
        print(f"refused {times} times for {reason}")
    print(
        f"{report.graphs} graphs, {report.changes} changes of ranks, {report.refused.total()} refused: "
        f"exact={report.exact}, inexact={len(report.inexact)}, {time.monotonic() - began:.0f} s"
    )
    return bool(report.inexact)


if __name__ == "__main__":
    sys.exit(main())
