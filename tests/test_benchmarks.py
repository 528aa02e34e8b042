"""The side-by-side benchmark runs without peers, and notices one that delivers other items."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.clocks import Clock
from support.waiting import wait_until

import resumable as rs
from resumable import from_files, pipeline
from resumable.core.graph import walk
from resumable.errors import NameInUse

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # where the folder `benchmarks` is found; it is not installed

from benchmarks import epochs, text_files  # noqa: E402
from benchmarks.by_hand import turns  # noqa: E402
from benchmarks.by_hand.operator import Numbers, Operator  # noqa: E402
from benchmarks.by_hand.packing import filled  # noqa: E402
from benchmarks.by_hand.turns import take_turns  # noqa: E402
from benchmarks.delivered import Delivered, Tally  # noqa: E402
from benchmarks.digest import Digest, MultisetsDiffer, check_same, digest  # noqa: E402
from benchmarks.discovery import load, names  # noqa: E402
from benchmarks.elastic_loaders import ITEMS  # noqa: E402
from benchmarks.journal import Journal  # noqa: E402
from benchmarks.plots import write_plots  # noqa: E402
from benchmarks.result import Options, Result, Series, at_least, at_most  # noqa: E402
from benchmarks.runs import opened_run  # noqa: E402
from benchmarks.timings import Timings, table_of  # noqa: E402
from benchmarks.whole_epochs import Entry, Spent, whole_epoch  # noqa: E402
from benchmarks.work import Integers, Work  # noqa: E402
from benchmarks.workloads import (  # noqa: E402
    elastic,
    language_model,
    operators,
    partitions,
    resume_time,
    token_file,
)

WORKLOAD = """
from benchmarks.race import race
from benchmarks.work import Integers, Work

MINUTES = 1

def works(options):
    return {"tiny": Work(Integers(100), shuffle=True, batch=7)}

def bare(work):
    yield [*range(60)]
    yield [*range(60, 100)]

def run(options):
    return race(options, __name__, lambda timings: [])
"""

SLOW = """
import os, time
from pathlib import Path
from benchmarks.result import Result, Table

MINUTES = 1
CALLS = Path(os.environ.get("CALLS", "none"))

def measured(turn):
    with CALLS.open("a") as file:
        file.write(f"{os.getpid()} {turn}\\n")
    while turn == 2 and (CALLS.parent / "hang").exists():
        time.sleep(0.01)
    return turn / 2

def run(options):
    seconds = [options.journal.once(turn, measure=lambda: measured(turn)) for turn in range(4)]
    table = Table("turns", ("seconds",), [(each,) for each in seconds])
    return Result("slow", "Slow", tables=[table], raw={"seconds": seconds})
"""

BUSY = """
import os, time

def works(options):
    return {seconds: float(seconds) for seconds in ("0.0", "0.5")}

def bare(seconds):
    child = os.fork()
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    if not child:
        os._exit(0)
    yield "and nobody waits for the child"
"""

PEER = """
NAME = "{name}"
DISTRIBUTION = "nothing"
NEEDS = ("sys",)
EXACT_WINDOW = "no"

def configurations(work):
    items = {items}
    return {{"": lambda folder: lambda: iter([items[:50], items[50:]])}}
"""


def run_benchmarks(
    output: Path, *arguments: str, path: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`python -m benchmarks --quick`, with the folders of ``path`` beside those of the project."""
    folders = [ROOT] if path is None else [ROOT, path]
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--output", str(output), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def add(folder: Path, kind: str, name: str, text: str) -> None:
    """A module in a folder beside the project's."""
    (folder / "benchmarks" / kind).mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks" / kind / f"{name}.py").write_text(text)


def peer(items: str) -> str:
    return PEER.format(name="Fake", items=items)


@pytest.mark.deep
def test_a_quick_run_without_peers_writes_json_markdown_and_plots(tmp_path: Path) -> None:
    done = run_benchmarks(tmp_path, "--workloads", "text", "--peers", "resumable", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "results.json").read_text())
    (result,) = written["runs"][0]["results"]
    assert len(result["tables"]) == 2
    assert result["claims"] == []  # figures of a quick run say nothing
    assert set(result["ratios"]["text"]) == {"bare", "resumable"}
    assert "## text" in (tmp_path / "results.md").read_text()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert (tmp_path / "text.png").read_bytes().startswith(b"\x89PNG")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="a process ends with its parent on Linux only")
def test_a_run_killed_within_a_workload_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    add(tmp_path, "workloads", "slow", SLOW)
    calls, hang = tmp_path / "calls", tmp_path / "hang"
    hang.touch()
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "benchmarks", "--quick", "--workloads", "slow"]
    output = tmp_path / "killed"
    with subprocess.Popen(
        [*command, "--output", str(output)],
        cwd=ROOT,
        env=environ | {"CALLS": str(calls)},
        stdout=subprocess.DEVNULL,
    ) as killed:
        wait_until(lambda: calls.exists() and len(calls.read_text().splitlines()) == 3)
        killed.kill()
    workload = int(calls.read_text().split()[0])
    wait_until(lambda: not is_alive(workload))
    assert not (output / "results.json").exists()
    hang.unlink()
    written = []
    for place in (output, tmp_path / "at once"):
        done = run_benchmarks(place, "--workloads", "slow", path=tmp_path, CALLS=str(calls))
        assert done.returncode == 0, done.stderr
        assert ("Going on with" in done.stdout) == (place == output)
        assert not (place / "run").exists()
        written.append(json.loads((place / "results.json").read_text())["runs"])
    assert [line.split()[1] for line in calls.read_text().splitlines()] == [*"01223", *"0123"]
    assert written[0] == written[1]


@pytest.mark.deep
def test_a_race_that_was_killed_has_the_same_result_but_for_the_times(tmp_path: Path) -> None:
    add(tmp_path, "workloads", "tiny", WORKLOAD)
    add(tmp_path, "peers", "same", peer("[*range(99, -1, -1)]"))
    output = tmp_path / "killed"
    journal = output / "run" / "tiny.jsonl"
    options = ("--workloads", "tiny", "--peers", "same", "--rounds", "4")
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "--quick", "--output", str(output), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        stdout=subprocess.DEVNULL,
    ) as killed:
        wait_until(lambda: journal.exists() and '\\"seconds\\"' in journal.read_text())
        killed.kill()
    before = journal.read_bytes()
    results = []
    for place in (output, tmp_path / "at once"):
        done = run_benchmarks(place, *options, path=tmp_path)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads((place / "results.json").read_text())["runs"][0]["results"]
        results.append(result)
    first = [json.loads(line) for line in before.splitlines() if "seconds" in line.decode()]
    taken = results[0]["raw"]["tiny"]["seconds"]
    assert first[0]["value"][1][0] in [seconds for each in taken.values() for seconds in each]
    assert shape(results[0]) == shape(results[1])


def shape(value: Any) -> Any:
    """The structure without numbers, and without the order, which is that of the times."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return sorted(str(shape(each)) for each in value)
    return type(value).__name__


def test_a_journal_cut_short_measures_the_last_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for turn in range(3):
        Journal(path).once("x", turn, measure=lambda turn=turn: (turn, 0.1))  # type: ignore[misc]
    path.write_bytes(path.read_bytes()[:-9])
    again = Journal(path)
    assert [again.once("x", turn, measure=lambda: [9, 9]) for turn in range(3)] == [
        [0, 0.1], [1, 0.1], [9, 9]
    ]  # fmt: skip
    assert [Journal(path).once("x", turn, measure=list[int]) for turn in range(3)] == [
        [0, 0.1], [1, 0.1], [9, 9]
    ]  # fmt: skip


def test_where_the_time_is_over_three_rounds_are_run_in_every_life(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert [*Journal(path, seconds=0).turns(5, "x")] == [0, 1, 2]
    assert [*Journal(path).turns(5, "x")] == [0, 1, 2]
    assert [*Journal(path).turns(5, "y")] == [0, 1, 2, 3, 4]


def test_what_was_measured_in_another_way_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, options = tmp_path / "run", Options(tmp_path / "data")
    before = {"machine": {"cores": "2", "torch": "1"}, "code": "a"}
    with opened_run(folder, options, before, 1):
        (folder / "x.jsonl").write_text("{}\n")
        with pytest.raises(NameInUse), opened_run(folder, options, before, 1):
            pass
    with opened_run(folder, options, before, 1):
        assert f"Going on with what was measured in {folder}" in capsys.readouterr().out
    for other, says in (
        ({"machine": {"cores": "2", "torch": "2"}, "code": "a"}, 'the machine {"torch": "1"}, not {"torch": "2"}'),
        ({"machine": {"cores": "2", "torch": "2"}, "code": "b"}, 'the code "a", not "b"'),
    ):  # fmt: skip
        with opened_run(folder, options, other, 1):
            said = capsys.readouterr().out
            assert says in said
            assert "Going on" not in said
            assert [path.name for path in folder.iterdir() if path.name != "lock"] == [
                "circumstances.json"
            ]
    (first, _) = sorted(tmp_path.glob("run-*"), key=lambda path: (len(path.name), path.name))
    assert {path.name for path in first.iterdir()} == {"circumstances.json", "x.jsonl"}


def test_all_workloads_together_take_no_more_than_three_hours() -> None:
    assert sum(load("workloads", name).MINUTES for name in names("workloads")) <= 180


NEEDED = {"parquet": "pyarrow", "remote_cache": "aiohttp", "tfrecord": "google_crc32c"}
"""Packages without which a workload does not run."""


# WebDataset leaves its files to the garbage collector.
@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("name", sorted({*names("workloads")} - {"elastic", "text"}))
def test_every_workload_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name], reason=f"{NEEDED[name]} is not installed")
    workload, options = load("workloads", name), Options(tmp_path, rounds=1, quick=True)
    if not hasattr(workload, "works"):
        result = workload.run(options)
        assert result.name == name
        assert result.tables
        return
    for work in workload.works(options).values():
        if work.executor == "thread":
            ours = load("peers", "resumable").configurations(work)[""](tmp_path)()
            assert digest_of(work, ours) == digest_of(work, workload.bare(work))


@pytest.mark.deep
def test_partitions_are_measured_beside_one_process_and_calls_in_processes(tmp_path: Path) -> None:
    result = partitions.run(Options(tmp_path, rounds=1, quick=True, peers=()))
    ours = [row[0] for row in result.tables[0].rows if row[1] == "resumable"]
    assert sorted(ours) == sorted([partitions.ALONE, partitions.CALLS, partitions.CHAIN])


def test_a_claim_about_partitions_is_a_ratio_within_a_round() -> None:
    spent = {
        (partitions.ALONE, "resumable"): [Spent(4, 4), Spent(40, 4)],
        (partitions.CALLS, "resumable"): [Spent(3, 5), Spent(30, 5)],
        (partitions.CHAIN, "resumable"): [Spent(2, 4), Spent(20, 4)],
        (partitions.CHAIN, "Grain"): [Spent(1, 4), Spent(10, 4)],
    }
    claims = partitions.result(spent, [2.0, 2.0], quick=False).claims
    assert [(claim.figure, claim.met) for claim in claims] == [(2, True), (1.5, True), (0.5, False)]


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are counted on Linux only")
def test_a_whole_epoch_has_the_processor_time_of_all_its_processes(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    entry = Entry("busy", "bare", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        little, much = (whole_epoch(entry, each, Options(tmp_path)) for each in ("0.0", "0.5"))
    assert (much - little).processor > 0.6  # half a second in the process, and in its orphan


def digest_of(work: Work, delivered: Iterable[Any]) -> Digest:
    return digest(Delivered(delivered, work.tokens), batched=work.batch is not None)


@pytest.mark.deep
def test_with_other_ranks_and_workers_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    result = elastic.run(Options(tmp_path, quick=True, peers=()))
    assert result.tables[0].rows == [("resumable", "exact", "exact")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda items: items[::-1], "exact"),
        (lambda items: items[:-2], "2 lost, 0 repeated"),
        (lambda items: [*items, 5, 5, 6], "0 lost, 3 repeated"),
        (lambda items: [*items[:-1], 5], "1 lost, 1 repeated"),
    ],
    ids=["another order", "lost", "repeated", "one for another"],
)
def test_lost_and_repeated_items_are_counted(
    change: Callable[[list[int]], list[int]], says: str
) -> None:
    assert str(elastic.Outcome.of(change([*range(ITEMS)]), "")) == says
    assert str(elastic.Outcome.of(change([*range(ITEMS)]), "ValueError: no")) == "ValueError: no"


def test_each_work_has_a_picture_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    lines = [Series("resumable", [10, 100], [200.0, 210.0]), Series("Grain", [10, 100], [9.0, 8.0])]
    exact = {"resumable": "yes", "Grain": "no"}
    results = [
        Result("state_size", "Bytes", series={"bytes": lines[:1]}, raw={"exact": exact}),
        Result("resume_time", "Seconds", series=dict.fromkeys(resume_time.WORKS, lines)),
        Result("columns", "", ratios={"columns": {"bare": (1, 1, 1), "X, lean": (3, 2, 4)}}),
        Result("another", "", ratios={"another": {"bare": (1, 1, 1)}}, series={"seconds": lines}),
    ]
    drawn = write_plots(tmp_path, results)
    assert {path.stem for path in drawn} == {
        "columns", "resume_time", "resume_time_buffer", "state_size",
    }  # fmt: skip
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def test_operators_are_drawn_beside_the_same_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    marks = [("stream", 3.0), ("random access", 0.5)]
    result = Result("operators", "By hand", multiples={"items": {"map": marks}, "batches": {}})
    assert write_plots(tmp_path, [result]) == [tmp_path / "operators.png"]
    assert (tmp_path / "operators.png").read_bytes().startswith(b"\x89PNG")


def test_an_operator_that_does_something_else_by_hand_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_few(numbers: Numbers) -> Iterator[Operator]:
        yield Operator("odd one", numbers.pipeline, lambda: range(numbers.count - 1))

    monkeypatch.setattr("benchmarks.by_hand.one_input.operators", too_few)
    with pytest.raises(AssertionError, match="odd one over stream: 2560 items came, expected 2559"):
        operators.check(tmp_path)


def test_a_loop_over_tokens_that_leaves_a_window_out_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_file.write_tokens(tmp_path / "train.bin", 20_000)
    assert len(token_file.epochs_over(tmp_path / "train.bin")) == 3

    def shorter(tokens: token_file.Tokens) -> rs.Pipeline[Any]:
        return rs.from_iterable(lambda: token_file.by_hand(tokens[:-4_000]))

    monkeypatch.setattr(token_file, "ours", shorter)
    with pytest.raises(MultisetsDiffer, match="resumable delivered 15 items, the bare loop 19"):
        token_file.epochs_over(tmp_path / "train.bin")


def test_every_stage_and_source_is_measured_beside_the_same_by_hand(tmp_path: Path) -> None:
    every = {
        kind.__name__
        for kind in (vars(pipeline) | vars(from_files)).values()
        if issubclass(type(kind), type) and issubclass(kind, rs.Stage) and kind is not rs.Stage
    }
    measured = {
        type(stage).__name__
        for _, operator in operators.operators_of(tmp_path, operators.FEW)
        for stage, _ in walk(operator.pipeline.batch(2).stage)
    }
    assert len(every) > 20
    # These need pyarrow; the workload `parquet` measures the machinery that both share. ArrayRecord and
    # Lance need packages of others, which do the reading.
    # Origins are asked for after a run, and cost its loop nothing.
    missing = every - measured - {"Arrow", "ArrayRecord", "Lance", "Parquet", "Origins"}
    assert not missing, f"{missing} must be an Operator in a module of benchmarks/by_hand/"


def test_seconds_are_those_of_an_item_up_to_where_a_long_pass_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=clock))

    def taking(seconds: float, count: int) -> Iterator[int]:
        for number in range(count):
            clock.now += seconds
            yield number

    epochs = {"slow": partial(taking, 1.0, 10_000), "fast": partial(taking, 1e-3, 10)}
    seconds = take_turns(epochs, rounds=2, longest=50.0)
    assert seconds["slow"] == pytest.approx([1.0, 1.0], rel=0.1)
    assert seconds["fast"] == pytest.approx([1e-3, 1e-3], rel=0.1)
    assert clock.now < 500, "the long pass is stopped"


@pytest.mark.deep
def test_a_file_is_all_that_a_new_workload_and_a_new_peer_take(tmp_path: Path) -> None:
    add(tmp_path, "workloads", "tiny", WORKLOAD)
    add(tmp_path, "peers", "same", peer("[*range(99, -1, -1)]"))
    done = run_benchmarks(
        tmp_path, "--workloads", "tiny", "--peers", "same", "--rounds", "2", path=tmp_path
    )
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "results.json").read_text())
    seconds = written["runs"][0]["results"][0]["raw"]["tiny"]["seconds"]
    assert {label: len(each) for label, each in seconds.items()} == {
        "bare": 2,
        "resumable": 2,
        "Fake": 2,
    }


@pytest.mark.parametrize(
    ("items", "says"),
    [
        pytest.param(
            "[*range(99)]",
            "Fake in tiny delivered 99 items, the bare loop 100",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            "[*range(100), 5]",
            "Fake in tiny delivered 101 items, the bare loop 100",
            marks=pytest.mark.deep,
        ),
        (
            "[*range(99), 5]",
            "Fake in tiny delivered 100 items, the bare loop 100, but not the same",
        ),
    ],
    ids=["loses one", "repeats one", "repeats one for another"],
)
def test_a_peer_that_delivers_other_items_stops_the_run(
    items: str, says: str, tmp_path: Path
) -> None:
    add(tmp_path, "workloads", "tiny", WORKLOAD)
    add(tmp_path, "peers", "wrong", peer(items))
    done = run_benchmarks(
        tmp_path, "--workloads", "tiny", "--peers", "wrong", "--rounds", "1", path=tmp_path
    )
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.deep
def test_a_peer_that_crashes_fails_the_run_at_its_end(tmp_path: Path) -> None:
    add(tmp_path, "workloads", "tiny", WORKLOAD)
    add(tmp_path, "peers", "broken", peer("1 // 0"))
    done = run_benchmarks(
        tmp_path, "--workloads", "tiny", "--peers", "broken", "--rounds", "1", path=tmp_path
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "| resumable " in (tmp_path / "results.md").read_text()


def test_an_unknown_workload_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = run_benchmarks(tmp_path, "--workloads", "colums")
    assert done.returncode == 2
    assert "unknown colums; there are columns, " in done.stderr


def batches_of(rows: list[int], size: int) -> list[list[int]]:
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: batches_of(rows, 3),
        lambda rows: [np.asarray(part, np.int32) for part in batches_of(rows[::-1], 4)],
        lambda rows: [{"item": np.asarray(part)} for part in batches_of(rows, 10)],
        lambda rows: [(np.asarray(part, np.uint8),) for part in batches_of(rows, 9)],
    ],
    ids=["lists", "narrow arrays, reversed", "dicts", "tuples"],
)
def test_the_digest_is_that_of_the_items_whatever_their_batches(
    form: Callable[[list[int]], Iterable[Any]],
) -> None:
    rows = list(range(20))
    assert digest(form(rows), batched=True) == digest(rows, batched=False)


def test_the_digest_tells_apart_what_has_the_same_sum() -> None:
    assert digest([1, 3], batched=False) != digest([2, 2], batched=False)
    assert digest([(1, 2)], batched=False) != digest([(2, 1)], batched=False)
    crossed = [(np.array([1, 2]), np.array([20, 10]))]
    assert digest(crossed, batched=True) != digest([(1, 10), (2, 20)], batched=False)


def test_tokens_are_compared_by_document_and_their_padding_is_counted() -> None:
    rows = np.array([[5, 6, 0], [7, 0, 0]], np.uint8)
    wider = np.array([[7, 0, 0, 0], [5, 6, 0, 0]], np.int64)
    one = Delivered([rows], language_model.tokens_of_rows)
    other = Delivered([wider], language_model.tokens_of_rows)
    assert digest(one, batched=True) == digest(other, batched=True)
    assert (one.tally, other.tally) == (Tally(1, 0.5), Tally(1, 0.625))


def test_documents_are_the_same_in_whatever_rows_they_were_packed() -> None:
    def found(rows: list[list[list[int]]], length: int) -> Digest:
        arrays = [[np.array(document, np.uint8) for document in row] for row in rows]
        delivered = Delivered([filled(arrays, length)], language_model.tokens_of_segments)
        return digest(delivered, batched=True)

    expected = found([[[1, 2], [3]], [[4, 5, 6]]], 3)
    assert found([[[4, 5, 6], [1, 2]], [[3]]], 6) == expected
    assert found([[[4, 5, 6], [2, 1]], [[3]]], 6) != expected
    assert found([[[4, 5, 6, 1, 2]], [[3]]], 6) != expected


def test_the_share_of_padding_stands_beside_the_times() -> None:
    tallies = {"bare": Tally(3, 0.25), "resumable": Tally(4, 0.5)}
    owner = {label: label for label in tallies}
    memory = dict.fromkeys(tallies, 0)
    timings = Timings(9, {label: [1.0] for label in tallies}, owner, {}, {}, memory, tallies)
    assert timings.paddings("resumable") == [0.5]
    table = table_of("rows", timings)
    assert table.header[-2:] == ("padding", "batches")
    assert [row[-2:] for row in table.rows] == [("25.00%", "3"), ("50.00%", "4")]


def test_files_come_again_with_a_number_where_there_is_not_enough_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"a.py": "one", "b.md": "two", "c.bin": "three", "d.py": "\0"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(
        "sysconfig.get_paths", lambda: dict.fromkeys(("stdlib", "purelib"), tmp_path)
    )
    monkeypatch.setattr(text_files, "SYSTEM", str(tmp_path / "none"))
    count = text_files.write_documents(tmp_path / "all.jsonl", 100)
    written = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["text"] for row in written[:4]] == ["one", "two", "1\none", "1\ntwo"]
    assert [row["id"] for row in written] == list(range(count))


def test_the_digest_sees_every_byte_of_an_array() -> None:
    images = np.arange(4 * 6, dtype=np.uint8).reshape(4, 2, 3)
    other = images.copy()
    other[3, 1, 2] += 1
    assert digest([images], batched=True) == digest(list(images[::-1]), batched=False)
    assert digest([images], batched=True) != digest([other], batched=True)


def test_an_item_repeated_in_place_of_another_is_a_difference_too() -> None:
    expected = digest(range(10), batched=False)
    with pytest.raises(MultisetsDiffer, match=r"X delivered 10 items, .* 10, but not the same"):
        check_same(expected, "X", digest([*range(9), 5], batched=False))


def test_ratios_are_taken_within_a_round() -> None:
    seconds = {
        "bare": [1.0, 10.0, 1.0],
        "resumable": [2.0, 20.0, 2.0],
        "X": [8.0, 80.0, 8.0],
        "X, lean": [6.0, 60.0, 6.0],
    }
    owner = {"bare": "bare", "resumable": "resumable", "X": "x", "X, lean": "x"}
    timings = Timings(100, seconds, owner, {}, {}, {})
    assert timings.of_bare == 2
    assert timings.of_best_peer == timings.of_peer("x") == 3  # the better configuration counts
    assert timings.of_peer("grain") is None
    assert timings.better == ["bare", "resumable", "X, lean"]


def test_a_long_pass_is_stopped_and_scaled_after_what_is_done_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(epochs, "time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(epochs, "LONGEST", 50.0)
    delivered = 0

    def start() -> Iterator[int]:
        nonlocal delivered
        clock.now += 300
        for delivered in range(10_000):
            clock.now += 0.1
            yield delivered

    seconds = epochs.seconds_of_an_epoch(start, Work(Integers(10_000)), expected=10_000)
    assert delivered < 9_000
    assert seconds == pytest.approx(300 + 10_000 * 0.1)


def test_a_claim_is_met_at_its_limit_and_open_without_a_figure() -> None:
    assert at_most("time", 1.1, 1.1).met is True
    assert at_most("time", 1.11, 1.1).met is False
    assert at_least("speed", 3.99, 4).met is False
    assert at_least("speed", None, 4).met is None
