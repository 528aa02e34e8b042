"""What was changed in a run, noted next to its checkpoints: for people, never read for a resume."""

# A line is written once the first checkpoint after a resume is stored, so that it says what a checkpoint has.
# A start that ends before that changes nothing of the run, and notes nothing. If the process is killed between
# the two, the line is missing. If the first part of a rank is stored and its step never becomes whole, the
# next start notes the same again.
#
# With several ranks, rank 0 writes. What may differ is the same on all of them, and its lock keeps other
# writers out. Files of all ranks would say the same many times, and no file system appends the lines of
# several hosts to one file safely.

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.changed import changed_arguments
from ..core.continuing import relied_on_by
from ..core.fingerprint import fingerprint
from ..core.regular_files import NO_FOLLOW, READ
from ..core.reliance import Reliance
from ..core.stage import Stage
from .envelope import Checkpoint
from .ranks.part import RankPart
from .store import Store

AfterSave: TypeAlias = "Callable[[int, float], str | None]"
"""Is called with step and time once a checkpoint is stored; returns what failed."""

TEXTS: Final = ("stage", "path", "argument")


@final
class ChangeNote:
    """Notes, after the first save, how a pipeline differs from the one of the checkpoint it went on from."""

    def __init__(self, store: Store, checkpoint: Checkpoint, stage: Stage[Any]) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self._stage = stage
        self._noted = False

    def write(self, step: int, time: float) -> str | None:
        """Write it, once; returns what failed, which is not tried again."""
        if self._noted:
            return None
        self._noted = True
        try:
            lines = b"".join(self._lines(time))
            if lines:
                self._store.append_history(lines)
        except Exception as error:  # a run need not end because of its history
            return f"in {self._store!r}, what was changed in the run could not be noted: {error}"
        return None

    def _lines(self, time: float) -> list[bytes]:
        saved, relied_on = _saved(self._checkpoint)
        return [
            json.dumps({"step": self._checkpoint.step, "time": time, **one._asdict()}).encode()
            + b"\n"
            for one in changed_arguments(saved, self._stage, relied_on)
        ]


def note_of_changes(
    store: Store, checkpoint: Checkpoint | None, stage: Stage[Any], part: RankPart
) -> AfterSave | None:
    """What notes the changes since ``checkpoint`` after the first save of ``part``; None if there are none."""
    if checkpoint is None or part.rank:
        return None
    saved, relied_on = _saved(checkpoint)
    if saved == fingerprint(stage, relied_on):
        return None
    return ChangeNote(store, checkpoint, stage).write


def both(one: AfterSave | None, other: AfterSave | None) -> AfterSave | None:
    """What calls ``one`` and then ``other``, each if there is one."""
    if one is None or other is None:
        return one or other

    def call_both(step: int, time: float) -> str | None:
        return "; ".join(filter(None, [one(step, time), other(step, time)])) or None

    return call_both


def _saved(checkpoint: Checkpoint) -> tuple[Any, Reliance]:
    """The fingerprint in ``checkpoint``, and what its state relies on."""
    state = checkpoint.state
    return state["fingerprint"], relied_on_by(state["ahead"])


class HistoryLines(NamedTuple):
    """What a history holds.

    Attributes:
      entries: what each line says, in order.
      unreadable: the numbers of the lines that say nothing, from 1.
    """

    entries: list[dict[str, Any]]
    unreadable: list[int]


def read_history(path: Path) -> HistoryLines:
    """The history in the file ``path``. A line that was cut short or damaged does not hide the others.

    Raises:
      OSError: if it cannot be read, or is no regular file.
    """
    found = HistoryLines([], [])
    for number, line in enumerate(_content(path).split(b"\n"), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if _is_entry(entry):
            found.entries.append(entry)
        elif line:
            found.unreadable.append(number)
    return found


def _content(path: Path) -> bytes:
    descriptor = os.open(path, READ | NO_FOLLOW)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path}: it is not a regular file")
        return file.read()


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("step")) is int
        and type(entry.get("time")) in (int, float)
        and all(isinstance(entry.get(name), str) for name in TEXTS)
        and {"saved", "new"} <= entry.keys()
    )
