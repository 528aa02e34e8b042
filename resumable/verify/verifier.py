"""Verify a pipeline: run it for reference, stop it anywhere, resume it elsewhere, compare."""

# Every run is made by a fresh process that loads the pipeline anew, as a restarted training job
# does. A chain of generations starts with a checkpoint of an uninterrupted run, and each process
# of it resumes from the file that the one before it left. The last goes on to the end.

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, cast

from ..arguments import check_int
from ..errors import ResumableError
from ..stage import Stage, walk
from ..state import dumps
from ..state_tree import positions as saved_positions
from ..state_tree import stage_tree
from ..target import load_pipeline
from .conditions import Conditions
from .diagnosis import Diagnosis
from .digest import DIGEST_BYTES
from .graph import Variation, variations
from .processes import Outcome, Task, Workers
from .ranks import check_ranks, other_counts, ranks_may_change, shards
from .report import Finding, Report, StageCost
from .work import Costs, Measure, Passes, Resumed, ResumedRun, Run

__all__ = ["CannotRun", "verify"]

ENDLESS: Final = 10_000
"""Items looked at of a pipeline without an end."""
MEASURED: Final = 5
"""Positions at which costs are measured."""

Update = Callable[[int], object]


Bars = Callable[[str, "int | None"], AbstractContextManager[Update]]
"""Makes a progress bar of a text and a total: a context that gives the function to move it by."""


class CannotRun(ResumableError):
    """The pipeline cannot even be run once."""


def verify(
    target: str,
    *,
    items: int | None = None,
    positions: int = 24,
    generations: int = 3,
    seed: int = 0,
    processes: int = 2,
    bars: Bars,
) -> Report:
    """Stop and resume the pipeline that ``target`` names, in fresh processes, and compare.

    Args:
      target: ``module:attribute`` or ``path/to/file.py:attribute``.
      items: how many to look at; by default all, or 10,000 of a pipeline without an end.
      positions: how many stops to resume from: the ends, and random ones.
      generations: how many times a run is stopped, one resumed from the other.
      seed: of the random positions.
      processes: how many to run at the same time.
      bars: makes progress bars.

    Raises:
      TargetError: if the target cannot be loaded.
      CannotRun: if an uninterrupted run fails.
      InvalidArgument: if a number is below its minimum.
    """
    check_int("items", 1 if items is None else items, minimum=1)
    check_int("positions", positions, minimum=1)
    check_int("generations", generations, minimum=1)
    check_int("processes", processes, minimum=1)
    stage = load_pipeline(target).stage
    with tempfile.TemporaryDirectory(prefix="resumable-verify-") as folder:
        workers = Workers(target, Path(folder), processes)
        limit = ENDLESS if items is None and stage.length == math.inf else items
        run = _Verification(target, stage, limit, workers, bars)
        return run.verify(positions, generations, random.Random(seed))


class _Verification:
    """One verification on its way, and what it has found so far."""

    def __init__(
        self, target: str, stage: Stage[Any], limit: int | None, workers: Workers, bars: Bars
    ) -> None:
        self._target = target
        self._stage = stage
        self._limit = limit
        self._workers = workers
        self._bar = bars
        self._digests = b""  # of the reference run
        self._fingerprint: str | None = None
        self._complete = True
        self._ways = variations(stage)
        self._resumed: list[str] = []
        self._links: list[_Link] = []
        self._costs: Costs | None = None
        self._notes: list[str] = []

    def verify(self, positions: int, generations: int, rng: random.Random) -> Report:
        second = self._reference()
        chains = _chains(self._items, positions, generations, rng)
        outcome, saved_in = self._saved_run({stops[0] for stops in chains})
        finding = self._of_saved_run(outcome)
        if finding is None:
            self._resume(chains, saved_in)
            finding = self._of_resumes(second) or self._of_ranks()
        if finding is None:
            self._measure(rng)
        return self._report(finding)

    @property
    def _items(self) -> int:
        return len(self._digests) // DIGEST_BYTES

    def _reference(self) -> Run:
        """Two runs in one process, the first for reference; returns the second."""
        known = self._stage.length
        ends = [int(end) for end in (known, self._limit) if end is not None and end != math.inf]
        with self._bar("a run for reference, twice", 2 * min(ends) if ends else None) as update:
            outcome = self._workers.run(Task(Passes(self._limit, count=2)), _following(update))
        if outcome.error is not None:
            raise CannotRun(f"the pipeline cannot be run: {outcome.error}")
        first, second = outcome.result
        if first.error is not None:
            raise CannotRun(f"the pipeline fails at item {first.items}: {first.error}")
        self._digests, self._fingerprint = first.digests, outcome.fingerprint
        self._complete = self._limit is None or first.items < self._limit or first.items == known
        return cast("Run", second)

    def _saved_run(self, stops: set[int]) -> tuple[Outcome, str]:
        """An uninterrupted run in another process, with a checkpoint at each of ``stops``."""
        folder = self._workers.new_folder()
        work = Resumed(folder, self._digests, self._until(None), tuple(sorted(stops)))
        task = Task(work, conditions=Conditions(hash_seed=1))
        with self._bar("a run that saves", self._items) as update:
            return self._workers.run(task, _following(update)), folder

    def _of_saved_run(self, outcome: Outcome) -> Finding | None:
        """What is wrong if that run is not the reference run."""
        alike = outcome.fingerprint == self._fingerprint
        if alike and outcome.error is None and not outcome.result.run.differs:
            return None
        with self._diagnosis() as diagnosis:
            if alike and outcome.error is not None:
                return diagnosis.of_error(outcome)
            return diagnosis.of_plain_runs()

    def _resume(self, chains: list[list[int]], saved_in: str) -> None:
        """Follow the chains, each generation with the pipeline tuned in the next way."""
        self._resumed += [way.label for way in self._ways]
        with self._bar("resumes in fresh processes", sum(map(len, chains))) as update:
            follow = partial(self._follow, saved_in=saved_in, update=update)
            jobs = [partial(follow, number, stops) for number, stops in enumerate(chains)]
            self._links = [*chain.from_iterable(self._workers.run_all(jobs))]

    def _follow(
        self, chain_number: int, stops: list[int], *, saved_in: str, update: Update
    ) -> list[_Link]:
        """A chain of generations, each resumed from the checkpoint of the one before."""
        folder = self._workers.moved(saved_in, stops[0])
        links: list[_Link] = []
        for number, (stop, following) in enumerate(zip(stops, [*stops[1:], None], strict=True)):
            way = self._ways[(chain_number + number) % len(self._ways)]
            work = Resumed(folder, self._digests, self._until(following))
            conditions = Conditions(hash_seed=2 + number)
            outcome = self._workers.run(Task(work, tuning=way.tuning, conditions=conditions))
            links.append(_Link(stop, way, outcome))
            update(1)
            if links[-1].differs:
                break
        return links

    def _of_resumes(self, second: Run) -> Finding | None:
        """What is wrong if a resumed run, or the ``second`` in one process, differs."""
        wrong = [link for link in self._links if link.differs]
        if not wrong and not second.differs:
            return None
        with self._diagnosis() as diagnosis:
            found = diagnosis.of_resumes(differs_within_process=second.differs)
            return found or diagnosis.of_tuning(*wrong[0])

    def _of_ranks(self) -> Finding | None:
        """What is wrong if a shard cannot be resumed with other numbers of ranks."""
        for number, shard in shards(self._stage):
            if not ranks_may_change(self._stage, number):
                self._notes.append(f"a later stage fixes the ranks of {shard.label}")
                continue
            counts = other_counts(shard)
            shown = f"{shard.label} with {' and '.join(map(str, counts))} ranks"
            self._resumed.append(shown)
            with self._bar(shown, None):
                if finding := check_ranks(self._stage, number, counts, self._workers, self._limit):
                    return finding
        return None

    def _measure(self, rng: random.Random) -> None:
        chosen = {0, self._items // 2, *(rng.randint(0, self._items) for _ in range(MEASURED))}
        without = self._ways[1].tuning if len(self._ways) > 1 else {}
        with self._bar("costs", self._items):
            outcome = self._workers.run(Task(Measure(tuple(sorted(chosen)), without)))
        self._costs = outcome.result
        if outcome.error is not None:
            self._notes.append(f"costs could not be measured: {outcome.error}")

    def _until(self, stop: int | None) -> int | None:
        """Where a run is to stop; None to see its end."""
        return self._items if stop is None and not self._complete else stop

    @contextmanager
    def _diagnosis(self) -> Iterator[Diagnosis]:
        stages = len([*walk(self._stage)])
        with self._bar("looking for the first stage that differs", stages) as update:
            yield Diagnosis(self._stage, self._workers, self._limit, lambda: update(1))

    def _report(self, finding: Finding | None) -> Report:
        seconds = [link.result.seconds for link in self._links if link.result]
        costs = self._costs
        return Report(
            target=self._target,
            items=self._items,
            complete=self._complete,
            positions=len(self._links),
            differences=sum(link.differs for link in self._links),
            processes=self._workers.started,
            resumed=tuple(self._resumed),
            reread=costs and costs.reread,
            state_bytes=costs and costs.state_bytes,
            get_state_seconds=costs and costs.get_state_seconds,
            resume_seconds=median(seconds) if seconds else None,
            stages=_stages(self._stage, costs),
            finding=finding,
            notes=tuple(self._notes),
        )


class _Link(NamedTuple):
    """A resume: where, how, and what came of it."""

    position: int
    way: Variation
    outcome: Outcome

    @property
    def result(self) -> ResumedRun | None:
        return cast("ResumedRun | None", self.outcome.result)

    @property
    def differs(self) -> bool:
        if self.result is None or self.result.first != self.position:
            return True
        return self.result.run.differs


def _chains(items: int, positions: int, generations: int, rng: random.Random) -> list[list[int]]:
    """Where to stop: chains of ``generations`` stops, ``positions`` in all."""
    edges = [0, min(1, items), max(items - 1, 0), items]
    stops = edges[:positions] + [rng.randint(0, items) for _ in range(positions - len(edges))]
    # The edges are spread over the chains, as the rest is.
    count = -(-len(stops) // generations)
    return [sorted(stops[number::count]) for number in range(count)]


def _stages(stage: Stage[Any], costs: Costs | None = None) -> tuple[StageCost, ...]:
    """What each stage promises about its state, and what it measured."""
    sizes: dict[str, int] = {}
    if costs is not None:
        for (path, _, name), value in saved_positions(stage_tree(costs.largest)).items():
            sizes[path] = sizes.get(path, 0) + len(dumps({name: value})) - len(dumps({}))
    return tuple(
        StageCost(
            found.label, path, found.state_cost, 0 if found.transparent else sizes.get(path, 0)
        )
        for found, path in walk(stage)
    )


def _following(update: Update) -> Update:
    """Moves a bar to the count it is told, which begins anew with each pass."""
    last = [0]

    def move_to(count: int) -> None:
        update(count - last[0] if count >= last[0] else count)
        last[0] = count

    return move_to
