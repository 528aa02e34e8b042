"""Check that the same or another number of ranks resume, and a rank from another rank's state."""

# Two ranks save, whatever number the pipeline names: two ranks show every failure of many. Both are
# killed at different items, and started again. Then three ranks, or a single rank with too few
# partitions, resume from the ranks' checkpoint. Each life is a separate process.
#
# With the same number of ranks, each rank must deliver the items of an uninterrupted run. Another
# number of ranks deals the remaining items out again: all ranks together must deliver each
# remaining item as often. The test needs uninterrupted runs of both numbers with the same items in
# all. A `batch` or a `take` on each rank breaks this; then only the earlier stages are tested.
#
# A refused resume is reported, not an error.

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, final

from ..core.computed_once import computed_once
from ..core.graph import cut_after, walk
from ..core.stage import Stage
from . import reasons
from .deals import deals, partitions
from .experiments import Experiment, Seen, Unchecked, seen_in
from .processes import TaskProcesses
from .rank_runs import Life, RankCount, RankRuns, Reference, items_of
from .reasons import Reason
from .report import Finding
from .runs import Digests, PipelineRun
from .work import ResumedRun, resumed

SAVING: Final = 2
"""How many ranks save together."""
SAVES: Final = 5
"""About how often each rank saves up to the end of the shortest."""
TOGETHER: Final = f"as {SAVING} ranks that save one checkpoint together, killed and started again"


class Verdict(NamedTuple):
    """The results for several ranks.

    Attributes:
      finding: the error found; None if all ranks resume exactly.
      resumed: the tried ways of resuming.
      notes: refused resumes, and failed experiments.
    """

    finding: Finding | None
    resumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_several(
    stage: Stage[Any], workers: TaskProcesses, limit: int | None, *, may_change: bool
) -> Verdict:
    """Try several ranks.

    Args:
      stage: the whole pipeline; it deals items out.
      workers: to run tasks.
      limit: the number of items of a rank to draw; None for all.
      may_change: whether the pipeline takes states of another number of ranks.
    """
    if (reason := _why_not(stage)) is not None:
        return Verdict(None, notes=(f"several ranks were not tried: {reason}",))
    several = _Several(stage, RankRuns(stage, workers, limit))
    experiments: list[tuple[Experiment, str | None]] = [(several.same_ranks, TOGETHER)]
    if not partitions(stage):
        # No rank accepts the states of another rank's partitions.
        experiments.append((several.state_of_another, None))
    if may_change:
        experiments.append((several.other_ranks, several.of_others))
    verdict = Verdict(None)
    for experiment, way in experiments:
        # A refusal is reported only of a way.
        try:
            seen = experiment(0)
        except Unchecked as failure:
            notes = () if way is None else (f"not resumed {way}: {failure}",)
            verdict = verdict._replace(notes=verdict.notes + notes)
            continue
        if way is not None:
            verdict = verdict._replace(resumed=(*verdict.resumed, way))
        if seen is not None:
            cut, seen = several.first(experiment) or (0, seen)
            return verdict._replace(finding=seen.finding(stage, cut))
    return verdict


def _why_not(stage: Stage[Any]) -> str | None:
    for found in deals(stage).values():
        if len(deals(found)) > 1:
            return f"{found} deals out what was dealt out before"
    for found in partitions(stage).values():
        if found.count < SAVING:
            return f"{found} has no more than one partition"
    return None


@final
@dataclass
class _Several:
    """The experiments with a pipeline."""

    stage: Stage[Any]
    runs: RankRuns

    def same_ranks(self, cut: int) -> Seen | None:
        """Save, be killed, and resume with the same number of ranks."""
        ranks = RankCount(SAVING)
        whole = self.runs.uninterrupted(cut, ranks)
        every = _every(whole)
        life = self._life(every)
        # A rank saves a step when asked for the next item. So at the kill both ranks have saved
        # `every`, and rank 0 has saved a further step.
        lives = [
            partial(life, expected=digests, until=until, is_killed=True)
            for (_, digests), until in zip(whole, (2 * every + 1, every + 1), strict=True)
        ]
        killed = self.runs.lives(lives, cut, ranks, threads=True)
        lives = [partial(life, expected=digests) for _, digests in whole]
        for saved, runs in ((0, killed), (every, self.runs.lives(lives, cut, ranks))):
            for rank, life_of_rank in enumerate(runs):
                if (wrong := _of_life(life_of_rank, saved, rank, whole[rank].run)) is not None:
                    return wrong
        return None

    def state_of_another(self, cut: int) -> Seen | None:
        """Resume as rank 1 from the state of rank 0, where accepted."""
        ranks = RankCount(SAVING)
        (_, theirs), (run, own) = self.runs.uninterrupted(cut, ranks)
        position, folder = _every([Reference(run, own)]), self.runs.workers.new_folder()
        run_in = partial(resumed, folder=folder)
        saving = partial(run_in, expected=theirs, until=position, saves=(position,))
        resuming = partial(run_in, expected=own, until=self.runs.limit)
        outcomes = [
            self.runs.run(work, cut, rank, ranks) for rank, work in enumerate((saving, resuming))
        ]
        if any(outcome.error is not None for outcome in outcomes):
            return None  # rightly refused where ranks have separate states
        return _different(reasons.STATE_OF_ANOTHER, outcomes[1].result.run, run, position)

    def other_ranks(self, cut: int) -> Seen | None:
        """Save, be killed, and resume with another number of ranks."""
        cut = cut or self._comparable
        if not self._is_comparable(cut):
            raise Unchecked("which items come depends on the number of ranks")
        ranks = RankCount(SAVING, "keep")
        saving = self.runs.uninterrupted(cut, ranks)
        every = _every(saving)
        life = self._life(every)
        lives = [
            partial(life, expected=digests, until=every + 1 + rank, is_killed=True)
            for rank, (_, digests) in enumerate(saving)
        ]
        self.runs.lives(lives, cut, ranks)
        rest = [Digests(self.runs.workers.new_file()) for _ in range(self._others.count)]
        lives = [partial(life, keep=kept.path) for kept in rest]
        for life_of_rank in self.runs.lives(lives, cut, self._others):
            if life_of_rank.first != every:
                return _lost(every, life_of_rank.first)
            if life_of_rank.run.error is not None:
                details = f"It ended with {life_of_rank.run.error}."
                return Seen(position=every, details=details, reason=reasons.RANKS_DIFFER)
        left = items_of(digests.after(every) for _, digests in saving)
        return self._of_rest(left, items_of(rest), every)

    def _life(self, every: int) -> Life:
        """A rank running to the end, with a save in a new folder every ``every`` items."""
        folder = self.runs.workers.new_folder()
        return partial(resumed, folder=folder, expected=None, until=self.runs.limit, every=every)

    @property
    def of_others(self) -> str:
        """How another number of ranks was tried."""
        way = f"as {self._others.count} instead of {SAVING} ranks"
        try:
            cut = self._comparable
        except Unchecked:  # the experiment reports it
            return way
        if cut == 0:
            return way
        stages = [found for found, _ in walk(self.stage)]
        return (
            f"{way}, without {stages[cut - 1]} and what follows: from there on the items depend on "
            "the number of ranks"
        )

    @computed_once
    def _others(self) -> RankCount:
        counts = [found.count for found in partitions(self.stage).values()]
        return RankCount(SAVING + 1 if min(counts, default=SAVING + 1) > SAVING else 1, "keep")

    @computed_once
    def _comparable(self) -> int:
        """The longest pipeline with the same items in all for both numbers of ranks."""
        found = [n for n, _ in enumerate(walk(self.stage)) if deals(cut_after(self.stage, n))]
        return next(filter(self._is_comparable, found), 0)

    def _is_comparable(self, cut: int) -> bool:
        saving = self.runs.uninterrupted(cut, RankCount(SAVING, "keep"))
        if not all(run.ended for run, _ in saving):
            raise Unchecked("that takes runs to the end")
        others = self.runs.uninterrupted(cut, self._others)
        one, other = (items_of(digests for _, digests in whole) for whole in (saving, others))
        return one == other

    def _of_rest(
        self, expected: Counter[bytes], delivered: Counter[bytes], position: int
    ) -> Seen | None:
        lost, wrong = (expected - delivered).total(), (delivered - expected).total()
        if not lost and not wrong:
            return None
        details = (
            f"{SAVING} ranks saved after {position:,} items of each, and {self._others.count} went on. Of "
            f"the {expected.total():,} items that were left, {lost:,} were not delivered, and {wrong:,} "
            "were that were not left."
        )
        return Seen(position=position, details=details, reason=reasons.RANKS_DIFFER)

    def first(self, experiment: Experiment) -> tuple[int, Seen] | None:
        """The first stage, from the sources on, with a difference in ``experiment``."""
        for cut in reversed(range(1, len([*walk(self.stage)]))):
            if not deals(cut_after(self.stage, cut)):
                continue
            with suppress(Unchecked):
                if (wrong := experiment(cut)) is not None:
                    return cut, wrong
        return None


def _every(whole: list[Reference]) -> int:
    """The number of items from save to save; odd, for saves within rounds and groups."""
    shortest = min(run.items for run, _ in whole)
    if shortest < SAVING:
        raise Unchecked("a rank has too few items")
    return max(shortest // SAVES - 1, 0) | 1


def _of_life(life: ResumedRun, saved: int, rank: int, whole: PipelineRun) -> Seen | None:
    """The difference in a life; the life had to begin after the ``saved`` items of all ranks."""
    # A later start is right: a rank started earlier may have saved the missing part of a step.
    if life.first < saved:
        return _lost(saved, life.first)
    return _different(reasons.RANK_GOES_ASTRAY, life.run, whole, saved, f"It was rank {rank}.")


def _lost(saved: int, first: int) -> Seen:
    details = f"All had saved step {saved:,}, and a resume began after {first:,} items."
    return Seen(position=saved, details=details, reason=reasons.RANKS_START_OVER)


def _different(
    reason: Reason, run: PipelineRun, whole: PipelineRun, position: int, details: str = ""
) -> Seen | None:
    """How ``run``, resumed after ``position`` items, differs from the ``whole``."""
    seen = seen_in(run, whole, position)
    if seen is None:
        return None
    if run.error is not None:
        details = f"{details} It ended with {run.error}.".strip()
        seen = Seen(position=position)
    return seen._replace(details=details, reason=reason)
