"""Time all contestants of a throughput workload in turns, and compare what they deliver."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

from benchmarks.contestant import Contestant, Crashed
from benchmarks.delivered import Tally
from benchmarks.digest import check_same
from benchmarks.discovery import BARE, OURS, is_installed, load, names
from benchmarks.result import Claim, Options, Result
from benchmarks.timings import Timings, table_of
from benchmarks.work import Unsupported

__all__ = ["Claims", "race"]

Claims: TypeAlias = Callable[[dict[str, Timings]], list[Claim]]


@dataclass
class _Heat:
    """One work, and the configurations that take part, by label."""

    variant: str
    entries: dict[str, tuple[Contestant, str]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)


def race(options: Options, workload: str, claims: Claims) -> Result:
    """Time every work of the module ``workload`` for every contestant that is installed.

    Raises:
      MultisetsDiffer: if a contestant delivers other items than the bare loop.
    """
    module = importlib.import_module(workload)
    works = module.works(options)
    with ExitStack() as stack:
        contestants = [
            stack.enter_context(Contestant(name, workload, options))
            for name in _contestants(options)
        ]
        heats = [_entered(variant, contestants) for variant in works]
        seconds = _run(heats, options)
        memory = {contestant.name: contestant.memory for contestant in contestants}
    timings = {
        heat.variant: Timings(
            len(works[heat.variant].source) - works[heat.variant].untimed,
            seconds[heat.variant],
            {label: contestant.name for label, (contestant, _) in heat.entries.items()},
            heat.unsupported,
            heat.crashed,
            memory,
            heat.tallies,
        )
        for heat in heats
    }
    return _result(workload, module.__doc__ or "", timings, claims, options)


def _contestants(options: Options) -> list[str]:
    """The bare loop, ourselves, and the peers that are asked for and installed."""
    peers = [name for name in names("peers") if name != OURS]
    if options.peers is not None:
        peers = [name for name in peers if name in options.peers]
    return [BARE, OURS, *filter(is_installed, peers)]


def _entered(variant: str, contestants: list[Contestant]) -> _Heat:
    """Check every configuration against the bare loop, and enter those that can do the work."""
    heat = _Heat(variant)
    expected = None
    for contestant in contestants:
        title = contestant.name if contestant.name == BARE else load("peers", contestant.name).NAME
        try:
            for configuration in contestant.configurations(variant):
                label = f"{title}, {configuration}" if configuration else title
                try:
                    found = contestant.digest(variant, configuration)
                except Unsupported as reason:
                    heat.unsupported[label] = str(reason)
                    continue
                expected = expected or found
                check_same(expected, f"{label} in {variant}", found)
                heat.entries[label] = contestant, configuration
                heat.tallies[label] = contestant.tally(variant, configuration)
        except Unsupported as reason:
            heat.unsupported[title] = str(reason)
        except Crashed as error:
            if contestant.name == BARE:
                raise
            heat.crashed[title] = str(error)
    return heat


def _run(heats: list[_Heat], options: Options) -> dict[str, dict[str, list[float]]]:
    """Run each configuration once in each round; the order rotates from round to round.

    After the first round, configurations of similar speed follow each other: the machine may change
    within an hour, and the ratios between neighbours matter most.
    """
    entries = [(heat, label) for heat in heats for label in heat.entries]
    seconds: dict[str, dict[str, list[float]]] = {
        heat.variant: {label: [] for label in heat.entries} for heat in heats
    }
    for turn in options.journal.turns(options.rounds):
        shift = turn * len(entries) // options.rounds
        for heat, label in entries[shift:] + entries[:shift]:
            if label in heat.crashed:
                continue
            contestant, configuration = heat.entries[label]
            try:
                taken = contestant.seconds(heat.variant, configuration, turn)
                seconds[heat.variant][label].append(taken)
            except Crashed as error:
                heat.crashed[label] = str(error)
                del seconds[heat.variant][label]
        if turn == 0:
            entries = [entry for heat in heats for entry in _fastest_first(heat, seconds)]
    return seconds


def _fastest_first(
    heat: _Heat, seconds: dict[str, dict[str, list[float]]]
) -> list[tuple[_Heat, str]]:
    taken = seconds[heat.variant]
    return [(heat, label) for label in sorted(taken, key=lambda label: taken[label])]


def _result(
    workload: str, title: str, timings: dict[str, Timings], claims: Claims, options: Options
) -> Result:
    result = Result(workload.rpartition(".")[2], title.strip().partition("\n")[0])
    for variant, each in timings.items():
        result.tables.append(table_of(variant, each))
        result.ratios[variant] = {label: each.ratio(label, BARE) for label in each.better}
        result.problems += [f"{label}: {error}" for label, error in each.crashed.items()]
        result.raw[variant] = {
            "items": each.items,
            "seconds": each.seconds,
            "unsupported": each.unsupported,
            "private_bytes": each.memory,
            "delivered": {label: tally._asdict() for label, tally in each.tallies.items()},
        }
    result.claims = [] if options.quick else claims(timings)
    return result
