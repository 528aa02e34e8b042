"""Find out why runs differ: by experiments, each of which can only fail for some reasons."""

# An experiment tells for a cut of the pipeline whether something differs. The first cut, from the
# sources on, at which it does, ends with the stage at fault. What the cause is follows from the
# circumstances under which the difference goes away.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, final

from ..stage import Stage, explain_mismatch, walk
from .conditions import Conditions
from .graph import Variation, cut_after
from .processes import Outcome, Task, Workers
from .report import Finding
from .work import Consumption, Passes, Resumed, ResumedHere, Run, Text

__all__ = ["Diagnosis", "Seen"]

SAME: Final = Conditions()
OTHER_HASHES: Final = Conditions(hash_seed=1)
STOPS: Final = 3


class Seen(NamedTuple):
    """A difference that an experiment saw.

    Attributes:
      number: of the first item that differs; None if it is not about an item.
      got: that item as text.
      position: the item after which the run was resumed; None if plain runs differ.
      text: an error, or which configuration differs.
    """

    number: int | None = None
    got: str | None = None
    position: int | None = None
    text: str | None = None


Experiment = Callable[[int], "Seen | None"]
"""Whether something differs in the pipeline cut after the stage of this number."""


@final
@dataclass
class Diagnosis:
    """The search for the cause of a difference.

    Attributes:
      stage: the whole pipeline.
      workers: to run tasks.
      limit: items of the whole pipeline to look at; None for all.
      progress: told after each stage that was looked at.
    """

    stage: Stage[Any]
    workers: Workers
    limit: int | None
    progress: Callable[[], object]

    def of_plain_runs(self) -> Finding:
        """Why two uninterrupted runs in fresh processes differ."""
        again = self._between(SAME, SAME)
        if again(0) is None:
            number, seen = self._first(self._between(SAME, OTHER_HASHES))
            return self._finding(
                number,
                seen,
                "hash order",
                "Two runs agree if PYTHONHASHSEED is the same, and differ if it is not: the order of "
                "a set, or hash() of a string, decides what comes out.",
                "Sort what comes out of a set, and derive numbers from strings by hashlib.",
            )
        number, seen = self._first(again)
        if self._agree(number, Conditions(seeded=True)):
            return self._finding(
                number,
                seen,
                "unseeded randomness",
                "Two runs differ, and agree if `random`, `numpy.random` and os.urandom begin with "
                "the same seed.",
                "Use random_map(fn, seed), whose generator belongs to the item, or seed by the item.",
            )
        if self._agree(number, Conditions(clock_stands=True)):
            return self._finding(
                number,
                seen,
                "time",
                "Two runs differ, and agree if the time of day stands still.",
                "Keep the clock out of the items.",
            )
        if not cut_after(self.stage, number).inputs:
            return self._finding(
                number,
                seen,
                "source changed",
                "Two runs of the source alone differ, with the same seeds and at the same time of "
                "day: its data changed between them.",
                "Freeze the data while a run lasts: read a snapshot, a version, a list of files.",
            )
        return self._finding(
            number,
            seen,
            "not reproducible",
            "Two runs differ, with the same seeds, the same hashes and at the same time of day.",
            "Look for files, the network, addresses of objects (id, the default hash) and threads.",
        )

    def of_resumes(self, *, differs_within_process: bool) -> Finding | None:
        """Why runs differ that were resumed, or repeated in one process; None if none does."""
        if differs_within_process:
            number, seen = self._first(self._within_process)
            if not cut_after(self.stage, number).inputs:
                return self._finding(
                    number,
                    seen,
                    "read once",
                    "A second run in the same process differs, and the source alone already does: "
                    "it can be read only once, or counts its own passes.",
                    "Pass from_iterable a function that makes the iterator anew.",
                )
            return self._finding(
                number,
                seen,
                "function keeps state",
                "A second run in the same process differs, one in a fresh process does not: what "
                "comes out depends on what was computed before.",
                KEEPS_STATE_HINT,
            )
        found = self._first_or_none(self._resumed_elsewhere)
        if found is None:
            return None
        number, seen = found
        if seen.text is None and self._resumed_here(number) is None:
            return self._finding(
                number,
                seen,
                "function keeps state",
                "Resumed in the process that made the whole run it continues exactly, in a fresh one "
                "it does not: what comes out depends on what was computed before.",
                KEEPS_STATE_HINT,
            )
        return self._finding(number, seen, *_of_state(seen))

    def of_error(self, outcome: Outcome) -> Finding:
        """Why the pipeline cannot be saved, or refuses its own state."""
        number, seen = self._first(self._resumed_elsewhere)
        if seen.text is None:
            seen = seen._replace(text=outcome.error)
        return self._finding(number, seen, *_of_state(seen, outcome.kind))

    def of_tuning(self, position: int, way: Variation, outcome: Outcome) -> Finding:
        """Why a resume of the pipeline as it is continues, and this one did not."""
        number = max(way.tuning, default=0)
        stage, path = [*walk(self.stage)][number]
        run: Run | None = outcome.result and outcome.result.run
        seen = Seen(position=position, text=outcome.error)
        if run is not None:
            seen = _seen(run, position) or seen
        if way.tuning:
            evidence = f"Resumed as it is it continues exactly, {way.label} it does not."
            hint = "Let its function touch nothing that several calls share."
        else:
            evidence = "It differed once, and not again."
            hint = "Look for threads, files and the network."
        finding = self._finding(0, seen, "depends on threads", evidence, hint)
        return replace(finding, stage=stage.label, path=path)

    def _agree(self, number: int, conditions: Conditions) -> bool:
        return self._between(conditions, conditions)(number) is None

    def _between(self, one: Conditions, other: Conditions) -> Experiment:
        """Whether uninterrupted runs in two processes differ."""

        def experiment(number: int) -> Seen | None:
            limit = self._limit(number)
            first = self._run(Passes(limit), number, one)
            expected = None if first.error else first.result[0].digests
            second = self._run(Passes(limit, expected=expected), number, other)
            for outcome in (first, second):
                if outcome.error:
                    return Seen(text=outcome.error)
            if first.fingerprint != second.fingerprint:
                return Seen(text=self._mismatch(number, first, second))
            return _seen(second.result[0]) or _seen(first.result[0])

        return experiment

    def _within_process(self, number: int) -> Seen | None:
        outcome = self._run(Passes(self._limit(number), count=2), number, SAME)
        return Seen(text=outcome.error) if outcome.error else _seen(outcome.result[1])

    def _resumed_here(self, number: int) -> Seen | None:
        stops = self._stops(number)
        outcome = self._run(ResumedHere(self._limit(number), stops), number, SAME)
        if outcome.error:
            return Seen(text=outcome.error)
        for stop, run in zip(stops, outcome.result, strict=False):
            if (seen := _seen(run, stop)) is not None:
                return seen
        return None

    def _resumed_elsewhere(self, number: int) -> Seen | None:
        limit = self._limit(number)
        reference = self._run(Passes(limit), number, SAME)
        if reference.error:
            return Seen(text=reference.error)
        expected, stops = reference.result[0].digests, self._stops(number)
        saved_in = self.workers.new_folder()
        saved = self._run(Resumed(saved_in, expected, limit, stops), number, OTHER_HASHES)
        if saved.error:
            return Seen(text=saved.error)

        def resume(stop: int) -> Seen | None:
            folder = self.workers.moved(saved_in, stop)
            outcome = self._run(Resumed(folder, expected, limit), number, SAME)
            if outcome.error:
                return Seen(position=stop, text=outcome.error)
            return _seen(outcome.result.run, stop)

        found = self.workers.run_all([partial(resume, stop) for stop in stops])
        return next((seen for seen in found if seen is not None), None)

    def _run(self, work: Any, number: int, conditions: Conditions) -> Outcome:
        return self.workers.run(Task(work, cut=number, conditions=conditions))

    def _first(self, experiment: Experiment) -> tuple[int, Seen]:
        """The first stage at which a difference appears that the whole pipeline is known to have."""
        return self._first_or_none(experiment) or (0, Seen())

    def _first_or_none(self, experiment: Experiment) -> tuple[int, Seen] | None:
        # In this order every stage comes after those before it.
        for number in reversed(range(len([*walk(self.stage)]))):
            seen = experiment(number)
            self.progress()
            if seen is not None:
                return number, seen
        return None

    @cached_property
    def _consumption(self) -> dict[int, int]:
        outcome = self._run(Consumption(self.limit), 0, SAME)
        return dict(outcome.result or {})

    def _limit(self, number: int) -> int | None:
        """How many items of a cut the run of the whole pipeline takes."""
        return self._consumption.get(number, self.limit) if number else self.limit

    def _stops(self, number: int) -> tuple[int, ...]:
        """Positions to resume at: the start, and some within."""
        items = self._consumption.get(number, 0)
        return tuple(sorted({items * part // STOPS for part in range(STOPS)} | {min(1, items)}))

    def _mismatch(self, number: int, *outcomes: Outcome) -> str:
        """Which configuration differs between two processes."""
        cut = cut_after(self.stage, number)
        for outcome in outcomes:
            if (reason := explain_mismatch(outcome.fingerprint, cut)) is not None:
                return f"it is built differently in another process: {reason}"
        return "it is built differently in another process"

    def _finding(self, number: int, seen: Seen, reason: str, evidence: str, hint: str) -> Finding:
        stage, path = [*walk(self.stage)][number]
        finding = Finding(reason, stage.label, path, evidence, hint, seen.position, seen.number)
        if seen.number is not None:
            text = self._run(Text(seen.number), number, SAME)
            return replace(finding, expected=text.result, got=seen.got)
        return replace(finding, evidence=f"{evidence} {_sentence(seen.text)}".strip())


KEEPS_STATE_HINT: Final = (
    "Let the function depend on the item alone, or give it get_state and set_state, or carry the "
    "value by scan(fn, initial)."
)


def _of_state(seen: Seen, kind: str | None = None) -> tuple[str, str, str]:
    """Reason, evidence and hint where the state is at fault."""
    if kind == "ExternalStateError":
        return (
            "read once",
            "Its position cannot be saved.",
            "Pass from_iterable a function that makes the iterator anew.",
        )
    if kind == "UnencodableState":
        return "state cannot be saved", "", "Keep plain values in the state."
    if seen.text is not None:
        return (
            "state refused",
            "A resume from a checkpoint of its own failed.",
            "Check the stage with resumable.testing.check_stage.",
        )
    return (
        "state incomplete",
        "Resumed it does not continue the run, neither in a fresh process nor in the same: its "
        "state does not hold all that its next items depend on.",
        "Check the stage with resumable.testing.check_stage.",
    )


def _seen(run: Run, position: int | None = None) -> Seen | None:
    if run.error is not None:
        return Seen(run.items + (position or 0), f"the error {run.error}", position)
    if run.difference is not None:
        return Seen(run.difference.number, run.difference.got, position)
    return None


def _sentence(text: str | None) -> str:
    return "" if not text else text[0].upper() + text[1:] + ("" if text[-1] in ".?" else ".")
