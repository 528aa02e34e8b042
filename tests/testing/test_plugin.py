"""The pytest plugin, in a run of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.command import run_python

TESTS = """
import random
import resumable as rs


class Loader:
    def __iter__(self):
        return iter([[1, 2], [3, 4]])


def test_loader(assert_loader_resumes):
    assert_loader_resumes(Loader, positions=1, epochs=1)


def test_good(assert_resumable):
    assert_resumable(rs.range(3000).shuffle(0).batch(7))


def test_bad(assert_resumable):
    assert_resumable(rs.range(50).map(lambda item: random.random()))
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(TESTS)
    # Where the library is installed the plugin is known by its name, here by its module. The others
    # that these tests need are not needed there, and take longer to import.
    others = ("-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    plugin = (*others, "-p", "no:resumable", "-p", "resumable.testing.plugin")
    return run_python("-m", "pytest", "-q", *plugin, *options, "test_mine.py", folder=folder)


def test_the_fixture_checks_a_pipeline(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "a second uninterrupted run (is there unseeded randomness" in done.stdout


@pytest.mark.deep
def test_the_option_sets_the_number_of_positions(tmp_path: Path) -> None:
    done = run(tmp_path, "--resumable-positions", "5", "-k", "good")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "--resumable-positions=N" in run(tmp_path, "--help").stdout
