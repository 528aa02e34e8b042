"""`resumable trace`: the records of a step, or the steps of a record.

Prints a row for each record in the item of a step, on all ranks: the place in the item, the input, the file, the
number of the record, and the beginning of the record. With --find, prints the steps, ranks and places of a
record, up to the newest checkpoint and in the rest of the epoch. The ranks are taken from the checkpoints of that
time. Only reads the checkpoints. Executes the file or module. The exit status is 0 if something was found, 1 if
nothing was found, 2 if the run or the pipeline cannot be read.

Examples:
  resumable trace run train.py --step 41317
  resumable trace run train.py:pipeline --step 41317 --place "row 3" --exclude bad.json
  resumable trace run train.py --find books.jsonl:812
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

from ..checkpoint.memory import Memory
from ..checkpoint.store import Store
from ..checkpoint.tracing import StageOfRanks, TracedStep, steps_of_run, traced_step
from ..core.origin import Origin
from ..core.regular_files import replacing
from ..core.stage import Stage
from ..errors import InvalidArgument, NoValidCheckpoint, ResumableError, shorten
from ..formats.named_files import is_named
from ..formats.record import LocatedRecord
from ..shadows.by_index import Sought
from ..shadows.record_item import is_file_of_record, item_of_record
from ..stages.exclude import exclusions_in, is_by_item
from ..views.origin_rows import OriginRow, origin_rows
from ..views.table import table_lines
from .output import print_outcome
from .places import store_at
from .target import only_outcome, target_of

T = TypeVar("T")

LONGEST_BEGINNING: Final = 48


def run(options: argparse.Namespace) -> int:
    """Print the outcome; returns the exit status."""
    for option in ("exclude", "place"):
        if getattr(options, option) and options.find is not None:
            raise InvalidArgument(f"--{option} needs --step")
    with only_outcome("trace"):
        store = _run_at(options.run, options.name)
        target = target_of(options)
        stage_of = cache(lambda ranks: target.load(ranks).stage)
        found = (_of_step if options.find is None else _with_record)(store, stage_of, options)
        lines = [] if options.json else [*found.lines]
    if not found.described:
        print(f"resumable trace: {_what_was_not_found(options)}", file=sys.stderr)
    if found.described or options.json:
        print_outcome(options.json, lambda: found.described, lines)
    return 0 if found.described else 1


class _TraceOutcome(NamedTuple):
    """The outcome, for programs and, slower to make, as text."""

    described: list[dict[str, Any]]
    lines: Iterator[str]


def _what_was_not_found(options: argparse.Namespace) -> str:
    rank = "" if options.rank is None else f" of rank {options.rank}"
    if options.find is not None:
        return f"no step{rank} had the record {options.find}"
    there = f"there is no step {options.step}{rank}"
    return f"{there}, or nothing in it at {options.place}" if options.place else there


def _run_at(run: str, name: str | None) -> Store:
    """The store at ``run``; an empty store without a save: steps then count from the start."""
    try:
        return store_at(run, name)
    except NoValidCheckpoint as error:
        if name is not None:
            raise
        warnings.warn(f"{error}; steps are counted from the start", RuntimeWarning, stacklevel=2)
        return Memory()


def _of_step(store: Store, stage_of: StageOfRanks, options: argparse.Namespace) -> _TraceOutcome:
    """The outcome for a step."""
    stage = stage_of(None)
    steps = traced_step(store, stage_of, options.step, options.rank, options.ranks)
    place = options.place
    found = [(one, _rows_at(place, origin_rows(one.origin))) for one in steps]
    if place is not None:
        found = [(one, rows) for one, rows in found if rows]
    if options.exclude and found:
        _add_exclusions(stage, options.exclude, [row for _, rows in found for row in rows])
    described = [_described(one) for one, _ in found]
    if place is not None:
        described = [_described_row(one, row) for one, rows in found for row in rows]
    return _TraceOutcome(described, _step_lines(stage, found))


def _step_lines(
    stage: Stage[Any], found: Sequence[tuple[TracedStep, list[OriginRow]]]
) -> Iterator[str]:
    for number, (one, of_step) in enumerate(found):
        yield from [""] * bool(number)
        yield f"step {one.step}, rank {one.rank} of {one.ranks}, epoch {one.epoch}"
        rows = [_cells(stage, row) for row in of_step]
        names = ("place", "input", "file", "record", "begins with")
        yield from table_lines([names, *rows], "<<<>", "  ")


def _rows_at(place: str | None, rows: Iterable[OriginRow]) -> list[OriginRow]:
    """The ``rows`` at or within ``place`` in the item; all rows if ``place`` is None."""
    return [row for row in rows if place is None or f"{row.place}, ".startswith(f"{place}, ")]


def _cells(stage: Stage[Any], row: OriginRow) -> tuple[str, ...]:
    if row.record is None:
        return row.place, "", "", "", f"unknown: {row.unknown}"
    record = row.record
    file = "" if record.file is None else _shown_path(record.file)
    begins = f"in part: {row.unknown}" if row.unknown else _beginning(stage, record)
    return row.place, "/".join(map(str, record.inputs)), file, str(record.record), begins


def _shown_path(path: str) -> str:
    """``path``, relative to the working directory if inside."""
    folder = os.path.join(os.getcwd(), "")
    return path.removeprefix(folder)


def _beginning(stage: Stage[Any], record: Origin) -> str:
    """The beginning of the source's item; empty if the item cannot be read by number."""
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


def _described_row(one: TracedStep, row: OriginRow) -> dict[str, Any]:
    origin = None if row.record is None else row.record.to_json()
    return {**_described(one), "origin": origin, "place": row.place, "past": one.is_past}


def _with_record(
    store: Store, stage_of: StageOfRanks, options: argparse.Namespace
) -> _TraceOutcome:
    """The outcome for a record."""
    name, number = _named(options.find)
    wanted = partial(_is_wanted, name, number)
    found = [
        (one, row)
        for one in steps_of_run(store, stage_of, options.ranks, Sought(number, wanted))
        if options.rank in (None, one.rank)
        for row in origin_rows(one.origin)
        if row.record is not None and wanted(row.record)
    ]
    found.sort(key=lambda pair: (pair[0].step, pair[0].rank))
    rows = [_found_cells(one, row) for one, row in found]
    heading = ("step", "rank", "of", "epoch", "place", "")
    described = [_described_row(one, row) for one, row in found]
    return _TraceOutcome(described, iter(table_lines([heading, *rows], ">>>><")))


def _found_cells(one: TracedStep, row: OriginRow) -> tuple[str, ...]:
    numbers = map(str, (one.step, one.rank, one.ranks, one.epoch))
    return *numbers, row.place, "" if one.is_past else "after the newest checkpoint"


def _named(wanted: str) -> tuple[str | None, int]:
    """The name of a file or input, if any, and the number in ``wanted``."""
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


def _add_exclusions(stage: Stage[Any], path: str, rows: Sequence[OriginRow]) -> None:
    """Add the records of ``rows`` to the file at ``path``, under the names of their inputs and files."""
    kept = _kept_in(path) if os.path.exists(path) else None
    for record in filter(None, (row.record for row in rows)):
        kept = _with(stage, kept, _input_names(record), record, path)
    if is_by_item(kept):  # names made of digits would be taken for items
        kept = {"0": kept}
    with replacing(path, ".tmp") as file:
        file.write(json.dumps(kept if kept is not None else [], indent=1).encode() + b"\n")


def _kept_in(path: str) -> Any:
    """The records listed in the file at ``path``; None without a path."""
    kept = exclusions_in(path)
    if is_by_item(kept):
        if list(map(int, kept)) == [0]:  # the same records from the first item on
            return next(iter(kept.values())) or None
        raise InvalidArgument(
            f"{path} says from which items on its records are left out; name another file, and add what it then has "
            "as a further entry, with the item that `resumable amend` tells"
        )
    return kept or None


def _input_names(record: Origin) -> list[str]:
    for name in record.inputs:
        if not isinstance(name, str):
            raise InvalidArgument(
                f"inputs must have names for their records to be left out, got input {name} of {record}; "
                "give rs.mix or rs.concatenate a dict"
            )
    return list(map(str, record.inputs))


def _with(stage: Stage[Any], kept: Any, inputs: list[str], record: Origin, path: str) -> Any:
    """``kept``, a list or a nested dict of lists, plus the ``record`` from ``inputs``."""
    if not inputs and record.file is None:
        return _with_number(kept, record.record, path)
    of_name = _checked({} if kept is None else kept, dict, path)
    if inputs:
        name, *within = inputs
        return {**of_name, name: _with(stage, of_name.get(name), within, record, path)}
    file = record.file or ""
    # ``kept`` may name the file by another end of the path, and several files may share an end.
    ends = [*(name for name in of_name if is_named(file, name)), _shown_path(file)]
    alone = (name for name in ends if name == file or is_file_of_record(stage, record, name))
    name = file if file in of_name else next(alone, file)
    return {**of_name, name: _with_number(of_name.get(name), record.record, path)}


def _with_number(kept: Any, number: int, path: str) -> list[int]:
    return sorted({*_checked([] if kept is None else kept, list, path), number})


def _checked(kept: Any, kind: type[T], path: str) -> T:
    if not isinstance(kept, kind):
        by = "name" if kind is dict else "number"
        raise InvalidArgument(
            f"{path} must hold records by {by} as this step has them, got {shorten(kept)}"
        )
    return kept
