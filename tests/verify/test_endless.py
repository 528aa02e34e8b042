"""A pipeline that does not end is looked at as far as can be waited for, and that is said."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.forks import verify_by_forks

import resumable as rs
from resumable.cli import progress
from resumable.verify import verifier, verify
from resumable.verify.estimate import Estimate
from resumable.verify.runs import FEWEST, Digests
from resumable.verify.work import whole_runs

MINE = """
import itertools

import resumable as rs

counted = rs.from_iterable(itertools.count)
repeated = rs.range(7).shuffle(0).repeat()
"""


def test_a_run_that_does_not_end_is_stopped_and_the_next_is_as_long(tmp_path: Path) -> None:
    keep = str(tmp_path / "digests")
    stage = rs.from_iterable(itertools.count).stage
    first, second = whole_runs(
        stage, lambda count: None, limit=None, keep=keep, count=2, seconds=0.0
    )
    assert (first.items, first.ended, first.error) == (FEWEST, False, None)
    assert (second.items, second.difference) == (FEWEST, None)
    assert len(Digests(keep)) == FEWEST


def test_a_run_that_ends_is_not_stopped(tmp_path: Path) -> None:
    stage = rs.from_iterable(lambda: iter(range(FEWEST - 1))).stage
    keep = str(tmp_path / "digests")
    for run in whole_runs(stage, lambda count: None, limit=None, keep=keep, count=2, seconds=0.0):
        assert (run.items, run.ended) == (FEWEST - 1, True)


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (rs.from_iterable(itertools.count), True),
        (rs.from_iterable(itertools.count).map(str).shuffle(0, window=9), True),
        (rs.range(9).filter(bool), False),
        (rs.range(9).repeat(), False),
        (rs.from_iterable([1, 2, 3]), False),
    ],
)
def test_what_may_be_endless_is_known_without_reading(
    pipeline: rs.Pipeline[Any], expected: bool
) -> None:
    assert verifier._may_be_endless(pipeline.stage) is expected


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, list[str]]]:
    """Verifies a pipeline of a file, and gives the report and what was said meanwhile."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    verify_by_forks(monkeypatch)
    monkeypatch.setattr(verifier, "PATIENCE", 0.0)
    # So that what is loaded here is no module of a later test.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))

    def verified(name: str) -> tuple[Any, list[str]]:
        said = list[str]()

        @contextmanager
        def bar(text: str, total: int | None) -> Iterator[Callable[[int], object]]:
            said.append(f"{text}: {total}")
            yield lambda count: None

        def tell(estimate: Estimate) -> None:
            said.append(f"cut at {estimate.cut_at}")

        report = verify(f"{path}:{name}", positions=2, generations=1, bars=bar, tell=tell)
        return report, said

    return verified


@pytest.mark.deep
def test_what_does_not_end_is_said_to_be_looked_at_in_part(
    mine: Callable[[str], tuple[Any, list[str]]],
) -> None:
    report, said = mine("counted")
    assert (report.exact, report.complete, report.items) == (True, False, FEWEST)
    assert said[:2] == ["a run for reference, twice: None", f"cut at {FEWEST}"]
    assert any("nothing tells whether it ends" in note for note in report.notes)
    report, said = mine("repeated")
    assert (report.exact, report.complete, report.items) == (True, False, 10_000)
    beginning = "over its first 10,000 items, since it has no end"
    assert said[:2] == [f"a run for reference, twice, {beginning}: 20000", "cut at None"]
    assert not any("nothing tells" in note for note in report.notes)


def test_without_a_terminal_what_takes_long_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with progress.progress_bar(20_000) as bar:
        bar.set_description("runs")
        for seconds in (1, 28, 2, 5, 30):
            now[0] += seconds
            bar.update(1_000)
    assert capsys.readouterr().err.splitlines() == [
        "runs",
        "runs: 3,000 of 20,000",
        "runs: 5,000 of 20,000",
    ]
