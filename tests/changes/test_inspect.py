"""`resumable inspect` shows the arguments by position that a checkpoint carries, without the pipeline."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.catalogue import catalogue, write_data
from support.command import call_command, run_command

import resumable as rs
from resumable.core.graph import walk
from resumable.core.saved_arguments import saved_arguments


def saved(folder: Path, pipeline: rs.Pipeline[Any], ranks: int = 1) -> Path:
    """A checkpoint of the pipeline, or that of the last rank."""
    for rank in range(ranks):
        with rs.Checkpointer(folder, rs.AtEnd(), rank=rank, ranks=ranks) as checkpointer:
            next(checkpointer.resume(pipeline))
    return sorted(folder.glob("*.ckpt"))[-1]


def test_each_argument_is_shown_with_its_positions(tmp_path: Path) -> None:
    named = {"web": rs.range(90), "math": rs.range(90), "code": rs.range(90)}
    inner = rs.mix(
        named,
        weights={0: {"web": 7}, 41: {"web": 3, "math": 7}, 1_000_000: {"math": 1, "code": 2}},
    )
    path = saved(tmp_path, rs.mix(inner.map(str), rs.range(9), weights=(2, 1)).batch(2))
    done = run_command(tmp_path, "inspect", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n\n", 2)[2].splitlines() == [
        "weights of Mix at pipeline.upstream",
        "  from item  0  (2, 1)",
        "",
        "weights of Mix at pipeline.upstream.upstreams[0].upstream",
        "  from item          0  {'web': 1}",
        "  from item         41  {'web': 3, 'math': 7}",
        "  from item  1_000_000  {'math': 1, 'code': 2}",
    ]
    done = call_command(tmp_path, "inspect", "--json", str(path))
    assert json.loads(done.stdout)["arguments"][1] == {
        "stage": "Mix",
        "path": "pipeline.upstream.upstreams[0].upstream",
        "argument": "weights",
        "unit": "item",
        "pairs": [[0, [1, 0, 0]], [41, [3, 7, 0]], [1_000_000, [0, 1, 2]]],
        "written": "weights={0: {'web': 1}, 41: {'web': 3, 'math': 7}, 1_000_000: {'math': 1, 'code': 2}}",
    }


def test_records_of_a_stream_are_shown_and_its_position_at_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"0\n1\n2\n3\n"))
    excluded = rs.lines(tmp_path / "a.gz").exclude({0: [], 1: {"a.gz": [1]}}).batch(2)
    path = saved(tmp_path / "run", excluded)
    lines = call_command(tmp_path, "inspect", str(path)).stdout.splitlines()
    assert lines[-3:] == [
        "records of Exclude at pipeline.upstream",
        "  from item  0  []",
        "  from item  1  {'a.gz': [1]}",
    ]
    (shown,) = [line for line in lines if "RecordStream" in line]
    assert shown.endswith("file 0, record 3, offset 6, from [0, 6], items [2, 1]")


def test_pipelines_by_epoch_are_shown_with_their_epochs(tmp_path: Path) -> None:
    first = rs.mix(rs.range(9), rs.range(70, 79), weights=(2, 1))
    chosen = rs.by_epoch(
        {0: first, 3: rs.range(12), 1_000: rs.from_sequence(range(5), identity="five")}
    )
    # Without an end, and over several epochs of a loop: each of these is another pipeline in its next epoch.
    for epochs in (None, 2_000):
        folder = tmp_path / f"{epochs}"
        path = saved(folder, rs.mix(chosen.map(str).repeat(epochs), rs.range(3)).batch(1))
        done = call_command(tmp_path, "inspect", str(path))
        shown = done.stdout[done.stdout.index("weights of") :].splitlines()
        assert shown == [
            "weights of Mix at pipeline.upstream",
            "  from item  0  (1, 1)",
            "",
            "pipelines of ByEpoch at pipeline.upstream.upstreams[0].upstream",
            "  from epoch      0  Range(stop=9) + Range(stop=79, begin=70)",
            "  from epoch      3  Range(stop=12)",
            "  from epoch  1_000  FromSequence(length=5, data_identity='five')",
            "",
            "weights of Mix at pipeline.upstream.upstreams[0].upstream.upstream",
            "  from item  0  (2, 1)",
        ]
    shown = json.loads(call_command(tmp_path, "inspect", "--json", str(path)).stdout)
    assert shown["arguments"][1]["unit"] == "epoch"
    assert shown["arguments"][1]["pairs"][1] == [3, ["Map", ["Range", {"stop": 12}]]]


def test_the_part_of_a_rank_shows_them_too(tmp_path: Path) -> None:
    path = saved(tmp_path, rs.mix(rs.range(9), rs.range(9), weights={0: (1, 2), 5: (2, 1)}), 2)
    assert "  from item  5  (2, 1)\n" in call_command(tmp_path, "inspect", str(path)).stdout


def test_a_stage_without_such_an_argument_shows_none(tmp_path: Path) -> None:
    path = saved(tmp_path, rs.mix(rs.range(9), rs.range(9), stop="all"))
    assert "weights" not in call_command(tmp_path, "inspect", str(path)).stdout
    shown = json.loads(call_command(tmp_path, "inspect", "--json", str(path)).stdout)
    assert shown["arguments"] == []


def test_what_a_pipeline_says_of_its_arguments_its_fingerprint_says_too(tmp_path: Path) -> None:
    write_data(tmp_path)
    seen = set[str]()
    for make in catalogue(tmp_path).values():
        pipeline = make()
        stages = [stage for stage, _ in walk(pipeline.stage)]
        if any(
            one._run_changes.may_begin and type(one).__name__ not in pipeline.fingerprint
            for one in stages
        ):
            continue  # a fingerprint leaves out what does nothing yet
        expected = [
            (type(stage).__name__, path, argument.argument)
            for stage, path in walk(pipeline.stage)
            if (argument := stage._run_changes.argument(stage))
        ]
        found = [one for one in saved_arguments(pipeline.fingerprint) if one.stage != "ByEpoch"]
        assert [(one.stage, one.path, one.argument.argument) for one in found] == expected
        seen.update(stage for stage, *_ in expected)
    assert {"Mix", "Exclude"} <= seen


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        7,
        "",
        "[",
        "[" * 100_000,
        "{}",
        '["Mix"]',
        '["Mix",{"parts":[1]}]',
        '["Mix",{"parts":[1,-1],"changes":[[5,[1,1]]]},["Range"],["Range"]]',
        '["Mix",{"parts":[1,1],"changes":[[5,[1,1]],[5,[1,1]]]},["Range"],["Range"]]',
        '["Mix",{"parts":[1,1],"names":7},["Range"],["Range"]]',
        '["Mix",{"parts":[1,1],"names":["a"]},["Range"],["Range"]]',
        '["Mix",{"parts":[1,1],"names":[[],{}]},["Range"],["Range"]]',
        '["ByEpoch",{"starts":[0,1]},["Range"]]',
        '["ByEpoch",{"starts":[0,0]},["Range"],["Range"]]',
        '["ByEpoch",{"starts":"01"},["Range"],["Range"]]',
        '["ByEpoch",{"starts":[0,true]},["Range"],["Range"]]',
        '["Mix",{"parts":[1,1],"changes":[[' + "9" * 4_000 + ',"a"]]},["Range"],["Range"]]',
    ],
)
def test_what_is_no_argument_is_left_out(hostile: Any) -> None:
    assert saved_arguments(hostile) == []


def test_one_that_cannot_be_read_hides_no_other() -> None:
    mixes = ('["Mix",{"parts":[1],"names":[[]]},["Range"]]', '["Mix",{"parts":[1]},["Range"]]')
    (found,) = saved_arguments(f'["Zip",{",".join(mixes)}]')
    assert found.path == "pipeline.upstreams[1]"


def test_names_from_elsewhere_are_no_commands_for_a_terminal() -> None:
    (found,) = saved_arguments('["Mix",{"parts":[1],"names":["\\u001b[2J"]},["Range"]]')
    assert found.argument.written(found.timeline) == "weights={'\\x1b[2J': 1}"
    hostile = '["\\u001b[2J",{"\\u001b":"\\u001b"}]'
    (found,) = saved_arguments(f'["ByEpoch",{{"starts":[0,1]}},{hostile},["Range"]]')
    assert found.argument.written(found.timeline) == (
        "by_epoch({0: '\\x1b[2J'('\\x1b'='\\x1b'), 1: Range()})"
    )
