"""`resumable amend`: the position of a run, and the arguments to write for a change from there.

Prints the position of a run at the newest valid checkpoint of all ranks, and from which item or epoch on each
argument may change: the weights of a mix, the excluded records, the pipelines by epoch, and the inputs of a
concatenation. For each argument that the code has changed, prints the argument to write, with the position
filled in. Changes no file. Executes the file or module. The exit status is 0 if the run can continue with the
code as it is, 1 if an argument must be written first, 2 if the run or the pipeline cannot be read, or if they
differ in other ways.

Examples:
  resumable amend run train.py
  resumable amend run train.py:pipeline --json
  resumable amend s3://bucket/run train:make_pipeline --arg seed=1
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any, Final

from ..checkpoint.exclusion_place import ExclusionPlace, exclusion_place, paths_in_partitions
from ..checkpoint.standing import RunStanding, run_standing
from ..core.argument_change import ArgumentChange
from ..core.differences import FoundArgument
from ..errors import NoValidCheckpoint
from ..views.table import table_lines
from .output import print_outcome
from .places import store_at
from .target import only_outcome, target_of
from .texts import show_time

OF_EACH: Final = " of each partition"


def run(options: argparse.Namespace) -> int:
    """Print the position of the run; returns the exit status."""
    with only_outcome("amend"):
        store = store_at(options.run, options.name)
        stage = target_of(options).load().stage
        found = run_standing(store, stage)
        excluding = exclusion_place(store, stage)
    if found is None:
        raise NoValidCheckpoint(f"no step of {store!r} is saved by all of its ranks yet")
    print_outcome(
        options.json,
        partial(_described, found, excluding, options.run),
        _lines(found, excluding, paths_in_partitions(stage)),
    )
    return 0 if all(one.value.agrees for one in found.arguments) else 1


def _lines(
    found: RunStanding, excluding: ExclusionPlace | None, in_partitions: Collection[str]
) -> Iterator[str]:
    ranks = f" by {found.ranks} ranks" if found.ranks > 1 else ""
    yield f"step {found.step}, epoch {found.epoch}, saved {show_time(found.time)}{ranks}"
    if not found.joined:
        yield f"only {found.ranks} ranks can go on from it, each from its own state"
    if not found.arguments:
        yield ""
        yield "No argument of this pipeline says from where on it holds."
    for argument in found.arguments:
        yield ""
        yield f"{argument.stage} at {argument.path}"
        rows = [*_rows(argument.value, argument.path in in_partitions)]
        yield from table_lines(rows, "<", "  ")
    if excluding is not None:
        yield ""
        yield _about_excluding(excluding, excluding.path in in_partitions)


def _about_excluding(place: ExclusionPlace, in_partition: bool) -> str:
    where = f"behind {place.behind} at {place.path}"
    if place.value.is_fixed:
        return f"Records cannot be left out {where}: {place.value.why_fixed}."
    reached = int(place.value.reached)
    records = f"{{0: [], {reached:_}: RECORDS}}" if reached else "RECORDS"
    counted = f"item {reached:_}{OF_EACH * in_partition}"
    return f"Records can be left out from {counted} on: .exclude({records}) {where}."


def _rows(found: ArgumentChange, in_partition: bool) -> Iterator[tuple[str, str]]:
    argument = found.argument
    may_change = found.may_change
    if in_partition and argument.unit == "item" and not found.is_fixed:
        counted = f"item {int(found.reached):_}{OF_EACH}"
        may_change = f"from {counted} on, as far as the furthest of them has read"
    yield "may change", may_change
    if not found.agrees:
        yield "the run has", argument.written(found.saved)
    goes_on = ", with which the run can go on" if found.agrees else ""
    yield "this code has", argument.written(found.present) + goes_on
    if found.agrees:
        return
    if found.to_write is not None:
        yield "write", found.to_write
    else:
        yield "keep", argument.written(found.saved)


def _described(found: RunStanding, excluding: ExclusionPlace | None, run: str) -> dict[str, Any]:
    return {
        "run": run,
        "step": found.step,
        "epoch": found.epoch,
        "time": found.time,
        "ranks": found.ranks,
        "joined": found.joined,
        "arguments": list(map(_argument, found.arguments)),
        "exclude": None if excluding is None else _described_place(excluding),
    }


def _described_place(one: ExclusionPlace) -> dict[str, Any]:
    found = one.value
    may_change = None if found.is_fixed else int(found.reached)
    return {"behind": one.behind, "path": one.path, "may_change_from": may_change}


def _argument(one: FoundArgument) -> dict[str, Any]:
    found = one.value
    return {
        "stage": one.stage,
        "path": one.path,
        "argument": found.argument.argument,
        "unit": found.argument.unit,
        "may_change_from": None if found.is_fixed else int(found.reached),
        "agrees": found.agrees,
        "saved": found.argument.written(found.saved),
        "present": found.argument.written(found.present),
        "write": found.to_write,
    }
