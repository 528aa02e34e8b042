"""Check that a loader of any library resumes exactly."""

# A configuration is the arguments of ``make`` that are varied. For each one there are a run without
# a stop, and a run that saves at all stops and goes on. From each state a life resumes in the same
# configuration and in the next ones. Each life is a process, and several ranks are several lives.

from __future__ import annotations

import inspect
import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.arguments import check_int
from ..errors import InvalidArgument, shorten
from ..views.table import table_lines
from .loader_life import LifeTask, LoaderLife, Stop, samples_of
from .processes import FreshProcesses

MOST_PROCESSES: Final = 4
LINGER: Final = 5.0
"""Seconds within which all that a loader started must end after its last batch."""
CHANGED: Final = frozenset({"exact", "reordered", "refused"})
"""Outcomes that are no failure after a change."""
OTHER_DATA: Final = CHANGED | {"lost"}
"""The same, for runs whose data may differ."""
FIRST_SEED: Final = 0
OTHER_SEED: Final = 1
"""Hash seeds of the first life, and of all others."""

Configuration: TypeAlias = "Mapping[str, int]"
Samples: TypeAlias = "list[tuple[int, bytes]]"


@final
@dataclass(frozen=True)
class LoaderRow:
    """A case and what came of it.

    Attributes:
      case: where the loader was stopped.
      change: the arguments of ``make`` that were varied, from the save to the resume.
      outcome: ``"exact"``, ``"reordered"``, ``"lost n"``, ``"repeated n"``, ``"refused"``,
        ``"hangs"`` or ``"dies"``.
      lost: the number of samples that did not come.
      repeated: the number of samples that came too often.
      state_bytes: size of the pickled state; None without one.
      seconds: from the call of ``make`` to the first batch.
      details: the text of an error.
      failed: whether the outcome is a failure.
    """

    case: str
    change: str
    outcome: str
    lost: int = 0
    repeated: int = 0
    state_bytes: int | None = None
    seconds: float | None = None
    details: str = ""
    failed: bool = True


@final
@dataclass(frozen=True)
class LoaderReport:
    """The outcome of `check_loader`.

    Attributes:
      way: how states were taken.
      rows: a row for each case and change.
      notes: other facts worth knowing.
    """

    way: str
    rows: tuple[LoaderRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether no row is a failure."""
        return not any(row.failed for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The fields by their names, in terms of JSON."""
        return {"exact": self.exact, **asdict(self)}

    def __str__(self) -> str:
        rows = [("case", "change", "bytes", "seconds", "outcome")]
        for row in self.rows:
            size = "" if row.state_bytes is None else f"{row.state_bytes:,}"
            seconds = "" if row.seconds is None else f"{row.seconds:.2f}"
            outcome = f"{row.outcome}{row.details and ': '}{row.details}"
            rows.append((row.case, row.change, size, seconds, outcome))
        return "\n".join([f"State: {self.way}.", *table_lines(rows, "<<>>"), *self.notes])


@final
class LoaderDiffers(AssertionError):
    """A loader does not resume exactly; ``report`` has all rows."""

    def __init__(self, report: LoaderReport) -> None:
        super().__init__(f"the loader does not resume exactly\n{report}")
        self.report = report


def check_loader(
    make: Callable[..., Any],
    *,
    items: Callable[[Any], Iterable[Hashable]] | None = None,
    epochs: int = 2,
    workers: Sequence[int] = (0, 2, 3),
    ranks: Sequence[int] = (1, 2),
    batch_sizes: Sequence[int] = (),
    positions: int = 3,
    resumes: int = 2,
    limit: int = 10_000,
    timeout: float = 120.0,
    save: Callable[[Any, Any], Any] | None = None,
    load: Callable[[Any, Any, Any], None] | None = None,
) -> LoaderReport:
    """Check that a loader of any library resumes exactly, each time in a fresh process.

    The loop is ``for epoch in range(first, epochs): set_epoch(epoch); for batch in loader``, with
    ``set_epoch`` of the loader or else of its sampler and data set, if any. A state is taken and
    given back by ``save`` and ``load``, or by ``state_dict`` and ``load_state_dict``, or
    ``get_state`` and ``set_state``, of the loader, its iterator, or its data set without workers.
    Without any, the batches of the epoch so far are passed over. A pipeline of this library is
    given to ``resumable verify``.

    Args:
      make: returns a new loader; a function that can be imported. The arguments ``workers``,
        ``rank`` with ``ranks``, and ``batch_size`` are varied if it takes them.
      items: what identifies the samples of a batch; by default the rows of its arrays and tensors,
        by their bytes.
      epochs: how many epochs to run.
      workers: values of ``workers``.
      ranks: numbers of ranks.
      batch_sizes: values of ``batch_size``.
      positions: how many stops within the first epoch.
      resumes: how many times in a row a run is resumed.
      limit: most samples of a run to look at.
      timeout: seconds without a batch after which a process hangs.
      save: called with the loader and its iterator, returns a state that can be pickled.
      load: called with a new loader, its iterator, and the state.

    Raises:
      AssertionError: if something was lost, repeated or reordered, or the state was refused where
        nothing was changed; with a table.
      InvalidArgument: if the functions cannot be imported by another process.
    """
    numbers = {"epochs": epochs, "positions": positions, "resumes": resumes, "limit": limit}
    for name, number in numbers.items():
        check_int(name, number, minimum=1)
    if (save is None) != (load is None):
        raise InvalidArgument("save and load must both be given, got only one")
    try:
        if getattr(make, "__module__", "") == "__main__":
            raise ValueError("__main__ is another module in every process")
        functions = pickle.dumps((make, items or samples_of, save, load))
    except Exception as error:
        raise InvalidArgument(
            f"make must be a function that can be imported, got {shorten(make)}: {error}"
        ) from error
    task = LifeTask((*sys.path,), functions, epochs, limit)
    values = {"workers": [*workers], "ranks": [*ranks], "batch_size": [*batch_sizes]}
    taken = set(inspect.signature(make).parameters) - {*getattr(make, "keywords", ())}
    taken -= set() if "rank" in taken else {"ranks"}
    varied = {name: each for name, each in values.items() if name in taken and each}
    with (
        tempfile.TemporaryDirectory(prefix="resumable-loader-") as folder,
        FreshProcesses(Path(folder), min(os.cpu_count() or 1, MOST_PROCESSES)) as processes,
    ):
        check = LoaderCheck(task, processes, timeout, positions, resumes, varied)
        report = check.report() or _report_of_pipeline(make, limit)
    if not report.exact:
        raise LoaderDiffers(report)
    return report


def _report_of_pipeline(make: Any, limit: int) -> LoaderReport:
    """The report of `verify`."""
    verify = import_module("..verify", __package__)  # a later layer
    function = getattr(make, "func", make)
    name = f"{function.__module__}:{function.__qualname__}"
    target = verify.Target(name, getattr(make, "keywords", {}))
    found = verify.verify(target, items=limit)
    reason = "" if found.exact else f"{found.finding.reason}: {found.finding.evidence}"
    outcome = "exact" if found.exact else "differs"
    size, seconds = found.state_bytes, found.resume_seconds
    row = LoaderRow("resumable verify", "", outcome, 0, 0, size, seconds, reason, not found.exact)
    return LoaderReport("a pipeline of this library", (row,), found.notes)


class Lives(NamedTuple):
    """The lives of all ranks in one configuration.

    Attributes:
      arguments: the configuration.
      lives: a life for each rank, up to the first failing one.
      outcome: how that one failed; empty if all came to their end.
      details: of the failure.
    """

    arguments: Configuration
    lives: list[LoaderLife]
    outcome: str = ""
    details: str = ""

    def samples(self, stop: Stop | None = None) -> list[Samples]:
        """The samples of each rank, up to the save at ``stop`` if given and reached."""
        ends = [life.saved[stop].samples if stop in life.saved else None for life in self.lives]
        return [life.samples[:end] for life, end in zip(self.lives, ends, strict=True)]

    @property
    def contents(self) -> Counter[tuple[int, bytes]]:
        """How often each sample comes in each epoch, over all ranks."""
        return Counter(chain.from_iterable(self.samples()))

    def batches(self, epoch: int) -> int:
        """The number of batches that every rank has in ``epoch``."""
        return min(life.batches.get(epoch, 0) for life in self.lives)

    def stops(self, positions: int, last_epoch: int) -> dict[Stop, str]:
        """Where to stop, with the names of the cases."""
        few = {epoch: self.batches(epoch) for epoch in (0, last_epoch)}
        places = [(0, few[0] * number // positions) for number in range(2, positions)]
        places += [(0, 1), (0, few[0] // 2), (last_epoch, few[last_epoch] // 2)]
        stops: dict[Stop, str] = {
            (epoch, place): f"epoch {epoch}, after batch {place} of {few[epoch]}"
            for epoch, place in sorted(places)
            if 0 < place <= few[epoch]
        }
        if not self.is_cut:
            stops[0, few[0]] = "at the last batch of epoch 0"
            stops[0, None] = "after the loop of epoch 0"
        return stops

    @property
    def is_cut(self) -> bool:
        """Whether a rank was stopped by the limit."""
        return any(life.is_cut for life in self.lives)


@final
@dataclass
class LoaderCheck:
    """A check in progress.

    Attributes:
      task: what all lives have in common.
      processes: to run lives.
      timeout: seconds without a batch.
      positions: number of stops within an epoch.
      resumes: how many in a row.
      varied: the values of each argument of ``make`` that is varied.
    """

    task: LifeTask
    processes: FreshProcesses
    timeout: float
    positions: int
    resumes: int
    varied: dict[str, list[int]]
    _notes: list[str] = field(init=False, default_factory=list)
    _exact: frozenset[str] = field(init=False, default=frozenset({"exact"}))

    def report(self) -> LoaderReport | None:
        """All rows; None for a pipeline of this library."""
        base = {name: each[0] for name, each in self.varied.items()}
        first = self._lives(base, hash_seed=FIRST_SEED)
        way = first.lives[0].way
        if not first.outcome and way is None:
            return None
        self.processes.fork_with([OTHER_SEED])
        rows = [_row("a run without a stop", first, first, self._exact)]
        if not first.outcome:
            rows.append(_row("a second run", first, self._lives(base), OTHER_DATA))
            if rows[-1].outcome != "exact":
                self._exact |= {"reordered"}
                self._notes.append("Two runs without a stop differ, so the order is not judged.")
            rows += self._of_changes(base, first)
            if first.lives[0].sets_epoch and _is_one_order(first.lives[0].samples):
                self._notes.append("set_epoch changes nothing: all epochs have the same order.")
        if fixed := ", ".join(sorted({"workers", "ranks", "batch_size"} - self.varied.keys())):
            self._notes.append(f"Not varied: {fixed}.")
        return LoaderReport(way or "unknown", (*rows,), (*dict.fromkeys(self._notes),))

    def _of_changes(self, base: Configuration, first: Lives) -> list[LoaderRow]:
        """Runs in every configuration, each resumed in the same and in the following one."""
        pairs = [(base, base)]
        for name, values in self.varied.items():
            for value, following in zip(values, [*values[1:], values[0]], strict=True):
                one, other = {**base, name: value}, {**base, name: following}
                pairs += [pair for pair in ((one, one), (one, other)) if pair not in pairs]
        others = [partial(self._lives, one) for one, other in pairs[1:] if one == other]
        wholes = [first, *self.processes.run_all(others)]
        rows, jobs = [], list[Callable[[], LoaderRow]]()
        for whole in wholes[1:]:
            has_other_workers = base == {**whole.arguments, "workers": base.get("workers")}
            tolerated = CHANGED if has_other_workers and not first.is_cut else OTHER_DATA
            rows.append(_row("a run without a stop", first, whole, tolerated))
        usable = [whole for whole in wholes if not whole.outcome]
        for whole in usable:
            stops = whole.stops(self.positions, self.task.epochs - 1)
            saving = self._lives(whole.arguments, stops=[*stops])
            rows.append(_row("a run that saves", whole, saving, self._exact))
            for after in [] if saving.outcome else usable:
                if (whole.arguments, after.arguments) not in pairs:
                    continue
                cut = whole.is_cut or after.is_cut
                if after is not whole and (cut or whole.contents != after.contents):
                    change = _change(whole.arguments, after.arguments)
                    self._notes.append(f"Not judged, since the data are not the same: {change}.")
                    continue
                resumed = partial(self._resumed, whole, saving, after.arguments)
                jobs += [partial(resumed, case, [stop]) for stop, case in stops.items()]
                half = whole.batches(0) // 2
                again: Stop = (0, max(half // (self.resumes + 1), 1))
                in_a_row = [(0, half), *[again] * (self.resumes - 1)]
                jobs.append(partial(resumed, f"{self.resumes} resumes in a row", in_a_row))
        return rows + self.processes.run_all(jobs)

    def _resumed(
        self, whole: Lives, saving: Lives, after: Configuration, case: str, stops: Sequence[Stop]
    ) -> LoaderRow:
        """Resume ``saving`` at the first stop, and each resumed run at the next stop."""
        lives, size = saving, 0
        seen = saving.samples(stops[0])
        for stop, following in zip(stops, [*stops[1:], None], strict=True):
            states = [life.saved[stop] for life in lives.lives if stop in life.saved]
            if not states:
                break
            size = max(state.size for state in states)
            paths = [state.path for state in states]
            lives = self._lives(after, paths, [following] if following else [])
            for rank, samples in enumerate(lives.samples(following)):
                seen[rank % len(seen)] += samples
        tolerated = self._exact if after == saving.arguments else CHANGED
        row = _row(case, whole, lives, tolerated, seen)
        return replace(row, change=_change(saving.arguments, after), state_bytes=size)

    def _lives(
        self,
        arguments: Configuration,
        saved: Sequence[str] = (),
        stops: Sequence[Stop] = (),
        hash_seed: int = OTHER_SEED,
    ) -> Lives:
        """Run all ranks, one after another; a resumed run with ``stops`` is killed at the last one."""
        lives = Lives(arguments, [])
        for rank in range(arguments.get("ranks", 1)):
            given = {**arguments, "rank": rank} if "ranks" in arguments else arguments
            state = saved[rank % len(saved)] if saved else None
            is_killed = bool(saved and stops)
            folder = self.processes.new_folder()
            task = LifeTask(*self.task[:4], given, state, (*stops,), folder, is_killed)
            lingers = 0 if is_killed else LINGER
            ended = self.processes.do(task.live, hash_seed, patience=self.timeout, lingers=lingers)
            life: LoaderLife = ended.result or LoaderLife()
            lives.lives.append(life)
            if ended.left:
                self._notes.append(f"A process still ran {LINGER:.0f} s after the last batch.")
            if life.is_aliased:
                self._notes.append("A state changed after it was taken: it must be copied.")
            if error := ended.error or life.error:
                began = life.error and life.seconds is not None
                outcome = "hangs" if ended.hung else "dies" if ended.error or began else "refused"
                return lives._replace(outcome=outcome, details=error)
        return lives


def _row(
    case: str,
    want: Lives,
    lives: Lives,
    tolerated: frozenset[str],
    seen: list[Samples] | None = None,
) -> LoaderRow:
    """What came of ``lives``, or of the samples ``seen``, against the wanted samples."""
    seconds = max((life.seconds or 0.0 for life in lives.lives), default=None)
    row = partial(LoaderRow, case, _change(lives.arguments, lives.arguments), seconds=seconds)
    if lives.outcome:
        failed = lives.outcome not in tolerated
        return row(lives.outcome, details=lives.details, failed=failed)
    got, wanted = seen or lives.samples(), want.samples()
    if want.is_cut:
        got = [one[: len(samples)] for one, samples in zip(got, wanted, strict=False)]
    had = Counter(chain.from_iterable(got))
    lost, repeated = (want.contents - had).total(), (had - want.contents).total()
    if lost or repeated:
        counts = [f"lost {lost}"] * bool(lost) + [f"repeated {repeated}"] * bool(repeated)
        return row(", ".join(counts), lost, repeated, failed="lost" not in tolerated)
    is_other_deal = want.arguments.get("ranks") != lives.arguments.get("ranks")
    outcome = "exact" if is_other_deal or got == wanted else "reordered"
    return row(outcome, failed=outcome not in tolerated)


def _is_one_order(samples: Samples) -> bool:
    """Whether there are several epochs, all with the same samples in the same order."""
    epochs = [[each for number, each in samples if number == epoch] for epoch in {*dict(samples)}]
    return len(epochs) > 1 and all(epoch == epochs[0] for epoch in epochs)


def _change(before: Configuration, after: Configuration) -> str:
    if before == after:
        return ", ".join(f"{name} {value}" for name, value in before.items())
    return ", ".join(
        f"{name} {value} → {after[name]}" for name, value in before.items() if value != after[name]
    )
