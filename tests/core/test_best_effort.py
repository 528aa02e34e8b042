"""What only counts or shows ends no run, whatever fails in it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import resumable as rs
from resumable.core import iterator as running
from resumable.core import stopwatch
from resumable.core.best_effort import BestEffort
from resumable.core.process_counts import ProcessCounts
from resumable.core.run_counters import RunCounters
from resumable.core.stopwatch import Stopwatch
from resumable.monitoring import metrics
from resumable.workers import running_partition


class Preempted(Exception):
    """What a handler of the user raises."""


def fails(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("planted")


def keep(item: int) -> int:
    if item % 5 == 0:
        raise ValueError(item)
    return item


def dropping(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    return part.map(keep, on_error="skip")


PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "mix": lambda: rs.mix({"web": dropping(rs.range(30)), "math": rs.range(30)}).prefetch(2),
    "partition": lambda: rs.range(60).partition(3, dropping, workers=2),
}
OF_WORKERS = "the counts of workers"
FAULTS: dict[str, tuple[Any, str]] = {
    "the counts of inputs": (running, "input_counts"),
    "the counts of dropped items": (running, "skipped_items"),
    OF_WORKERS: (running_partition, "skipped_items"),
    "the dict": (running, "described"),
    "the counts of the process": (running, "counts_since"),
    "the pipeline without threads": (running, "without_threads"),
    "the times": (Stopwatch, "counters"),
    "the beginning of measuring": (running, "Stopwatch"),
    "the sums of times": (stopwatch, "_counted"),
    "the value in a checkpoint": (RunCounters, "to_value"),
    "the name of the host": (socket, "gethostname"),
    "the share in the bar": (RunCounters, "wait_share"),
}


class Writer:
    def __init__(self) -> None:
        self.titles: list[str] = []

    def add_scalar(self, title: str, value: float, step: int) -> None:
        self.titles.append(title)


def train(folder: Path, pipeline: rs.Pipeline[Any], writer: Any) -> list[Any]:
    """The items of a run that asks for all that is counted and shown."""
    with rs.Checkpointer(folder, rs.EverySteps(3), stats=True) as checkpointer:
        loop, items = checkpointer.resume(pipeline, progress=True), []
        for item in loop:
            items.append(item)
            assert loop.stats()["steps"] == loop.step
            assert isinstance(loop.iterator.skipped, dict)
            loop.count_tokens({"web": 3})
            metrics.tensorboard(writer, loop)
    return items


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """All warnings, each time."""
    monkeypatch.setattr(metrics, "SCALARS", BestEffort("scalars are"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *(("mix", fault) for fault in FAULTS if fault != OF_WORKERS),
        ("partition", OF_WORKERS),
        ("partition", "the counts of dropped items"),
    ],
)
def test_no_fault_of_a_counter_ends_a_run_or_a_save(
    kind: str, fault: str, tmp_path: Path, warned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    build = PIPELINES[kind]
    expected = list(build())
    place, name = FAULTS[fault]
    monkeypatch.setattr(place, name, property(fails) if name == "wait_share" else fails)
    monkeypatch.setattr(running_partition, "COUNTS", BestEffort("counts are"))
    if fault == "the value in a checkpoint":
        monkeypatch.setattr("resumable.checkpoint.envelope.COUNTERS", BestEffort("counters are"))
    assert train(tmp_path, build(), Writer()) == expected
    messages = [str(one.message) for one in warned]
    assert len(messages) == len({*messages}) <= 4
    assert all("planted" in message for message in messages)
    last = len(expected)
    assert rs.Directory(tmp_path).steps() == [*range(3, last, 3), last]
    assert list(build().resume(rs.Checkpointer(tmp_path, rs.AtEnd()).load(3).state)) == expected[3:]


@pytest.mark.parametrize("method", ["update", "set_postfix_str", "close"])
def test_no_fault_of_the_bar_or_of_a_writer_ends_a_run(
    method: str, tmp_path: Path, warned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm.std.tqdm, method, fails)
    writer = Writer()
    monkeypatch.setattr(writer, "add_scalar", fails)
    assert train(tmp_path, rs.range(10), writer) == list(range(10))
    assert sorted(str(one.message)[:12] for one in warned) == ["scalars are ", "the progress"]


def test_where_warnings_are_errors_a_counter_still_ends_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "input_counts", fails)
    iterator = iter(rs.range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert iterator.stats() == {**iterator.stats(), "steps": 0, "inputs": {}}


def raises(number: int, frame: FrameType | None) -> None:
    raise Preempted


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "handler", [raises, lambda *_: raises(*_), partial(lambda _, *rest: raises(*rest), 0)]
)
def test_what_a_signal_handler_raises_comes_out_of_a_counter(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "input_counts", lambda _: os.kill(os.getpid(), signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        iterator = iter(rs.range(3))
        assert list(islice(iterator, 1)) == [0]
        with pytest.raises(Preempted):
            iterator.stats()
        with pytest.raises(Preempted):
            BestEffort("it is")(partial(os.kill, os.getpid(), signal.SIGUSR1), None)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert list(iterator) == [1, 2]


def test_an_interrupt_comes_out_of_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "input_counts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        iter(rs.range(3)).stats()


def test_the_counts_of_the_process_are_left_out_with_what_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    iterator = iter(rs.mix({"web": rs.range(9)}))
    next(iterator)
    monkeypatch.setattr(ProcessCounts, "now", fails)
    with pytest.warns(
        RuntimeWarning, match="stats are left out, because counting failed with Zero"
    ):
        stats = iterator.stats()
    assert stats == {
        "steps": 1, "inputs": {"web": 1}, "passes": {"web": 1 / 9}, "skipped": {}
    }  # fmt: skip


@pytest.mark.parametrize(
    "reading", [ZeroDivisionError, lambda: "noon"], ids=["raises", "no number"]
)
def test_a_clock_that_fails_ends_no_loop(reading: Any) -> None:
    readings = iter(range(10))

    def clock() -> Any:
        seconds = next(readings, None)
        return raised(reading()) if seconds is None else seconds

    iterator = iter(rs.range(20))
    iterator.measure(clock)
    with pytest.warns(RuntimeWarning, match="times are left out, because counting failed"):
        items = [next(iterator), *iterator.pull(3), *iterator]
    assert items == list(range(20))
    assert iterator.stats()["items"] == 20


def raised(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found
