"""`resumable amend`: where a run stands on all its ranks, and what to write to change it from there on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from changes.test_ranks import DEALS, SAVED_EVERY, item_for_change, loops
from hypothesis import given
from hypothesis import strategies as st
from support.advised import advised
from support.command import call_command, run_python
from support.damaged import flip_last_bit

import resumable as rs
from resumable.checkpoint.ranks.parts import WholeSteps
from resumable.checkpoint.standing import run_standing
from resumable.stages.global_order import for_rank, rank_share_of

TRAIN = """
import os
import signal

import resumable as rs

WEIGHTS = (7, 3)


def mixed():
    return rs.mix(rs.range(500), rs.range(1000, 1500), weights=WEIGHTS)


def pipeline(rank=0, ranks=1):
    print("data are opened")
    return mixed().shard(rank, ranks).batch(2)


def windowed(rank=0, ranks=1):
    parts = mixed().partition(4, lambda part: part.map(str)).shard(rank, ranks)
    return parts.shuffle(1, window=3, carry=True)


def shuffled():
    return mixed().shuffle(1).batch(2)


def epochs():
    return rs.mix(rs.range(7), rs.range(7), weights=WEIGHTS).repeat(3)


def plain():
    return rs.range(9)


def train(rank, ranks, steps, make=pipeline, folder="run", name="input", kill=False):
    arguments = {} if ranks == 1 else {"rank": rank, "ranks": ranks}
    with rs.Checkpointer(
        folder, rs.EverySteps(2), save_at_end=False, name=name, **arguments
    ) as checkpointer:
        for number, item in enumerate(checkpointer.resume(make(**arguments))):
            if number == steps:
                if kill:
                    os.kill(os.getpid(), signal.SIGKILL)
                break
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user works: a program, and nothing saved yet."""
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def program(folder: Path) -> dict[str, Any]:
    """The names of the program there."""
    scope: dict[str, Any] = {}
    exec((folder / "train.py").read_text(), scope)
    return scope


def train(folder: Path, calls: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(calls, program(folder))


def write(folder: Path, weights: str) -> None:
    text = (folder / "train.py").read_text()
    (folder / "train.py").write_text(
        re.sub("^WEIGHTS = .*", f"WEIGHTS = {weights}", text, flags=re.M)
    )


def amend(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call_command(folder, "amend", *arguments)


def about_arguments(printed: str) -> list[str]:
    """The lines that ``printed`` has of arguments that are there, without where records could be left out."""
    lines = printed.splitlines()
    return lines[:-2] if lines[-1].startswith("Records can") else lines


def told(folder: Path, *arguments: str, of: str = "weights") -> dict[str, Any]:
    done = amend(folder, *arguments, "--json")
    assert done.stderr in ("", "data are opened\n"), done.stderr
    found = json.loads(done.stdout)["arguments"]
    (argument,) = [one for one in found if one["argument"] == of]
    assert done.returncode == (0 if all(one["agrees"] for one in found) else 1)
    assert isinstance(argument, dict)
    return argument


@pytest.mark.parametrize("name", DEALS)
@given(
    ranks=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    steps=st.integers(1, 5),
)
def test_the_position_is_the_first_that_every_rank_accepts(
    name: str, ranks: tuple[int, int], steps: int
) -> None:
    make, store, weights = DEALS[name], rs.Memory(), {0: (7, 3)}
    for loop in loops(store, make, weights, ranks[0]):
        for _ in islice(loop, steps // SAVED_EVERY * SAVED_EVERY + 1):
            pass
    other = {0: (1, 50)}
    found = run_standing(store, make(other, ranks[1] - 1, ranks[1]).stage)
    if found is None:
        assert steps < SAVED_EVERY
        return
    (one,) = found.arguments
    first = item_for_change(store, make, weights, ranks[1])
    assert one.value.to_write == f"weights={{0: (7, 3), {first}: (1, 50)}}"
    assert found.ranks == ranks[0]


def test_a_run_that_was_killed_goes_on_with_what_is_to_be_written(folder: Path) -> None:
    code = "from train import *; train(0, 1, 21, kill=True)"
    done = run_python("-c", code, folder=folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = {path: path.stat().st_mtime_ns for path in (folder / "run").iterdir()}
    asked = amend(folder, "run", "train.py:pipeline")
    assert (asked.returncode, asked.stderr) == (0, "data are opened\n")
    lines = about_arguments(asked.stdout)
    assert re.fullmatch(r"step 20, epoch 0, saved \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", lines[0])
    assert lines[1:] == [
        "",
        "Mix at pipeline.upstream.upstream",
        "  may change     from item 40 on",
        "  this code has  weights=(7, 3), with which the run can go on",
    ]
    write(folder, "(3, 7)")
    asked = amend(folder, "run", "train.py:pipeline")
    assert asked.returncode == 1
    assert about_arguments(asked.stdout)[3:] == [
        "  may change     from item 40 on",
        "  the run has    weights=(7, 3)",
        "  this code has  weights=(3, 7)",
        "  write          weights={0: (7, 3), 40: (3, 7)}",
    ]
    assert {path: path.stat().st_mtime_ns for path in (folder / "run").iterdir()} == before
    write(folder, "{0: (7, 3), 40: (3, 7)}")
    asked = amend(folder, "run", "train.py:pipeline")
    assert asked.returncode == 0
    assert "weights={0: (7, 3), 40: (3, 7)}, with which the run can go on" in asked.stdout
    train(folder, "train(0, 1, 4)")
    assert told(folder, "run", "train.py:pipeline")["may_change_from"] == 48
    write(folder, "{0: (7, 3), 39: (3, 7)}")
    again = told(folder, "run", "train.py:pipeline")
    assert again["saved"] == "weights={0: (7, 3), 40: (3, 7)}"
    assert again["present"] == "weights={0: (7, 3), 39: (3, 7)}"
    assert again["write"] == "weights={0: (7, 3), 40: (3, 7), 48: (3, 7)}"


def test_the_code_of_one_rank_tells_where_all_ranks_stand(folder: Path) -> None:
    train(folder, "for rank in range(3): train(rank, 3, 4 + 2 * rank)")
    write(folder, "(3, 7)")
    for arguments in ([], ["--arg", "rank=1", "--arg", "ranks=2"]):
        found = told(folder, "run", "train.py:pipeline", *arguments)
        assert found["write"] == "weights={0: (7, 3), 24: (3, 7)}"
    asked = amend(folder, "run", "train.py:pipeline")
    assert asked.stdout.startswith("step 4, epoch 0, saved ")
    assert asked.stdout.splitlines()[0].endswith(" by 3 ranks")


def test_ranks_that_resume_each_from_its_own_state_are_asked_each_with_its_own(
    folder: Path,
) -> None:
    train(folder, "for rank in range(2): train(rank, 2, 9, windowed)")
    write(folder, "(1, 9)")
    asked = amend(folder, "run", "train.py:windowed")
    assert asked.stderr == ""
    assert asked.stdout.splitlines()[1] == (
        "only 2 ranks can go on from it, each from its own state"
    )
    (first,) = re.findall(r"write .* (\d+): \(1, 9\)}", asked.stdout)
    for number, accepted in ((int(first), True), (int(first) - 1, False)):
        write(folder, f"{{0: (7, 3), {number}: (1, 9)}}")
        assert told(folder, "run", "train.py:windowed")["agrees"] is accepted
    # It is that of the furthest rank.
    write(folder, "(1, 9)")
    states = [one.state for one in WholeSteps(rs.Directory(folder / "run")).checkpoints(10)]
    ends = []
    for rank, state in enumerate(states):
        with pytest.raises(rs.StateMismatch) as error:
            program(folder)["windowed"](rank, 2).resume(state)
        ends.append(max(advised(error.value) or {}))
    assert ends[0] != ends[1]
    assert max(ends) == int(first)


LEAVES_OUT = """
import resumable as rs

RECORDS = {}


def source(name="Range"):
    return rs.range(60).exclude(RECORDS[name]) if name in RECORDS else rs.range(60)


def behind(name, pipeline):
    return pipeline.exclude(RECORDS[name]) if name in RECORDS else pipeline


def repeated():
    return behind("Map", source().shuffle(0).repeat(2).map(str)).filter(bool).batch(3)


def dealt(rank=0, ranks=1):
    return behind("Shuffle", source().shuffle(0)).partition(4, str_of).shard(rank, ranks)


def str_of(part):
    return part.map(str)


def within(rank=0, ranks=1):
    return source().shuffle(0).partition(4, shuffled).shard(rank, ranks)


def shuffled(part):
    return behind("Map", part.shuffle(1).map(str))


def streamed():
    return behind("Map", rs.from_iterable(lambda: iter(range(60))).map(str)).batch(2)


def repeated_in_parts(rank=0, ranks=1):
    return source().shuffle(0).partition(4, repeated_part).shard(rank, ranks)


def repeated_part(part):
    return part.repeat().filter(bool)


def ordered_anew():
    return source().batch(2).shuffle(0)


def train(make, steps=5):
    with rs.Checkpointer("run", rs.EverySteps(1), save_at_end=False) as checkpointer:
        for item in checkpointer.resume(make()):
            if checkpointer.step == steps:
                return
"""


@pytest.mark.parametrize(
    ("name", "behind", "position"),
    [
        ("repeated", "Map", 15),
        ("dealt", "Shuffle", 5),
        ("within", "Map", 2),
        ("streamed", "Map", 10),
    ],
)
def test_where_nothing_is_left_out_it_says_from_where_on_records_can_be(
    folder: Path, name: str, behind: str, position: int
) -> None:
    (folder / "train.py").write_text(LEAVES_OUT)
    train(folder, f"train({name})")
    asked = amend(folder, "run", f"train.py:{name}")
    of_each = " of each partition" * (name == "within")
    argument = rf"[.]exclude\({{0: \[\], {position}: RECORDS}}\)"
    advice = rf"item {position}{of_each} on: {argument} behind {behind} at"
    assert re.search(f"Records can be left out from {advice} ", asked.stdout)
    assert json.loads(amend(folder, "run", f"train.py:{name}", "--json").stdout)["exclude"] == {
        "behind": behind,
        "path": re.findall("at (pipeline[.a-z]*)[.]$", asked.stdout, re.M)[-1],
        "may_change_from": position,
    }
    bad = list(range(0, 60, 7))
    for first, fits in ((position, True), (position - 1, False)):
        text = LEAVES_OUT.replace("{}", f"{{'{behind}': {{0: [], {first}: {bad}}}}}", 1)
        (folder / "train.py").write_text(text)
        asked = amend(folder, "run", f"train.py:{name}")
        assert asked.returncode == (0 if fits else 1)
        assert "left out" not in asked.stdout
    assert f"{position}: {bad}" in asked.stdout


def test_items_within_partitions_are_said_to_be_those_of_each(folder: Path) -> None:
    (folder / "train.py").write_text(LEAVES_OUT.replace("{}", "{'Map': []}", 1))
    train(folder, "train(within)")
    asked = amend(folder, "run", "train.py:within")
    assert (
        "from item 2 of each partition on, as far as the furthest of them has read" in asked.stdout
    )


def test_where_records_cannot_be_left_out_any_more_it_says_why(folder: Path) -> None:
    (folder / "train.py").write_text(LEAVES_OUT)
    train(folder, "train(ordered_anew)")
    asked = amend(folder, "run", "train.py:ordered_anew")
    why = "a later stage may have read any of its items, in this epoch or an earlier one"
    last = f"Records cannot be left out behind Range at pipeline.upstream.upstream: {why}.\n"
    assert asked.stdout.endswith(last)


def test_where_partitions_repeat_their_data_it_says_to_leave_records_out_from_an_epoch_on(
    folder: Path,
) -> None:
    (folder / "train.py").write_text(LEAVES_OUT)
    train(folder, "train(repeated_in_parts)")
    asked = amend(folder, "run", "train.py:repeated_in_parts")
    assert "Records cannot be left out behind" in asked.stdout
    assert "before repeat, leave records out from an epoch on, as rs.by_epoch(" in asked.stdout
    where = "before Repeat(), or before Partition(count=4)"
    assert f"as by_epoch({{0: <what is there>, 1: new}}) {where}\n" in asked.stdout


def test_what_all_may_have_been_read_of_is_said_to_be_fixed_and_why(folder: Path) -> None:
    train(folder, "train(0, 1, 4, shuffled); train(0, 1, 16, epochs, 'later')")
    why = "a later stage may have read any of its items, in this epoch or an earlier one"
    for run, target in (("run", "shuffled"), ("later", "epochs")):
        write(folder, "(7, 3)")
        asked = amend(folder, run, f"train.py:{target}")
        assert asked.returncode == 0
        assert f"  may change     nowhere: {why}\n" in asked.stdout
        write(folder, "(3, 7)")
        asked = amend(folder, run, f"train.py:{target}")
        assert asked.returncode == 1
        assert about_arguments(asked.stdout)[-2:] == [
            "  this code has  weights=(3, 7)",
            "  keep           weights=(7, 3)",
        ]
        found = told(folder, run, f"train.py:{target}")
        assert (found["may_change_from"], found["write"]) == (None, None)
    assert amend(folder, "later", "train.py:epochs").stdout.startswith("step 16, epoch 1, ")


def test_a_damaged_newest_checkpoint_is_passed_over_and_told(folder: Path) -> None:
    train(folder, "train(0, 1, 6)")
    newest = folder / "run" / "input-000000000006.ckpt"
    flip_last_bit(newest)
    asked = amend(folder, "run", "train.py:pipeline")
    assert asked.stdout.startswith("step 4, ")
    assert asked.stderr.count("the checkpoint of step 6 is damaged") == 1
    assert asked.stderr.splitlines()[-1] == (
        "resumable amend: the checkpoint of step 6 is damaged: its digest does not match its content; "
        "it was passed over"
    )
    assert newest.exists()
    for path in (folder / "run").glob("*.ckpt"):
        path.write_bytes(b"")
    asked = amend(folder, "run", "train.py:pipeline")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "every checkpoint of" in asked.stderr


def test_a_folder_of_several_inputs_needs_a_name(folder: Path) -> None:
    train(folder, "train(0, 1, 2, name='a'); [train(rank, 2, 4, name='b') for rank in range(2)]")
    asked = amend(folder, "run", "train.py:pipeline")
    assert asked.returncode == 2
    assert (
        asked.stderr == "resumable amend: run holds several inputs, choose one with --name: a, b\n"
    )
    assert amend(folder, "run", "train.py:pipeline", "--name", "a").stdout.startswith("step 2,")
    assert amend(folder, "run", "train.py:pipeline", "--name", "b").stdout.startswith("step 4,")
    asked = amend(folder, "run", "train.py:pipeline", "--name", "c")
    assert asked.stderr.endswith("there is no checkpoint of c in run, there are those of a, b\n")


def test_what_cannot_be_asked_is_told(folder: Path) -> None:
    asked = amend(folder, "run", "train.py:pipeline")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr.endswith(
        "RUN must be a folder of checkpoints or its URL, got run, which is not there\n"
    )
    assert not (folder / "run").exists()
    train(folder, "train(0, 1, 2); train(0, 1, 2, plain, 'plain'); train(0, 2, 4, folder='part')")
    asked = amend(folder, ".", "train.py:pipeline")
    assert "there is no checkpoint in .; its folders are part, plain, run" in asked.stderr
    asked = amend(folder, "part", "train.py:pipeline")
    assert "is saved by all of its ranks yet" in asked.stderr
    asked = amend(folder, "run", "train.py:nothing")
    assert (asked.returncode, "train.py:nothing cannot be loaded" in asked.stderr) == (2, True)
    asked = amend(folder, "run", "train.py:shuffled")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "the checkpoint of step 2 in Directory(" in asked.stderr
    assert "does not fit: the state belongs to another pipeline: pipeline" in asked.stderr
    asked = amend(folder, "plain", "train.py:plain")
    assert asked.returncode == 0
    assert about_arguments(asked.stdout)[-2:] == [
        "",
        "No argument of this pipeline says from where on it holds.",
    ]


def test_a_run_in_a_remote_store_is_asked_by_its_url(folder: Path) -> None:
    pytest.importorskip("fsspec")
    train(folder, "train(0, 1, 4, folder='memory://asked')")
    write(folder, "(3, 7)")
    found = told(folder, "memory://asked", "train.py:pipeline")
    assert found["write"] == "weights={0: (7, 3), 8: (3, 7)}"


def str_of(part: rs.Pipeline[int]) -> rs.Pipeline[str]:
    return part.map(str)


def test_the_pipeline_of_one_rank_gives_those_of_all() -> None:
    twice = rs.range(60).shard(1, 2).map(str).shard(2, 3)
    assert rank_share_of(twice.stage) == (5, 6)
    every = [for_rank(twice.stage, rank, 6) for rank in range(6)]
    assert [rank_share_of(stage) for stage in every if stage] == [(rank, 6) for rank in range(6)]
    assert sorted(chain(*(map(int, stage) for stage in every if stage))) == list(range(60))
    assert for_rank(twice.stage, 0, 4) is None
    once = rs.zip(rs.range(9), rs.range(60).partition(4, str_of).shard(1, 4)).prefetch(1)
    other = for_rank(once.stage, 2, 3)
    assert other is not None
    assert rank_share_of(other) == (2, 3)
    assert for_rank(rs.range(9).stage, 2, 3) is not None
