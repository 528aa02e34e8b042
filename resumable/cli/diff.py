"""`resumable diff`: the differences between two checkpoints.

Compares two checkpoints stage by stage. A folder stands for the newest valid checkpoint in the folder, of the
input NAME if the folder holds several inputs. The exit status is 0 if both checkpoints hold the same state, 1 if
the states differ, 2 if a checkpoint cannot be read.

Examples:
  resumable diff run/input-000000001200.ckpt run/input-000000001300.ckpt
  resumable diff run-a run-b --name valid
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..checkpoint.envelope import Checkpoint
from ..checkpoint.ranks.survey import FoundFile, examine, survey
from ..core.merging import equal_values
from ..errors import NoValidCheckpoint, shorten
from ..views.column import Column, listed
from ..views.state_tree import as_json, positions, show, stage_tree
from ..views.table import table_lines
from .output import print_outcome
from .places import chosen_name, none_there
from .texts import show_age, show_time

ABSENT: Final = object()
"""Marks a position missing in one checkpoint."""


def run(options: argparse.Namespace) -> int:
    """Print the differences; returns the exit status."""
    first, one = _read(Path(options.a), options.name)
    second, other = _read(Path(options.b), options.name)
    differences = _differences(one, other)
    same_pipeline = one.state.get("fingerprint") == other.state.get("fingerprint")
    lines = [f"{first} and {second} hold the same state of step {one.step}"]
    if differences or not same_pipeline:
        lines = [f"A is {first}", f"B is {second}"]
        lines += ["They were saved by different pipelines."] * (not same_pipeline)
        saved = ("saved", show_time(one.time), show_time(other.time))
        rows = [("", "A", "B", "moved by"), (*saved, show_age(other.time - one.time))]
        rows += [(d.label, _shown(d.old), _shown(d.new), d.moved) for d in differences]
        lines += table_lines(rows, "<>>")
    print_outcome(options.json, partial(_described, first, second, differences), lines)
    return 1 if differences or not same_pipeline else 0


class _DifferingPosition(NamedTuple):
    """A position with different values in the two checkpoints."""

    label: str
    old: Any
    new: Any

    @property
    def moved(self) -> str:
        """The difference of two integers, or the differing partitions; else empty."""
        if isinstance(self.old, Column) and isinstance(self.new, Column):
            return f"in {listed(self.old.differing(self.new))}"
        if type(self.old) is int and type(self.new) is int:
            return ("+" if self.new > self.old else "") + shorten(self.new - self.old)
        return ""


def _read(path: Path, name: str | None) -> tuple[Path, Checkpoint]:
    """The checkpoint at ``path``, or the newest one in the folder ``path``, with the path of the file."""
    if not path.is_dir():
        found = examine(path)
        if found.checkpoint is None:
            raise NoValidCheckpoint(f"{path}: {found.problem}")
        return path, found.checkpoint
    there = [file for file in survey(path) if file.aside is None]
    valid = [file for file in there if file.problem is None]
    if name is None and valid:
        name = chosen_name(path, sorted({str(file.name) for file in valid}))
    valid = [file for file in valid if file.name == name]
    if valid and (newest := _newest(valid)).checkpoint is not None:
        return newest.path, newest.checkpoint
    wrong = [file for file in there if file.problem is not None and name in (None, file.name)]
    if not wrong:
        raise none_there("there is no valid checkpoint", str(path), name, [])
    newest = _newest(wrong)
    raise NoValidCheckpoint(
        f"there is no valid checkpoint{f' of {name}' if name else ''} in {path}; "
        f"{newest.path.name}: {newest.problem}"
    )


def _newest(files: list[FoundFile]) -> FoundFile:
    return max(files, key=lambda file: file.step or 0)


def _differences(first: Checkpoint, second: Checkpoint) -> list[_DifferingPosition]:
    before, after = _everything(first), _everything(second)
    pairs = [
        _DifferingPosition(key, before.get(key, ABSENT), after.get(key, ABSENT))
        for key in before | after
    ]
    return [pair for pair in pairs if not equal_values(pair.old, pair.new)]


def _described(first: Path, second: Path, differences: list[_DifferingPosition]) -> dict[str, Any]:
    return {
        "a": str(first),
        "b": str(second),
        "differences": [
            {
                "what": difference.label,
                "a": None if difference.old is ABSENT else as_json(difference.old),
                "b": None if difference.new is ABSENT else as_json(difference.new),
            }
            for difference in differences
        ],
    }


def _everything(checkpoint: Checkpoint) -> dict[str, Any]:
    """Each value of the state, by the name in the output."""
    state = checkpoint.state
    found: dict[str, Any] = {
        name: state[name] for name in ("step", "epoch", "ahead") if name in state
    }
    for (path, stage, name), value in positions(stage_tree(state)).items():
        found[f"{stage} at {path}: {name}"] = value
    return found


def _shown(value: Any) -> str:
    return "-" if value is ABSENT else show(value)
