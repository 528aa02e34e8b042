"""`resumable amend` says from which epoch on a run may have other pipelines, and whether further inputs may follow."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from changes.test_amend import about_arguments, amend, told, train
from changes.test_by_epoch import advised
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.checkpoint.ranks.parts import WholeSteps
from resumable.checkpoint.standing import run_standing
from resumable.core.pipelines_by_epoch import pipeline_shown
from resumable.state.saved_pipeline import SavedPipeline

TRAIN = """
import resumable as rs

OLD, NEW, NEWEST = rs.range(9), rs.range(12), rs.range(20, 25)
DATA = OLD
EPOCHS = 6
MORE = ()


def repeated():
    return DATA.shuffle(1).repeat(EPOCHS).batch(2)


def dealt(rank=0, ranks=1):
    return DATA.shuffle(1).repeat(EPOCHS).shard(rank, ranks).batch(2)


def shuffled():
    return DATA.repeat(3).shuffle(1).batch(2)


def once():
    return DATA.shuffle(1).batch(2)


def nested():
    return DATA.repeat(2).skip(1).repeat(5).batch(2)


def joined():
    return rs.concatenate(OLD, NEW, *MORE).batch(2)


def train(rank, ranks, steps, make=repeated, folder="run"):
    arguments = {} if ranks == 1 else {"rank": rank, "ranks": ranks}
    with rs.Checkpointer(folder, rs.EverySteps(1), save_at_end=False, **arguments) as checkpointer:
        for number, item in enumerate(checkpointer.resume(make(**arguments))):
            if number == steps:
                break
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user works: a program, and nothing saved yet."""
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def write(folder: Path, **values: str) -> None:
    text = (folder / "train.py").read_text()
    for name, value in values.items():
        text = re.sub(f"^{name} = .*", f"{name} = {value}", text, flags=re.M)
    (folder / "train.py").write_text(text)


def rows(folder: Path, *arguments: str) -> list[str]:
    asked = amend(folder, *arguments)
    assert asked.stderr == ""
    return about_arguments(asked.stdout)[2:]


def test_before_a_repeat_it_says_what_to_put_there(folder: Path) -> None:
    for epochs in ("6", "None"):
        write(folder, EPOCHS=epochs, DATA="OLD")
        run = f"run {epochs}"
        train(folder, f"train(0, 1, 10, folder={run!r})")  # 22 items, so epoch 2 is begun
        repeat = "Repeat(epochs=6)" if epochs == "6" else "Repeat()"
        may_change = (
            "  may change     from epoch 3 on, as by_epoch({0: <what is there>, 3: new}) before "
            + repeat
        )
        assert rows(folder, run, "train.py:repeated") == [
            "Repeat at pipeline.upstream",
            may_change,
            "  this code has  one pipeline for all epochs, of Range(stop=9), with which the run can go on",
        ]
        write(folder, DATA="rs.by_epoch({0: NEW})")  # which is NEW
        assert rows(folder, run, "train.py:repeated")[1:] == [
            may_change,
            "  the run has    one pipeline for all epochs, of Range(stop=9)",
            "  this code has  one pipeline for all epochs, of Range(stop=12)",
            f"  write          by_epoch({{0: as saved, 3: as here}}) before {repeat}",
        ]
        write(folder, DATA="rs.by_epoch({0: OLD, 3: NEW})")
        assert rows(folder, run, "train.py:repeated") == [
            "Repeat at pipeline.upstream",
            "  may change     from epoch 3 on, as by_epoch({0: as saved, 3: new})",
            "  this code has  by_epoch({0: Range(stop=9), 3: Range(stop=12)}), with which the run can go on",
        ]
        train(folder, f"train(0, 1, 6, folder={run!r})")  # 36 items, so epoch 3 is begun
        write(folder, DATA="rs.by_epoch({0: OLD, 2: NEW, 5: NEWEST})")
        found = told(folder, run, "train.py:repeated", of="pipelines")
        assert found["may_change_from"] == 4
        assert found["saved"] == "by_epoch({0: Range(stop=9), 3: Range(stop=12)})"
        assert found["write"] == "by_epoch({0: as saved, 3: as saved, 4: as here, 5: as here})"
        write(folder, DATA="rs.by_epoch({0: OLD, 3: NEW, 4: NEW, 5: NEWEST})")
        assert told(folder, run, "train.py:repeated", of="pipelines")["agrees"]


def test_the_rank_that_is_furthest_counts(folder: Path) -> None:
    train(folder, "for rank in range(2): train(rank, 2, 3 + rank, dealt)")  # step 4, of 16 items
    write(folder, DATA="rs.by_epoch({0: OLD, 1: NEW})")
    found = told(folder, "run", "train.py:dealt", of="pipelines")
    assert (found["unit"], found["may_change_from"]) == ("epoch", 2)
    assert found["write"] == "by_epoch({0: as saved, 2: as here})"
    # Here the epoch follows from the number of items in each, which only the pipeline that was saved tells.
    write(folder, DATA="NEW")
    asked = amend(folder, "run", "train.py:dealt")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr.endswith(
        "; to learn from which epoch on it may be another one, write by_epoch({0: as saved, 1: as here}) before "
        "Repeat(epochs=6)\n"
    )


def test_epochs_of_the_loop_are_told_where_they_have_pipelines(folder: Path) -> None:
    train(folder, "train(0, 1, 2, once)")
    assert rows(folder, "run", "train.py:once") == [
        "No argument of this pipeline says from where on it holds."
    ]
    write(folder, DATA="rs.by_epoch({0: OLD, 2: NEW})")
    assert rows(folder, "run", "train.py:once") == [
        "ByEpoch at pipeline",
        "  may change     from epoch 1 on, as by_epoch({0: as saved, 1: new})",
        "  this code has  by_epoch({0: Range(stop=9), 2: Range(stop=12)}), with which the run can go on",
    ]
    write(folder, DATA="rs.by_epoch({0: NEW, 2: OLD})")
    found = told(folder, "run", "train.py:once", of="pipelines")
    assert found["write"] == "by_epoch({0: as saved, 1: as here, 2: as here})"


def test_where_any_epoch_may_have_been_begun_nothing_can_change(folder: Path) -> None:
    train(folder, "train(0, 1, 2, shuffled)")
    why = "nowhere: a later stage may have begun any of its epochs"
    assert rows(folder, "run", "train.py:shuffled")[1] == f"  may change     {why}"
    write(folder, DATA="rs.by_epoch({0: OLD, 2: NEW})")
    assert rows(folder, "run", "train.py:shuffled")[1:] == [
        f"  may change     {why}",
        "  the run has    one pipeline for all epochs, of Range(stop=9)",
        "  this code has  by_epoch({0: Range(stop=9), 2: Range(stop=12)})",
        "  keep           one pipeline for all epochs, of Range(stop=9)",
    ]
    write(folder, DATA="NEW")  # nothing says that this is a change
    asked = amend(folder, "run", "train.py:shuffled")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "saved stop=9, this pipeline has stop=12" in asked.stderr


def test_of_repeats_in_repeats_each_is_told_with_its_own_epochs(folder: Path) -> None:
    train(folder, "train(0, 1, 10, nested)")
    assert [line for line in rows(folder, "run", "train.py:nested") if "this" not in line] == [
        "Repeat at pipeline.upstream",
        "  may change     from epoch 2 on, as by_epoch({0: <what is there>, 2: new}) before Repeat(epochs=5)",
        "",
        "Repeat at pipeline.upstream.upstream.upstream",
        "  may change     nowhere: a later stage may have begun any of its epochs",
    ]
    write(folder, DATA="rs.by_epoch({0: OLD, 4: NEW})")
    assert amend(folder, "run", "train.py:nested").returncode == 0


def test_of_a_concatenation_it_says_whether_further_inputs_may_follow(folder: Path) -> None:
    train(folder, "train(0, 1, 5, joined)")
    assert rows(folder, "run", "train.py:joined") == [
        "Concatenate at pipeline.upstream",
        "  may change     at its end: further inputs may follow these 2",
        "  this code has  2 inputs, with which the run can go on",
    ]
    write(folder, MORE="(NEWEST,)")
    found = told(folder, "run", "train.py:joined", of="upstreams")
    assert (found["agrees"], found["may_change_from"]) == (True, 2)
    assert (found["saved"], found["present"]) == ("2 inputs", "3 inputs")
    write(folder, MORE="()")
    train(folder, "train(0, 1, 6, joined)")  # to the end
    why = (
        "the end of the inputs that there were may have been read, so none can follow them in this epoch any "
        "more"
    )
    assert rows(folder, "run", "train.py:joined")[1] == f"  may change     nowhere: {why}"
    assert amend(folder, "run", "train.py:joined").returncode == 0
    write(folder, MORE="(NEWEST,)")
    assert rows(folder, "run", "train.py:joined")[1:] == [
        f"  may change     nowhere: {why}",
        "  the run has    2 inputs",
        "  this code has  3 inputs",
        "  keep           2 inputs",
    ]
    write(folder, MORE="(rs.from_iterable(lambda: iter(())),)")
    found = told(folder, "run", "train.py:joined", of="upstreams")
    assert (found["agrees"], found["write"]) == (False, None)


Pipelines = Mapping[int, rs.Pipeline[Any]]
Make = Callable[[Pipelines, int, int], rs.Pipeline[Any]]
OLD, NEW = rs.range(11), rs.range(100, 117)
DEALS: Mapping[str, Make] = {
    "shard": lambda chosen, rank, ranks: (
        rs.by_epoch(chosen).shuffle(1).repeat(50).shard(rank, ranks)
    ),
    "stream": lambda chosen, rank, ranks: (
        rs.by_epoch(chosen).filter(bool).repeat().shard(rank, ranks).map(str, workers=2)
    ),
    "repeat of partitions": lambda chosen, rank, ranks: (
        rs.by_epoch(chosen).partition(5, lambda part: part.map(str)).repeat(50).shard(rank, ranks)
    ),
    "partitions that repeat": lambda chosen, rank, ranks: (
        rs.by_epoch(chosen).partition(5, lambda part: part.shuffle(1).repeat(50)).shard(rank, ranks)
    ),
}


def resume(store: rs.Memory, made: rs.Pipeline[Any], rank: int, ranks: int) -> Any:
    """The loop of a rank where the newest checkpoint left it."""
    return rs.Checkpointer(
        store, rs.EverySteps(2), rank=rank, ranks=ranks, save_at_end=False
    ).resume(made)


@pytest.mark.filterwarnings("ignore:step .* can be resumed by .* ranks only")
@pytest.mark.parametrize("name", DEALS)
@given(ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)), steps=st.integers(2, 30))
def test_the_epoch_is_the_first_that_every_rank_accepts(
    name: str, ranks: tuple[int, int], steps: int
) -> None:
    make, store = DEALS[name], rs.Memory()
    before, after = ranks
    if name == "repeat of partitions":
        after = before  # whose epochs end at other steps on each rank
    for rank in range(before):
        with_loop = resume(store, make({0: OLD}, rank, before), rank, before)
        for _ in islice(with_loop, steps + 1):
            pass
        with_loop.close()
    changed = {0: OLD, 1: NEW, 40: OLD}
    told = []
    for rank in range(after):
        try:
            resume(store, make(changed, rank, after), rank, after).close()
        except rs.StateMismatch as error:
            told.append(sorted(advised(error) or {})[1])
    found = run_standing(store, make(changed, after - 1, after).stage)
    assert found is not None
    (argument,) = found.arguments
    first = int(argument.value.reached)
    assert first == max([1, *told])
    write = f"by_epoch({{0: as saved, {first}: as here, 40: as here}})"
    assert argument.value.to_write == write or not told
    assert argument.value.agrees is not bool(told)
    for rank in range(after):
        resume(store, make({0: OLD, first: NEW}, rank, after), rank, after).close()


def test_of_pipelines_by_epoch_those_of_the_furthest_rank_can_change() -> None:
    def make(weights: Mapping[str, Any], rank: int) -> rs.Pipeline[Any]:
        first = rs.mix(OLD, NEW, weights=weights["first"])
        second = rs.mix(NEW, OLD, weights=weights["second"]).map(int)
        parts = rs.by_epoch({0: first, 1: second}).partition(2, lambda part: part.filter(is_low))
        return parts.repeat(9).shard(rank, 2)

    store, weights = rs.Memory(), {"first": (2, 1), "second": (3, 2)}
    for rank in range(2):
        loop = resume(store, make(weights, rank), rank, 2)
        list(islice(loop, 5))
        loop.close()
    passes = [one.state["pipeline"]["pass"] for one in WholeSteps(store).checkpoints(4)]
    assert passes == [0, 1]
    found = run_standing(store, make(weights, 0).stage)
    assert found is not None
    assert [
        (one.stage, one.path.count("upstream"), one.value.reached) for one in found.arguments
    ] == [
        ("Repeat", 0, 2),
        ("Mix", 5, math.inf),
    ]
    assert found.arguments[1].value.saved == ((0, (3, 2)),)


def is_low(number: int) -> bool:
    return number % 2 > 0 or number < 5


def test_pipelines_by_epoch_are_told_next_to_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    epochs = rs.by_epoch({0: rs.range(3), 1: rs.range(5)}).repeat(7)
    pipeline = rs.mix(epochs, rs.lines(tmp_path / "a.txt"))
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
        list(islice(checkpointer.resume(pipeline), 3))
    found = run_standing(store, pipeline.stage)
    assert found is not None
    assert [one.value.argument.argument for one in found.arguments] == ["weights", "pipelines"]


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        (["Range", {"stop": 9}], "Range(stop=9)"),
        (
            ["Lines", {"files": "'a.jsonl' and 3 more, 200 lines, 22f5", "contents": {"index": "ca"}}],
            "Lines(files=<'a.jsonl' and 3 more, 200 lines, 22f5>)",
        ),
        (["Lines", {"files": "it's \x1b[2J"}], "Lines(files=\"it's \\x1b[2J\")"),
        (["Lines", {"files": "word " * 50}], f"Lines(files='{'word ' * 15}word..."),
        (["Lines", {"files": "w" * 200}], f"Lines(files='{'w' * 84}..."),
        (
            ["Mix", {}, *[["Range", {"stop": number * 10**9}] for number in range(1, 9)]],
            "Range(stop=1000000000) + 7 more",
        ),
    ],
)  # fmt: skip
def test_sources_are_shown_whole_or_cut_between_words(node: list[Any], shown: str) -> None:
    assert pipeline_shown(SavedPipeline.of_node(node)) == shown
