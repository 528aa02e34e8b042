"""`resumable inspect`: the checkpoints of a folder, or the content of a checkpoint.

Lists every checkpoint of a folder with the step, the age, the size and whether the checkpoint is valid, or shows
the state in one file as the tree of the pipeline. Changes no file. For each stage, prints the saved values:
mostly the position, in items. For each argument that may change, such as the weights of a mix, prints from which
position on each value holds. The exit status is 1 if a checkpoint is damaged, unless the damaged file was set
aside and a valid checkpoint is left; 2 if nothing can be read.

Examples:
  resumable inspect run
  resumable inspect run/input-000000001200.ckpt
  resumable inspect run --history
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..checkpoint.envelope import Checkpoint
from ..checkpoint.history import read_history
from ..checkpoint.names import CheckpointNames, histories_among, names_among, parse_file_name
from ..checkpoint.ranks.part import WHOLE
from ..checkpoint.ranks.survey import FoundFile, examine, survey
from ..checkpoint.remote import Remote
from ..core.saved_arguments import SavedArgument, saved_arguments
from ..errors import InvalidArgument, NoValidCheckpoint, shorten
from ..state.saved_pipeline import SavedPipeline
from ..views.state_tree import as_json, stage_tree, tree_lines
from ..views.table import table_lines
from .output import print_outcome
from .places import folder_at, folders_below
from .progress import progress_bar
from .texts import show_age, show_time


def run(options: argparse.Namespace) -> int:
    """Print the contents of ``options.path``; returns the exit status."""
    if options.history:
        rule = "--history needs a folder of checkpoints on this machine"
        return _show_history(folder_at(options.path, rule), as_program=options.json)
    if "://" in options.path:
        return _show_remote(options.path, as_program=options.json)
    path = Path(options.path)
    if path.is_dir():
        return _show_folder(path, str(path), as_program=options.json)
    if not os.path.lexists(path):
        raise InvalidArgument(f"there is no folder or file {path}")
    return _show_file(examine(path), as_program=options.json)


def _show_remote(url: str, *, as_program: bool) -> int:
    """Show the checkpoints under ``url``, or the checkpoint at ``url``, from local copies."""
    place, _, name = url.rstrip("/").rpartition("/")
    one = name if parse_file_name(name) is not None else None
    with TemporaryDirectory(prefix="resumable-inspect-") as copies:
        folder = Path(copies)
        Remote(url if one is None else place).copy_to(folder, one)
        if one is None:
            return _show_folder(folder, url.rstrip("/"), as_program=as_program)
        found = examine(folder / one)
        return _show_file(found, place, as_program=as_program)


def _show_folder(folder: Path, place: str, *, as_program: bool) -> int:
    """Show the checkpoints of ``folder``; the user sees ``place``."""
    found = []
    with progress_bar(sum(1 for _ in folder.iterdir())) as bar:
        for file in survey(folder):
            found.append(file)
            bar.update(1)
    # A step without all parts is an interrupted or unfinished save.
    damaged = [file for file in found if file.problem and not (file.aside or file.incomplete)]
    if found or as_program:
        described = [_describe(file, place) for file in found]
        rows = [("file", "step", "age", "bytes", ""), *map(_row, found)]
        print_outcome(
            as_program,
            lambda: {"folder": place, "checkpoints": described},
            table_lines(rows, "<>>>"),
        )
    if not found:
        raise NoValidCheckpoint(f"there is no checkpoint in {place}{folders_below(folder)}")
    valid = {file.name for file in found if file.problem is None and file.aside is None}
    without = {file.name for file in found if file.aside == "damaged"} - valid
    return 1 if damaged or without else 0


def _show_history(folder: Path, *, as_program: bool) -> int:
    """Show the changes in the runs of ``folder``."""
    files = os.listdir(folder)
    found = {name: read_history(folder / file) for name, file in histories_among(files).items()}
    for name, history in found.items():
        for number in history.unreadable:
            where = f"line {number} of {folder / CheckpointNames(name).history}"
            print(f"resumable inspect: {where} cannot be read", file=sys.stderr)
    if not found and not names_among(files):
        raise NoValidCheckpoint(f"there is no checkpoint in {folder}{folders_below(folder)}")
    entries = [
        {"name": name, **entry} for name, history in found.items() for entry in history.entries
    ]
    lines = [f"nothing was noted in {folder}"]
    if entries:
        heading = ("name", "from step", "noted", "stage", "argument", "was", "became")
        left = 0 if len(found) > 1 else 1  # a single name is not shown
        rows = [row[left:] for row in (heading, *map(_history_row, entries))]
        lines = table_lines(rows, "<><<<<"[left:])
    print_outcome(as_program, lambda: {"folder": str(folder), "history": entries}, lines)
    return 0


def _history_row(entry: dict[str, Any]) -> tuple[str, ...]:
    where = f"{_printable(entry['stage'])} at {_printable(entry['path'])}"
    values = ["-" if entry[name] is None else _printable(entry[name]) for name in ("saved", "new")]
    step, saved = str(entry["step"]), show_time(entry["time"])
    return entry["name"], step, saved, where, _printable(entry["argument"]), *values


def _printable(value: Any) -> str:
    """``value`` from a file as text, without control sequences for a terminal."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() else repr(text)


def _show_file(file: FoundFile, place: str = "", *, as_program: bool) -> int:
    checkpoint = file.checkpoint
    if checkpoint is None:
        problem = f"{_shown(file, place)}: {file.problem}"
        print_outcome(as_program, lambda: _describe(file, place), [problem])
        return 1
    state, lines = checkpoint.state, _checkpoint_lines(checkpoint, file.size)
    print_outcome(as_program, lambda: _describe(file, place) | _held(state), lines)
    return 0


def _checkpoint_lines(checkpoint: Checkpoint, size: int) -> Iterator[str]:
    age = show_age(time.time() - checkpoint.time)
    yield f"step {checkpoint.step}, saved {show_time(checkpoint.time)} ({age} ago), {size:,} bytes"
    if checkpoint.part != WHOLE:
        yield f"the part of {checkpoint.part}"
    yield from _notes(checkpoint.state)
    yield ""
    for line in tree_lines(stage_tree(checkpoint.state)):
        yield f"  {line}".rstrip()
    for argument in saved_arguments(checkpoint.state.get("fingerprint")):
        yield ""
        yield from _argument_lines(argument)


def _held(state: dict[str, Any]) -> dict[str, Any]:
    arguments = [
        {
            "stage": one.stage,
            "path": one.path,
            "argument": one.argument.argument,
            "unit": one.argument.unit,
            "pairs": as_json([(first, _node(value)) for first, value in one.timeline]),
            "written": one.written,
        }
        for one in saved_arguments(state.get("fingerprint"))
    ]
    return {"arguments": arguments, "state": as_json(state)}


def _node(value: Any) -> Any:
    return value.node if isinstance(value, SavedPipeline) else value


def _argument_lines(one: SavedArgument) -> Iterator[str]:
    """An argument by position, with a line for each position where the value changes."""
    yield f"{one.argument.argument} of {one.stage} at {one.path}"
    rows = [
        (f"from {one.argument.unit}", f"{position:_}", one.argument.shown(value))
        for position, value in one.timeline
    ]
    yield from table_lines(rows, "<>", "  ")


def _notes(state: dict[str, Any]) -> Iterator[str]:
    epoch, ahead = state.get("epoch"), state.get("ahead")
    if type(epoch) is int and epoch > 0:
        yield f"the iterator was started in epoch {shorten(epoch)}"
    if type(ahead) is int and ahead > 0:
        yield f"saved after an error: {shorten(ahead)} items were handed out since these positions"


def _row(file: FoundFile) -> tuple[str, ...]:
    when = file.modified if file.checkpoint is None else file.checkpoint.time
    step = "" if file.step is None else str(file.step)
    verdict = "valid" if file.problem is None else file.problem
    if file.restriction is not None:
        verdict = f"valid for {file.part.ranks} ranks only: {file.restriction}"
    if file.aside is not None:
        verdict = f"set aside as {file.aside}" + (f": {file.problem}" if file.problem else "")
    return file.path.name, step, show_age(time.time() - when), f"{file.size:,}", verdict


def _shown(file: FoundFile, place: str) -> str:
    """Where ``file`` is; if ``place`` is a URL, the file here is only a copy."""
    return f"{place}/{file.path.name}" if "://" in place else str(file.path)


def _describe(file: FoundFile, place: str) -> dict[str, Any]:
    checkpoint = file.checkpoint
    return {
        "file": _shown(file, place),
        "name": file.name,
        "step": file.step,
        "ranks": file.part.ranks,
        "time": None if checkpoint is None else as_json(checkpoint.time),
        "bytes": file.size,
        "valid": file.problem is None,
        "incomplete": file.incomplete,
        "restriction": file.restriction,
        "problem": file.problem,
        "set_aside": file.aside,
    }
