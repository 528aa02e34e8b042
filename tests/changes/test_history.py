"""What was changed in a run is noted next to its checkpoints, and costs the run nothing if it cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.command import call_command, run_code
from support.damaged import flip_last_bit

import resumable as rs
from resumable.checkpoint.history import read_history
from resumable.core.changed import changed_arguments
from resumable.core.fingerprint import fingerprint
from resumable.core.runnable import EVERYTHING

Weights = Any

KILLED = """
import os, signal, sys
import resumable as rs

weights, steps = eval(sys.argv[1]), int(sys.argv[2])
if sys.argv[3:]:  # to be killed between a checkpoint and its line
    rs.Directory.append_history = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
pipeline = rs.mix(rs.range(500), rs.range(1000, 1500), weights=weights).map(str)
with rs.Checkpointer("run", rs.EverySteps(5), retention=rs.Retention(latest=1)) as checkpointer:
    for number, item in enumerate(checkpointer.resume(pipeline)):
        if number == steps:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def mixed(weights: Weights, names: str = "") -> rs.Pipeline[Any]:
    starts = range(0, 5000, 1000)
    inputs = [rs.range(start, start + 500) for start in starts]
    if names:
        return rs.mix(dict(zip(names, inputs, strict=False)), weights=weights)
    return rs.mix(*inputs[:2], weights=weights)


def train(
    folder: Path,
    pipeline: rs.Pipeline[Any],
    steps: int,
    *,
    rank: int = 0,
    ranks: int = 1,
    **options: Any,
) -> int:
    """So many steps, with a save every 5; returns the step at which it began."""
    with rs.Checkpointer(
        folder, rs.EverySteps(5), rank=rank, ranks=ranks, save_at_end=False, **options
    ) as checkpointer:
        loop = checkpointer.resume(pipeline)
        began = loop.step
        for _ in islice(loop, steps):
            pass
        if steps:
            next(loop)
        return began


def entries(folder: Path, name: str = "input") -> list[dict[str, Any]]:
    found = read_history(folder / f"{name}-history.jsonl")
    assert not found.unreadable
    return found.entries


def inspect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_command(folder, "inspect", "--history", *arguments)


def test_a_change_is_noted_once_a_checkpoint_has_it(tmp_path: Path) -> None:
    history = tmp_path / "input-history.jsonl"
    train(tmp_path, mixed((7, 3)), 10, wall_clock=lambda: 1_800_000_000.0)
    train(tmp_path, mixed((7, 3)), 5)
    assert not history.exists(), "nothing was changed"
    changed = mixed({0: (7, 3), 40: (3, 7)})
    train(tmp_path, changed, 3)
    assert not history.exists(), "no checkpoint has the change"
    train(tmp_path, changed, 5, wall_clock=lambda: 1_800_000_100.0)
    train(tmp_path, changed, 5)
    assert entries(tmp_path) == [
        {
            "step": 15,
            "time": 1_800_000_100.0,
            "stage": "Mix",
            "path": "pipeline",
            "argument": "weights",
            "saved": "(7, 3)",
            "new": "{0: (7, 3), 40: (3, 7)}",
        }
    ]


def test_inputs_that_join_and_names_that_are_given_are_noted(tmp_path: Path) -> None:
    train(tmp_path, mixed((2, 1)).batch(1), 10)
    weights = {0: {"a": 2, "b": 1}, 30: {"a": 1, "c": 1}}
    train(tmp_path, mixed(weights, "abc").batch(1), 5)
    found = [(one["argument"], one["saved"], one["new"]) for one in entries(tmp_path)]
    assert found == [
        ("weights", "{0: {'a': 2, 'b': 1, 'c': 0}}", "{0: {'a': 2, 'b': 1}, 30: {'a': 1, 'c': 1}}"),
        ("names of pipelines", None, ["a", "b", "c"]),
        ("number of inputs", 2, 3),
    ]
    assert {one["path"] for one in entries(tmp_path)} == {"pipeline.upstream"}


def test_a_stage_that_begins_while_the_run_goes_on_is_noted_with_those_before_it(
    tmp_path: Path,
) -> None:
    def without(records: Any, weights: Weights) -> rs.Pipeline[Any]:
        kept = rs.range(500) if records is None else rs.range(500).exclude(records)
        return rs.mix(kept, rs.range(9000, 9500), weights=weights).batch(1)

    train(tmp_path, without(None, (7, 3)), 5)
    train(tmp_path, without({}, (7, 3)), 5)
    train(tmp_path, without({100: [200]}, {0: (7, 3), 90: (1, 1)}), 5)
    found = [(one["step"], one["path"], one["saved"], one["new"]) for one in entries(tmp_path)]
    assert found == [
        (10, "pipeline.upstream", "(7, 3)", "{0: (7, 3), 90: (1, 1)}"),
        (10, "pipeline.upstream.upstreams[0]", "[]", "{0: [], 100: [200]}"),
    ]


@pytest.mark.parametrize("epochs", [None, 200])
def test_pipelines_by_epoch_are_noted(tmp_path: Path, epochs: int | None) -> None:
    def by_epoch(pipelines: Any, weights: Weights = (1, 1)) -> rs.Pipeline[Any]:
        repeated = rs.by_epoch(pipelines).map(str).repeat(epochs)
        return rs.mix(repeated, rs.range(500), weights=weights).batch(1)

    old, new, newest = rs.range(3), rs.range(7, 12), rs.mix(rs.range(3), rs.range(5))
    changing = tmp_path / "changing"
    train(changing, by_epoch({0: old}), 5)
    train(changing, by_epoch({0: old, 80: new}), 5)
    train(changing, by_epoch({0: old, 80: new}, {0: (1, 1), 90: (1, 2)}), 5)
    train(changing, by_epoch({0: old, 90: newest}, {0: (1, 1), 90: (1, 2)}), 5)
    lines = [
        (one["step"], one["stage"], one["path"], one["argument"], one["saved"], one["new"])
        for one in entries(changing)
    ]
    at = "pipeline.upstream.upstreams[0].upstream"
    first, second, third = (
        "Range(stop=3)",
        "{0: Range(stop=3), 80: Range(stop=12, begin=7)}",
        "{0: Range(stop=3), 90: Range(stop=3) + Range(stop=5)}",
    )
    assert lines == [
        (5, "ByEpoch", at, "pipelines", first, second),
        (10, "Mix", "pipeline.upstream", "weights", "(1, 1)", "{0: (1, 1), 90: (1, 2)}"),
        (15, "ByEpoch", at, "pipelines", second, third),
    ]
    done = inspect(tmp_path, "changing")
    assert f"pipelines  {first}" in " ".join(done.stdout.split()).replace(
        "pipelines ", "pipelines  "
    )


def test_further_inputs_are_noted(tmp_path: Path) -> None:
    train(tmp_path, rs.concatenate({"a": rs.range(50)}), 5)
    train(tmp_path, rs.concatenate({"a": rs.range(50), "b": rs.range(9)}), 5)
    found = [(one["argument"], one["saved"], one["new"]) for one in entries(tmp_path)]
    assert found == [("names of pipelines", ["a"], ["a", "b"]), ("number of inputs", 1, 2)]


def test_what_is_planned_within_one_of_the_pipelines_is_noted_once(tmp_path: Path) -> None:
    def made(weights: Weights) -> rs.Pipeline[Any]:
        first = rs.mix(rs.range(90), rs.range(90), weights=weights)
        return rs.by_epoch({0: first, 2: rs.range(9)}).repeat(5).batch(1)

    train(tmp_path, made((1, 1)), 5)
    train(tmp_path, made({0: (1, 1), 50: (1, 2)}), 5)
    assert [(one["stage"], one["path"]) for one in entries(tmp_path)] == [
        ("Mix", "pipeline.upstream.upstream")
    ]


def test_what_only_tunes_or_says_which_rank_it_is_is_not_noted(tmp_path: Path) -> None:
    data = tmp_path / "lines.txt"
    data.write_text("".join(f"{number}\n" for number in range(300)))

    def read(workers: int, rank: int, ranks: int) -> rs.Pipeline[Any]:
        return rs.lines(data).shard(rank, ranks).map(str, workers=workers)

    run = tmp_path / "run"
    train(run, read(0, 0, 1), 10)
    for rank in range(2):
        train(run, read(2, rank, 2).prefetch(2), 5, rank=rank, ranks=2)
    (tmp_path / "elsewhere").mkdir()
    copied = data.rename(tmp_path / "elsewhere" / "lines.txt")
    train(run, rs.lines(copied).shard(0, 1).map(str), 5)
    assert rs.Directory(run).steps() == [5, 10, 20]
    assert not list(run.glob("*history*"))


def test_evidence_of_data_and_the_rank_are_no_changes(tmp_path: Path) -> None:
    data = tmp_path / "lines.txt"
    data.write_text("1\n2\n3\n")
    dealt = [rs.lines(data).shard(rank, 2, uneven="keep").filter(bool) for rank in range(2)]
    saved = json.loads(fingerprint(dealt[0].stage, EVERYTHING))
    (lines,) = (node for node in [saved[1][-1]] if node[0] == "Lines")
    assert {"files", "contents"} <= lines[1].keys()
    lines[1]["contents"] = {"index": "another"}
    assert saved[1][1]["index"] == 0
    assert changed_arguments(json.dumps(saved), dealt[1].stage, EVERYTHING) == []
    lines[1]["files"] = "another"
    (found,) = changed_arguments(json.dumps(saved), dealt[1].stage, EVERYTHING)
    assert (found.stage, found.saved) == ("Lines", "another")


def test_kills_leave_whole_lines_and_the_run_goes_on(tmp_path: Path) -> None:
    for weights, steps in (
        ("(7, 3)", 12),
        ("{0: (7, 3), 20: (3, 7)}", 8),
        ("{0: (7, 3), 20: (3, 7)}", 3),
        ("{0: (7, 3), 20: (3, 7), 90: (1, 1)}", 6),
    ):
        done = run_code(KILLED, weights, str(steps), folder=tmp_path)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert [(one["step"], one["new"]) for one in entries(tmp_path / "run")] == [
        (10, "{0: (7, 3), 20: (3, 7)}"),
        (15, "{0: (7, 3), 20: (3, 7), 90: (1, 1)}"),
    ]


def test_a_line_that_a_kill_has_lost_is_written_at_the_next_resume(tmp_path: Path) -> None:
    first, second = "{0: (7, 3), 20: (3, 7)}", "{0: (7, 3), 20: (3, 7), 90: (1, 1)}"
    run = tmp_path / "run"
    expected = list[tuple[Any, ...]]()
    for weights, steps, kill, line in (
        ("(7, 3)", 12, False, None),
        (first, 8, True, None),  # at step 15, which went on from step 10
        (first, 0, False, (10, 15, "(7, 3)", first)),
        (first, 3, False, None),
        (second, 8, True, None),  # at step 20
        ("{0: (7, 3), 20: (3, 7), 95: (1, 1)}", 3, False, (15, 20, first, second)),
        (second, 7, False, None),
    ):
        done = run_code(KILLED, weights, str(steps), *["kill"] * kill, folder=tmp_path)
        assert done.returncode == -signal.SIGKILL, done.stderr
        if line:
            step, at, *values = line
            expected.append((step, rs.Checkpointer(run, rs.AtEnd()).load(at).time, *values))
        if expected:
            lines = [
                tuple(one[key] for key in ("step", "time", "saved", "new")) for one in entries(run)
            ]
            assert lines == expected
    assert rs.Directory(run).steps()[-1] == 25  # a kill may come before the retention


def test_ranks_write_a_lost_line_again_and_pass_over_what_they_cannot_read(tmp_path: Path) -> None:
    def dealt(weights: Weights, rank: int) -> rs.Pipeline[Any]:
        return mixed(weights).shard(rank, 2)

    changed = {0: (7, 3), 90: (1, 1)}
    for weights in ((7, 3), (7, 3), changed):
        for rank in range(2):
            train(tmp_path, dealt(weights, rank), 5, rank=rank, ranks=2)
    lines = entries(tmp_path)
    (tmp_path / "input-history.jsonl").unlink()
    before = sorted(tmp_path.glob("*000010*"))[0]
    for damaged in (True, False):
        flip_last_bit(before)
        for rank in range(2):
            train(tmp_path, dealt(changed, rank), 0, rank=rank, ranks=2)
        assert before.exists(), "what is older than the newest is not looked after"
        found = entries(tmp_path)
        assert found == [{**one, "step": 5 if damaged else 10} for one in lines]
        (tmp_path / "input-history.jsonl").unlink()


def test_of_what_led_to_the_newest_checkpoint_nothing_is_written_twice(tmp_path: Path) -> None:
    for number, weights in enumerate(({}, {60: (1, 1)}, {60: (1, 1), 90: (1, 2)}, {60: (1, 3)})):
        train(tmp_path, mixed({0: (7, 3), **weights}), 5)
        assert not number or len(entries(tmp_path)) == number
    lines = entries(tmp_path)
    for step in (15, 10, 5):  # as a retention that keeps some for longer
        (tmp_path / f"input-{step:012}.ckpt").unlink()
        train(tmp_path, mixed({0: (7, 3), 60: (1, 3)}), 0)
        assert entries(tmp_path) == lines


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_of_several_ranks_the_first_one_writes(tmp_path: Path, order: tuple[int, ...]) -> None:
    def dealt(weights: Weights, rank: int) -> rs.Pipeline[Any]:
        return mixed(weights).shard(rank, 3)

    for rank in order:
        train(tmp_path, dealt((7, 3), rank), 10, rank=rank, ranks=3)
    for rank in order:
        train(tmp_path, dealt({0: (7, 3), 30: (1, 1)}, rank), 5, rank=rank, ranks=3)
    assert [path.name for path in tmp_path.glob("*history*")] == ["input-history.jsonl"]
    assert [(one["step"], one["saved"]) for one in entries(tmp_path)] == [(10, "(7, 3)")]
    # A single process goes on from the ranks, with one more change.
    train(tmp_path, mixed({0: (7, 3), 30: (1, 1), 60: (1, 2)}).shard(0, 1), 5)
    assert [one["step"] for one in entries(tmp_path)] == [10, 15]


def test_ranks_that_resume_each_from_its_own_part_note_it_once(tmp_path: Path) -> None:
    def dealt(weights: Weights, rank: int) -> rs.Pipeline[Any]:
        parts = mixed(weights).partition(4, lambda part: part.map(str)).shard(rank, 2)
        return parts.shuffle(1, window=3, carry=True)

    for rank in range(2):
        train(tmp_path, dealt((7, 3), rank), 10, rank=rank, ranks=2)
    for rank in range(2):
        with pytest.warns(RuntimeWarning, match="can be resumed by 2 ranks only"):
            train(tmp_path, dealt({0: (7, 3), 90: (1, 1)}, rank), 5, rank=rank, ranks=2)
    assert [(one["stage"], one["new"]) for one in entries(tmp_path)] == [
        ("Mix", "{0: (7, 3), 90: (1, 1)}")
    ]


def test_names_that_share_a_folder_have_a_history_each(tmp_path: Path) -> None:
    for name, weights in (("input", (1, 1)), ("input_worker_3", (1, 2))):
        train(tmp_path, mixed(weights), 5, name=name)
        train(tmp_path, mixed({0: weights, 50: (9, 1)}), 5, name=name)
        assert len(entries(tmp_path, name)) == 1
    done = inspect(tmp_path, ".")
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows == [["name", "from"], ["input", "5"], ["input_worker_3", "5"]]
    # The listing of a folder has checkpoints only.
    listed = call_command(tmp_path, "inspect", ".").stdout
    assert "history" not in listed
    assert rs.Directory(tmp_path).names() == ["input", "input_worker_3"]


def test_retention_and_unfinished_files_are_removed_as_before(tmp_path: Path) -> None:
    keep = rs.Retention(latest=1)
    train(tmp_path, mixed((7, 3)), 10, retention=keep)
    (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"cut")
    train(tmp_path, mixed({0: (7, 3), 40: (1, 1)}), 5, retention=keep)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".lock-input", "input-000000000015.ckpt", "input-history.jsonl"]
    kept = (tmp_path / "input-history.jsonl").read_bytes()
    # Begun anew, and with everything set aside, it is still there.
    with rs.Checkpointer(tmp_path, rs.EverySteps(5)) as checkpointer:
        checkpointer.resume(mixed((1, 1)), step=0).close()
    assert (tmp_path / "input-history.jsonl").read_bytes() == kept


def test_a_history_that_is_lost_or_torn_is_begun_or_gone_on_with(tmp_path: Path) -> None:
    history = tmp_path / "input-history.jsonl"
    train(tmp_path, mixed((7, 3)), 5)
    train(tmp_path, mixed({0: (7, 3), 40: (1, 1)}), 5)
    whole = history.read_bytes()
    history.write_bytes(whole + whole[:30])
    assert train(tmp_path, mixed({0: (7, 3), 40: (1, 2)}), 5) == 10
    found = read_history(history)
    assert [one["step"] for one in found.entries] == [5, 10]
    assert found.unreadable == [2]
    done = inspect(tmp_path, ".")
    assert done.returncode == 0
    assert done.stderr == "resumable inspect: line 2 of input-history.jsonl cannot be read\n"
    assert len(done.stdout.splitlines()) == 3
    history.unlink()
    assert train(tmp_path, mixed({0: (7, 3), 40: (1, 3)}), 5) == 15
    # What the newest checkpoint shows of it is written again.
    assert [one["step"] for one in entries(tmp_path)] == [10, 15]


def refuse(path: Path, patch: pytest.MonkeyPatch) -> None:
    """A file that may be read only, also by a user who may write anywhere."""
    path.write_bytes(b"{}\n")
    path.chmod(0o444)
    really = os.open

    def open_unless_refused(file: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if Path(file) == path and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(file))
        return really(file, flags, *arguments, **options)

    patch.setattr(os, "open", open_unless_refused)


def fill(path: Path, patch: pytest.MonkeyPatch) -> None:
    """A disk that has no room for a second half of a line."""
    really = os.write

    def write_half(descriptor: int, data: Any) -> int:
        if b'"argument"' in bytes(data):
            return really(descriptor, bytes(data)[: len(data) // 2])
        return really(descriptor, data)

    patch.setattr(os, "write", write_half)


OBSTACLES: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], object], str]] = {
    "read-only": (refuse, "Permission denied"),
    "full disk": (fill, "No space left on device"),
    "folder": (lambda path, _: path.mkdir(), "Is a directory"),
    "link": (lambda path, _: path.symlink_to("elsewhere"), "symbolic links"),
    "pipe": (lambda path, _: os.mkfifo(path), "it must be a regular file"),
    "other file": (lambda path, _: path.write_bytes(b"PK\3\4"), "it holds something else"),
}


@pytest.mark.parametrize("kind", OBSTACLES)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_history_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, asynchronous: bool
) -> None:
    block, reason = OBSTACLES[kind]
    train(tmp_path, mixed((7, 3)), 5)
    changed = mixed({0: (7, 3), 40: (1, 1)})
    with monkeypatch.context() as patch:
        block(tmp_path / "input-history.jsonl", patch)
        with pytest.warns(RuntimeWarning, match="could not be noted: .*" + reason) as told:
            train(tmp_path, changed, 15, asynchronous=asynchronous)
        assert len(told) == 1, "it is tried once"
    assert rs.Directory(tmp_path).steps() == [5, 10, 15, 20]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(tmp_path, changed, 5) == 20
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_no_history_is_told(tmp_path: Path) -> None:
    assert inspect(tmp_path, ".").stderr.endswith("there is no checkpoint in .\n")
    assert inspect(tmp_path, "nowhere").returncode == 2
    assert inspect(tmp_path, "memory://run").returncode == 2
    train(tmp_path, mixed((7, 3)), 5)
    done = inspect(tmp_path, ".")
    assert (done.returncode, done.stdout) == (0, "nothing was noted in .\n")
    os.mkfifo(tmp_path / "input-history.jsonl")
    done = inspect(tmp_path, ".")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_history_from_elsewhere_is_shown_without_commands_for_a_terminal(tmp_path: Path) -> None:
    entry = {
        "step": 5, "time": 1e400, "stage": "\x1b[2J", "path": "p\n", "argument": "a",
        "saved": {"\x1b": 1}, "new": None,
    }  # fmt: skip
    lines = [
        json.dumps(entry),
        "[" * 9999,
        '{"step": true}',
        "7",
        "\\",
        json.dumps(entry | {"time": "x"}),
    ]
    (tmp_path / "input-history.jsonl").write_text("\n".join(lines))
    done = inspect(tmp_path, ".")
    assert done.returncode == 0
    assert done.stdout.replace("\n", "").isprintable()
    assert len(done.stderr.splitlines()) == 5
    assert json.loads(inspect(tmp_path, ".", "--json").stdout)["history"][0]["step"] == 5


def test_other_stores_keep_no_history() -> None:
    store = rs.Memory()
    for weights in ((7, 3), {0: (7, 3), 40: (1, 1)}):
        with rs.Checkpointer(store, rs.EverySteps(5)) as checkpointer:
            for _ in islice(checkpointer.resume(mixed(weights)), 6):
                pass
    assert store.steps()
