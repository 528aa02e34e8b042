"""Measure a pipeline: speed, time by stage, and cost of the state."""

# Each run restarts the pipeline. The first run only warms up files and imports, the second measures
# the speed of the unchanged pipeline, and the third has a timing stage after each stage. All graphs
# are built before any run, since copying a stage also copies the current state of the stage's
# function.

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from ..core.arguments import check_int, check_seconds
from ..core.foreign_source import inexact_sources
from ..core.graph import walk, without_threads
from ..core.stage import Stage
from ..pipeline import Pipeline
from ..state.value import State
from ..verify import CannotRun
from ..verify.counted import counted
from ..verify.report import stage_costs
from .advice import advise, advise_on_loop, named_bottleneck
from .cached import advice_on_source, needed_of_caches, notes_on_caches
from .ledger import Ledger, Totals
from .partitioned import run_elsewhere, run_here
from .report import AROUND, BenchReport, StageTime, percent
from .runs import Clocks, MeasuredRun, run
from .saving import Saving, measure_saving
from .timed import empty_interval, readers, timed

WARM_UP: Final = 0.1
"""The longest warm-up, as a share of the longest run."""
NO_ITEM: Final = "The pipeline delivers no item."
REAL: Final = Clocks(time.perf_counter, time.process_time)


def measure(
    pipeline: Pipeline[Any],
    *,
    target: str = "pipeline",
    seconds: float = 5.0,
    items: int | None = None,
    tell: Callable[[str], object] = lambda text: None,
    clocks: Clocks = REAL,
) -> BenchReport:
    """Run ``pipeline`` a few times, then save and resume it.

    Args:
      pipeline: to measure.
      target: name in the report.
      seconds: the longest time of a run; an item in work is finished.
      items: the largest number of items of a run.
      tell: called with a text as each run begins.
      clocks: replaced in tests.

    Raises:
      CannotRun: if an item cannot be made.
      InvalidArgument: if ``seconds`` or ``items`` is not above 0.
    """
    check_seconds("seconds", seconds)
    if items is not None:
        check_int("items", items, minimum=1)
    return _Measurement(pipeline, seconds, items, tell, clocks).report(target)


@final
@dataclass
class _Measurement:
    _pipeline: Pipeline[Any]
    _seconds: float
    _items: int | None
    _tell: Callable[[str], object]
    _clocks: Clocks

    def __post_init__(self) -> None:
        self._stage: Stage[Any] = self._pipeline.stage
        self._notes: list[str] = []
        self._readers = readers(self._stage)
        clock = self._clocks.seconds
        self._ledger = Ledger(self._readers, clock, cost=empty_interval(clock))
        self._reads: Counter[int] = Counter()
        self._timed = self._built(
            "the stages could not be timed", lambda stage: timed(run_here(stage), self._ledger)
        )
        self._elsewhere = [str(found) for found in run_elsewhere(self._stage).values()]
        if self._timed is not None and self._elsewhere:
            self._notes.append(
                f"the stages in {' and '.join(self._elsewhere)} were timed in this process, without "
                "its workers"
            )
        self._counting = self._built(
            "what a resume reads again was not counted",
            lambda stage: counted(without_threads(stage), self._reads, sources_only=True),
        )

    def report(self, target: str) -> BenchReport:
        inexact = [stage for stage, _ in inexact_sources(self._stage)]
        if inexact:
            why = "the state of the source loses items"
            if any(stage.reads_once for stage in inexact):
                why = "the source can only be read once"
            self._notes.append(f"{why}: there was one run, and no save")
            whole, times = self._only_run()
            slowdown, saved = None, None
        else:
            whole = self._plain_runs()
            times, slowdown = self._staged_run(whole)
            saved = self._saved(range(whole.items // 2, whole.items))
        self._needed = needed_of_caches(self._stage)
        self._notes += notes_on_caches(self._needed)
        part = whole.steady
        timeable = part.items and part.seconds > 0
        cpu_share = part.cpu_seconds / part.seconds if timeable else None
        stages = self._stages(times, saved[1] if saved else None)
        place = _slowest(stages)
        return BenchReport(
            target=target,
            items=part.items,
            seconds=part.seconds,
            complete=whole.ended,
            first_seconds=whole.first.seconds if whole.items else None,
            cpu_share=cpu_share,
            slowdown=slowdown,
            stages=stages,
            bottleneck=place,
            advice=self._advice(stages, place, cpu_share) if whole.items else NO_ITEM,
            saving=saved[0] if saved else None,
            notes=tuple(self._notes),
        )

    def _built(
        self, problem: str, build: Callable[[Stage[Any]], Stage[Any]]
    ) -> Pipeline[Any] | None:
        try:
            return Pipeline(build(self._stage))
        except Exception as error:  # a user's stage that cannot have another upstream
            self._notes.append(f"{problem}: {error}")
            return None

    def _plain_runs(self) -> MeasuredRun:
        self._tell("warming up")
        warm = self._run(WARM_UP * self._seconds)
        self._tell("timing the pipeline")
        whole = self._run(self._seconds)
        if warm.items and not whole.items:
            raise CannotRun(
                "the pipeline delivers nothing when it is run again: its source can only be read "
                "once; pass from_iterable a function that makes a new iterator"
            )
        return whole

    def _run(self, seconds: float) -> MeasuredRun:
        return run(self._pipeline, self._clocks, seconds=seconds, items=self._items)

    def _staged_run(self, whole: MeasuredRun) -> tuple[_Times | None, float | None]:
        """The times of the stages, and the slowdown compared with ``whole``."""
        if self._timed is None or not whole.items:
            return None, None
        self._tell("timing its stages")
        staged, times = self._run_timed(self._timed, whole.items)
        before, after = whole.steady, staged.steady
        if self._elsewhere or not (before.seconds > 0 and after.items):
            return times, None
        return times, (after.seconds / after.items) / (before.seconds / before.items)

    def _only_run(self) -> tuple[MeasuredRun, _Times | None]:
        """One run for speed and stages; the cost of timing is subtracted from the time."""
        self._tell("timing the pipeline and its stages")
        if self._timed is None:
            return self._run(self._seconds), None
        pace, times = self._run_timed(self._timed, self._items)
        taken = times.totals.around + sum(times.totals.loop)
        net_seconds = min(pace.steady.seconds, taken)
        timing = pace.steady.seconds - net_seconds  # all of it computing
        steady = pace.steady._replace(
            seconds=net_seconds, cpu_seconds=max(pace.steady.cpu_seconds - timing, 0.0)
        )
        net = pace._replace(rest=steady) if pace.rest.items else pace._replace(first=steady)
        return net, times

    def _run_timed(self, pipeline: Pipeline[Any], items: int | None) -> tuple[MeasuredRun, _Times]:
        marks: list[Totals] = []

        def mark() -> None:
            marks.append(self._ledger.totals())

        mark()
        pace = run(pipeline, self._clocks, seconds=self._seconds, items=items, mark=mark)
        start, first, last = marks
        totals = last.since(first if pace.rest.items else start)
        return pace, _Times(totals, pace.steady.items)

    def _saved(self, run: range) -> tuple[Saving, State] | None:
        self._tell("saving and resuming")
        try:
            return measure_saving(
                self._pipeline, self._counting, self._reads, run, self._clocks.seconds
            )
        except (Exception, SystemExit) as error:
            self._notes.append(f"no state could be saved: {type(error).__name__}: {error}")
            return None

    def _stages(self, times: _Times | None, state: State | None) -> tuple[StageTime, ...]:
        if times is None:
            return ()
        totals, items = times
        taken = totals.around + sum(totals.loop)
        shown = [
            StageTime(
                cost.stage,
                cost.path,
                _ratio(totals.loop[number], taken),
                _ratio(totals.work[number], items),
                _ratio(totals.beside[number], totals.work[number]),
                cost.bytes,
            )
            for number, cost in enumerate(stage_costs(self._stage, state))
        ]
        around = _ratio(totals.around, taken), _ratio(totals.around, items)
        return (*shown, StageTime(AROUND, "", *around, 0.0, None))

    def _advice(
        self, stages: tuple[StageTime, ...], place: int | None, cpu_share: float | None
    ) -> str:
        if place is None:
            return ""
        share = percent([stage.share for stage in stages])[place]
        if place == len(stages) - 1:
            return advise_on_loop(share, self._stage)
        found = [stage for stage, _ in walk(self._stage)]
        above, reader = [], self._readers[place]
        while reader is not None:
            above.append(found[reader])
            reader = self._readers[reader]
        slowest, path = found[place], stages[place].path
        # Only a larger cache speeds up a source with too small a cache.
        if not slowest.inputs and (hint := advice_on_source(slowest, self._needed)):
            return f"{named_bottleneck(slowest, path, share)} {hint}"
        return advise(slowest, path, share, above, cpu_share)


class _Times(NamedTuple):
    """The totals of the ledger for a run, and the number of items."""

    totals: Totals
    items: int


def _slowest(stages: tuple[StageTime, ...]) -> int | None:
    """The index of the stage with the greatest share; None where no time passed."""
    place = max(range(len(stages)), key=lambda number: stages[number].share, default=None)
    return place if place is not None and stages[place].share > 0 else None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
