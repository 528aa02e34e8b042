"""What `device_prefetch` of the JAX adapter costs, compared with the same loop by hand, in turns."""

# The loop by hand is the generator that Flax has for this. A second one shows what the noise of the machine makes.
# JAX has an environment of its own, if it is not installed with the others.

from __future__ import annotations

from functools import partial
from typing import Any, Final

from benchmarks.environments import command_that_makes, python_of, versions_in
from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Table, skipped
from benchmarks.timings import shown

MINUTES: Final = 3

SECONDS: Final = 1.0
"""Of each comparison, in a round."""


def run(options: Options) -> Result:
    """Compare for steps of each length, in every round."""
    title = (__doc__ or "").partition("\n")[0]
    python = python_of("jax")
    if not (versions := versions_in(python, "jax", "jax")):
        return skipped(
            "device_prefetch", title, f"JAX is not installed: {command_that_makes('jax')}"
        )
    found: dict[str, dict[str, list[float]]] = {}
    for turn in options.journal.turns(options.rounds):
        seconds = 0.0 if options.quick else SECONDS
        measure = partial(in_fresh_process, medians, seconds, python=python)
        for step, taken in options.journal.once(turn, measure=measure).items():
            for way, each in taken.items():
                found.setdefault(step, {}).setdefault(way, []).append(each)
    rows = [(step, *_cells(taken)) for step, taken in found.items()]
    header = ("a step", "by hand, µs", "device_prefetch ÷ by hand", "by hand ÷ by hand")
    note = f"JAX {versions['']} with NumPy {versions['NumPy']}, on the processor."
    table = Table("shuffled batches of arrays, 64 rows of 128", header, rows, (note,))
    return Result("device_prefetch", title, [table], raw={"found": found, "versions": versions})


def _cells(taken: dict[str, list[float]]) -> tuple[str, str, str]:
    ours, by_hand, same = taken.values()
    return (
        shown([1e6 * each for each in by_hand], 0),
        shown([mine / theirs for mine, theirs in zip(ours, by_hand, strict=True)], 3),
        shown([mine / theirs for mine, theirs in zip(same, by_hand, strict=True)], 3),
    )


def medians(seconds: float) -> dict[str, dict[str, float]]:
    """For steps of each length, the median seconds of each of the three loops."""
    from statistics import median

    import benchmarks.workloads.scripts.jax_prefetch_cost as script

    ways = ("device_prefetch", "by hand", "by hand again")
    found: dict[str, dict[str, float]] = {}
    measured: Any = script.costs(script.arrays(64, 128, 64), seconds)
    for milliseconds, _, times, _ in measured:
        step = f"{milliseconds} ms" if milliseconds else "none"
        found[step] = dict(zip(ways, map(median, times), strict=True))
    return found
