"""The steps of a name that are whole, where several ranks save a part of each."""

# Each rank saves its part of a step by itself, as one alone saves a whole checkpoint. The ranks exchange
# nothing else, and none waits for another. The words:
#
# - A *part* is what one rank saves of a step. It is named by step, run, rank and number of ranks.
# - A *run* is what a number of ranks do with a pipeline from one checkpoint on (`run.py`).
# - A step is *whole*, and so counts as saved, once all parts of one run are there. The names tell that.
# - A whole step is *settled* once every rank has saved another part since the step was found to be whole,
#   and it still is. The whole steps before it are settled with it.
# - The *rest* is the parts of steps that are older than a whole one and lack a part. They never become whole.
# - A rank *takes back* its parts of steps after the one that it resumes from: it comes to these again.
#
# What follows:
#
# - A rank that dies before it has saved its part leaves the step before as the newest whole one. The parts
#   of other ranks fit the one that it saves after its resume, or are of another run and never fit.
# - The ranks resume from the same step. A step of a new run becomes whole only after each rank has resumed
#   and saved; the old run saves no more, since its writers hold the locks until they end. If the same run
#   goes on, a rank that begins late may find a newer step whole that only lacked parts of faster ranks. It
#   goes on from there, in that run
#   (test_parts.py, test_a_rank_that_begins_late_and_finds_its_old_part_goes_on_in_the_same_run).
# - Rank 0 applies the retention, to settled steps only, and removes its parts of those that expired. Each
#   rank removes its share of the rest: when it resumes under a lock, and, with a retention, after its saves.
#   Parts of ranks that no longer exist are dealt out to those that do (`RankPart.tidies`).
# - A whole step that is not settled may not last: a rank may have looked for the newest step before this one
#   became whole, and take its part back. It saves nothing in between, so a settled step does last
#   (test_parts.py, test_a_part_that_is_taken_back_late_leaves_what_the_rank_resumed_from).
# - Before rank 0 removes an expired step, it syncs what the others have saved: they may not have done so
#   (test_power_cuts_between_parts.py, test_what_others_name_and_have_not_synced_costs_nothing).
# - The states are joined. If they cannot be, as when a stage keeps items of its rank, as many ranks go on as
#   there were, each from its own state.
# - A step with a damaged part is damaged: the first rank that finds out sets all parts of it aside.
# - Parts that can never become whole, as those of ranks with different pipelines, are an error at the
#   next resume or save (`conflicts.py`), and stay where they are.
# - Two numbers of ranks never save at once: each rank locks its own file, and then checks that no file of
#   another number is locked.

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
"""As many parts of one rank alone cause a warning that the ranks may not share their store."""


START: Final = -1
"""The step of a resume from the start. Below 0: a rank without items may have saved a part of step 0."""


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
        # The newest settled step; and a whole step to be settled next, with the newest step of each rank
        # when that was found to be whole.
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
          former_work: the digits that version 0.2 had for what the rank does in a step.
          anew: whether the user chose the step, and so gives up what was saved after it.

        Raises:
          StateMismatch: if what was saved after ``step`` can never become whole; nothing is deleted.
        """
        # The newest first. Otherwise another rank could find a later step whole still, and remove its
        # part of an earlier one as rest.
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
        """The time of the checkpoint of ``step``; all its parts are read.

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
        """Remove this rank's share of the parts of ``step``, which then is no longer whole."""
        parts = self._parts_of(step)
        if self._part != WHOLE:
            self._store.sync()
        for part in filter(self._part.tidies, parts):
            self._remove(step, part)

    def remove_rest(self, *, listed: bool = False) -> None:
        """Remove this rank's share of the rest.

        Args:
          listed: whether the store has just been listed, as by `settled_steps`.
        """
        if not listed:
            self._list()
        newest = max(self._listed, default=0)
        # Listed once more: the first listing may have missed a part that was saved meanwhile, and have
        # found a later one of the same rank.
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
        """Refuse to go on if the parts of other ranks never make a whole with those of this one."""
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
        """The states of all ranks as one; if they cannot be joined, that of this rank."""
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
