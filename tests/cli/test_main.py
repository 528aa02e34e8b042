"""The command line before a command runs: help, and what is mistyped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import ROOT, call_command, run_python

import resumable as rs

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
        )
    }


def test_every_command_stands_in_the_module_of_its_name() -> None:
    modules = (ROOT / "resumable" / "cli").glob("*.py")
    runnable = {path.stem for path in modules if "\ndef run(options" in path.read_text()}
    assert {*commands()} == runnable


@pytest.mark.parametrize("arguments", [[], ["nothing"]])
def test_without_a_command_it_says_how_it_is_used(tmp_path: Path, arguments: list[str]) -> None:
    done = call_command(tmp_path, *arguments)
    assert done.returncode == 2
    assert "usage: resumable" in done.stderr


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


def test_another_broken_pipe_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(options: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("resumable.cli.inspect.run", fails)
    with pytest.raises(BrokenPipeError):
        call_command(ROOT, "inspect", ".")
