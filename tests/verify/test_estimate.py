"""How long a verification says it will take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.command import call_command
from support.forks import verify_by_forks

import resumable as rs
from resumable.cli.verify import estimate_text
from resumable.sources.iterable import reads_again
from resumable.verify import Estimate
from resumable.verify.estimate import ProcessCost

AROUND = 4 * (2 + 10)  # a process and a run each: what is done beside the resumes


def test_a_resume_costs_its_process_and_the_items_until_the_next_stop() -> None:
    pace = ProcessCost(start=2, items=100, run=10)
    assert pace.seconds([]) == AROUND
    assert pace.seconds([[100]]) == AROUND + 2
    assert pace.seconds([[0]]) == AROUND + 2 + 10
    assert pace.seconds([[30, 60, 100]]) == pytest.approx(AROUND + 3 * 2 + 7)


def test_what_is_read_again_takes_time_too() -> None:
    pace = ProcessCost(start=2, items=100, run=10, reads_again=True)
    assert pace.seconds([[30, 60, 100]]) == pytest.approx(AROUND + 3 * 2 + 6 + 10 + 10)


def test_chains_run_beside_each_other() -> None:
    chains = [[0], [0], [0], [0]]
    assert ProcessCost(2, 100, 10, at_once=2).seconds(chains) == AROUND + 4 * 12 / 2
    assert ProcessCost(2, 100, 10, at_once=9).seconds(chains[:1]) == AROUND + 12


def test_several_ranks_take_their_processes_and_runs() -> None:
    pace = ProcessCost(start=2, items=100, run=10, deals=True)
    assert pace.seconds([]) == AROUND + 20 * 2 + 8 * 10
    assert replace(pace, restart=0.5).seconds([]) == AROUND + 20 * 0.5 + 8 * 10


def test_an_empty_pipeline_takes_its_processes() -> None:
    assert ProcessCost(2, 0, 0).seconds([[0, 0]]) == 4 * 2 + 2 * 2


def test_which_sources_a_resume_reads_again_is_known() -> None:
    assert reads_again(rs.from_iterable(lambda: iter("ab")).stage)
    assert not reads_again(rs.range(3).stage)
    assert not reads_again(rs.from_sequence("ab").stage)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.2, 24, 6, 0.1), "about 1 s to go, for 24 positions; more if something differs"),
        (
            Estimate(223, 24, 6, 61.3),
            "about 3 min 43 s to go, for 24 positions; more if something differs (--positions 6: "
            "about 1 min 1 s); --items N looks at the first N items only",
        ),
        (
            Estimate(9, 5, cut_at=12_345),
            "it has not ended so far, and nothing tells whether it does\nabout 9 s to go, for 5 positions "
            "among the first 12,345 items; more if something differs",
        ),
        (
            Estimate(70, 5),
            "about 1 min 10 s to go, for 5 positions; more if something differs; --items N looks at "
            "the first N items only",
        ),
    ],
)
def test_it_is_told_in_words(estimate: Estimate, text: str) -> None:
    assert estimate_text(estimate) == text


@pytest.mark.deep
def test_it_is_told_once_before_all_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("import resumable as rs\nsmall = rs.range(9)")
    verify_by_forks(monkeypatch)
    done = call_command(tmp_path, "verify", "mine:small", "--positions", "2")
    said = done.stderr.splitlines()
    assert said[0] == "a run for reference, twice"
    assert said[1].startswith("about ")
    assert said[1].endswith("to go, for 2 positions; more if something differs")
    assert said[2] == "a run that saves"
