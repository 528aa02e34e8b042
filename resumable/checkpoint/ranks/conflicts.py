"""Find steps that can never become whole, because ranks of one job save parts of different runs."""

# A step may have parts of several runs for a while without a conflict. After a change of the
# pipeline the ranks start again one by one, and the old parts of a rank stay until the rank
# resumes. The names of the runs show a conflict, since a name encodes where a run began and its
# work in a step (`run.py`).
#
# - At a resume: if two runs began at the same checkpoint and do different work, the pipelines of
#   their ranks differ. If this rank already has parts of its own run, and another rank has parts of
#   the other run at the same steps, then this rank had already started before. To start over would
#   change nothing.
# - While a rank runs: another rank saves a part of such a run, or of a run with the same work and
#   another start. In the second case the ranks have resumed from different steps.
# - Parts from before a rank began may be left over. While the rank runs, old parts prove nothing.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias, final

from ...core.differing import difference
from ...errors import ResumableError, StateMismatch
from ...state.value import State
from ..envelope import Checkpoint
from .part import RankPart

Listed: TypeAlias = tuple[int, RankPart]
"""A step, and a stored part of the step."""
Read: TypeAlias = Callable[[int, RankPart], Checkpoint]


class Conflict(NamedTuple):
    """Two parts of one step that belong together, from different runs.

    Attributes:
      step: of the parts.
      one: the first part.
      other: the second part; None if version 0.2 saved the first part for its rank alone, a
        conflict already.
    """

    step: int
    one: RankPart
    other: RankPart | None

    def reason(self, read: Read) -> str:
        """Why the step does not become whole, from the parts returned by ``read``."""
        one, other = self.one, self.other
        if other is None:
            return (
                f"version 0.2 saved {one} in a run of its own, since a stage after the partitions holds "
                "items of its rank; such parts never made a whole"
            )
        saved = f"{one} and {other} saved it in different runs"
        if one.work_digest == other.work_digest:
            return f"{saved}: they resumed from different steps"
        try:
            texts = [str(read(self.step, part).state["fingerprint"]) for part in (one, other)]
        except (ResumableError, OSError, LookupError):  # the names are evidence enough
            return f"{saved}: their pipelines differ"
        found = difference(texts[0], texts[1])
        if found is not None and found.names_rank:
            held = found.describe("", "")
            return f"{saved}, as version 0.2 named it after the rank where {held}"
        if found is None:
            return f"{saved}: their steps differ in what they take, such as the size of a batch"
        described = found.describe(f"rank {one.rank}", f"rank {other.rank}")
        return f"{saved}: their pipelines differ, as {described}"


def refusal(conflict: Conflict, read: Read, where: str, step: int) -> StateMismatch:
    """The error for a ``conflict`` in ``where``, found by a rank resuming from ``step``."""
    return StateMismatch(
        f"step {conflict.step} in {where} can never become whole: {conflict.reason(read)}. Nothing was "
        "deleted. All ranks must build the same pipeline but for their rank in shard(rank, ranks). To give "
        f"up what they saved after step {step}, let each begin with resume(pipeline, step={step})"
    )


def conflict_at_resume(
    listed: Iterable[Listed], part: RankPart, step: int, former_work: str
) -> Conflict | None:
    """The conflict in the steps after ``step``, as seen by a rank before saving ``part``.

    Args:
      listed: all stored parts.
      part: to be saved by the rank.
      step: of the resume.
      former_work: the digits of version 0.2 for the work of the rank in a step.
    """
    listed = list(listed)
    for later, found in listed:
        mine = (found.rank, found.ranks, found.work_digest) == (part.rank, part.ranks, former_work)
        if later > step and mine and found.work_digest != part.work_digest:
            return Conflict(later, found, None)
    for later, there in _without_whole(listed, step):
        for one, other in _apart(there):
            if part in (one, other) or one.ranks != part.ranks:
                return Conflict(later, one, other)
    return None


def conflicts_among(listed: Iterable[Listed]) -> Iterator[Conflict]:
    """Steps of ``listed`` with parts of all ranks, from different runs with the same start."""
    for later, there in _without_whole(listed, -1):
        for one, other in _apart(there):
            yield Conflict(later, one, other)


def need_their_ranks(states: Sequence[State]) -> bool:
    """Whether each state in ``states`` can be used only by the rank that saved it."""
    texts = [str(state.get("fingerprint")) for state in states]
    found = [difference(texts[0], text) for text in texts[1:]]
    return all(one is not None and one.names_rank for one in found)


@final
class ConflictWatch:
    """Checks whether the parts of other ranks fit, until a step of the rank's run is whole.

    Args:
      part: saved by the rank.
      step: of the resume.
      before: stored parts at the time of the resume.
    """

    def __init__(self, part: RankPart, step: int, before: Iterable[Listed]) -> None:
        self._part = part
        self._step = step
        self._before = frozenset(before)

    def conflict(self, listed: Iterable[Listed]) -> Conflict | None:
        """The conflict among ``listed``, the parts now in the store."""
        for later, there in _without_whole(listed, self._step):
            for found in there if self._part in there else ():
                same_start = found.start_digest == self._part.start_digest
                same_work = found.work_digest == self._part.work_digest
                if same_start != same_work and (later, found) not in self._before:
                    one, other = sorted((self._part, found), key=lambda part: part.rank)
                    return Conflict(later, one, other)
        return None

    def is_over(self, whole: Iterable[Listed]) -> bool:
        """Whether the run has saved one of the ``whole`` steps, each given with a part."""
        return any(step > self._step and found.run == self._part.run for step, found in whole)


def _without_whole(listed: Iterable[Listed], step: int) -> Iterator[tuple[int, list[RankPart]]]:
    """Unfinished steps after ``step`` with parts of all ranks, and the parts."""
    found: dict[tuple[int, int], set[RankPart]] = {}
    for later, part in listed:
        if later > step and part.ranks > 1:
            found.setdefault((later, part.ranks), set()).add(part)
    for later, ranks in sorted(found):
        there = found[later, ranks]
        whole = any(there.issuperset(part.siblings) for part in there if part.rank == 0)
        if not whole and len({part.rank for part in there}) == ranks:
            yield later, sorted(there, key=lambda part: (part.rank, part.run))


def _apart(there: list[RankPart]) -> Iterator[tuple[RankPart, RankPart]]:
    """The pairs of different ranks, from different runs with the same start."""
    for one, other in combinations(there, 2):
        differ = other.rank != one.rank and other.run != one.run
        if differ and other.start_digest == one.start_digest:
            yield one, other
