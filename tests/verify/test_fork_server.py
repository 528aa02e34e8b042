"""Processes that are forks of a fork server: as fresh as those that were started, with fewer of these."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT, call_command
from support.waiting import wait_until

from resumable.verify.conditions import Conditions
from resumable.verify.processes import TaskOutcome, TaskProcesses
from resumable.verify.target import Target
from resumable.verify.work import whole_runs
from resumable.workers.fork_server import CAN_FORK

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="nothing is forked on this system")

MINE = """
import json
import os
import random
import sys
import time

import numpy as np

import resumable as rs

FOUND = sorted(name for name in sys.modules if name.partition(".")[0] in ("pytest", "support"))
calls = []


def note(number):
    calls.append(number)
    noted = {
        "calls": len(calls),
        "others": FOUND,
        "hash": hash("a text"),
        "variable": os.environ["PYTHONHASHSEED"],
        "folder": os.getcwd(),
        "path": sys.path,
        "arguments": sys.argv,
        "leads its session": os.getsid(0) == os.getpid(),
        "read": sys.stdin.read(),
        "random": [random.random(), np.random.random()],
        "process": os.getpid(),
    }
    with open("noted", "a") as file:
        print(json.dumps(noted), file=file)


noting = rs.range(1).map(note)
small = rs.range(30).shuffle(0)


def dies():
    print("no more memory")
    os._exit(3)


def waits_on_resume():
    if os.environ.get("PYTHONHASHSEED") in ("2", "3", "4"):
        time.sleep(300)
    return small
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    return tmp_path


def ran(workers: TaskProcesses, hash_seed: int) -> TaskOutcome:
    work = partial(whole_runs, limit=None)
    return workers.run(work, conditions=Conditions(hash_seed=hash_seed))


def noted(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "noted").read_text().splitlines()]


def test_a_fork_finds_what_a_process_that_was_started_does(folder: Path) -> None:
    with TaskProcesses(Target("mine:noting"), folder / "work", 1) as workers:
        ran(workers, 2)
        workers.fork_with([2])
        for _ in range(2):
            assert ran(workers, 2).error is None
    started, *forked = noted(folder)
    for one in forked:
        for name in started.keys() - {"random", "process"}:
            assert one[name] == started[name], name
    assert len({one["process"] for one in [started, *forked]}) == 3
    for place in (0, 1):  # of the two generators, which nobody has seeded
        assert len({one["random"][place] for one in [started, *forked]}) == 3


def test_how_a_fork_ends_is_told(folder: Path) -> None:
    with TaskProcesses(Target("mine:dies"), folder / "work", 1) as workers:
        workers.fork_with([2])
        outcome = ran(workers, 2)
    assert outcome.died
    assert outcome.error == "the process ended with status 3 and said: 'no more memory'"


def test_without_its_fork_server_a_process_is_started(folder: Path) -> None:
    with TaskProcesses(Target("mine:noting"), folder / "work", 1) as workers:
        workers.fork_with([2])
        for found in workers._fork_servers.values():
            os.kill(found.pid, signal.SIGKILL)
            os.waitpid(found.pid, 0)
        assert ran(workers, 2).error is None
    assert len(noted(folder)) == 1


@pytest.mark.deep
def test_resumes_do_not_start_an_interpreter_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(options["env"]["PYTHONHASHSEED"])
            super().__init__(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    done = call_command(
        folder, "verify", "mine:small", "--positions", "6", "--generations", "2", "--json"
    )
    report = json.loads(done.stdout)
    assert (report["positions"], report["processes"], report["exact"]) == (6, 11, True)
    # The run for reference, that which saves, the costs and the items; and one a generation. Six
    # resumes and the one process that resumes everywhere are forks. What is compared never comes from two
    # forks of one.
    assert sorted(started) == ["0", "0", "0", "1", "2", "3"]


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.deep), signal.SIGKILL]
)
def test_no_fork_and_no_fork_server_outlives_what_was_interrupted(
    folder: Path, number: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "resumable", "verify", "mine.py:waits_on_resume"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "work")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Three fork servers, and two forks.
    wait_until(lambda: len(using(folder / "work")) == 1 + 3 + 2)
    process.send_signal(number)
    process.wait(60)
    wait_until(lambda: not using(folder / "work"))


def using(folder: Path) -> list[int]:
    """Processes that keep their temporary files in ``folder``."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}\0".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found
