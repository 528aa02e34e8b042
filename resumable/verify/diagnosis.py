"""Find out why runs differ, by experiments; each experiment excludes a cause."""

# An experiment cuts the pipeline after a stage and checks whether something differs. The cuts begin at the
# sources; the first cut with a difference ends with the stage at fault. The cause follows from the
# circumstances under which the difference goes away.
#
# A process that dies, or fails only under changed conditions, proves nothing. The experiment is
# then `Unchecked`, and the finding says so.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final, final

from ..core.computed_once import computed_once
from ..core.function_state import CallsFunction
from ..core.graph import Tuning, Variation, cut_after, tuning_without_threads, walk
from ..core.resuming import explain_mismatch
from ..core.stage import Stage
from ..testing.laws import resumes_for_generations
from . import reasons
from .conditions import SAME, Conditions
from .experiments import ERROR, TEXTS, Experiment, Seen, Unchecked, seen_in
from .hints import hint_for
from .processes import TaskOutcome, TaskProcesses
from .reasons import Reason
from .report import Finding
from .runs import Digests
from .work import Work, consumption, obeyed, resumed, whole_runs

OTHER_HASHES: Final = Conditions(hash_seed=1)
REPEATS: Final = 3
"""Number of runs that must agree before runs count as equal."""


@final
@dataclass
class Diagnosis:
    """The search for the cause of a difference.

    Attributes:
      stage: the whole pipeline.
      workers: to run tasks.
      limit: number of items of the whole pipeline to draw; None for all.
      stops: where the differing run was stopped.
      progress: called after each examined stage.
    """

    stage: Stage[Any]
    workers: TaskProcesses
    limit: int | None
    stops: tuple[int, ...]
    progress: Callable[[], object]
    _unchecked: list[str] = field(init=False, default_factory=list)

    def of_plain_runs(self) -> Finding:
        """Why two uninterrupted runs in fresh processes differ."""
        again = self._between(SAME, SAME)
        if self._tried(again, 0) is None:
            return (
                self._located(reasons.HASH_ORDER, self._between(SAME, OTHER_HASHES))
                or self._located(reasons.TIME, self._between(SAME, Conditions(clock_stands=True)))
                or self._unexplained(0, Seen(), reasons.UNSTEADY)
            )
        number, seen = self._first(again) or (0, Seen())
        # Time first: seeded runs may also agree because of running at the same time.
        for reason, conditions in (
            (reasons.TIME, Conditions(clock_stands=True)),
            (reasons.RANDOMNESS, Conditions(seeded=True)),
        ):
            if self._agrees(self._between(conditions, conditions), number):
                return self._finding(number, seen, reason)
        is_source = not cut_after(self.stage, number).inputs
        reason = reasons.SOURCE_CHANGED if is_source else reasons.NOT_REPRODUCIBLE
        return self._unexplained(number, seen, reason)

    def of_second_pass(self) -> Finding:
        """Why a second run in the same process differs."""
        found = self._first(self._within_process)
        if found is None:
            return self._unexplained(0, Seen(), reasons.UNSTEADY)
        number, seen = found
        if self._later(number):
            return self.of_plain_runs()
        if cut_after(self.stage, number).inputs:
            return self._finding(number, seen, reasons.FUNCTION_KEEPS_STATE)
        # A refused second epoch counts like an empty epoch.
        nothing = seen.item == 0 and (seen.got is None or seen.got.startswith(ERROR))
        return self._finding(number, seen, reasons.READ_ONCE if nothing else reasons.COUNTS_EPOCHS)

    def of_resumes(self, ways: Sequence[Variation]) -> Finding:
        """Why a chain of resumes differs; ``ways`` holds the tuning at each stop."""
        if self._tried(self._resumed, 0) is None:
            return self._of_ways(ways)
        number, seen = self._first(self._resumed) or (0, Seen())
        if seen.details:
            return self._finding(number, seen, _of_error(seen))
        if self._later(number):
            return self.of_plain_runs()
        try:
            here = self._resumed_here(number)
        except Unchecked as failure:
            self._unchecked.append(str(failure))
            return self._finding(number, seen, reasons.UNEXPLAINED)
        reason = reasons.FUNCTION_KEEPS_STATE if here is None else reasons.STATE_INCOMPLETE
        return self._finding(number, seen, reason)

    def _of_ways(self, ways: Sequence[Variation]) -> Finding:
        """Why a chain of resumes differs only with another tuning of the pipeline."""
        tunings = [way.tuning for way in ways]
        seen = self._tried(lambda number: self._resumed(number, tunings), 0)
        changed = [number for way in ways for number in way.tuning]
        if self._later(0):
            return self.of_plain_runs()
        if seen is None or not changed:
            return self._unexplained(0, seen or Seen(), reasons.UNSTEADY)
        return self._finding(max(changed), seen, reasons.DEPENDS_ON_THREADS)

    def _between(self, one: Conditions, other: Conditions) -> Experiment:
        """Whether uninterrupted runs in fresh processes differ."""

        def experiment(number: int) -> Seen | None:
            first, known = self._reference(number, one)
            _without_error(first, one)
            work = partial(whole_runs, limit=self._limit(number), expected=known)
            others = self.workers.run_all([partial(self._run, work, number, other)] * REPEATS)
            return self._first_difference(number, first, others, other)

        return experiment

    def _first_difference(
        self, number: int, first: TaskOutcome, others: Sequence[TaskOutcome], conditions: Conditions
    ) -> Seen | None:
        """The difference of a run in ``others``, made under ``conditions``, from the ``first`` run."""
        failure: Unchecked | None = None
        for outcome in others:
            try:
                second = _done(outcome, conditions)
                if not conditions.are_natural:
                    _without_error(second, conditions)
            except Unchecked as error:  # another run may differ
                failure = error
                continue
            if first.fingerprint != second.fingerprint:
                return Seen(details=self._mismatch(number, first, second))
            if (seen := seen_in(second.result[0], first.result[0])) is not None:
                return seen
        if failure is not None:
            raise failure
        return None

    def _later(self, number: int) -> bool:
        """Whether plain runs differ after all, by chance or at another time."""
        for other in (Conditions(hash_seed=1, clock_stands=True), OTHER_HASHES):
            try:
                return self._between(SAME, other)(number) is not None
            except Unchecked as failure:
                self._unchecked.append(str(failure))
        return False

    def _within_process(self, number: int) -> Seen | None:
        (first, second) = self._reference(number, SAME, count=2)[0].result
        return seen_in(second, first)

    def _resumed(self, number: int, tunings: Sequence[Tuning] = ()) -> Seen | None:
        """Whether a chain of resumes in fresh processes differs from the uninterrupted run."""
        whole, known = self._reference(number, SAME)
        life = partial(resumed, folder=self.workers.new_folder(), expected=known)
        stops = self._stops(number)
        for place, until in enumerate((*stops, self._limit(number))):
            tuning = tunings[place - 1] if place and place <= len(tunings) else {}
            work = partial(life, until=until)
            conditions = SAME if place % 2 else OTHER_HASHES
            outcome = self.workers.run(work, number, tuning, conditions)
            position = stops[place - 1] if place else None
            if (seen := _failed(outcome, conditions, position)) is not None:
                return seen
            if (seen := seen_in(outcome.result.run, whole.result[0], position)) is not None:
                return seen
        return None

    def _resumed_here(self, number: int) -> Seen | None:
        stops = self._stops(number)
        cuts = [stop - before for before, stop in pairwise((0, *stops))]
        arguments = cuts, self._limit(number)
        work = partial(obeyed, law=resumes_for_generations, arguments=arguments)
        cut = cut_after(self.stage, number)
        # A function in worker processes is a new copy after every resume, also in this process.
        tuning = tuning_without_threads(cut) if isinstance(cut, CallsFunction) else {}
        return _failed(self.workers.run(work, number, tuning), SAME)

    def _tried(self, experiment: Experiment, number: int) -> Seen | None:
        """The result of ``experiment``; None if the experiment failed, with a note why."""
        try:
            return experiment(number)
        except Unchecked as failure:
            self._unchecked.append(str(failure))
            return None

    def _agrees(self, experiment: Experiment, number: int) -> bool:
        """Whether ``experiment`` was made and has found no difference."""
        before = len(self._unchecked)
        return self._tried(experiment, number) is None and len(self._unchecked) == before

    def _located(self, reason: Reason, experiment: Experiment) -> Finding | None:
        found = self._first(experiment)
        return None if found is None else self._finding(*found, reason)

    def _first(self, experiment: Experiment) -> tuple[int, Seen] | None:
        # This order puts each stage after all upstreams of the stage.
        for number in reversed(range(len([*walk(self.stage)]))):
            seen = self._tried(experiment, number)
            self.progress()
            if seen is not None:
                return number, seen
        return None

    def _reference(
        self, number: int, conditions: Conditions, count: int = 1
    ) -> tuple[TaskOutcome, Digests]:
        """Uninterrupted runs of a cut in one process, and the digests of the first run."""
        limit, keep = self._limit(number), self.workers.new_file()
        work = partial(whole_runs, limit=limit, keep=keep, count=count, texts=TEXTS)
        return _done(self._run(work, number, conditions), conditions), Digests(keep)

    def _run(self, work: Work, number: int, conditions: Conditions) -> TaskOutcome:
        return self.workers.run(work, number, self._tuning(number), conditions)

    @computed_once
    def _without_threads(self) -> bool:
        """Whether to leave threads out: threads disturb the search unless the threads are the cause."""
        tuning = tuning_without_threads(self.stage)
        if not tuning:
            return False
        keep = self.workers.new_file()
        runs = partial(whole_runs, limit=self.limit)
        self.workers.run(partial(runs, keep=keep), tuning=tuning)
        again = partial(runs, expected=Digests(keep), count=2)
        outcome = self.workers.run(again, 0, tuning, OTHER_HASHES)
        return outcome.error is None and any(run.differs for run in outcome.result)

    def _tuning(self, number: int) -> Tuning:
        tuning = tuning_without_threads(cut_after(self.stage, number))
        return tuning if tuning and self._without_threads else {}

    @computed_once
    def _consumption(self) -> list[Mapping[int, int]]:
        stops = (*self.stops, self.limit)
        result = self.workers.run(partial(consumption, stops=stops)).result
        # Without counts, if a stage cannot be exchanged, each stage is treated as the last.
        return result or [{} for _ in stops]

    def _limit(self, number: int) -> int | None:
        """How many items of a cut the run of the whole pipeline takes."""
        return self._consumption[-1].get(number, self.limit) if number else self.limit

    def _stops(self, number: int) -> tuple[int, ...]:
        """The positions of a cut when the whole pipeline is at `stops`."""
        if not number:
            return self.stops
        counts = zip(self._consumption, self.stops, strict=False)
        stops = tuple(count.get(number, stop) for count, stop in counts)
        # A stage may have read the last group to the end, and a resume reads the whole group again. A
        # cut stopped at the end has no items left to compare.
        at_end = stops and stops[-1] == self._limit(number)
        return tuple(sorted((*stops, stops[-1] // 2))) if at_end else stops

    def _mismatch(self, number: int, *outcomes: TaskOutcome) -> str:
        """The differing configuration of two processes."""
        cut = cut_after(self.stage, number)
        for outcome in outcomes:
            if (reason := explain_mismatch(outcome.fingerprint, cut)) is not None:
                return f"it is built differently in another process: {reason}"
        return "it is built differently in another process"

    def _unexplained(self, number: int, seen: Seen, reason: Reason) -> Finding:
        """A finding for ``reason``, if every experiment could be made; else `UNEXPLAINED`."""
        return self._finding(number, seen, reasons.UNEXPLAINED if self._unchecked else reason)

    def _finding(self, number: int, seen: Seen, reason: Reason) -> Finding:
        seen = seen._replace(details=_sentence(seen.details), reason=reason)
        hint = hint_for(reason, cut_after(self.stage, number))
        return seen.finding(self.stage, number, hint, tuple(dict.fromkeys(self._unchecked)))


def _of_error(seen: Seen) -> Reason:
    if seen.kind == "ExternalStateError":
        return reasons.READ_ONCE
    if seen.kind == "UnencodableState":
        return reasons.STATE_NOT_SAVED
    return reasons.SAVE_FAILED if seen.position is None else reasons.STATE_REFUSED


def _done(outcome: TaskOutcome, conditions: Conditions) -> TaskOutcome:
    """An outcome of work without a resume: a failure of such work proves nothing."""
    if outcome.error is not None:
        raise Unchecked(f"{outcome.error} ({conditions})")
    return outcome


def _without_error(outcome: TaskOutcome, conditions: Conditions) -> None:
    """Refuse a run ended by an exception: the run is too short for a comparison."""
    error = outcome.result[0].error
    if error is not None:
        raise Unchecked(f"{error} ({conditions})")


def _failed(
    outcome: TaskOutcome, conditions: Conditions, position: int | None = None
) -> Seen | None:
    """The error of a save or a resume."""
    if outcome.died:
        _done(outcome, conditions)
    if outcome.error is None:
        return None
    if outcome.kind == "UnencodableState":  # of a save, wherever the run began
        position = None
    return Seen(position=position, details=outcome.error, kind=outcome.kind)


def _sentence(text: str) -> str:
    return "" if not text else text[0].upper() + text[1:] + ("" if text[-1] in ".?" else ".")
