"""A function over integers on a Ray cluster of two CPUs: Ray Data against this library on Ray's actors, and by hand."""

# Ray has an environment of its own, if it is not installed with the others. Each way runs in a process and a
# cluster of its own, and all must deliver the same results.

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.digest import Digest, check_same
from benchmarks.environments import command_that_makes, python_of, versions_in
from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Table, skipped
from benchmarks.timings import shown

MINUTES: Final = 5

BY_HAND: Final = "tasks of Ray, by hand"
WAYS: Final = (
    BY_HAND,
    "resumable, map on Ray's actors",
    "resumable, map in processes",
    "Ray Data, iter_batches",
    "Ray Data, split as for Ray Train",
)
MOST_SECONDS: Final = 300.0
"""After which a way is given up."""


def run(options: Options) -> Result:
    """Time an epoch of each way in every round."""
    title = (__doc__ or "").partition("\n")[0]
    python = python_of("ray")
    if not (versions := versions_in(python, "ray", "ray", "pandas", "pyarrow")):
        return skipped("ray_data", title, f"Ray is not installed: {command_that_makes('ray')}")
    found: dict[str, dict[str, list[float]]] = {}
    expected: dict[str, Digest] = {}
    for turn in options.journal.turns(options.rounds):
        for way in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            measure = partial(
                in_fresh_process, epochs, way, options.quick, python=python, seconds=MOST_SECONDS
            )
            for work, taken in options.journal.once(way, turn, measure=measure).items():
                seconds, delivered = taken
                check_same(expected.setdefault(work, Digest(*delivered)), way, Digest(*delivered))
                found.setdefault(work, {}).setdefault(way, []).append(seconds)
    note = (
        f"Ray {versions['']} with NumPy {versions['NumPy']}, on this machine alone. An epoch is the second one in "
        "its cluster, from its start to its end."
    )
    tables = [_table(work, of_ways, note) for work, of_ways in found.items()]
    return Result("ray_data", title, tables, raw={"found": found, "versions": versions})


def _table(work: str, found: dict[str, list[float]], note: str) -> Table:
    rows = []
    for way in WAYS:
        pairs = zip(found[way], found[BY_HAND], strict=True)
        rows.append(
            (way, shown(found[way], 2), shown([mine / theirs for mine, theirs in pairs], 2))
        )
    return Table(work, ("way", "seconds", "÷ by hand"), rows, (note,))


def epochs(way: str, quick: bool) -> dict[str, tuple[float, tuple[int, int]]]:
    """For each work the seconds of an epoch of ``way``, and the digest of what it delivered."""
    import benchmarks.workloads.scripts.ray_epochs as script

    return {
        work: (found.seconds, (found.delivered.items, found.delivered.total))
        for work, found in script.epochs(way, quick).items()
    }
