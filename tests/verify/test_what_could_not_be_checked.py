"""A process that dies, or fails under conditions of our own making, is evidence of nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.command import call_command, run_python
from support.forks import verify_by_forks
from verify.pairs import PAIRS

import resumable as rs
from resumable.verify import verify
from resumable.verify.deals import check_deal, unlike_sequences
from resumable.verify.experiments import Unchecked
from resumable.verify.processes import TaskOutcome, TaskProcesses
from resumable.verify.target import Target

MINE = (
    PAIRS
    + """
import os
import random
import time


def dies_when_time_stands(item):
    if time.time() == 1_600_000_000:
        os._exit(3)
    return item


def fails_when_time_stands(item):
    began = time.time()
    while time.time() == began and began != 1_600_000_000:
        pass
    return item, 1 / (time.time() - began) > 0


def with_noise(item):
    return dies_when_time_stands(item), random.random()


def dies_with(*seeds):
    if os.environ["PYTHONHASHSEED"] in seeds:
        print("no more memory")
        os._exit(3)
    return rs.range(20)


forgetful = rs.range(20).map(dies_when_time_stands).apply(Pairs)
forgetful_and_fast = rs.range(20).map(fails_when_time_stands).apply(Pairs)
noisy = rs.range(20).map(with_noise)


def dies_on_load():
    return dies_with("1")


def dies_on_resume():
    return dies_with("2", "3", "4")


class Unsavable(PairsIterator):
    def get_state(self):
        raise KeyError("lost")


@dataclass(frozen=True, eq=False, repr=False)
class Keyless(Pairs):
    def start(self, epoch=0):
        return Unsavable(self, epoch)


shared = iter(range(9))
handed_out_again = rs.from_iterable(lambda: shared)


def carry(seen, item):
    return {*seen, item}, item


set_carried = rs.range(20).scan(carry, [])
not_taken = rs.range(20).apply(Keyless)
"""
)


@pytest.fixture
def verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Verifies one of these pipelines; the processes are forks."""
    (tmp_path / "mine.py").write_text(MINE)
    verify_by_forks(monkeypatch)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    return lambda name: call_command(tmp_path, "verify", f"mine:{name}", "--positions", "3")


@pytest.mark.parametrize(
    ("name", "reason", "failure"),
    [
        ("forgetful", "state incomplete", "the process ended with status 3"),
        ("forgetful_and_fast", "state incomplete", "ZeroDivisionError: float division by zero"),
        ("noisy", "unseeded randomness", "the process ended with status 3"),
    ],
)
def test_a_failure_while_the_clock_stands_is_no_evidence_of_the_time(
    verified: Callable[[str], subprocess.CompletedProcess[str]],
    name: str,
    reason: str,
    failure: str,
) -> None:
    done = verified(name)
    assert done.returncode == 1, done.stderr
    assert f"Not exact: {reason}." in done.stdout
    (told,) = [line for line in done.stdout.splitlines() if "Could not be checked: " in line]
    assert failure in told
    assert "the time of day stood still" in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dies_on_load", "the pipeline was run once, and could not be in another process: "),
        ("dies_on_resume", "a resume after 0 items could not be checked: "),
    ],
)
def test_a_process_that_dies_is_no_difference(
    verified: Callable[[str], subprocess.CompletedProcess[str]], name: str, told: str
) -> None:
    done = verified(name)
    assert done.returncode == 2, done.stdout
    expected = f"{told}the process ended with status 3 and said: 'no more memory'"
    assert expected in done.stderr
    assert not done.stdout


def test_a_save_that_fails_is_not_called_a_resume(
    verified: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = verified("not_taken")
    assert done.returncode == 1, done.stderr
    assert "Saving its state failed. KeyError: 'lost'." in done.stdout
    assert "resume from" not in done.stdout


def test_a_source_that_refuses_a_second_pass_is_read_once(
    verified: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = verified("handed_out_again")
    assert "Not exact: read once." in done.stdout
    assert "got            the error ExternalStateError" in done.stdout
    assert "Let the function that from_iterable was given make a new iterator" in done.stdout


def test_a_state_that_cannot_be_saved_was_not_resumed_from(
    verified: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = verified("set_carried")
    assert "Not exact: state cannot be saved." in done.stdout
    assert "resumed after" not in done.stdout


class Killed(TaskProcesses):
    """Of what resumes with other ranks, every process dies."""

    def run(self, work: Any, *arguments: Any, **options: Any) -> TaskOutcome:
        if isinstance(work, partial) and work.func is unlike_sequences:
            return TaskOutcome(None, None, "the process was ended by SIGKILL", "ProcessEnded")
        return super().run(work, *arguments, **options)


def test_ranks_whose_processes_died_are_not_said_to_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ranked.py").write_text("import resumable as rs\nranked = rs.range(9).shard(0, 2)")
    verify_by_forks(monkeypatch)
    (tmp_path / "work").mkdir()
    workers = Killed(Target(f"{tmp_path / 'ranked.py'}:ranked"), tmp_path / "work", 1)
    stage = rs.range(9).shard(0, 2).stage
    with pytest.raises(Unchecked, match="the process was ended by SIGKILL"):
        check_deal(stage, 0, workers, None)


def test_ranks_that_could_not_be_checked_are_not_said_to_have_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise Unchecked("the process was ended by SIGKILL")

    (tmp_path / "ranked.py").write_text("import resumable as rs\nranked = rs.range(9).shard(0, 2)")
    verify_by_forks(monkeypatch)
    monkeypatch.setattr("resumable.verify.verifier.check_deal", dies)
    report = verify(f"{tmp_path / 'ranked.py'}:ranked", positions=1)
    shown = "Shard(index=0, count=2) with 1 and 3 ranks"
    assert f"{shown}: could not be checked: the process was ended by SIGKILL" in report.notes
    assert shown not in report.resumed


def test_a_stopped_clock_leaves_the_types_of_dates_as_they_are() -> None:
    """Extension modules know how these lie in memory; others in their place crash them."""
    code = """
import datetime
from datetime import date, datetime as before

from resumable.verify.conditions import MOMENT, Conditions

class Mine(before):
    pass

Conditions(clock_stands=True).bring_about()
assert datetime.datetime is before and datetime.date is date
assert before.now() == before.today() == before.fromtimestamp(MOMENT)
assert before.now(datetime.timezone.utc).timestamp() == MOMENT
assert date.today() == date.fromtimestamp(MOMENT)
assert type(Mine.now()) is Mine and Mine.now() == before.now()
assert before.fromisoformat("2020-01-02").day == 2
"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
