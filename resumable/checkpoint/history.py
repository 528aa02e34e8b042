"""Note the changes of a run next to its checkpoints, for people; no resume depends on the notes."""

# A line is written once the first checkpoint after a resume is stored, so a line describes a
# checkpoint. A start without a checkpoint changes nothing of the run, and notes nothing. If the
# process is killed between the checkpoint and the line, the next resume compares the newest
# checkpoint with the previous one, and writes the line. The next resume does the same after the
# file was deleted. If the first part of a rank is stored and its step never becomes whole, the next
# start notes the same again.
#
# With several ranks, rank 0 writes. Arguments that may change are the same on all ranks, and the
# lock of rank 0 keeps other writers out. Files of all ranks would repeat each change, and no file
# system appends the lines of several hosts to one file safely.

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.changed import ChangedArgument, changed_arguments, changes_between
from ..core.fingerprint import fingerprint
from ..core.identity import LATER_EPOCHS, Dependence
from ..core.runnable import dependence_of_resume
from ..core.stage import Stage
from ..errors import ResumableError
from .envelope import Checkpoint
from .files import read_regular_file
from .ranks.part import RankPart
from .ranks.parts import WholeSteps
from .store import Store

AfterSave: TypeAlias = "Callable[[int, float], str | None]"
"""Called with step and time once a checkpoint is stored; returns an error message, or None."""

TEXTS: Final = ("stage", "path", "argument")


@final
@dataclass(eq=False)
class ChangeNote:
    """Notes, after the first save, how a pipeline differs from that of the resumed checkpoint.

    Attributes:
      store: of the history.
      checkpoint: resumed by the run.
      stage: the last stage of the pipeline.
      complaint: about earlier notes, returned after the first save.
      noted: whether the first save has come.
    """

    store: Store
    checkpoint: Checkpoint
    stage: Stage[Any]
    complaint: str | None
    noted: bool = False

    def write(self, step: int, time: float) -> str | None:
        """Write the note, once; returns the message of a failure, which is not retried."""
        if self.noted:
            return None
        self.noted = True

        def lines() -> bytes:
            saved, dependence = _saved(self.checkpoint)
            found = changed_arguments(saved, self.stage, dependence)
            return _lines(self.checkpoint.step, time, found)

        failed = _append(self.store, lines)
        return self.complaint or failed


def note_of_changes(
    store: WholeSteps, checkpoint: Checkpoint | None, stage: Stage[Any], part: RankPart
) -> AfterSave | None:
    """A callback to note the changes since ``checkpoint`` after the first save of ``part``.

    None without changes.

    Missing notes on the changes before ``checkpoint`` are written at once.
    """
    if checkpoint is None or part.rank:
        return None
    complaint = _append(store, lambda: _lost_lines(store, checkpoint, stage))
    saved, dependence = _saved(checkpoint)
    if saved == fingerprint(stage, dependence) and complaint is None:
        return None
    return ChangeNote(store, checkpoint, stage, complaint).write


def _lost_lines(store: WholeSteps, checkpoint: Checkpoint, stage: Stage[Any]) -> bytes:
    """The lines for the save of ``checkpoint`` that are missing in the history."""
    try:
        content = store.history()
        failure = None
    except OSError as error:
        content, failure = b"", error
    before = None if content is None else _checkpoint_before(store, checkpoint.step)
    if before is None:
        return b""
    (saved, dependence), (present, depends_on) = _saved(before), _saved(checkpoint)
    if (dependence ^ depends_on) - LATER_EPOCHS:  # their changeable fields differ
        return b""
    found = changes_between(saved, present, stage)
    if found and failure is not None:
        raise failure
    noted = {
        (entry["stage"], entry["path"], entry["argument"]): entry["new"]
        for entry in history_lines(content or b"").entries
        if before.step <= entry["step"] < checkpoint.step
    }
    lost = [
        one for one in found if noted.get((one.stage, one.path, one.argument), noted) != one.new
    ]
    return _lines(before.step, checkpoint.time, lost)


def _checkpoint_before(store: WholeSteps, step: int) -> Checkpoint | None:
    """The newest readable checkpoint before ``step``, or a part of the checkpoint.

    None without any.
    """
    for earlier in reversed(store.steps()):
        if earlier < step:
            # The checkpoint may be damaged, or removed meanwhile.
            with suppress(ResumableError, FileNotFoundError):
                return store.part_of_one_rank(earlier)
    return None


def _append(store: Store, lines: Callable[[], bytes]) -> str | None:
    """Keep ``lines()`` in ``store``, if any; returns the message of a failure."""
    try:
        if data := lines():
            store.append_history(data)
    except Exception as error:  # a bad history need not end a run
        return f"in {store!r}, what was changed in the run could not be noted: {error}"
    return None


def _lines(step: int, time: float, found: list[ChangedArgument]) -> bytes:
    entries = ({"step": step, "time": time, **one._asdict()} for one in found)
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def both(one: AfterSave | None, other: AfterSave | None) -> AfterSave | None:
    """A function that calls both arguments in turn, without None; None if both are None."""
    if one is None or other is None:
        return one or other

    def call_both(step: int, time: float) -> str | None:
        return "; ".join(filter(None, [one(step, time), other(step, time)])) or None

    return call_both


def _saved(checkpoint: Checkpoint) -> tuple[Any, Dependence]:
    """The fingerprint in ``checkpoint``, and the properties that its state relies on."""
    state = checkpoint.state
    return state["fingerprint"], dependence_of_resume(state["ahead"], state["epoch"])


class HistoryLines(NamedTuple):
    """The content of a history.

    Attributes:
      entries: the JSON object of each readable line, in order.
      unreadable: the numbers of the unreadable lines, from 1.
    """

    entries: list[dict[str, Any]]
    unreadable: list[int]


def read_history(path: Path) -> HistoryLines:
    """The history in the file ``path``. A line cut short or damaged does not hide the other lines.

    Raises:
      OSError: if the file cannot be read, or is no regular file.
    """
    return history_lines(read_regular_file(path))


def history_lines(content: bytes) -> HistoryLines:
    """The history in the lines ``content``."""
    found = HistoryLines([], [])
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if _is_entry(entry):
            found.entries.append(entry)
        elif line:
            found.unreadable.append(number)
    return found


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("step")) is int
        and type(entry.get("time")) in (int, float)
        and all(isinstance(entry.get(name), str) for name in TEXTS)
        and {"saved", "new"} <= entry.keys()
    )
