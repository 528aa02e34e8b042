"""Verify a pipeline: run, stop anywhere, resume elsewhere, compare."""

# Every run is made by a fresh process that loads the pipeline, as a restarted training job does.
# Resuming processes are forks of a process with only the library imported; the reference comes
# from separate processes. A chain of generations starts with a checkpoint of an
# uninterrupted run. Each process of the chain resumes from the file of the previous process, and
# the last process runs to the end.
#
# If the pipeline deals items out to ranks, several ranks then save one checkpoint together.

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final, cast, final

from ..core.arguments import check_int
from ..core.computed_once import computed_once
from ..core.graph import Variation, tuned, variations, walk
from ..core.stage import Stage
from ..errors import ResumableError
from ..sources.iterable import reads_again
from ..stages.shard import Shard
from .chains import FIRST_HASH_SEED, Chains, Link, plan_chains, plan_everywhere
from .conditions import SAME, Conditions
from .deals import check_deal, deals, joined_state, rank_counts, ranks_may_change
from .diagnosis import Diagnosis
from .estimate import Estimate, ProcessCost
from .experiments import Unchecked
from .flow import FlowCounts, count_flows, left_out, suspicions
from .processes import TaskOutcome, TaskProcesses
from .pulls import check_pulls
from .rank_runs import HASH_SEEDS
from .report import Finding, Report, stage_costs
from .runs import Digests, PipelineRun
from .several import check_several
from .target import Target
from .work import Costs, Work, costs, first_difference, resumed, whole_runs

ENDLESS: Final = 10_000
"""Items looked at of a pipeline without an end."""
FEW: Final = 6
"""Number of positions to propose when all positions would take too long."""
PATIENCE: Final = 10.0
"""Seconds after which the first run of a maybe endless pipeline is stopped."""
MEASURED: Final = 5
"""Positions at which costs are measured."""
ENOUGH_CHAINS: Final = 3
"""Fewest chains for which forks start sooner; each generation has a process to fork."""
MOST_FORKED: Final = 8
"""The most generations with a process to fork; each takes the memory of an interpreter."""

Update = Callable[[int], object]


Bars = Callable[[str, "int | None"], AbstractContextManager[Update]]
"""Makes a progress bar from a text and a total: a context that gives a function to advance the
bar.
"""


class CannotRun(ResumableError):
    """The pipeline cannot even be run once."""


@contextmanager
def _silent(text: str, total: int | None) -> Iterator[Update]:
    yield lambda count: None


def verify(
    target: str | Target,
    *,
    items: int | None = None,
    positions: int = 24,
    generations: int = 3,
    seed: int = 0,
    processes: int = 2,
    bars: Bars = _silent,
    tell: Callable[[Estimate], object] = lambda estimate: None,
) -> Report:
    """Stop and resume the pipeline that ``target`` names, in fresh processes, and compare.

    Args:
      target: ``module:attribute`` or ``path/to/file.py:attribute``, or a `Target` with arguments
        for a function.
      items: how many items to draw; by default all, or 10,000 of an endless pipeline.
      positions: the number of stops to resume from: both ends, and random positions.
      generations: how many times a run is stopped and resumed, one after the other.
      seed: of the random positions.
      processes: how many processes run at the same time.
      bars: makes progress bars; none by default.
      tell: called after the first run with an estimate of the time for the rest.

    Raises:
      TargetError: if the target cannot be loaded.
      CannotRun: if an uninterrupted run fails.
      InvalidArgument: if a number is below its minimum.
    """
    target = target if isinstance(target, Target) else Target(target)
    check_int("items", 1 if items is None else items, minimum=1)
    check_int("positions", positions, minimum=1)
    check_int("generations", generations, minimum=1)
    check_int("processes", processes, minimum=1)
    with (
        tempfile.TemporaryDirectory(prefix="resumable-verify-") as folder,
        # Before loading the user's code: the code may change the environment inherited by processes.
        TaskProcesses(target, Path(folder), processes) as workers,
    ):
        with redirect_stdout(sys.stderr):
            stage = target.load().stage
        is_beginning = items is None and _is_endless(stage)
        limit = ENDLESS if is_beginning else items
        run = _Verification(str(target), stage, limit, is_beginning, workers, bars, tell)
        return run.verify(positions, generations, random.Random(seed))


def _is_endless(stage: Stage[Any]) -> bool:
    """Whether the pipeline never ends, as far as known without reading."""
    if stage.length is not None:
        return stage.length == math.inf
    return any(upstream.length == math.inf for upstream, _ in walk(stage))


def _may_be_endless(stage: Stage[Any]) -> bool:
    """Whether the end depends on the user's code, for example on a generator."""
    sources = (found for found, _ in walk(stage) if not found.inputs)
    of_files = f"{__package__.partition('.')[0]}.formats."
    return stage.length is None and any(
        source.length is None and not type(source).__module__.startswith(of_files)
        for source in sources
    )


@final
@dataclass
class _Verification:
    """A running verification and the findings so far.

    Attributes:
      target: name of the pipeline.
      stage: the pipeline.
      limit: the number of items to draw; None for all.
      is_beginning: whether the limit is only set since the pipeline never ends.
      workers: to run tasks.
      bar: makes progress bars.
      tell: called with an estimate.
    """

    target: str
    stage: Stage[Any]
    limit: int | None
    is_beginning: bool
    workers: TaskProcesses
    bar: Bars
    tell: Callable[[Estimate], object]
    _cut_at: int | None = field(init=False, default=None)
    _pace: ProcessCost = field(init=False, default=ProcessCost(0.0, 0, 0.0))
    _loading: float = field(init=False, default=0.0)
    _fingerprint: str | None = field(init=False, default=None)
    _complete: bool = field(init=False, default=True)
    _ways: list[Variation] = field(init=False, default_factory=list)
    _resumed: list[str] = field(init=False, default_factory=list)
    _planned: int = field(init=False, default=0)
    _links: list[Link] = field(init=False, default_factory=list)
    _ranks_are_fixed: bool = field(init=False, default=False)
    _costs: Costs | None = field(init=False, default=None)
    _flows: dict[int, FlowCounts] = field(init=False, default_factory=dict)
    _notes: list[str] = field(init=False, default_factory=list)

    def verify(self, positions: int, generations: int, rng: random.Random) -> Report:
        second = self._reference()
        self._find_ways()
        chains = plan_chains(self._items, positions, generations, rng)
        if len(chains) >= ENOUGH_CHAINS:
            self._prepare_forks(max(map(len, chains)))
        self._tell_time(positions, chains, generations)
        stops = tuple(sorted({stops[0] for stops in chains}))
        outcome, saved_in = self._saved_run(stops)
        finding = self._of_saved_run(outcome, stops)
        if finding is None:
            self._resume(chains, saved_in)
            finding = self._of_second_pass(second) or self._of_pulls() or self._of_resumes()
            finding = finding or self._of_everywhere()
            self._tell_of_untried(finding)
            finding = finding or self._of_deals() or self._of_several()
        if finding is None:
            self._measure(rng)
        return self._report(finding)

    @computed_once
    def _digests(self) -> Digests:
        """The digests of the reference run."""
        return Digests(self.workers.new_file())

    @computed_once
    def _items(self) -> int:
        return len(self._digests)

    def _reference(self) -> PipelineRun:
        """Two runs in a process, the first for reference; returns the second."""
        known = self.stage.length
        ends = [int(end) for end in (known, self.limit) if end is not None and end != math.inf]
        patience = PATIENCE if _may_be_endless(self.stage) else None
        work = partial(
            whole_runs, limit=self.limit, keep=self._digests.path, count=2, seconds=patience
        )
        text = "a run for reference, twice"
        if self.is_beginning:
            text += f", over its first {self.limit:,} items, since it has no end"
        with self.bar(text, 2 * min(ends) if ends else None) as update:
            began = monotonic()
            outcome = self.workers.run(work, watch=_following(update))
            seconds = monotonic() - began
        if outcome.error is not None:
            raise CannotRun(f"the pipeline cannot be run: {outcome.error}")
        first, second = outcome.result
        self._loading = outcome.loading
        if first.error is not None:
            raise CannotRun(f"the pipeline fails at item {first.items}: {first.error}")
        self._fingerprint, self._complete = outcome.fingerprint, first.ended
        if self.limit is None and not first.ended:
            self.limit = first.items
            self._notes.append(
                f"nothing tells whether it ends, and it has not within {PATIENCE:.0f} s; so only its first "
                f"{first.items:,} items were looked at, and --items N looks at others"
            )
            self._cut_at = first.items
        dealt = deals(self.stage).values()
        self._pace = ProcessCost(
            start=max(seconds - outcome.seconds, 0.0),
            items=first.items,
            run=outcome.seconds / 2,
            reads_again=any(reads_again(found) for found, _ in walk(self.stage)),
            at_once=self.workers.at_once,
            shards=sum(isinstance(deal, Shard) for deal in dealt),
            deals=bool(dealt),
        )
        return cast("PipelineRun", second)

    def _prepare_forks(self, generations: int) -> None:
        # The processes start during the saving run, a time with an idle processor.
        seeds = range(FIRST_HASH_SEED, FIRST_HASH_SEED + min(generations, MOST_FORKED))
        if self.workers.fork_with(seeds):
            self._pace = replace(self._pace, restart=self._loading)

    def _tell_time(self, positions: int, chains: list[list[int]], generations: int) -> None:
        estimate = Estimate(self._pace.seconds(chains), positions, cut_at=self._cut_at)
        if positions > FEW:
            # The choice of positions does not affect the time.
            fewer = plan_chains(self._items, FEW, generations, random.Random(0))
            estimate = estimate._replace(fewer=FEW, fewer_seconds=self._pace.seconds(fewer))
        self.tell(estimate)

    def _find_ways(self) -> None:
        """Find the tunings of the pipeline, as far as stages can be exchanged."""
        for way in variations(self.stage):
            try:
                tuned(self.stage, way.tuning)
            except Exception as error:
                self._notes.append(f"not resumed {way.label}: {error}")
            else:
                self._ways.append(way)

    def _saved_run(self, stops: tuple[int, ...]) -> tuple[TaskOutcome, str]:
        """An uninterrupted run in another process, with a checkpoint at each of ``stops``."""
        folder = self.workers.new_folder()
        work = partial(resumed, folder=folder, expected=self._digests, until=self._end, saves=stops)
        with self.bar("a run that saves", self._items) as update:
            watch, other_hashes = _following(update), Conditions(hash_seed=1)
            return self.workers.run(work, conditions=other_hashes, watch=watch), folder

    def _of_saved_run(self, outcome: TaskOutcome, stops: tuple[int, ...]) -> Finding | None:
        """The finding if the saving run differs from the reference run."""
        if outcome.died:
            raise CannotRun(
                f"the pipeline was run once, and could not be in another process: {outcome.error}"
            )
        alike = outcome.fingerprint == self._fingerprint
        if alike and outcome.error is None and not outcome.result.run.differs:
            return None
        with self._diagnosis(stops) as diagnosis:
            if alike and outcome.error is not None:
                return diagnosis.of_resumes(self._ways[:1])
            return diagnosis.of_plain_runs()

    def _resume(self, chains: list[list[int]], saved_in: str) -> None:
        """Follow the chains, each generation with the pipeline tuned in the next way."""
        self._resumed += [way.label for way in self._ways]
        self._planned = sum(map(len, chains))
        with self.bar("resumes in fresh processes", self._planned) as update:
            found = Chains(self.workers, saved_in, self._digests, self._end, self._ways, update)
            jobs = [partial(found.follow, *numbered) for numbered in enumerate(chains)]
            self._links = [*chain.from_iterable(self.workers.run_all(jobs))]

    def _of_second_pass(self, second: PipelineRun) -> Finding | None:
        """The finding if the second run in the same process differs from the first."""
        if not second.differs:
            return None
        with self._diagnosis(()) as diagnosis:
            return diagnosis.of_second_pass()

    def _of_resumes(self) -> Finding | None:
        """The finding if a resumed run differs, from the shortest such chain."""
        wrong = [link for link in self._links if link.differs]
        if not wrong:
            return None
        broken = min(wrong, key=lambda link: link.position)
        chained = [link for link in self._links if link.chain == broken.chain]
        with self._diagnosis(tuple(link.position for link in chained)) as diagnosis:
            return diagnosis.of_resumes([link.way for link in chained])

    def _of_pulls(self) -> Finding | None:
        """The finding if the items of a user's stage depend on the number pulled at once."""
        try:
            unlike = check_pulls(self.stage, self.workers)
        except Unchecked as failure:
            self._notes.append(f"not pulled in other ways: {failure}")
            return None
        return unlike and unlike[1].finding(self.stage, unlike[0])

    def _of_everywhere(self) -> Finding | None:
        """The finding if a resume differs at a position without a stop of a chain."""
        positions = plan_everywhere(self._items, self.stage.random_access)
        work = partial(first_difference, expected=self._digests, positions=positions)
        conditions = Conditions(hash_seed=FIRST_HASH_SEED)  # allows a fork
        position = self._done(
            "resumes in one process", work, "not resumed in one process", conditions
        )
        if position is None:
            return None
        with self._diagnosis((position,)) as diagnosis:
            return diagnosis.of_resumes(self._ways[:1])

    def _done(self, text: str, work: Work, failure: str, conditions: Conditions = SAME) -> Any:
        """The result of ``work``; if the work fails, note ``failure`` and return None."""
        with self.bar(text, None):
            outcome = self.workers.run(work, conditions=conditions)
        if outcome.error is not None:
            self._notes.append(f"{failure}: {outcome.error}")
        return outcome.result

    def _tell_of_untried(self, finding: Finding | None) -> None:
        """Note the untried resumes; without a finding, raise `CannotRun`."""
        untried = [link for link in self._links if link.outcome.died]
        if not untried:
            return
        position, error = untried[0].position, untried[0].outcome.error
        note = f"a resume after {position:,} items could not be checked: {error}"
        if finding is None:
            raise CannotRun(note)
        self._notes.append(note)

    def _of_deals(self) -> Finding | None:
        """The finding if other numbers of ranks cannot resume the items of a dealing stage."""
        for number, deal in deals(self.stage).items():
            saving, *others = rank_counts(deal)
            is_shard = isinstance(deal, Shard)
            shown = f"{deal} with {' and '.join(map(str, others))} ranks"
            shown += "" if is_shard else f" after {saving}"
            if not others or (is_shard and not self._may_change(number, deal)):
                continue
            with self.bar(shown, None):
                joined = None if is_shard else self.workers.run(partial(joined_state, ranks=saving))
                if joined is not None and joined.error is not None:
                    self._ranks_are_fixed = True
                    self._notes.append(f"the ranks of {deal} must stay the same: {joined.error}")
                try:
                    seen = check_deal(self.stage, number, self.workers, self.limit)
                except Unchecked as failure:
                    self._notes.append(f"{shown}: could not be checked: {failure}")
                    continue
            self._resumed.append(shown)
            if seen is not None:
                return seen.finding(self.stage, number)
        return None

    def _may_change(self, number: int, shard: Stage[Any]) -> bool:
        """Whether the ranks of the shard ``number`` may change; notes why not."""
        try:
            if ranks_may_change(self.stage, number):
                return True
            self._ranks_are_fixed = True
            self._notes.append(f"a later stage fixes the ranks of {shard}")
        except ResumableError as error:
            self._notes.append(f"the ranks of {shard} were not changed: {error}")
        return False

    def _of_several(self) -> Finding | None:
        """The finding if ranks with a common checkpoint, or with another rank's state, resume inexactly."""
        if not deals(self.stage):
            return None
        self.workers.fork_with(HASH_SEEDS)
        with self.bar("several ranks", None):
            found = check_several(
                self.stage, self.workers, self.limit, may_change=not self._ranks_are_fixed
            )
        self._resumed += found.resumed
        self._notes += found.notes
        return found.finding

    def _measure(self, rng: random.Random) -> None:
        chosen = {0, self._items // 2, *(rng.randint(0, self._items) for _ in range(MEASURED))}
        work: Work = partial(costs, positions=tuple(sorted(chosen)))
        self._costs = self._done("costs", work, "costs could not be measured")
        work = partial(count_flows, limit=self._end)
        flows = self._done("items in and out", work, "items in and out were not counted")
        self._flows = flows or {}

    @property
    def _end(self) -> int | None:
        """Where a run stops; None to see the end."""
        return None if self._complete else self._items

    @contextmanager
    def _diagnosis(self, stops: tuple[int, ...]) -> Iterator[Diagnosis]:
        # Without a total: the number of experiments depends on the results.
        with self.bar("looking for the first stage that differs", None) as update:
            yield Diagnosis(self.stage, self.workers, self._end, stops, lambda: update(1))

    def _report(self, finding: Finding | None) -> Report:
        runs = [link.result for link in self._links if link.result is not None]
        seconds = [run.seconds for run in runs if run.seconds is not None]
        known = self._costs
        return Report(
            target=self.target,
            items=self._items,
            complete=self._complete,
            planned=self._planned,
            positions=sum(not link.outcome.died for link in self._links),
            differences=sum(link.differs for link in self._links),
            processes=self.workers.started,
            resumed=tuple(self._resumed),
            reread=known and known.reread,
            state_bytes=known and known.state_bytes,
            get_state_seconds=known and known.get_state_seconds,
            resume_seconds=median(seconds) if seconds else None,
            stages=stage_costs(self.stage, known and known.largest),
            finding=finding,
            left_out=tuple(left_out(self.stage, self._flows)),
            suspicions=tuple(suspicions(self.stage, self._flows)),
            notes=tuple(self._notes),
        )


def _following(update: Update) -> Update:
    """Moves a bar to a given count; the count restarts with each epoch."""
    last = [0]

    def move_to(count: int) -> None:
        update(count - last[0] if count >= last[0] else count)
        last[0] = count

    return move_to
