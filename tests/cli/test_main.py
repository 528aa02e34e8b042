"""The command line before a command runs: help, and what is mistyped."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import ROOT, call_command, run_python

import resumable as rs
from resumable.cli import show
from resumable.cli.main import main
from resumable.cli.parsers import CommandParser, add_commands

LOADED = """
import sys
from resumable.cli.main import main

for arguments in {arguments}:
    try:
        main(arguments)
    except SystemExit:
        pass
print([name for name in sys.modules if name.partition(".")[0] in ("resumable", "numpy", "msgpack")])
"""


def commands() -> list[str]:
    return re.findall(r"^    (\w+) ", call_command(ROOT, "--help").stdout, re.MULTILINE)


def test_help_and_mistyped_arguments_load_nothing_that_a_command_needs() -> None:
    helps = [[command, "--help"] for command in commands()]
    asked = [["--help"], ["--version"], [], ["nothing"], ["show", "a:b", "--arg", "c"], *helps]
    done = run_python("-c", LOADED.format(arguments=asked))
    assert done.returncode == 0, done.stderr
    loaded = ast.literal_eval(done.stdout.splitlines()[-1])
    assert {*loaded} == {
        *(
            "resumable",
            "resumable.cli",
            "resumable.cli.main",
            "resumable.cli.output",
            "resumable.cli.parsers",
            "resumable.formats",  # empty
            "resumable.formats.known",  # names alone
        )
    }


def test_every_command_stands_in_the_module_of_its_name() -> None:
    modules = (ROOT / "resumable" / "cli").glob("*.py")
    runnable = {path.stem for path in modules if "\ndef run(options" in path.read_text()}
    assert {*commands()} == runnable


def test_an_unknown_command_is_answered_with_the_usage(tmp_path: Path) -> None:
    done = call_command(tmp_path, "nothing")
    assert done.returncode == 2
    assert "usage: resumable" in done.stderr
    assert "did you mean" not in done.stderr


def test_without_a_command_it_prints_its_help_as_an_error(tmp_path: Path) -> None:
    done = call_command(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == call_command(tmp_path, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["verfy", "train.py"], "verify"),
        (["inpsect", "run"], "inspect"),
        (["verify", "a:b", "--itms", "3"], "--items"),
        (["bench", "a:b", "--second=3"], None),  # a beginning is enough, as usual
        (["bench", "a:b", "--secnds=3"], "--seconds"),
        (["index", "data", "--format", "jsnl"], "jsonl"),
    ],
)
def test_what_is_mistyped_is_answered_with_what_is_near(
    tmp_path: Path, arguments: list[str], meant: str | None
) -> None:
    done = call_command(tmp_path, *arguments)
    assert done.returncode == 2
    if meant is None:
        assert "did you mean" not in done.stderr
        return
    assert done.stderr.rstrip().endswith(f"; did you mean {meant}?")
    used = "resumable" if arguments[0] not in commands() else f"resumable {arguments[0]}"
    assert f"\n{used}: error: " in done.stderr


@pytest.mark.parametrize("command", ["", *commands()])
def test_help_ends_with_examples_that_are_understood(command: str) -> None:
    shown = call_command(ROOT, *command.split(), "--help").stdout
    _, examples = shown.split("\nexamples:\n")
    lines = [line.strip() for line in examples.splitlines()]
    assert 2 <= len(lines) <= 3
    parser = CommandParser()
    add_commands(parser)
    for line in lines:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert program == "resumable"
        options = parser.parse_args(words)
        assert not command or options.command in (command, "verify")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_ends_early_is_no_error(unbuffered: str, tmp_path: Path) -> None:
    with rs.Checkpointer(tmp_path, rs.EverySteps(1)) as checkpointer:
        for _ in checkpointer.resume(rs.range(9)):
            pass
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does once it has its lines
    with os.fdopen(writing, "w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "resumable", "inspect", str(tmp_path)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (rs.InvalidArgument("no"), 2, "resumable show: no\n"),
        (FileNotFoundError(2, "not there", "a"), 2, "resumable show: a: not there\n"),
        (OSError("broken"), 2, "resumable show: broken\n"),
        (BrokenPipeError(), 2, "resumable show: BrokenPipeError\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_a_command_raises_is_told_in_a_line_and_a_status(
    error: BaseException,
    status: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(options: object) -> int:
        raise error

    monkeypatch.setattr(show, "run", run)
    assert main(["show", "a:b"]) == status
    assert capsys.readouterr().err == told


def test_an_error_of_the_program_itself_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(show, "run", lambda options: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["show", "a:b"])
