"""`resumable verify`: what it says of pipelines that are exact and of those that are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from campaigns.verify_examples import EXPECTED, problem, verified
from support.command import ROOT, call_command, run_command
from support.forks import verify_by_forks
from support.tiers import is_deep
from support.waiting import wait_until
from verify.pairs import PAIRS

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command here, and its processes are forks."""
    if not hasattr(os, "fork"):
        return run_command
    verify_by_forks(monkeypatch)
    return call_command


@pytest.fixture
def command(request: pytest.FixtureRequest) -> Command:
    """The same; in the deep tier in processes that are no forks."""
    return run_command if is_deep() else request.getfixturevalue("forked")


# They are exact, as `stream` and `ranks` are, or go wrong as others do. So forks verify them in the deep tier,
# where processes of their own verify the others.
ONLY_DEEP = {
    *("growing_tokeniser", "images", "language_model", "lines_on_disk", "mixture"),
    *("delivered_again", "held_on_ranks", "remembering_rank", "swapped_on_ranks"),
    *("growing_vocabulary", "unseeded"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] if name in ONLY_DEEP else [])
        for name in EXPECTED
    ],
)
def test_every_example_gets_its_verdict(name: str, request: pytest.FixtureRequest) -> None:
    command: Command = request.getfixturevalue("forked" if name in ONLY_DEEP else "command")
    status, report = verified(name, "--positions", "5", command=command)
    assert problem(name, status, report) is None


MINE = (
    PAIRS
    + """
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor



def fails(item):
    return 1 // (item - 5)


failing = rs.range(10).map(fails)


forgetful = rs.range(60).apply(Pairs).batch(4)


@dataclass(frozen=True, eq=False, repr=False)
class Numbered(rs.Transform):
    def start(self, epoch=0):
        return NumberedIterator(self, epoch)


class NumberedIterator(rs.TransformIterator):
    number = base = 0

    def pull(self, count):
        numbered = []
        for item in block_items(self._upstream.pull(count)):
            self.number += 1
            numbered.append((self.number, item))
        return numbered

    def get_state(self):  # right after the first start, wrong after a resume
        return {"number": self.number - self.base, "upstream": self._upstream.get_state()}

    def set_state(self, state):
        self.number = self.base = state["number"]
        self._upstream.set_state(state["upstream"])


second_generation = rs.range(60).apply(Numbered)


def on_main_thread(item):
    return item, threading.current_thread() is threading.main_thread()


threaded = rs.range(40).map(on_main_thread, workers=1)
endless = rs.range(7).shuffle(0).repeat().shard(0, 2).filter(bool)


@dataclass(frozen=True, eq=False, repr=False)
class Both(rs.Stage):
    left: rs.Stage
    right: rs.Stage

    @property
    def inputs(self):
        return self.left, self.right

    def start(self, epoch=0):
        return BothIterator(self, epoch)


class BothIterator(rs.StageIterator):
    def __init__(self, stage, epoch):
        self.sides = stage.left.start(epoch), stage.right.start(epoch)

    def pull(self, count):
        left, right = (block_items(side.pull(count)) for side in self.sides)
        return list(zip(left, right))

    def get_state(self):
        return {"upstreams": [side.get_state() for side in self.sides]}

    def set_state(self, state):
        for side, saved in zip(self.sides, state["upstreams"]):
            side.set_state(saved)

    def close(self):
        for side in self.sides:
            side.close()


both = rs.Pipeline(Both(rs.range(40).prefetch(2).stage, rs.range(40).shuffle(0).stage))


def carry(total, item):
    return ({item} if 10 < item < 20 else item), item


set_in_the_middle = rs.range(30).scan(carry, 0)


def moved_and_talkative():
    print("loading")
    os.chdir("/")
    return rs.range(5)


def leaves():
    sys.exit(0)


def dies():
    def die(item):
        os._exit(7)

    return rs.range(5).map(die)


def slow(item):
    time.sleep(600)


never_done = rs.range(5).map(slow, workers=1, executor=ProcessPoolExecutor(1))
"""
)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "reason", "stage", "shown"),
    [
        ("forgetful", "state incomplete", "Pairs()", ["(None, "]),
        ("second_generation", "state incomplete", "Numbered()", []),
        (
            "set_in_the_middle",
            "state cannot be saved",
            "Scan(fn=carry, initial=0)",
            ["a builtins.set"],
        ),
        (
            "threaded",
            "depends on threads",
            "Map(fn=on_main_thread, workers=1)",
            ["with other workers"],
        ),
    ],
)
def test_what_is_wrong_is_named(
    mine: Path, forked: Command, name: str, reason: str, stage: str, shown: list[str]
) -> None:
    done = forked(mine, "verify", f"mine:{name}", "--positions", "7")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"Not exact: {reason}." in done.stdout
    assert f"It first appears at {stage} at pipeline" in done.stdout
    for text in shown:
        assert text in done.stdout


@pytest.mark.deep
def test_an_endless_pipeline_is_looked_at_in_part(mine: Path, forked: Command) -> None:
    done = forked(mine, "verify", "mine.py:endless", "--positions", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10,000, and there are more" in done.stdout
    assert "a later stage fixes the ranks of Shard(index=0, count=2)" in done.stdout
    assert "Nothing differs." in done.stdout


def test_a_stage_with_fields_of_its_own_names_is_tuned(mine: Path, forked: Command) -> None:
    done = forked(mine, "verify", "mine.py:both", "--positions", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed with Prefetch(buffer_size=0)" in done.stdout


def test_what_a_module_does_when_loaded_disturbs_nothing(mine: Path, forked: Command) -> None:
    done = forked(mine, "verify", "mine.py:moved_and_talkative", "--positions", "2", "--json")
    assert json.loads(done.stdout)["exact"], done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no such signals")
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.deep), signal.SIGKILL],
)
def test_nothing_is_left_of_what_was_interrupted(mine: Path, number: int) -> None:
    folder = mine / "temporary"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "resumable", "verify", "mine.py:never_done"],
        cwd=mine,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(_using(folder)) >= 2)  # a process and its worker
    process.send_signal(number)
    process.wait(60)
    wait_until(lambda: not _using(folder))
    if number != signal.SIGKILL:
        assert list(folder.iterdir()) == []


def _using(folder: Path) -> list[int]:
    """Processes that a verification has started which keeps its files in ``folder``."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"main('{folder}".encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:nothing"], "mine:nothing cannot be loaded: AttributeError"),
        (["mine:leaves"], "mine:leaves cannot be loaded: SystemExit"),
        (["mine:dies"], "the process ended with status 7"),
        (["mine:failing"], "the pipeline fails at item 5: ZeroDivisionError"),
        (["mine:endless", "--items", "0"], "items must be at least 1, got 0"),
        (["mine:endless", "--positions", "0"], "positions must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_verified_is_told(
    mine: Path, forked: Command, arguments: list[str], message: str
) -> None:
    done = forked(mine, "verify", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_has_every_figure(forked: Command) -> None:
    status, report = verified("stream", "--positions", "4", "--generations", "2", command=forked)
    assert status == 0
    assert report["positions"] == 4
    assert report["differences"] == 0
    assert 30 <= report["reread"] <= 600
    assert 0 < report["state_bytes"] < 1024
    assert report["get_state_seconds"] > 0
    assert report["resume_seconds"] > 0
    parts: list[dict[str, Any]] = report["stages"]
    assert [part["stage"].partition("(")[0] for part in parts] == [
        "Batch",
        "Filter",
        "WindowShuffle",
        "FromIterable",
    ]
    assert 0 < sum(part["bytes"] for part in parts) < report["state_bytes"]
