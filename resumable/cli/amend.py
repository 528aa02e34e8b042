"""`resumable amend`: where a run stands, and what to write to change it from there on."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

from ..checkpoint.standing import RunStanding, run_standing
from ..core.fingerprint import FoundArgument
from ..core.timeline import Continuation
from ..errors import NoValidCheckpoint, ResumableError
from ..verify import TargetError
from ..views.table import table_lines
from .inspect import explain, show_time
from .run_store import store_at
from .target import target_of


def run(options: argparse.Namespace) -> int:
    """Print where the run stands; returns the exit status."""
    try:
        # Only the outcome goes to standard output; what the pipeline prints goes to standard error.
        with redirect_stdout(sys.stderr):
            found = _asked(options)
    except (TargetError, ResumableError, OSError) as error:
        print(f"resumable amend: {explain(error)}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_described(found, options.run), indent=2))
    else:
        print("\n".join(_lines(found)))
    return 0 if all(one.value.agrees for one in found.arguments) else 1


def _asked(options: argparse.Namespace) -> RunStanding:
    store = store_at(options.run, options.name)
    stage = target_of(options).load().stage
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = run_standing(store, stage)
        finally:
            for warning in told:
                print(f"resumable amend: {warning.message}", file=sys.stderr)
    if found is None:
        raise NoValidCheckpoint(f"no step of {store!r} is saved by all of its ranks yet")
    return found


def _lines(found: RunStanding) -> Iterator[str]:
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
        yield from (f"  {line}".rstrip() for line in table_lines([*_rows(argument.value)], "<"))


def _rows(found: Continuation) -> Iterator[tuple[str, str]]:
    argument = found.argument
    yield "may change", found.may_change
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


def _described(found: RunStanding, run: str) -> dict[str, Any]:
    return {
        "run": run,
        "step": found.step,
        "epoch": found.epoch,
        "time": found.time,
        "ranks": found.ranks,
        "joined": found.joined,
        "arguments": list(map(_argument, found.arguments)),
    }


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
