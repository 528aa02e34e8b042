"""The whole steps of a name, if several ranks save a part of each step."""

# Each rank saves its own part of a step, as a single rank saves a whole checkpoint. Ranks exchange
# nothing else, and no rank waits for another. The words:
#
# - A *part* is the data saved by one rank in a step. Its name has the step, the run, the rank and
#   the number of ranks.
# - A *run* is the work of a number of ranks with a pipeline after a resume from one checkpoint
#   (`run.py`).
# - A step is *whole* once all parts of one run exist, by their names. Only whole steps count as
#   saved.
# - A step is *settled* once it was found whole and every rank has saved a later part since then.
#   The earlier whole steps are then settled too.
# - The *rest* are parts of a step that lacks a part and is older than a whole step. The step never
#   becomes whole.
# - A rank *discards* its parts of steps after the resumed step, because it will save them again.
#
# Consequences:
#
# - If a rank dies before saving its part, the previous step stays the newest whole step. After its
#   resume the rank saves the part. Parts of the other ranks fit, or belong to another run and never
#   fit.
# - All ranks resume from the same step. A step of a new run becomes whole only after each rank has
#   resumed and saved. The old run cannot save any more, since its writers hold the locks until they
#   end.
# - If the same run continues, a rank that begins late may find that a newer step has become whole,
#   because faster ranks have saved their parts. The rank resumes from the newer step, in the same
#   run (test_parts.py,
#   test_a_rank_that_begins_late_and_finds_its_old_part_goes_on_in_the_same_run).
# - Rank 0 applies the retention, to settled steps only, and removes its parts of expired steps.
#   Each rank removes its share of the rest when it resumes under a lock, and after its saves if a
#   retention is set. Parts of ranks that no longer exist are shared out among the other ranks
#   (`RankPart.removes`).
# - An unsettled whole step may be lost. A rank may have looked for the newest step before this step
#   became whole, and may then discard its part. The rank saves nothing in between, so a settled
#   step is safe (test_parts.py,
#   test_a_part_that_is_discarded_late_leaves_what_the_rank_resumed_from).
# - Before rank 0 removes an expired step, it syncs the parts of the other ranks, which may not have
#   done so (test_power_cuts_between_parts.py,
#   test_what_others_name_and_have_not_synced_costs_nothing).
# - A resume joins the states. If the states cannot be joined, since a stage keeps items of its
#   rank, the number of ranks must stay the same, and each rank resumes from its own state.
# - A step with a damaged part is damaged. The first rank to notice sets all its parts aside.
# - Parts that can never become whole, such as parts of ranks with different pipelines, are an error
#   at the next resume or save (`conflicts.py`). The parts are kept.
# - Two numbers of ranks never save at once: each rank locks its own file, and then checks that no
#   file of another number is locked.

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Final, final

from ...core.merging import merge_states
from ...core.run_counters import RunCounters, joined
from ...errors import CorruptCheckpoint, StateMismatch
from ...state.value import State
from ..envelope import Checkpoint, encode
from ..reading import decode_named, read_checkpoint
from ..store import Store, StoreLock
from .conflicts import ConflictWatch, conflict_at_resume, refusal
from .part import WHOLE, RankPart

MANY: Final = 10
"""A rank with so many parts, and no parts of other ranks, warns: the store may not be shared."""

START: Final = -1
"""The step of a resume from the start. Not 0, since a rank without items saves a part of step 0."""


@final
class WholeSteps(Store):
    """A store as seen by one rank: each step with all parts is one checkpoint.

    Args:
      store: of the parts.
      rank: the rank that saves.
      ranks: number of ranks that save to the store together.

    Raises:
      InvalidArgument: if ``ranks`` is above 1 and ``store`` keeps no parts.
    """

    def __init__(self, store: Store, rank: int = 0, ranks: int = 1) -> None:
        self._store = store
        self._part = RankPart(rank, ranks)
        self._own = store.part(self._part) if ranks > 1 else store
        # The parts of each whole step, as last listed.
        self._listed: dict[int, list[RankPart]] = {}
        self._watch: ConflictWatch | None = None
        # The newest settled step.
        self._settled = -1
        # The next step to be settled, and the newest step of each rank when the step was found
        # whole.
        self._settling: tuple[int, dict[int, int]] | None = None

    def lock(self) -> StoreLock:
        return self._own.lock()

    def saved_as(self, step: int) -> RankPart:
        """The part of rank 0 of the whole ``step``, with the run and the number of ranks."""
        return self._parts_of(step)[0]

    def begin(
        self, part: RankPart, step: int, former_work: str = "", *, anew: bool = False
    ) -> None:
        """Save ``part`` from now on, in a loop that resumes after ``step``.

        Args:
          part: of this rank.
          step: of the resumed checkpoint; `START` for the start.
          former_work: the digits of version 0.2 for the work of the rank in a step.
          anew: whether the user chose the step, and so gives up later saves.

        Raises:
          StateMismatch: if the parts after ``step`` can never become whole; nothing is deleted.
        """
        # The newest come first. Otherwise another rank could still find a later step whole, and
        # remove its part of an earlier step as rest.
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
        """The bytes of the checkpoint of ``step``; several parts are joined and encoded again.

        The joined parts become bytes because a `Store` returns bytes: `read_checkpoint` decodes and
        checks the checkpoint of a step in the same way, for one rank or several.
        """
        parts = self._parts_of(step)
        if parts == [WHOLE]:
            return self._store.load(step)
        read = [self._read(step, part) for part in parts]
        states = [one.state for one in read]
        state = state_of_rank(states, self._part, f"step {step}", stacklevel=8)
        return encode(Checkpoint(step, read[0].time, state, counters=self._counters(read)))

    def checkpoints(self, step: int) -> list[Checkpoint]:
        """The checkpoint of ``step``; if the parts cannot be joined, the part of each rank.

        Raises:
          FileNotFoundError: if ``step`` has no checkpoint.
          CorruptCheckpoint: if a part is damaged.
        """
        parts = self._parts_of(step)
        if parts == [WHOLE]:
            return [read_checkpoint(self._store, step)]
        read = [self._read(step, part) for part in parts]
        try:
            state = merge_states([one.state for one in read])
        except StateMismatch:
            return read
        return [Checkpoint(step, read[0].time, state, counters=self._counters(read))]

    def part_of_one_rank(self, step: int) -> Checkpoint:
        """The checkpoint of ``step``, or the part of rank 0.

        Raises:
          FileNotFoundError: if ``step`` has no checkpoint.
          CorruptCheckpoint: if the part is damaged.
        """
        return self._read(step, self._parts_of(step)[0])

    def saved_at(self, step: int) -> float:
        """The time of the checkpoint of ``step``; all parts are read.

        Raises:
          CorruptCheckpoint: if a part is damaged.
        """
        times = [self._read(step, part).time for part in self._parts_of(step)]
        return times[0]

    def steps(self) -> list[int]:
        self._list()
        return list(self._listed)

    def find_settled_steps(self) -> list[int]:
        """The whole steps of which no rank discards its part any more, ascending.

        Each call lists the store and notes the result. So a step is found settled by a second call,
        after all ranks have saved again.
        """
        newest: dict[int, int] = {}
        for step, part in self._list():
            if (part.ranks, part.run) == (self._part.ranks, self._part.run):
                newest[part.rank] = max(step, newest.get(part.rank, 0))
        if self._settling is not None:
            (whole, before), ranks = self._settling, range(self._part.ranks)
            if whole not in self._listed:
                self._settling = None
            elif all(newest.get(rank, -1) > before.get(rank, -1) for rank in ranks):
                self._settled, self._settling = whole, None
        if self._settling is None and self._listed:
            self._settling = max(self._listed), newest
        return [step for step in self._listed if step <= self._settled]

    def remove(self, step: int) -> None:
        """Remove this rank's share of the parts of ``step``, so the step is no longer whole."""
        parts = self._parts_of(step)
        if self._part != WHOLE:
            self._store.sync()
        for part in filter(self._part.removes, parts):
            self._remove(step, part)

    def remove_rest(self, *, listed: bool = False) -> None:
        """Remove this rank's share of the rest.

        Args:
          listed: whether the store was just listed, as `find_settled_steps` does.
        """
        if not listed:
            self._list()
        newest = max(self._listed, default=0)
        # List once more: the first listing may have missed a new part, although it found a later
        # part of the same rank.
        for step, part in self._list():
            if step < newest and step not in self._listed and self._part.removes(part):
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

    def append_history(self, lines: bytes) -> None:
        self._store.append_history(lines)

    def append_stats(self, lines: bytes) -> None:
        self._own.append_stats(lines)

    def history(self) -> bytes | None:
        return self._store.history()

    def remove_unfinished(self) -> None:
        self._own.remove_unfinished()
        self.remove_rest()

    def __repr__(self) -> str:
        return repr(self._store)

    def _check_others(self, watch: ConflictWatch) -> None:
        """Refuse to continue if the parts of this rank and of other ranks can never make a whole.

        If the parts cannot be listed, the next save checks: the part of this rank is kept.
        """
        try:
            listed = self._list()
        except OSError:
            return
        if conflict := watch.conflict(listed):
            raise refusal(conflict, self._read, repr(self._store), max(self._listed, default=0))
        if watch.is_over((whole, parts[0]) for whole, parts in self._listed.items()):
            self._watch = None

    def _list(self) -> list[tuple[int, RankPart]]:
        """Step and part of all stored parts."""
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
            name = f"the part of {part} of step {step} in {self._store!r}"
            checkpoint = decode_named(name, self._store.part(part).load(step))
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(f"the part of {part}: {error}") from error
        if (checkpoint.step, checkpoint.part) != (step, part):
            found = f"that of {checkpoint.part} at step {checkpoint.step}"
            raise CorruptCheckpoint(f"the part of {part}: it holds {found}")
        return checkpoint

    def _counters(self, parts: list[Checkpoint]) -> RunCounters | None:
        """The counters for this rank: its share of the parts' counters, each used by one rank."""
        mine = [one.counters for one in parts if self._part.removes(one.part)]
        found = [counters for counters in mine if counters is not None]
        return joined(found) if found else None

    def _remove(self, step: int, part: RankPart) -> None:
        self._listed.pop(step, None)
        with suppress(FileNotFoundError):
            self._store.part(part).remove(step)


def state_of_rank(states: list[State], part: RankPart, what: str, stacklevel: int) -> State:
    """The ``states`` of all ranks joined; if impossible, the state of the rank of ``part``.

    Args:
      states: by rank.
      part: of the resuming rank.
      what: the source of the states, for errors.
      stacklevel: of the warning about unjoinable states, as seen from the caller.

    Raises:
      StateMismatch: if the states cannot be joined, and another number of ranks saved them.
    """
    try:
        return merge_states(states)
    except StateMismatch as error:
        if len(states) != part.ranks:
            error.reword(f"{what} of {len(states)} ranks: {error}")
            raise
        message = (
            f"{what} can be resumed by {len(states)} ranks only, each from its own state: {error}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 1)
        return states[part.rank]


def _whole(parts: set[RankPart]) -> list[RankPart]:
    """The parts of a whole run among the ``parts`` of a step, by rank; empty without any."""
    wholes = [
        list(part.siblings)
        for part in parts
        if part.rank == 0 and all(sibling in parts for sibling in part.siblings)
    ]
    # Two runs can be whole only if two writers shared a store without locks. All ranks choose alike.
    return max(wholes, key=lambda whole: (whole[0].ranks, whole[0].run), default=[])
