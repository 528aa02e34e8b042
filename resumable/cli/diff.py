"""`resumable diff`: what moved between two checkpoints."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..checkpoint.envelope import Checkpoint
from ..checkpoint.survey import examine, survey
from .inspect import show_age, show_time
from .state_tree import positions, show, stage_tree

__all__ = ["add_parser"]

ABSENT: Final = object()
"""Stands for a position that only one of the two has."""


def add_parser(commands: Any) -> None:
    """Add ``diff`` to the command line."""
    parser = commands.add_parser(
        "diff",
        help="show what moved between two checkpoints",
        description=(
            "Compares two checkpoints stage by stage. A folder stands for the newest valid one "
            "in it. The exit status is 0 if both hold the same state, 1 if they differ, 2 if one "
            "cannot be read."
        ),
    )
    parser.add_argument("a", metavar="A", help="a checkpoint file, or a folder")
    parser.add_argument("b", metavar="B", help="another one")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the differences; returns the exit status."""
    try:
        first, second = _read(Path(options.a)), _read(Path(options.b))
    except (OSError, _Unreadable) as error:
        print(f"resumable diff: {error}", file=sys.stderr)
        return 2
    rows = _differences(first, second)
    if first.state.get("fingerprint") != second.state.get("fingerprint"):
        print("They were saved by different pipelines.")
    elif not rows:
        print(f"the same state of step {first.step}")
        return 0
    rows.insert(0, ("saved", show_time(first.time), show_time(second.time), _age(first, second)))
    _print_table([("", "A", "B", "moved by"), *rows])
    return 1


class _Unreadable(Exception):
    """There is no valid checkpoint where one was named."""


def _read(path: Path) -> Checkpoint:
    if not path.is_dir():
        found = examine(path)
        if found.checkpoint is None:
            raise _Unreadable(f"{path}: {found.problem}")
        return found.checkpoint
    valid = [f.checkpoint for f in survey(path) if f.checkpoint is not None and f.aside is None]
    if not valid:
        raise _Unreadable(f"there is no valid checkpoint in {path}")
    return max(valid, key=lambda checkpoint: checkpoint.step)


def _differences(first: Checkpoint, second: Checkpoint) -> list[tuple[str, str, str, str]]:
    before, after = _everything(first), _everything(second)
    rows = []
    for label in before | after:
        old, new = before.get(label, ABSENT), after.get(label, ABSENT)
        if not _equal(old, new):
            rows.append((label, _shown(old), _shown(new), _moved(old, new)))
    return rows


def _everything(checkpoint: Checkpoint) -> dict[str, Any]:
    """Each value of the state by what to call it."""
    state = checkpoint.state
    found: dict[str, Any] = {}
    for name in ("step", "epoch", "ahead"):
        if name in state:
            found[name] = state[name]
    for (path, stage, name), value in positions(stage_tree(state)).items():
        found[f"{stage} at {path}: {name}"] = value
    return found


def _shown(value: Any) -> str:
    return "-" if value is ABSENT else show(value)


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return type(old) is type(new) and old.dtype == new.dtype and np.array_equal(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_equal(old[key], new[key]) for key in old)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(map(_equal, old, new))
    return bool(old == new)


def _moved(old: Any, new: Any) -> str:
    return f"{new - old:+,}" if type(old) is int and type(new) is int else ""


def _age(first: Checkpoint, second: Checkpoint) -> str:
    return show_age(second.time - first.time)


def _print_table(rows: list[tuple[str, str, str, str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for label, *values in rows:
        shown = "  ".join(
            f"{value:>{width}}" for value, width in zip(values, widths[1:], strict=True)
        )
        print(f"{label:<{widths[0]}}  {shown}".rstrip())
