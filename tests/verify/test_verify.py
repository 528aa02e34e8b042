"""`resumable verify`: what it says of pipelines that are exact and of those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaigns.verify_examples import EXPECTED, problem, verified
from command import run_command


@pytest.mark.parametrize("name", EXPECTED)
def test_every_example_gets_its_verdict(name: str) -> None:
    status, report = verified(name, "--positions", "5")
    assert problem(name, status, report) is None


MINE = """
import threading
from dataclasses import dataclass

import resumable as rs
from resumable.block import block_items


def fails(item):
    return 1 // (item - 5)


failing = rs.range(10).map(fails)


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(rs.Transform):
    def start(self, epoch=0):
        return PairsIterator(self, epoch)


class PairsIterator(rs.TransformIterator):
    last = None

    def pull(self, count):
        pairs = []
        for item in block_items(self._upstream.pull(count)):
            pairs.append((self.last, item))
            self.last = item
        return pairs


forgetful = rs.range(60).apply(Pairs).batch(4)


class Sums:
    shared = threading.local()

    def __call__(self, item):
        self.shared.sum = getattr(self.shared, "sum", 0) + 1
        return item, threading.current_thread() is threading.main_thread()


threaded = rs.range(40).map(Sums(), workers=1)
endless = rs.range(7).shuffle(0).repeat().shard(0, 2).filter(bool)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_a_stage_that_forgets_is_named(mine: Path) -> None:
    done = run_command(mine, "verify", "mine:forgetful", "--positions", "3")
    assert done.returncode == 1
    assert "Not exact: state incomplete." in done.stdout
    assert "The first stage that differs is Pairs() at pipeline.upstream." in done.stdout
    assert "expected       (0, 1)\n" in done.stdout
    assert "got            (None, 1)\n" in done.stdout


def test_what_only_happens_with_other_workers_is_found(mine: Path) -> None:
    done = run_command(mine, "verify", "mine.py:threaded", "--positions", "6")
    assert done.returncode == 1
    assert "Not exact: depends on threads." in done.stdout
    assert "with Map(workers=0, executor='thread') it does not" in done.stdout


def test_an_endless_pipeline_is_looked_at_in_part(mine: Path) -> None:
    done = run_command(mine, "verify", "mine:endless", "--positions", "2", "--items", "50")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50, and there are more" in done.stdout
    assert "a later stage fixes the ranks of Shard(index=0, count=2)" in done.stdout
    assert "Nothing differs." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:nothing"], "mine:nothing cannot be loaded: AttributeError"),
        (["mine:failing"], "the pipeline fails at item 5: ZeroDivisionError"),
        (["mine:endless", "--items", "0"], "items must be at least 1, got 0"),
        (["mine:endless", "--positions", "0"], "positions must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_verified_is_told(mine: Path, arguments: list[str], message: str) -> None:
    done = run_command(mine, "verify", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_has_every_figure() -> None:
    status, report = verified("stream", "--positions", "4", "--generations", "2")
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
