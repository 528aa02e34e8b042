"""`resumable top`: how each rank of a run is doing."""

from __future__ import annotations

import importlib.util
import io
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from checkpoint.stats_folders import line, note, save
from support.command import ROOT, call_command

import resumable as rs
from resumable.checkpoint.stats_lines import inputs_of_ranks, run_progress
from resumable.cli.top_table import RunTable, run_table

needs_rich = pytest.mark.skipif(
    importlib.util.find_spec("rich") is None, reason="rich is not installed"
)


def top(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_command(folder, "top", *arguments)


def table(text: str) -> list[list[str]]:
    """The cells of each row, up to the notes."""
    return [row.split("  ") for row in text.partition("\n\n")[0].splitlines()]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row if cell.strip()] for row in table(text)]


def stats(
    step: int, time: float, items: int, waited: float, looped: float, **more: object
) -> bytes:
    return line(step, time, items=items, wait_seconds=waited, loop_seconds=looped, **more)


def two_ranks(folder: Path, now: float) -> None:
    for rank, waited in enumerate([1.0, 4.0]):
        note(
            folder, rank, 2,
            stats(10, now - 90, 100, 0.0, 10.0),
            stats(20 + rank, now - 60 - rank, 200, waited, 20.0 - waited, wait_p99=0.002 + rank, skipped={"a": rank}),
        )  # fmt: skip


def test_a_row_for_each_rank_and_one_for_all(tmp_path: Path) -> None:
    two_ranks(tmp_path, time.time())
    done = top(tmp_path, ".", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    heading, of_all, first, second = cells(done.stdout)
    assert heading == ["rank", "step", "items/s", "waiting", "p99 wait", "skipped", "saved", "age"]
    assert of_all[:6] == ["all", "20..21", "20", "40.0 %", "1 s", "1"]
    assert first[:6] == ["0", "20", "10", "10.0 %", "2 ms", "0"]
    assert second[:6] == ["1", "21", "10", "40.0 %", "1 s", "1"]
    assert of_all[-1] in ("1 min 1 s", "1 min 2 s")
    assert first[-1] in ("1 min", "1 min 0 s", "1 min 1 s")


def test_it_reads_what_a_run_writes(tmp_path: Path) -> None:
    pipeline = rs.range(60)
    for _ in range(2):
        with rs.Checkpointer(tmp_path, rs.EverySteps(10), stats=True, save_at_end=False) as saving:
            for step, _item in enumerate(saving.resume(pipeline)):
                if step == 25:
                    break
    with open(tmp_path / "input-stats.jsonl", "ab") as file:
        file.write(b'{"step": 99, "time": 1')  # as a kill leaves it
    done = top(tmp_path, ".", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = cells(done.stdout)[1:]
    assert row[:2] == ["0", "40"]
    assert row[3].endswith(" %")
    assert row[4].endswith("s")
    assert "-" not in row[2:]
    (found,) = run_progress(tmp_path, time.time())
    assert found.last is not None
    assert (found.last.items, found.before and found.before.items) == (40, 30)


def mixed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return rs.mix({"web": rs.range(60), "math": rs.range(20)}, weights=[3, 1]).shard(rank, ranks)


def streams(rank: int, ranks: int) -> rs.Pipeline[Any]:
    corpora = {
        name: rs.from_iterable(Numbers(count)) for name, count in (("web", 60), ("math", 20))
    }
    return rs.mix(corpora, weights=[3, 1]).shard(rank, ranks)


class Numbers:
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return iter(range(self.count))


def own_parts(rank: int, ranks: int) -> rs.Pipeline[Any]:
    sources = {"web": rs.range(60), "math": rs.range(20)}
    parts = rs.partition(
        sources, 4, lambda web, math: rs.mix({"web": web, "math": math}, weights=[3, 1])
    )
    return parts.shard(rank, ranks)


@pytest.mark.parametrize(
    ("build", "passes"), [(mixed, "0.60"), (streams, "-"), (own_parts, "0.60")]
)
def test_the_inputs_of_a_mixture_are_shown_over_all_ranks(
    build: Callable[[int, int], rs.Pipeline[Any]], passes: str, tmp_path: Path
) -> None:
    for rank in range(2):
        trigger: Any = rs.EverySteps(12)
        with rs.Checkpointer(tmp_path, trigger, rank=rank, ranks=2, stats=True) as saving:
            loop = saving.resume(build(rank, 2))
            for _ in islice(loop, 24):
                loop.count_tokens({"web": 700, "math": rank})
    _, *inputs = top(tmp_path, ".", "--once").stdout.partition("\n\n")[2].splitlines()
    assert [row.split() for row in inputs] == [
        ["web", "36", passes, "33,600"],
        ["math", "12", passes, "24"],
    ]


def test_what_not_every_rank_tells_of_an_input_is_not_added_up(tmp_path: Path) -> None:
    of_rank: dict[str, Any] = {"inputs": {"web": 3}, "of_rank": {"web": 30}, "tokens": {"web": 9}}
    note(tmp_path, 0, 2, line(5, 10.0, **of_rank))
    note(tmp_path, 1, 2, line(4, 10.0, inputs={"web": [1]}, of_rank=7, tokens={"web": "x"}))
    (found,) = inputs_of_ranks(run_progress(tmp_path, 20.0))
    assert found == ("web", (None, None, None))
    note(tmp_path, 1, 2, line(4, 10.0, inputs={"web": 7}, of_rank={"web": 10}))
    (found,) = inputs_of_ranks(run_progress(tmp_path, 20.0))
    assert found == ("web", (10, 0.25, None))


def test_a_run_without_stats_says_how_to_get_them_and_what_checkpoints_tell(tmp_path: Path) -> None:
    save(tmp_path, 40, 0, 1, time.time() - 5)
    done = top(tmp_path, ".", "--once")
    assert done.returncode == 0
    (row,) = cells(done.stdout)[1:]
    assert row[:6] == ["0", "40", "-", "-", "-", "-"]
    assert 5 <= int(row[-1].removesuffix(" s")) < 60
    assert "rs.Checkpointer(folder, trigger, stats=True)" in done.stdout


def test_several_inputs_have_a_column_or_one_is_chosen(tmp_path: Path) -> None:
    note(tmp_path, 0, 1, line(5, 10.0), name="train")
    note(tmp_path, 0, 1, line(3, 10.0), name="eval")
    rows = cells(top(tmp_path, ".", "--once").stdout)
    assert rows[0][0] == "input"
    assert [row[:3] for row in rows[1:]] == [["eval", "0", "3"], ["train", "0", "5"]]
    rows = cells(top(tmp_path, ".", "--once", "--name", "train").stdout)
    assert [row[:2] for row in rows] == [["rank", "step"], ["0", "5"]]


def test_only_the_ranks_that_saved_last_are_shown_and_those_that_are_missing_named(
    tmp_path: Path,
) -> None:
    for rank in range(4):
        note(tmp_path, rank, 4, line(9, 10.0))
    note(tmp_path, 1, 2, line(12, 20.0))
    done = top(tmp_path, ".", "--once")
    assert [row[:2] for row in cells(done.stdout)[1:]] == [["all", "12"], ["0", "-"], ["1", "12"]]
    assert "Not heard of yet: rank 0." in done.stdout


def test_a_clock_that_is_ahead_is_told(tmp_path: Path) -> None:
    note(tmp_path, 0, 1, line(5, 1000.0))
    shown = run_table(run_progress(tmp_path, 940.0), 940.0)
    assert shown.rows[-1][-1] == "-1 min 0 s"
    assert "A clock there is ahead of this one, by 1 min 0 s." in shown.notes


@pytest.mark.parametrize(("when", "status"), [(0.0, 0), (-1e18, 0), (1e17, 0), (1e300, 2)])
def test_a_time_that_no_clock_shows_is_no_error(tmp_path: Path, when: float, status: int) -> None:
    note(tmp_path, 0, 1, line(5, when))
    done = top(tmp_path, ".", "--once")
    assert done.returncode == status
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--once"], "RUN must be a folder of checkpoints on this machine, got nowhere"),
        (["s3://bucket/run"], "RUN must be a folder of checkpoints on this machine, got s3://bucket/run"),
        (["empty", "--once"], "nothing was saved yet in empty"),
        ([".", "--once"], "nothing was saved yet in .; its folders are empty, full"),
        (["full", "--once", "--name", "x"], "nothing was saved yet of x in full, there are those of input"),
        ([".", "--interval", "0"], "--interval: must be above 0 and below a million, got 0"),
        ([".", "--interval", "nan"], "--interval: must be above 0 and below a million, got nan"),
        ([".", "--interval", "x"], "--interval: must be above 0 and below a million, got x"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    note(tmp_path / "full", 0, 1, line(5, 10.0))
    done = top(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@contextmanager
def watching(folder: Path, output: int | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "resumable", "top", ".", "--interval", "0.05"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdout=subprocess.PIPE if output is None else output,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_without_a_terminal_it_goes_on_in_plain_text_until_it_is_interrupted(
    tmp_path: Path,
) -> None:
    with watching(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "nothing was saved yet in .\n"
        note(tmp_path, 0, 1, line(5, 10.0))
        while not process.stdout.readline().startswith("rank "):
            pass
        assert process.stdout.readline().split()[:2] == ["0", "5"]
        note(tmp_path, 0, 1, line(5, 10.0), line(6, 20.0))
        while process.stdout.readline().split()[:2] != ["0", "6"]:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def read_until(terminal: int, wanted: bytes) -> bytes:
    shown = b""
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"{wanted!r} is not in {shown!r}"
        shown += os.read(terminal, 4096)
    return shown


@needs_rich
@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_a_terminal_shows_a_table_that_is_drawn_again(tmp_path: Path) -> None:
    terminal, other = os.openpty()
    note(tmp_path, 0, 1, line(5, 10.0))
    with watching(tmp_path, other) as process:
        read_until(terminal, b"1970-01-01")
        note(tmp_path, 0, 1, line(1234, 10.0))
        shown = read_until(terminal, b"1234")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert process.returncode == 0
    assert b"\x1b[1A" in shown, "over the one before"
    os.close(other)
    os.close(terminal)


@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_without_rich_a_terminal_is_told_the_extra(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('not here')")
    note(tmp_path, 0, 1, line(5, 10.0))
    terminal, other = os.openpty()
    with watching(tmp_path, other) as process:
        _, err = process.communicate(timeout=60)
    os.close(other)
    os.close(terminal)
    assert process.returncode == 2
    assert "a live table needs rich: pip install 'resumable-loader[top]'" in err


@needs_rich
def test_what_is_drawn_is_text_and_no_markup() -> None:
    from rich.console import Console

    from resumable.cli.top import drawn

    screen = io.StringIO()
    Console(file=screen, width=80).print(drawn(RunTable([], "", ["nothing in [red]folder[/red]"])))
    assert "[red]folder[/red]" in screen.getvalue()
