"""Pipelines that a function makes out of arguments, for every command that takes a target."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.command import call_command
from support.forks import verify_by_forks

MINE = """
import resumable as rs

training = rs.range(9)


def make(size, *, seed=0, name="all"):
    assert type(seed) is int
    assert name in ("all", "1e", "a=b", None, ""), name
    return rs.range(size).shuffle(seed).batch(2)


def anything(**settings):
    return rs.range(len(settings))


class Made:
    def __new__(cls, size):
        return rs.range(size)


def fixed():
    return training
"""


def called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(MINE)
    return call_command(folder, *arguments)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["mine:make", "--arg", "size=6"], "Range(stop=6)"),
        (["mine.py:make", "--arg", "size=6", "--arg", "seed=3"], "Shuffle(seed=3)"),
        (
            ["mine:make", "--arg", "size=2+4j", "--arg", "name=None"],
            "cannot be loaded: InvalidType",
        ),
        (["mine:make", "--arg", "size=6", "--arg", "name=1e"], "Range(stop=6)"),
        (["mine:make", "--arg", "size=6", "--arg", "name=a=b"], "Range(stop=6)"),
        (["mine:make", "--arg", "size=6", "--arg", "name="], "Range(stop=6)"),
        (["mine:make", "--arg", "size=6", "--arg", "name='all'"], "Range(stop=6)"),
        (["mine:anything", "--arg", "a=1", "--arg", "b=2"], "Range(stop=2)"),
        (["mine:Made", "--arg", "size=4"], "Range(stop=4)"),
        (["mine:fixed"], "Range(stop=9)"),
    ],
)
def test_a_function_is_called_with_the_arguments(
    tmp_path: Path, arguments: list[str], shown: str
) -> None:
    done = called(tmp_path, "show", *arguments)
    assert shown in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:make"], "mine:make must be given its argument size: --arg size=VALUE"),
        (
            ["mine:make", "--arg", "sizes=6"],
            "mine:make has no argument sizes; it takes size, seed, name",
        ),
        (["mine:fixed", "--arg", "size=6"], "mine:fixed has no argument size; it takes none"),
        (
            ["mine:training", "--arg", "size=6"],
            "mine:training is no function, and takes no arguments, got size",
        ),
        (
            ["mine:make", "--arg", "size=6", "--arg", "size=7"],
            "--arg size must be given once, got 6 and 7",
        ),
        (["mine:make", "--arg", "size"], "argument --arg: must be NAME=VALUE, got 'size'"),
        (["mine:make", "--arg", "=5"], "argument --arg: must be NAME=VALUE, got '=5'"),
        (
            ["mine:make", "--arg", "size=6", "--arg", "seed=x"],
            "mine:make(size=6, seed='x') cannot be loaded: AssertionError",
        ),
    ],
)
@pytest.mark.parametrize("command", ["verify", "bench", "show"])
def test_arguments_that_do_not_fit_are_told(
    tmp_path: Path, command: str, arguments: list[str], message: str
) -> None:
    done = called(tmp_path, command, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_every_process_calls_it_alike(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_by_forks(monkeypatch)
    options = ["--positions", "2"] if command == "verify" else ["--seconds", "9"]
    done = called(
        tmp_path, command, "mine:make", "--arg", "size=50", "--arg", "seed=2", "--json", *options
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"] == "mine:make(size=50, seed=2)"
    assert report["items"] == (25 if command == "verify" else 24)


def test_an_error_of_ours_tells_where_in_the_file_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(
        "import resumable as rs\n\ntraining = rs.range(9).batch(0)\n"
    )
    done = call_command(tmp_path, "show", "faulty.py:training")
    assert done.returncode == 2
    assert "batch_size must be at least 1, got 0 (" in done.stderr
    assert done.stderr.strip().endswith("faulty.py, line 3)")


SEVERAL = """
import resumable as rs

train = rs.range(9)
valid = train.batch(2)
_parts = train.batch(3)
"""


@pytest.mark.parametrize(
    ("text", "named", "told"),
    [
        ("import resumable as rs\nonly = again = rs.range(9)\n_x = only.batch(2)", "mine.py", None),
        ("import resumable as rs\nonly = rs.range(9).stage", "mine", None),
        ("import resumable as rs\n_only = rs.range(9)", "mine", None),
        (
            SEVERAL,
            "mine.py",
            "mine.py has several pipelines; choose one of these:\n  mine.py:train\n  mine.py:valid\n",
        ),
        (
            "made = print",
            "mine",
            "mine has no pipeline at the top level; if a function returns one",
        ),
        (SEVERAL, "mine:trian", "has no attribute 'trian'; did you mean train?"),
        (SEVERAL, "mine:other", "has no attribute 'other'; the pipelines of mine are train, valid"),
        (SEVERAL, "mine:train.lenght", "has no attribute 'lenght'; did you mean length?"),
        (SEVERAL, "mien.py:train", "mien.py: no such file; did you mean mine.py?"),
        (
            SEVERAL,
            "nowhere",
            "a pipeline is named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, got 'nowhere'; there is no such module",
        ),
        (SEVERAL, ":train", "FILE.py:ATTRIBUTE, got ':train'"),
        ("import lost_package", "mine", "ModuleNotFoundError: No module named 'lost_package'"),
    ],
)
def test_without_a_name_the_only_pipeline_is_taken_and_several_are_listed(
    tmp_path: Path, text: str, named: str, told: str | None
) -> None:
    (tmp_path / "mine.py").write_text(text)
    done = call_command(tmp_path, "show", named)
    if told is None:
        assert done.returncode == 0, done.stderr
        assert "Range(stop=9)" in done.stdout
    else:
        assert done.returncode == 2
        assert told in done.stderr


def test_verify_takes_the_only_pipeline_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_by_forks(monkeypatch)
    (tmp_path / "mine.py").write_text("import resumable as rs\nonly = rs.range(9)")
    done = call_command(tmp_path, "verify", "mine.py", "--positions", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == "mine.py"
