"""`resumable inspect` and `diff`: what they print, for people and for programs."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.checkpoint.envelope import encode
from resumable.cli.main import main
from resumable.cli.texts import show_age
from resumable.views.state_tree import as_json, stage_tree, tree_lines


def pipeline() -> rs.Pipeline[Any]:
    numbers = rs.range(1000).filter(bool).shuffle(1, window=20)
    return rs.zip(numbers, rs.concatenate(rs.range(500), rs.range(600))).repeat(3).batch(4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three checkpoints, one of another input, one damaged, one set aside."""
    now = 1_800_000_000.0
    for name, every in (("input", 20), (rs.task_name("worker", 3), 40)):
        with rs.Checkpointer(
            tmp_path, rs.EverySteps(every), name=name, wall_clock=lambda: now
        ) as checkpointer:
            for _ in checkpointer.resume(pipeline()):
                if checkpointer.step == 60 and name == "input":
                    break
                if checkpointer.step == 40 and name != "input":
                    break
    (tmp_path / "input-000000000099.ckpt").write_bytes(b"junk")
    (tmp_path / "input-000000000098.ckpt.damaged").write_bytes(b"junk")
    (tmp_path / "model-60.npz").write_bytes(b"model")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_folder_is_listed_file_by_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    status, out, _ = run(capsys, "inspect", folder)
    lines = out.splitlines()
    assert status == 1
    assert [line.split()[0] for line in lines[1:]] == [
        "input-000000000020.ckpt",
        "input-000000000040.ckpt",
        "input-000000000060.ckpt",
        "input-000000000098.ckpt.damaged",
        "input-000000000099.ckpt",
        "input_worker_3-000000000040.ckpt",
    ]
    assert lines[3].endswith("valid")
    assert lines[4].endswith("set aside as damaged: it has 4 bytes, too few for a checkpoint")
    assert lines[5].endswith("it has 4 bytes, too few for a checkpoint")
    assert sorted(folder.iterdir()) == before, "something was changed"
    (folder / "input-000000000099.ckpt").unlink()
    assert run(capsys, "inspect", folder)[0] == 0


def test_a_folder_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "inspect", folder, "--json")
    found = json.loads(out)["checkpoints"]
    assert status == 1
    assert [entry["step"] for entry in found] == [20, 40, 60, 98, 99, 40]
    assert {entry["name"] for entry in found} == {"input", "input_worker_3"}
    assert [entry["valid"] for entry in found] == [True, True, True, False, False, True]
    assert found[3]["set_aside"] == "damaged"
    assert found[0]["time"] == 1_800_000_000.0
    assert found[0]["bytes"] == (folder / "input-000000000020.ckpt").stat().st_size


def test_a_checkpoint_is_shown_as_the_tree_of_its_pipeline(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "inspect", folder / "input-000000000060.ckpt")
    assert status == 0
    assert out.startswith("step 60, saved ")
    assert out.split("\n\n")[1].splitlines() == [
        "  Batch",
        "  └─ Repeat                                  pass 0, delivered True",
        "     └─ Zip",
        "        ├─ WindowShuffle(seed=1, window=20)  position 240, drained 0, start 0",
        "        │  └─ Filter",
        "        │     └─ Range(stop=1000)            position 0",
        "        └─ Concatenate                       index 0",
        "           ├─ Range(stop=500)                position 240",
        "           └─ Range(stop=600)",
    ]


def test_a_checkpoint_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "inspect", folder / "input-000000000060.ckpt", "--json")
    found = json.loads(out)
    assert (found["step"], found["valid"], found["state"]["step"]) == (60, True, 60)
    with pipeline().resume(found["state"]) as iterator:
        assert iterator.step == 60


@pytest.mark.parametrize("name", ["input-000000000099.ckpt", "model-60.npz"])
def test_what_is_no_checkpoint_is_said_to_be(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    status, out, _ = run(capsys, "inspect", folder / name)
    assert status == 1
    assert "too few for a checkpoint" in out


def test_a_file_under_the_name_of_another_step_is_not_valid(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "input-000000000070.ckpt"
    path.write_bytes((folder / "input-000000000060.ckpt").read_bytes())
    assert "it holds step 60" in run(capsys, "inspect", path)[1]


def test_nothing_to_read_is_an_error_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, "inspect", tmp_path / "nowhere")
    assert status == 2
    assert err == f"resumable inspect: there is no folder or file {tmp_path / 'nowhere'}\n"
    status, _, err = run(capsys, "inspect", tmp_path / "nowhere", "--history")
    assert status == 2
    assert err.endswith(f"got {tmp_path / 'nowhere'}, which is not there\n")
    (tmp_path / "training").mkdir()
    status, _, err = run(capsys, "inspect", tmp_path)
    assert status == 2
    assert err.endswith(f"there is no checkpoint in {tmp_path}; its folders are training\n")


def test_a_folder_in_which_all_were_set_aside_as_damaged_is_not_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "input-000000000098.ckpt.damaged").write_bytes(b"junk")
    assert run(capsys, "inspect", tmp_path)[0] == 1
    with rs.Checkpointer(tmp_path, rs.AtEnd(), name="other") as checkpointer:
        next(checkpointer.resume(rs.range(5)))
    assert run(capsys, "inspect", tmp_path)[0] == 1


def test_diff_shows_what_moved_stage_by_stage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folder / "input-000000000020.ckpt", folder / "input-000000000060.ckpt"
    status, out, _ = run(capsys, "diff", first, second)
    lines = [line.split() for line in out.splitlines()]
    assert status == 1
    assert lines[:2] == [["A", "is", str(first)], ["B", "is", str(second)]]
    assert lines[4] == ["step", "20", "60", "+40"]
    assert lines[5][-4:] == ["position", "80", "240", "+160"]
    assert lines[5][0].startswith("WindowShuffle(seed=1,")
    assert len(lines) == 7, "something that did not move is shown"
    same = f"{first} and {first} hold the same state of step 20\n"
    assert run(capsys, "diff", first, first) == (0, same, "")
    found = json.loads(run(capsys, "diff", "--json", first, second)[1])
    assert found["differences"][0] == {"what": "step", "a": 20, "b": 60}
    assert len(found["differences"]) == 3


def test_diff_takes_the_newest_valid_one_of_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = folder / "input-000000000060.ckpt"
    assert run(capsys, "diff", folder, newest, "--name", "input")[0] == 0
    status, _, err = run(capsys, "diff", folder, newest)
    assert status == 2
    assert "holds several inputs, choose one with --name: input, input_worker_3" in err
    status, _, err = run(capsys, "diff", folder, newest, "--name", "other")
    assert (status, "no valid checkpoint of other in" in err) == (2, True)


def test_diff_says_that_pipelines_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rs.Checkpointer(folder, rs.AtEnd(), name="other") as checkpointer:
        next(checkpointer.resume(rs.range(5).shuffle(0)))
    other = folder / "other-000000000001.ckpt"
    status, out, _ = run(capsys, "diff", folder / "input-000000000020.ckpt", other)
    assert status == 1
    assert "\nThey were saved by different pipelines.\n" in out
    assert "Shuffle(seed=0) at pipeline: position" in out


def test_diff_of_what_cannot_be_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = folder / "input-000000000020.ckpt"
    (tmp_path / "empty").mkdir()
    for bad in ("input-000000000099.ckpt", "nowhere", "empty"):
        status, _, err = run(capsys, "diff", good, folder / bad)
        assert status == 2
        assert err.startswith("resumable diff: ")


def test_states_with_everything_a_state_may_hold_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {
        "array": np.arange(3), "big": 2**100, "bytes": b"x" * 100, "nan": float("nan"),
        "complex": 1j, "tuple": (1, None), "scalar": np.float32(2), "escape": "\x1b[2J",
        "\x1b[31mkey": 1, "epoch": "\x1b]0;title\x07", "ahead": np.arange(3), "huge": 2**100_000,
    }  # fmt: skip
    path = tmp_path / "input-000000000001.ckpt"
    path.write_bytes(encode(rs.Checkpoint(1, float("nan"), state)))
    other = tmp_path / "input-000000000002.ckpt"
    other.write_bytes(encode(rs.Checkpoint(2, 1e300, state | {"huge": 2**90_000})))
    assert run(capsys, "diff", path, path)[0] == 0
    status, out, _ = run(capsys, "diff", path, other)
    assert (status, "\x1b" in out) == (1, False)
    assert run(capsys, "diff", path, other, "--json")[0] == 1
    status, out, _ = run(capsys, "inspect", path)
    assert status == 0
    assert "array array of int64, shape (3,)" in out
    assert "\x1b" not in out
    status, out, _ = run(capsys, "inspect", path, "--json")
    assert json.loads(out)["state"]["array"] == {"dtype": "int64", "values": [0, 1, 2]}
    assert json.loads(out)["state"]["big"] == 2**100
    assert "NaN" not in out


@pytest.mark.parametrize(
    "fingerprint",
    [
        "",
        "5",
        "[]",
        "[5]",
        '["\\u001b[2J"]',
        '["Range",{"\\u001b":1}]',
        "[" * 5000,
        '["A",["B",7]]',
    ],
)
def test_a_fingerprint_from_elsewhere_is_shown_as_it_is(fingerprint: str) -> None:
    lines = tree_lines(stage_tree({"fingerprint": fingerprint, "pipeline": {"position": 1}}))
    assert len(lines) == 1
    assert "\x1b" not in lines[0]


@pytest.mark.parametrize("levels", [100, 700, 900])
def test_a_field_from_elsewhere_may_be_nested_deeply(
    levels: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    field, source = "[" * levels + "]" * levels, '["Range",{"stop":9}]'
    fingerprint = f'["ByEpoch",{{"starts":[0,1]}},["Batch",{{"size":{field}}},{source}],{source}]'
    path = tmp_path / "input-000000000001.ckpt"
    path.write_bytes(encode(rs.Checkpoint(1, 0.0, {"fingerprint": fingerprint})))
    assert run(capsys, "inspect", path)[0] == 0
    status, out, _ = run(capsys, "inspect", path, "--json")
    assert status == 0
    (argument,) = json.loads(out)["arguments"]
    assert ("nested" in str(argument["pairs"])) == (levels > 100)


def test_ages_are_told_in_the_two_largest_units() -> None:
    ages = [0, 59.6, 3600, 90061, -5, 1e300]
    assert [show_age(age) for age in ages] == [
        "0 s", "1 min 0 s", "1 h 0 min", "1 d 1 h", "-5 s", "1e+300 s",
    ]  # fmt: skip


def test_json_has_no_values_that_json_lacks() -> None:
    assert as_json([float("inf"), b"\x01", (1, 2j)]) == [
        {"float": "inf"}, {"bytes": "01"}, [1, {"complex": [0.0, 2.0]}],
    ]  # fmt: skip


def save_parts(folder: Path, steps: list[int]) -> None:
    """Save every second step, as so many ranks that come so far."""
    for rank, last in enumerate(steps):
        with rs.Checkpointer(
            folder, rs.EverySteps(2), rank=rank, ranks=len(steps), save_at_end=False
        ) as checkpointer:
            for _ in checkpointer.resume(rs.range(100).shard(rank, len(steps))):
                if checkpointer.step > last:
                    break


def test_the_parts_of_a_step_are_shown_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_parts(tmp_path, [4, 6, 2, 6, 6, 6])
    status, out, _ = run(capsys, "inspect", tmp_path)
    rows = [line.split() for line in out.splitlines()[1:]]
    assert status == 0
    assert all(row[0].endswith("-*-of-00006.ckpt") for row in rows)
    assert [row[1] for row in rows] == ["2", "4", "6"]
    assert out.splitlines()[1].endswith("valid")
    assert out.splitlines()[2].endswith("it has 5 of 6 parts, and lacks that of rank 2")
    assert out.splitlines()[3].endswith("it has 4 of 6 parts, and lacks that of rank 0, 2")
    _, told, _ = run(capsys, "inspect", tmp_path, "--json")
    found = json.loads(told)["checkpoints"]
    assert [(entry["ranks"], entry["valid"], entry["incomplete"]) for entry in found] == [
        (6, True, False), (6, False, True), (6, False, True)
    ]  # fmt: skip
    assert found[0]["bytes"] == sum(
        path.stat().st_size for path in tmp_path.glob("input-000000000002.*")
    )
    part = min(tmp_path.glob("input-000000000004.*"))
    assert "\nthe part of rank 0 of 6\n" in run(capsys, "inspect", part)[1]


def test_a_damaged_part_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_parts(tmp_path, [4, 4])
    parts = sorted(tmp_path.glob("input-000000000004.*"))
    parts[1].write_bytes(b"junk")
    status, out, _ = run(capsys, "inspect", tmp_path)
    assert status == 1
    assert "the part of rank 1 of 2: it has 4 bytes, too few" in out
    parts[1].write_bytes(parts[0].read_bytes())
    assert (
        "the part of rank 1 of 2: it holds the part of rank 0 of 2"
        in run(capsys, "inspect", tmp_path)[1]
    )


def test_diff_compares_whole_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_parts(tmp_path / "two", [4, 6])
    save_parts(tmp_path / "four", [4, 4, 4, 4])
    status, out, _ = run(capsys, "diff", tmp_path / "two", tmp_path / "four")
    assert status == 1
    (line,) = [line for line in out.splitlines() if ": position" in line]
    assert line.split()[-3:] == ["8", "16", "+8"]


def partitioned(rank: int = 0, ranks: int = 1, uneven: str = "keep") -> rs.Pipeline[Any]:
    numbers = rs.range(60).partition(6, lambda part: part.shuffle(1).shuffle(2, window=3).batch(2))
    return numbers.shard(rank, ranks, uneven=uneven).map(abs).take(28)


def saved_at(folder: Path, step: int, pipeline: rs.Pipeline[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    with rs.Checkpointer(folder, rs.AtSteps([step]), save_at_end=False) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            pass
    (path,) = folder.glob("*.ckpt")
    return path


def test_partitions_are_shown_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (
        saved_at(tmp_path / "a", 8, partitioned()),
        saved_at(tmp_path / "b", 26, partitioned()),
    )
    status, out, _ = run(capsys, "inspect", first)
    assert status == 0
    assert out.split("\n\n")[1].splitlines() == [
        "  Take                                         position 8",
        "  └─ Map",
        "     └─ Partition                              partitions 6, positions 1..2, ended False",
        "        └─ Batch(batch_size=2)",
        "           └─ WindowShuffle(seed=2, window=3)  position 2..4, drained 0, start 0",
        "              └─ Shuffle(seed=1)               position 0",
        "                 └─ Part(count=6)",
        "                    └─ Range(stop=60)",
    ]
    assert run(capsys, "inspect", second)[1].count("positions 4..5, ended False") == 1
    status, out, _ = run(capsys, "diff", first, second)
    assert status == 1
    assert [line.split("  ")[-1].strip() for line in out.splitlines()[5:]] == [
        "+18",
        "in partitions 0, 1, 2, 3 and 2 more",
        "in partitions 0, 1, 2, 3 and 2 more",
        "in partitions 0, 1",
    ]
    _, out, _ = run(capsys, "diff", first, second, "--json")
    moved = {entry["what"]: entry["b"] for entry in json.loads(out)["differences"]}
    assert moved["Partition at pipeline.upstream.upstream: positions"] == {
        "0": 5, "1": 5, "2": 4, "3": 4, "4": 4, "5": 4,
    }  # fmt: skip


def test_states_of_two_ranks_differ_in_their_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [saved_at(tmp_path / str(rank), 4, partitioned(rank, 2, "drop")) for rank in range(2)]
    out = run(capsys, "inspect", paths[1])[1]
    assert "left 11, ranks 2, uneven 'drop', partitions 3, positions 1..2, ended False" in out
    out = run(capsys, "diff", *paths)[1]
    assert "in partitions 0, 1, 2, 3 and 2 more" in out


def test_partitions_that_have_ended_are_counted() -> None:
    numbers = rs.range(9).partition(4, lambda part: part.filter(lambda number: number != 7))
    with iter(numbers) as iterator:
        for ended in ("False", "1 of 4", "True"):
            shown = f"partitions 4, positions 1..{2 if ended == 'False' else 3}, ended {ended}"
            iterator.skip(7 if ended == "False" else 1)
            assert shown in tree_lines(stage_tree(iterator.get_state()))[0]


def test_what_only_claims_to_be_partitions_is_shown_as_it_is() -> None:
    with iter(rs.range(9).partition(2, lambda part: part.map(abs))) as iterator:
        state = iterator.get_state()
    for junk in ([10**5000, 1], ["x", 0], 3, [0] * 20_000, [0]):
        broken = {**state, "pipeline": {**state["pipeline"], "partitions": junk}}
        assert tree_lines(stage_tree(broken))


def test_a_url_is_read_as_a_folder_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fsspec")
    url = f"memory://{uuid.uuid4()}/run"
    for rank in range(2):
        with rs.Checkpointer(url, rs.EverySteps(2), rank=rank, ranks=2) as checkpointer:
            for _ in checkpointer.resume(rs.range(8).shard(rank, 2)):
                pass
    status, out, _ = run(capsys, "inspect", url)
    assert status == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["2", "4"]
    assert out.count("valid") == 2
    found = json.loads(run(capsys, "inspect", url, "--json")[1])
    assert found["folder"] == url
    assert found["checkpoints"][0]["file"].startswith(f"{url}/input-000000000002.")
    part = found["checkpoints"][0]["file"].replace("-*-of-", "-00001-of-")
    status, out, _ = run(capsys, "inspect", part)
    assert (status, "the part of rank 1 of 2" in out) == (0, True)
    status, _, err = run(capsys, "inspect", f"{url}-elsewhere")
    assert (status, err.startswith(f"resumable inspect: there is no checkpoint in {url}-e")) == (
        2,
        True,
    )
    status, _, err = run(capsys, "inspect", "nothing://bucket/run")
    assert status == 2
    assert "url must be one that fsspec knows" in err
