"""`resumable trace`: the records of a step, and the steps of a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command import call_command
from support.damaged import flip_last_bit
from support.tiers import thinned

import resumable as rs

TRAIN = """
import resumable as rs

def fails(item):
    raise AssertionError("an item was read")

def pipeline(rank=0, ranks=1):
    print("data are opened")
    inputs = {name: rs.jsonl(f"{name}.jsonl").shuffle(seed=0) for name in "ab"}
    return rs.mix(inputs, stop="all").shard(rank, ranks).batch(2)

def by_ranks(rank=0, ranks=1):
    inputs = {name: rs.jsonl(f"{name}.jsonl").shuffle(seed=0) for name in "ab"}
    return rs.mix(inputs, stop="all").shard(rank, ranks).batch(4 // ranks)

def in_two_folders(rank=0, ranks=1):
    return rs.jsonl(["a.jsonl", "old/a.jsonl"]).shuffle(seed=0).batch(2)

def by_year(rank=0, ranks=1):
    inputs = {"2023": rs.jsonl("a.jsonl"), "2024": rs.jsonl("b.jsonl")}
    return rs.mix(inputs, stop="all").batch(2)

as_one = by_ranks(0, 1)
by_index = rs.range(10**12).shuffle(seed=0).map(fails).batch(2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text("\n".join(f'"{name}{n}"' for n in range(20)))
    return tmp_path


def pipeline(folder: Path, rank: int, ranks: int) -> rs.Pipeline[Any]:
    inputs = {name: rs.jsonl(folder / f"{name}.jsonl").shuffle(seed=0) for name in "ab"}
    return rs.mix(inputs, stop="all").shard(rank, ranks).batch(2)


@pytest.fixture
def seen(folder: Path) -> dict[tuple[int, int], list[str]]:
    """What each rank had at each step of a run."""
    found = {}
    for rank in range(2):
        checkpointer = rs.Checkpointer(folder / "run", rs.EverySteps(3), rank=rank, ranks=2)
        with checkpointer:
            for batch in checkpointer.resume(pipeline(folder, rank, 2)):
                found[checkpointer.step, rank] = batch
                if checkpointer.step == 6:
                    break
    return found


Seen = dict[tuple[int, int], list[str]]


def trace(folder: Path, *arguments: str, target: str = "train.py:pipeline") -> tuple[int, str, str]:
    done = call_command(folder, "trace", "run", target, *arguments)
    return done.returncode, done.stdout, done.stderr


def test_each_step_is_printed_with_its_records(folder: Path, seen: Seen) -> None:
    for (step, rank), items in seen.items():
        status, printed, errors = trace(folder, "--step", str(step), "--rank", str(rank))
        heading, names, *rows = printed.splitlines()
        assert (status, heading) == (0, f"step {step}, rank {rank} of 2, epoch 0")
        assert names.split() == ["place", "input", "file", "record", "begins", "with"]
        assert [row.split('"')[1] for row in rows] == items
        for row, item in zip(rows, items, strict=True):
            assert row.split()[2:5] == [item[0], f"{item[0]}.jsonl", item[1:]]
        assert "data are opened" in errors


def test_a_function_is_asked_for_the_pipeline_of_as_many_ranks_as_there_were(
    folder: Path, seen: Seen
) -> None:
    for rank in range(2):
        chosen = ("--step", "5", "--rank", str(rank), "--json")
        status, printed, errors = trace(folder, *chosen, target="train.py:by_ranks")
        assert (status, errors) == (0, "")
        assert printed == trace(folder, *chosen)[1]
    status, printed, errors = trace(folder, "--step", "5", target="train.py:as_one")
    assert (status, printed) == (2, "")
    assert "with this pipeline their 2 ranks do not come from the checkpoint" in errors


def test_a_record_is_found_in_its_step_alone(folder: Path, seen: Seen) -> None:
    for (step, rank), items in seen.items():
        for item in thinned(items, 2, (step, rank)):
            status, printed, _ = trace(folder, "--find", f"{item[0]}.jsonl:{item[1:]}", "--json")
            (found,) = json.loads(printed)
            assert (status, found["step"], found["rank"], found["past"]) == (0, step, rank, True)
            assert found["origin"]["record"] == int(item[1:])


def test_records_that_are_to_come_are_told_apart(folder: Path, seen: Seen) -> None:
    past = [item for items in seen.values() for item in items]
    item = next(f"a{number}" for number in range(20) if f"a{number}" not in past)
    _, printed, _ = trace(folder, "--find", f"a:{item[1:]}")
    assert printed.splitlines()[1].endswith("after the newest checkpoint")


def test_the_records_of_several_steps_are_left_out(folder: Path, seen: Seen) -> None:
    for step in ("1", "2", "1"):
        assert trace(folder, "--step", step, "--exclude", "bad.json")[0] == 0
    (records,) = rs.read_exclusions(folder / "bad.json").values()
    bad = {item for (step, _), items in seen.items() if step <= 2 for item in items}
    found = {
        f"{name}{number}"
        for name, files in records.items()
        for numbers in files.values()
        for number in numbers
    }
    assert found == bad
    inputs = {name: rs.jsonl(folder / f"{name}.jsonl").shuffle(seed=0) for name in "ab"}
    cleaned = list(rs.mix(inputs, stop="all").exclude({0: records}))
    assert bad.isdisjoint(cleaned)
    assert len(cleaned) == 40 - len(bad)


def test_one_row_of_a_batch_is_chosen(folder: Path, seen: Seen) -> None:
    chosen = ("--step", "2", "--rank", "0", "--place", "row 1")
    status, printed, _ = trace(folder, *chosen, "--exclude", "bad.json")
    _, item = seen[2, 0]
    (row,) = printed.splitlines()[2:]
    assert (status, row.split('"')[1]) == (0, item)
    # Named as a user would write it, so that the file is good on another machine too.
    records = {item[0]: {f"{item[0]}.jsonl": [int(item[1:])]}}
    assert rs.read_exclusions(folder / "bad.json") == {0: records}
    (told,) = json.loads(trace(folder, *chosen, "--json")[1])
    assert (told["place"], told["origin"]["record"]) == ("row 1", int(item[1:]))


def test_records_join_those_of_their_file_by_whatever_name_it_has(folder: Path, seen: Seen) -> None:
    _, item = seen[2, 0]
    path = str(folder / f"{item[0]}.jsonl")
    (folder / "bad.json").write_text(json.dumps({item[0]: {path: [99]}}))
    trace(folder, "--step", "2", "--rank", "0", "--place", "row 1", "--exclude", "bad.json")
    kept = json.loads((folder / "bad.json").read_text())
    assert kept == {item[0]: {path: sorted([99, int(item[1:])])}}


def test_a_file_is_named_by_its_whole_path_where_that_of_another_one_ends_so(folder: Path) -> None:
    for name in ("run", "old"):
        (folder / name).mkdir()
    (folder / "old" / "a.jsonl").write_text("\n".join(f'"old{n}"' for n in range(20)))
    for step in map(str, range(1, 6)):
        chosen = ("--step", step, "--exclude", "bad.json")
        assert trace(folder, *chosen, target="train.py:in_two_folders")[0] == 0
    (records,) = rs.read_exclusions(folder / "bad.json").values()
    assert set(records) == {str(folder / "a.jsonl"), "old/a.jsonl"}
    items = rs.jsonl([folder / "a.jsonl", folder / "old" / "a.jsonl"]).shuffle(seed=0)
    assert list(items.exclude(records)) == list(items)[10:]


def test_names_that_are_digits_are_not_taken_for_items(folder: Path) -> None:
    (folder / "run").mkdir()
    for step in ("1", "2"):
        chosen = ("--step", step, "--exclude", "bad.json")
        assert trace(folder, *chosen, target="train.py:by_year")[0] == 0
    found = rs.read_exclusions(folder / "bad.json")
    assert found.keys() == {0}
    inputs = {"2023": rs.jsonl(folder / "a.jsonl"), "2024": rs.jsonl(folder / "b.jsonl")}
    mixed = rs.mix(inputs, stop="all")
    assert sorted(mixed.exclude(found)) == sorted(list(mixed)[4:])


def test_a_program_gets_an_empty_list_where_nothing_is_found(folder: Path, seen: Seen) -> None:
    for chosen in (("--step", "99"), ("--find", "c.jsonl:1")):
        assert trace(folder, *chosen, "--json")[:2] == (1, "[]\n")


def test_a_damaged_checkpoint_is_told_of_once(folder: Path, seen: Seen) -> None:
    for path in (folder / "run").glob("*03*.ckpt"):
        flip_last_bit(path)
    assert trace(folder, "--find", "a:1")[2].count("step 3 is passed over: ") == 1


def test_json_has_the_whole_origin(folder: Path, seen: Seen) -> None:
    (found,) = json.loads(trace(folder, "--step", "4", "--rank", "1", "--json")[1])
    assert {key: found[key] for key in ("step", "rank", "ranks", "epoch")} == {
        "step": 4, "rank": 1, "ranks": 2, "epoch": 0,
    }  # fmt: skip
    for record, item in zip(found["origin"], seen[4, 1], strict=True):
        content = (folder / f"{item[0]}.jsonl").read_text()
        assert content[record["offset"] :].startswith(f'"{item}"')
        assert record["inputs"] == [item[0]]


def test_a_step_far_ahead_reads_no_item_and_needs_no_checkpoint(folder: Path) -> None:
    (folder / "run").mkdir()
    status, printed, errors = trace(folder, "--step", str(10**9), target="train.py:by_index")
    expected = rs.range(10**12).shuffle(seed=0)[2 * 10**9 - 2]
    assert status == 0
    assert printed.splitlines()[2].split()[2] == str(expected)
    assert "steps are counted from the start" in errors


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--step", "1", "--rank", "2"], 2, "rank must be below the number of ranks of that time, 2"),
        (["--find", "a.jsonl"], 2, "--find must be a number, or FILE:NUMBER"),
        (["--find", "a:1", "--exclude", "bad.json"], 2, "--exclude needs --step"),
        (["--find", "a:1", "--place", "row 1"], 2, "--place needs --step"),
        (["--find", "c.jsonl:1"], 1, "no step had the record c.jsonl:1"),
        (["--find", "a:99", "--rank", "1"], 1, "no step of rank 1 had the record a:99"),
        (["--step", "99"], 1, "there is no step 99"),
        (["--step", "99", "--exclude", "bad.json"], 1, "there is no step 99"),
        (["--step", "1", "--place", "row 9"], 1, "there is no step 1, or nothing in it at row 9"),
        (["--step", "1", "--name", "other"], 2, "there is no checkpoint of other"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_not_there_is_told(
    folder: Path, seen: Seen, arguments: list[str], status: int, told: str
) -> None:
    found, printed, errors = trace(folder, *arguments)
    assert (found, printed) == (status, "")
    assert told in errors
    assert not (folder / "bad.json").exists()


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ("[3]", "bad.json must hold records by name"),
        ('{"0": [], "40": {"a": {"a.jsonl": [3]}}}', "name another file"),
        ("{0: [], 4_000: {'a': {'a.jsonl': [3]}}}", "name another file"),
        ("{3", "bad.json must hold a list of numbers"),
    ],
)
def test_a_file_of_another_form_is_not_written_over(
    folder: Path, seen: Seen, held: str, told: str
) -> None:
    (folder / "bad.json").write_text(held)
    status, _, errors = trace(folder, "--step", "1", "--exclude", "bad.json")
    assert status == 2
    assert told in errors
    assert (folder / "bad.json").read_text() == held


def test_a_file_that_holds_nothing_yet_gets_the_records(folder: Path, seen: Seen) -> None:
    for held in ("[]", "{}", "[ ]\n"):
        (folder / "bad.json").write_text(held)
        assert trace(folder, "--step", "1", "--exclude", "bad.json")[0] == 0
        (records,) = rs.read_exclusions(folder / "bad.json").values()
        assert records.keys() <= {"a", "b"}
        assert records
