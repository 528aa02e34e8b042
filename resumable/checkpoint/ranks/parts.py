"""The steps of a name that are whole, where several ranks save a part of each."""

# Each rank saves its part of a step by itself, as one alone saves a whole checkpoint, and names it
# by step, run, rank and number of ranks. A step counts as saved when all parts of one run are there,
# which the names alone tell. The ranks exchange nothing else, and none waits for another.
#
# What follows from that:
#
# - A rank that dies before it has saved its part leaves the step before as the newest whole one. When it
#   resumes it removes its own parts of later steps: it will come to these steps again. The parts of
#   the other ranks fit the new one all the same, or are of another run (`run.py`) and never make a
#   whole with it.
# - The ranks resume from the same step. For one of a new run to become whole, each rank must have
#   saved a part, and so must have resumed before; and the old run can save no more, as its writers
#   hold the locks until they end. If the same run goes on, a rank that is slow to begin may find a
#   newer step whole that only lacked parts of faster ranks: it goes on from there, in the same run.
# - Rank 0 applies the retention to whole steps, and removes its parts of those that expired. A step
#   older than a whole one that lacks a part never becomes whole any more, so each rank removes its
#   parts of such steps after its own saves. The parts of ranks that there are no more are dealt out
#   to those that there are (`RankPart.tidies`).
# - Nothing is removed for a whole step that may not last. A rank that resumes may take back its part
#   of a step that has just become whole, as it looked for the newest one before. It saves nothing
#   between the two; so what is whole, and still is after every rank has saved again, is settled.
#   And what other ranks have saved is synced first: they may not have come to sync the folder.
# - The states are joined. Where that cannot be, as where a stage keeps items of its rank, as many ranks
#   go on as there were, each from its own state.
# - Where a part is damaged, its step is: the first rank that finds out sets all parts of it aside.
# - Parts that can never become whole, as those of ranks with different pipelines, are an error at the
#   next resume or save (`conflicts.py`), and stay where they are.
# - Nobody saves another number of parts meanwhile: each rank locks its own file, and then looks
#   whether one of another number of ranks is locked.

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Final, final

from ...errors import CorruptCheckpoint, StateMismatch
from ...state.merging import merge_states
from ...state.value import State
from ..envelope import Checkpoint, decode, encode
from ..store import Store, StoreLock
from .conflicts import ConflictWatch, conflict_at_resume, refusal
from .part import WHOLE, RankPart

MANY: Final = 10
"""Parts of one rank alone, by which it is told that the ranks may not share their store."""


START: Final = -1
"""Stands for the start: a rank may also have saved a part of step 0 before, where others have no item."""


@final
class WholeSteps(Store):
    """A store as one of its ranks sees it: each step whose parts are all there is one checkpoint.

    Args:
      store: where the parts are kept.
      rank: that saves.
      ranks: how many do.

    Raises:
      InvalidArgument: if there are several and ``store`` keeps no parts.
    """

    def __init__(self, store: Store, rank: int = 0, ranks: int = 1) -> None:
        self._store = store
        self._part = RankPart(rank, ranks)
        self._own = store.part(self._part) if ranks > 1 else store
        # The parts of each whole step, as they were listed last.
        self._listed: dict[int, list[RankPart]] = {}
        # The newest step that is settled; and one that may be, with the newest step of each rank when
        # it was found to be whole.
        self._settled = -1
        self._watch: ConflictWatch | None = None
        self._settling: tuple[int, dict[int, int]] | None = None

    def lock(self) -> StoreLock:
        return self._own.lock()

    def saved_as(self, step: int) -> RankPart:
        """The part of rank 0 of the whole ``step``, which tells its run and the number of ranks."""
        return self._parts_of(step)[0]

    def begin(
        self, part: RankPart, step: int, former_work: str = "", *, anew: bool = False
    ) -> None:
        """Save ``part`` from now on, in a loop that resumes after ``step``.

        Args:
          part: of this rank.
          step: of the checkpoint that it resumes from; `START` if there is none.
          former_work: how version 0.2 called what the rank does in a step.
          anew: whether the user chose the step, and so gives up what was saved after it.

        Raises:
          StateMismatch: if what was saved after ``step`` can never become whole; nothing is deleted.
        """
        # The newest first: so no other rank takes what is left of an earlier one for its rest.
        listed = sorted(self._store.parts(), key=lambda pair: -pair[0])
        conflict = None if anew else conflict_at_resume(listed, part, step, former_work)
        if conflict is not None:
            raise refusal(conflict, self._read, repr(self._store), max(step, 0))
        self._part = part
        self._own = self._store.part(part)
        alone = {(found.rank, found.ranks) for _, found in listed} == {(part.rank, part.ranks)}
        if alone and part != WHOLE and len(listed) >= MANY:
            warnings.warn(
                f"no step in {self._store!r} is whole: it has parts of {len(listed)} steps, all of "
                f"{part}; do the ranks save to one store?",
                RuntimeWarning,
                stacklevel=3,
            )
        if part != WHOLE:
            self._watch = ConflictWatch(part, step, listed)
        for later, found in listed:
            mine = (found.rank, found.ranks) == (part.rank, part.ranks)
            if later > step and mine and part != WHOLE:
                self._remove(later, found)

    def save(self, step: int, data: bytes) -> str:
        place = self._own.save(step, data)
        if self._part == WHOLE:
            self._listed[step] = [WHOLE]
        if self._watch is not None:
            self._check_others(self._watch)
        return place

    def load(self, step: int) -> bytes:
        parts = self._parts_of(step)
        if parts == [WHOLE]:
            return self._store.load(step)
        read = [self._read(step, part) for part in parts]
        state = self._joined(step, [one.state for one in read])
        return encode(Checkpoint(step, read[0].time, state))

    def saved_at(self, step: int) -> float:
        """The time of the checkpoint of ``step``, of which all parts are read.

        Raises:
          CorruptCheckpoint: if one is damaged.
        """
        times = [self._read(step, part).time for part in self._parts_of(step)]
        return times[0]

    def steps(self) -> list[int]:
        self._list()
        return list(self._listed)

    def settled_steps(self) -> list[int]:
        """The whole steps that no rank takes back any more, ascending.

        A step is found to be settled by a second call, after all ranks have saved again.
        """
        newest: dict[int, int] = {}
        for step, part in self._list():
            if (part.ranks, part.run) == (self._part.ranks, self._part.run):
                newest[part.rank] = max(step, newest.get(part.rank, 0))
        if self._settling is not None:
            whole, before = self._settling
            if whole not in self._listed:
                self._settling = None
            elif all(
                newest.get(rank, -1) > before.get(rank, -1) for rank in range(self._part.ranks)
            ):
                self._settled, self._settling = whole, None
        if self._settling is None and self._listed:
            self._settling = max(self._listed), newest
        return [step for step in self._listed if step <= self._settled]

    def remove(self, step: int) -> None:
        """Remove what this rank is to remove of ``step``, which then is not whole any more."""
        parts = self._parts_of(step)
        if self._part != WHOLE:
            self._store.sync()
        for part in filter(self._part.tidies, parts):
            self._remove(step, part)

    def remove_rest(self, *, listed: bool = False) -> None:
        """Remove what this rank is to remove of steps before the newest whole one that lack a part.

        Args:
          listed: whether what is there has just been listed, as by `settled_steps`.
        """
        if not listed:
            self._list()
        newest = max(self._listed, default=0)
        # Listed once more: while a folder is listed, a part may be missed that is there when a
        # later one of the same rank is found.
        for step, part in self._list():
            if step < newest and step not in self._listed and self._part.tidies(part):
                self._remove(step, part)

    def set_aside(self, step: int, reason: str) -> str:
        places = []
        for part in self._parts_of(step):
            try:
                places.append(self._store.part(part).set_aside(step, reason))
            except FileNotFoundError:
                if part == WHOLE:
                    raise
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        return places[0] + more if places else "another rank did"

    def has_damaged(self) -> bool:
        return self._store.has_damaged()

    def remove_unfinished(self) -> None:
        self._own.remove_unfinished()
        self.remove_rest()

    def __repr__(self) -> str:
        return repr(self._store)

    def _check_others(self, watch: ConflictWatch) -> None:
        """Refuse to go on if the other ranks save what never makes a whole with the parts of this one."""
        if conflict := watch.conflict(self._list()):
            raise refusal(conflict, self._read, repr(self._store), max(self._listed, default=0))
        if watch.is_over((whole, parts[0]) for whole, parts in self._listed.items()):
            self._watch = None

    def _list(self) -> list[tuple[int, RankPart]]:
        """Step and part of all that is there now."""
        listed = self._store.parts()
        found: dict[int, set[RankPart]] = {}
        for step, part in listed:
            found.setdefault(step, set()).add(part)
        self._listed = {step: whole for step in sorted(found) if (whole := _whole(found[step]))}
        return listed

    def _parts_of(self, step: int) -> list[RankPart]:
        if step not in self._listed:
            self._list()
        if step not in self._listed:
            raise FileNotFoundError(f"there is no checkpoint for step {step}")
        return self._listed[step]

    def _read(self, step: int, part: RankPart) -> Checkpoint:
        try:
            checkpoint = decode(self._store.part(part).load(step))
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(f"the part of {part}: {error}") from error
        if (checkpoint.step, checkpoint.part) != (step, part):
            found = f"that of {checkpoint.part} at step {checkpoint.step}"
            raise CorruptCheckpoint(f"the part of {part}: it holds {found}")
        return checkpoint

    def _joined(self, step: int, states: list[State]) -> State:
        """The state of the whole, of those of all ranks; or if there is none, that of this rank."""
        try:
            return merge_states(states)
        except StateMismatch as error:
            if len(states) != self._part.ranks:
                raise StateMismatch(f"step {step} of {len(states)} ranks: {error}") from error
            warnings.warn(
                f"step {step} can be resumed by {len(states)} ranks only, each from its own state: {error}",
                RuntimeWarning,
                stacklevel=7,
            )
            return states[self._part.rank]

    def _remove(self, step: int, part: RankPart) -> None:
        self._listed.pop(step, None)
        with suppress(FileNotFoundError):
            self._store.part(part).remove(step)


def _whole(parts: set[RankPart]) -> list[RankPart]:
    """Those of ``parts`` of one step that make a whole, by rank; none if a part is missing."""
    wholes = [
        list(part.siblings)
        for part in parts
        if part.rank == 0 and all(sibling in parts for sibling in part.siblings)
    ]
    # There can be two only where a store without locks had two writers; all ranks take the same one.
    return max(wholes, key=lambda whole: (whole[0].ranks, whole[0].run), default=[])
