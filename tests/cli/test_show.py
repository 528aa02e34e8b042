"""`resumable show`: pipelines out of modules and files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import call_command, run_command

Command = Callable[..., "subprocess.CompletedProcess[str]"]

MINE = """
import resumable as rs
from beside import SIZE

training = rs.range(100).shuffle(0).batch(SIZE)


def validation():
    return training.take(3)


def broken():
    raise KeyError("no data")


class Inputs:
    small = rs.range(3)


class Rows(list):
    def __repr__(self):
        return "Rows({\\n    n: 1\\n})"


of_several_lines = rs.from_sequence(Rows([1]))
number = 5
"""


def show(
    folder: Path, *arguments: str, command: Command = call_command
) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(MINE)
    (folder / "beside.py").write_text("SIZE = 7\n")
    return command(folder, "show", *arguments)


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("mine:training", "Batch(batch_size=7)"),
        ("mine.py:training", "Batch(batch_size=7)"),
        ("mine:validation", "Take(count=3)"),
        ("mine:Inputs.small", "Range(stop=3)"),
    ],
)
def test_a_pipeline_is_found_by_its_name(tmp_path: Path, target: str, first: str) -> None:
    done = show(tmp_path, target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith(first)


def test_a_file_elsewhere_finds_what_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    show(tmp_path / "below", "mine:training")
    done = show(tmp_path, "below/mine.py:training", "--mermaid")
    assert done.stdout.startswith("graph TD\n")


def test_an_argument_whose_text_has_several_lines_takes_one(tmp_path: Path) -> None:
    done = show(tmp_path, "mine:of_several_lines")
    assert "FromSequence(sequence=Rows({ n: 1 }))" in done.stdout.splitlines()[1]


@pytest.mark.deep
def test_a_process_of_its_own_shows_the_same(tmp_path: Path) -> None:
    for target in ("mine:training", "mine.py:training", "nowhere:training"):
        here = show(tmp_path, target)
        there = show(tmp_path, target, command=run_command)
        assert (there.returncode, there.stdout, there.stderr) == (
            here.returncode,
            here.stdout,
            here.stderr,
        )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine:", "named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, got 'mine:'"),
        ("mine:", "named MODULE:ATTRIBUTE"),
        ("nowhere:training", "nowhere:training cannot be loaded: ModuleNotFoundError"),
        ("nowhere.py:training", "nowhere.py: no such file"),
        ("mine:other", "cannot be loaded: AttributeError"),
        ("mine:broken", "mine:broken cannot be loaded: KeyError: 'no data'"),
        ("mine:number", "mine:number must be a pipeline, got 5"),
    ],
)
def test_what_cannot_be_loaded_is_told(tmp_path: Path, target: str, message: str) -> None:
    done = show(tmp_path, target)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
