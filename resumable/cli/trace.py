"""`resumable trace`: which records a step was made of, and which steps a record was in."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from ..checkpoint.memory import Memory
from ..checkpoint.store import Store
from ..checkpoint.tracing import StageOfRanks, TracedStep, steps_of_run, traced_step
from ..core.origin import Origin
from ..core.stage import Stage
from ..errors import InvalidArgument, NoValidCheckpoint, ResumableError, shorten
from ..formats.named_files import is_named
from ..formats.record import LocatedRecord
from ..shadows.record_item import item_of_record
from ..verify import TargetError
from ..views.origin_rows import OriginRow, origin_rows
from ..views.table import table_lines
from .inspect import explain
from .run_store import store_at
from .target import target_of

LONGEST_BEGINNING: Final = 48


def run(options: argparse.Namespace) -> int:
    """Print what was found; returns the exit status."""
    if options.exclude and options.find is not None:
        print("resumable trace: --exclude needs --step", file=sys.stderr)
        return 2
    try:
        # Only the outcome goes to standard output; what the pipeline prints goes to standard error.
        with redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            store = _run_at(options.run, options.name)
            target = target_of(options)
            stage_of = cache(lambda ranks: target.load(ranks).stage)
            found = (_of_step if options.find is None else _with_record)(store, stage_of, options)
    except (TargetError, ResumableError, OSError) as error:
        print(f"resumable trace: {explain(error)}", file=sys.stderr)
        return 2
    for warning in told:
        print(f"resumable trace: {warning.message}", file=sys.stderr)
    for line in found:
        print(line)
    return 0 if found else 1


def _run_at(run: str, name: str | None) -> Store:
    """The store at ``run``; an empty one if nothing was saved there, so that steps count from the start."""
    try:
        return store_at(run, name)
    except NoValidCheckpoint as error:
        if name is not None:
            raise
        warnings.warn(f"{error}; steps are counted from the start", RuntimeWarning, stacklevel=2)
        return Memory()


def _of_step(store: Store, stage_of: StageOfRanks, options: argparse.Namespace) -> list[str]:
    """What is printed of a step."""
    stage = stage_of(None)
    steps = traced_step(store, stage_of, options.step, options.rank, options.ranks)
    if options.exclude:
        _add_exclusions(options.exclude, steps)
    if options.json:
        return [json.dumps(list(map(_described, steps)), indent=2)] if steps else []
    lines = list[str]()
    for one in steps:
        heading = f"step {one.step}, rank {one.rank} of {one.ranks}, epoch {one.epoch}"
        rows = [_cells(stage, row) for row in origin_rows(one.origin)]
        table = table_lines([("place", "input", "file", "record", "begins with"), *rows], "<<<>")
        lines += [*[""] * bool(lines), heading, *(f"  {line}".rstrip() for line in table)]
    return lines


def _cells(stage: Stage[Any], row: OriginRow) -> tuple[str, ...]:
    if row.record is None:
        return row.place, "", "", "", f"unknown: {row.unknown}"
    record = row.record
    file = "" if record.file is None else _shown_path(record.file)
    begins = f"in part: {row.unknown}" if row.unknown else _beginning(stage, record)
    return row.place, "/".join(map(str, record.inputs)), file, str(record.record), begins


def _shown_path(path: str) -> str:
    """``path`` as the user would write it here."""
    folder = os.path.join(os.getcwd(), "")
    return path.removeprefix(folder)


def _beginning(stage: Stage[Any], record: Origin) -> str:
    """How the item of the source begins; empty where it cannot be read by its number."""
    with suppress(LookupError, ResumableError, OSError):
        item = item_of_record(stage, record)
        data = item.data if isinstance(item, LocatedRecord) else item
        text = data.decode(errors="replace") if isinstance(data, bytes) else str(data)
        shown = " ".join(text[: 8 * LONGEST_BEGINNING].split())
        return shown if len(shown) <= LONGEST_BEGINNING else f"{shown[:LONGEST_BEGINNING]}..."
    return ""


def _described(one: TracedStep) -> dict[str, Any]:
    where = {"step": one.step, "rank": one.rank, "ranks": one.ranks, "epoch": one.epoch}
    return {**where, "origin": one.origin.to_json()}


def _with_record(store: Store, stage_of: StageOfRanks, options: argparse.Namespace) -> list[str]:
    """What is printed of a record."""
    wanted = partial(_is_wanted, *_named(options.find))
    found = [
        (one, row)
        for one in steps_of_run(store, stage_of, options.ranks)
        if options.rank in (None, one.rank)
        for row in origin_rows(one.origin)
        if row.record is not None and wanted(row.record)
    ]
    found.sort(key=lambda pair: (pair[0].step, pair[0].rank))
    if options.json:
        described = [
            {**_described(one), "origin": None if row.record is None else row.record.to_json()}
            | {"place": row.place, "past": one.is_past}
            for one, row in found
        ]
        return [json.dumps(described, indent=2)] if found else []
    rows = [_found_cells(one, row) for one, row in found]
    heading = ("step", "rank", "of", "epoch", "place", "")
    return table_lines([heading, *rows], ">>>><") if rows else []


def _found_cells(one: TracedStep, row: OriginRow) -> tuple[str, ...]:
    numbers = map(str, (one.step, one.rank, one.ranks, one.epoch))
    return *numbers, row.place, "" if one.is_past else "after the newest checkpoint"


def _named(wanted: str) -> tuple[str | None, int]:
    """The name of a file or input, if there is one, and the number that ``wanted`` tells."""
    name, colon, number = wanted.rpartition(":")
    if not number.isdecimal() or (colon and not name):
        raise InvalidArgument(
            f"--find must be a number, or FILE:NUMBER or INPUT:NUMBER, got {shorten(wanted)}"
        )
    return name or None, int(number)


def _is_wanted(name: str | None, number: int, record: Origin) -> bool:
    if record.record != number:
        return False
    if name is None:
        return record.file is None
    of_file = record.file is not None and is_named(record.file, name)
    return of_file or name in map(str, record.inputs)


def _add_exclusions(path: str, steps: Sequence[TracedStep]) -> None:
    """Add the records of ``steps`` to the file at ``path``, under the names of their inputs and files."""
    kept = json.loads(Path(path).read_text(encoding="utf-8")) if os.path.exists(path) else None
    records = [row.record for one in steps for row in origin_rows(one.origin) if row.record]
    for record in records:
        kept = _with(kept, list(_names(record)), record.record, path)
    text = json.dumps(kept if kept is not None else [], indent=1) + "\n"
    unfinished = Path(f"{path}.tmp-{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _names(record: Origin) -> Iterator[str]:
    for name in record.inputs:
        if not isinstance(name, str):
            raise InvalidArgument(
                f"inputs must have names for their records to be left out, got input {name} of {record}; "
                "give rs.mix or rs.concatenate a dict"
            )
        yield name
    if record.file is not None:
        yield record.file


def _with(kept: Any, names: list[str], number: int, path: str) -> Any:
    """``kept``, which is a list or a dict of such, with one record more."""
    if kept is None:
        kept = {} if names else []
    if not isinstance(kept, dict if names else list):
        raise InvalidArgument(
            f"{path} must hold records {'by name' if names else 'by number'} as this step has them, got "
            f"{shorten(kept)}"
        )
    if not isinstance(kept, dict):
        return sorted({*kept, number})
    return {**kept, names[0]: _with(kept.get(names[0]), names[1:], number, path)}
