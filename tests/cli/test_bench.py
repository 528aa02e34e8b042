"""`resumable bench`: what it prints, draws and refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import ROOT, call_command, fork_command, run_command

Command = Callable[..., "subprocess.CompletedProcess[str]"]

MINE = """
import time

import resumable as rs


def parse(item):
    print("parsing")
    time.sleep(0.002)
    return item


training = rs.range(200).shuffle(0).map(parse).batch(4).prefetch(2)


def make():
    return rs.range(30)


def fails(item):
    return 1 // (item - 5)


failing = rs.range(10).map(fails).prefetch(1)
empty = rs.range(0)
once = rs.from_iterable(iter(range(50)))
endless = rs.range(10).map(lambda item: time.sleep(0.01)).repeat()
number = 5
"""


def bench(
    folder: Path, *arguments: str, command: Command = call_command
) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(MINE)
    return command(folder, "bench", *arguments)


def test_a_table_figures_and_the_bottleneck_are_printed(tmp_path: Path) -> None:
    done = bench(tmp_path, "mine:training", "--seconds", "30", command=run_command)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["stage", "share", "per", "item", "bytes"]
    assert [line.partition("(")[0] for line in lines[1:6]] == [
        "Prefetch", "Batch", "Map", "Shuffle", "Range",
    ]  # fmt: skip
    assert lines[6].startswith("the loop around them")
    shares = [int(line.partition(" %")[0].split()[-1]) for line in lines[1:7]]
    assert sum(shares) == 100
    assert lines[3].endswith("in a thread")
    figures = dict(line.strip().split("  ", 1) for line in lines[8:] if "  " in line.strip())
    assert figures["items"].split()[0] == "49"
    assert figures["bytes of state"].endswith("(after 25 items)")
    assert figures["source items read again on resume"].strip() == "0"
    assert {"items/s", "a get_state", "a durable save", "a resume, to its first item"} <= {*figures}
    assert lines[-1].startswith("  The bottleneck is ")
    assert "parsing" not in done.stdout


def test_json_says_the_same(tmp_path: Path) -> None:
    done = bench(tmp_path, "mine.py:make", "--items", "20", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"] == "mine.py:make"
    assert (report["items"], report["complete"]) == (19, False)
    assert [stage["stage"] for stage in report["stages"]] == [
        "Range(stop=30)",
        "the loop around them",
    ]
    assert sum(stage["share"] for stage in report["stages"]) == pytest.approx(1)
    assert report["items_per_second"] == pytest.approx(report["items"] / report["seconds"])
    assert report["saving"]["position"] == 10
    assert report["saving"]["reread"] == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("empty", "The pipeline delivers no item."),
        ("once", "the source can only be read once"),
        ("endless", "and there are more"),
    ],
)
def test_awkward_pipelines_are_measured_as_far_as_they_go(
    tmp_path: Path, target: str, said: str
) -> None:
    done = bench(tmp_path, f"mine:{target}", "--items", "20")
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:"], "named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, got 'mine:'"),
        (["mine:other"], "cannot be loaded: AttributeError"),
        (["mine:number"], "mine:number must be a pipeline, got 5"),
        (["mine:failing"], "the pipeline fails at item 5: ZeroDivisionError"),
        (["mine:make", "--seconds", "0"], "seconds must be finite and above 0, got 0.0"),
        (["mine:make", "--items", "0"], "items must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_measured_is_told(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = bench(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_shares_are_drawn(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    done = bench(tmp_path, "mine:make", "--plot", f"shares.{suffix}")
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / f"shares.{suffix}").read_bytes()
    if suffix == "png":
        assert drawn.startswith(b"\x89PNG")
    else:
        assert b"<svg" in drawn
        assert len(drawn) > 5000


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("nowhere/shares.png", "No such file or directory"),
        (".", "--plot must end with one of"),
        ("folder.png", "Is a directory"),
        ("shares", "--plot must end with one of"),
        ("shares.xyz", "got 'shares.xyz'"),
    ],
)
def test_a_plot_that_could_not_be_drawn_is_refused_before_anything_is_run(
    tmp_path: Path, file: str, message: str
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (tmp_path / "folder.png").mkdir()
    done = bench(tmp_path, "mine:failing", "--plot", file)
    assert done.returncode == 2
    assert message in done.stderr
    assert "fails at item" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_there_is_left_alone_until_it_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (tmp_path / "old.png").write_bytes(b"old")
    assert bench(tmp_path, "mine:failing", "--plot", "old.png").returncode == 2
    assert bench(tmp_path, "mine:failing", "--plot", "new.png").returncode == 2
    assert (tmp_path / "old.png").read_bytes() == b"old"
    assert not (tmp_path / "new.png").exists()


def test_a_plot_without_matplotlib_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')")
    done = bench(tmp_path, "mine:make", "--plot", "shares.png", command=fork_command)
    assert done.returncode == 2
    assert "--plot needs matplotlib: pip install 'resumable-loader[bench]'" in done.stderr
    assert bench(tmp_path, "mine:make", command=fork_command).returncode == 0


def test_the_command_line_loads_what_only_some_commands_need_where_it_is_used() -> None:
    code = (
        "import sys, resumable.cli.bench, resumable.cli.verify, resumable.cli.demo, resumable.cli.top\n"
        "assert not {'matplotlib', 'tqdm', 'rich'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    process = subprocess.Popen(
        [sys.executable, "-m", "resumable", "bench", "mine:endless", "--seconds", "300"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "warming up\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not out
