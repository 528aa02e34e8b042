"""The demo: exact under kills, on the user's own files, with honest exit statuses."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.command import ROOT, run_command
from support.tiers import is_deep

from resumable.cli.bigram_model import BigramModel
from resumable.cli.demo import _DemoRun, _print_table
from resumable.cli.main import main


@pytest.fixture
def text(tmp_path: Path) -> Path:
    for number in range(5):
        lines = [f"Line {line} of file {number}, {'x' * (line % 50)}" for line in range(1200)]
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    return tmp_path


def test_nothing_is_lost_or_repeated_when_it_is_killed(text: Path, tmp_path: Path) -> None:
    kept, kills = tmp_path / "kept", 2 if is_deep() else 1
    done = run_command(
        ROOT,
        "demo",
        "--kills",
        str(kills),
        "--data",
        f"{text}/*.txt",
        "--keep",
        str(kept),
        "--every",
        "4",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines seen                    6,000" in done.stdout
    assert "lines lost                    0" in done.stdout
    assert "lines repeated                0" in done.stdout
    assert "final weights bit-identical   yes" in done.stdout
    assert "Nothing was lost or repeated." in done.stdout
    killed_at = done.stdout.split("killed at steps")[1].splitlines()[0]
    assert len(killed_at.split(",")) == kills
    assert {"uninterrupted", "killed", "index"} <= set(os.listdir(kept))


@pytest.mark.deep
def test_steps_may_go_over_several_epochs(text: Path) -> None:
    done = run_command(
        ROOT, "demo", "--kills", "1", "--steps", "70", "--data", f"{text}/*.txt", "--every", "7"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines seen                    17,920" in done.stdout


@pytest.mark.deep
def test_partitions_are_resumed_with_other_numbers_of_workers(text: Path) -> None:
    arguments = ("--kills", "2", "--partitions", "6", "--data", f"{text}/[01].txt", "--every", "3")
    done = run_command(ROOT, "demo", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines seen                    2,400" in done.stdout
    assert "workers at each start         0, 1, 2" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kills", "-1"], "--kills: must be at least 0, got -1"),
        (["--steps", "0"], "--steps: must be at least 1, got 0"),
        (["--every", "0"], "--every: must be at least 1, got 0"),
        (["--partitions", "0"], "--partitions: must be at least 1, got 0"),
        (["--seed", "-1"], "--seed: must be at least 0, got -1"),
        (["--seed", "one"], "--seed: invalid integer value: 'one'"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["demo", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_no_text_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--data", "/nowhere/*"]) == 2
    assert "no text file found" in capsys.readouterr().err


def test_a_folder_that_is_not_empty_is_left_alone(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--data", f"{text}/*.txt", "--keep", str(text)]) == 2
    assert "must be an empty folder" in capsys.readouterr().err
    assert len(os.listdir(text)) == 5


@pytest.mark.parametrize("fault", ["lost", "repeated", "weights"])
def test_any_difference_is_a_failure(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole, killed = BigramModel(10), BigramModel(10)
    whole.seen += 1
    killed.seen += 1
    if fault == "weights":
        killed.weights[0, 0] = np.nextafter(0, 1)
    else:
        killed.seen[3] += 1 if fault == "repeated" else -1
    report = _DemoRun(sizes=[100])
    assert _print_table(whole, killed, report, 10, 0.0) == 1
    assert "DIFFER" in capsys.readouterr().out


def test_help_explains_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    shown = capsys.readouterr().out
    for option in ("--kills", "--steps", "--seed", "--data", "--keep", "--every", "--partitions"):
        assert option in shown
