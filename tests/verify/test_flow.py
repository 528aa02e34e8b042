"""Items that are left out: said where the stage was told to, suspected where it was not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.command import call_command
from support.forks import verify_by_forks

import resumable as rs
from resumable.core import block_items, freeze
from resumable.testing import pipelines
from resumable.verify.flow import count_flows, left_out, suspicions


def told(pipeline: rs.Pipeline[Any], limit: int | None = None) -> tuple[list[str], list[str]]:
    """What is said to be left out, and what is suspected."""
    flows = count_flows(pipeline.stage, lambda count: None, limit=limit)
    return [*left_out(pipeline.stage, flows)], [*suspicions(pipeline.stage, flows)]


def numbers() -> Iterator[int]:
    return iter(range(103))


def alike(item: Any) -> Any:
    return item


def in_sevens(carry: list[int], item: int) -> tuple[list[int], list[int] | None]:
    carry = [*carry, item]
    return ([], carry) if len(carry) == 7 else (carry, None)


def summed(carry: int, item: int) -> tuple[int, int]:
    return carry + item, carry + item


def rest(carry: list[int]) -> list[list[int]]:
    return [carry]


stream = rs.from_iterable(numbers)

LEFT_OUT: dict[str, tuple[rs.Pipeline[Any], list[str]]] = {
    "nothing": (rs.range(9).shuffle(0).map(alike).batch(4).prefetch(2), []),
    "drop_last of a known length": (
        rs.range(103).shuffle(0).batch(4, drop_last=True).repeat(2),
        ["Batch(batch_size=4, drop_last=True): 103 in, 25 out, 3 left out by drop_last"],
    ),
    "drop_last of a stream": (
        stream.batch(4, drop_last=True).repeat(2),
        [
            "Batch(batch_size=4, drop_last=True): 206 in, 50 out in 2 epochs, 6 left out by drop_last"
        ],
    ),
    "take": (rs.range(9).take(5), ["Take(count=5): 9 in, 5 out, 4 left out by count=5"]),
    "skip": (rs.range(9).skip(5), ["Skip(count=5): 9 in, 4 out, 5 left out by count=5"]),
    "shard": (
        rs.range(50).shard(1, 3),
        [
            "Shard(index=1, count=3): 50 in, 16 out, 2 left out on all ranks together, by "
            'uneven="drop"'
        ],
    ),
    "filter": (
        stream.filter(alike),
        ["Filter(predicate=alike): 103 in, 102 out, 1 left out by its predicate"],
    ),
    "errors": (
        stream.map(lambda item: 1 // item, on_error="skip", workers=1),
        [
            "Map(fn=<lambda>, workers=1, on_error='skip'): 103 in, 102 out, 1 left out by "
            'on_error="skip"'
        ],
    ),
    "zip": (
        rs.zip(rs.range(5), rs.range(7)),
        ["Zip(): 7 in, 5 out, 2 left out since another input ended first"],
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_as_told_is_said(name: str) -> None:
    pipeline, expected = LEFT_OUT[name]
    assert told(pipeline) == (expected, [])


@dataclass(frozen=True, eq=False, repr=False)
class Sevens(rs.Transform[Any]):
    """Lists of seven items; it forgets the rest."""

    says: int | None = None

    @property
    def length(self) -> int | None:
        return self.says

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return SevensIterator(self, epoch)


class SevensIterator(rs.TransformIterator[Any]):
    def __init__(self, stage: Sevens, epoch: int) -> None:
        super().__init__(stage, epoch)
        self._kept: list[Any] = []

    def pull(self, count: int) -> list[Any]:
        made: list[Any] = []
        while len(made) < count and (block := block_items(self._upstream.pull(1))):
            self._kept = [*self._kept, *block]
            if len(self._kept) == 7:
                made.append(self._kept)
                self._kept = []
        return made

    def get_state(self) -> rs.State:
        return {"kept": freeze(self._kept), "upstream": self._upstream.get_state()}

    def set_state(self, state: rs.State) -> None:
        self._kept = freeze(state["kept"])
        self._upstream.set_state(state["upstream"])


class Packing:
    """A function with a state, which keeps items back."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    def __call__(self, item: int) -> list[int] | None:
        self.kept, made = in_sevens(self.kept, item)
        return made

    def get_state(self) -> list[int]:
        return self.kept

    def set_state(self, state: list[int]) -> None:
        self.kept = state


def test_a_carry_that_is_dropped_at_the_end_is_suspected() -> None:
    packed = rs.range(60).scan(in_sevens, []).repeat(2)
    _, (suspicion,) = told(packed)
    assert suspicion.startswith(
        "Scan(fn=in_sevens, initial=[]) at pipeline.upstream drops its last carry, "
        "[56, 57, 58, 59], at the end of an epoch"
    )
    assert "finish=f" in suspicion


@pytest.mark.parametrize(
    "pipeline",
    [
        rs.range(60).scan(in_sevens, [], finish=rest),
        rs.range(63).scan(in_sevens, []),
        rs.range(60).scan(summed, 0),
        rs.range(60).scan(in_sevens, []).take(10),
        rs.range(60).scan(lambda carry, item: ({"n": carry["n"] + item}, item), {"n": 0}),
        rs.range(60).scan(lambda carry, item: (carry + item, item), np.zeros(3)),
    ],
)
def test_a_carry_without_items_is_not(pipeline: rs.Pipeline[Any]) -> None:
    assert told(pipeline)[1] == []


def test_what_a_stage_or_a_function_of_the_users_still_holds_is_suspected() -> None:
    counts, (suspicion,) = told(stream.apply(Sevens))
    assert counts == ["Sevens(): 103 in, 14 out"]
    assert suspicion == (
        "Sevens() at pipeline ends an epoch with {'kept': [98, 99, 100, 101, 102]} in its state; if "
        "that holds items which have not come out, they are lost."
    )
    _, (suspicion,) = told(rs.range(60).map(Packing()))
    assert "ends an epoch with [56, 57, 58, 59] in the state of its function" in suspicion
    assert told(rs.range(63).apply(Sevens)) == (["Sevens(): 63 in, 9 out"], [])


def test_a_length_that_is_not_kept_is_suspected() -> None:
    _, found = told(rs.range(63).apply(Sevens, 10))
    assert found == [
        "Sevens(says=10) at pipeline delivered 9 items in an epoch, and its length says 10."
    ]


def test_a_source_that_a_function_opens_again_and_again_is_suspected(tmp_path: Path) -> None:
    shared, few = rs.range(4), rs.range(3)
    for fn in (lambda item: shared, lambda item: rs.zip(rs.range(9), shared.map(abs)).batch(2)):
        for pipeline in (few.flat_map(fn), few.interleave_map(fn, cycle_length=2)):
            (suspicion,) = told(pipeline)[1]
            assert "opened Range(stop=4) 3 times in one epoch" in suspicion
    (suspicion,) = told(rs.range(8).partition(4, lambda p: p.flat_map(lambda item: shared)))[1]
    assert "opened Range(stop=4) 8 times in one epoch" in suspicion
    (suspicion,) = told(few.flat_map(lambda item: shared).repeat(2))[1]
    assert "6 times in 2 epochs" in suspicion


def test_a_source_that_is_opened_once_an_epoch_is_not() -> None:
    inner = [rs.range(number) for number in range(3)]
    for fn in (inner.__getitem__, rs.range, lambda item: rs.from_sequence("ab"), range):
        assert told(rs.range(3).flat_map(fn).repeat(2))[1] == []


class Again(rs.Transform[Any]):
    """Runs what is before it twice."""

    def start(self, epoch: int = 0) -> Any:
        return rs.concatenate(self.upstream, self.upstream).stage.start(epoch)


def test_a_source_that_a_stage_reads_twice_is_suspected() -> None:
    (suspicion,) = told(stream.apply(Again))[1]
    assert "FromIterable(" in suspicion
    assert "was read from its start 2 times in one epoch" in suspicion


def test_nothing_is_said_of_a_pass_that_was_not_finished() -> None:
    assert told(stream.apply(Sevens).filter(alike), limit=3) == ([], [])
    assert told(rs.range(60).scan(in_sevens, []), limit=3) == ([], [])


@given(pipelines())
def test_no_pipeline_of_the_library_is_suspected(pipeline: rs.Pipeline[Any]) -> None:
    assert told(pipeline, limit=200)[1] == []


MINE = """
import resumable as rs


def pack(carry, item):
    return ([], carry + [item]) if len(carry) == 6 else (carry + [item], None)


packed = rs.range(60).scan(pack, []).batch(8, drop_last=True)
"""


def test_the_report_says_both_and_that_nothing_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    verify_by_forks(monkeypatch)
    done = call_command(tmp_path, "verify", "mine:packed", "--positions", "2")
    assert done.returncode == 0, done.stderr
    assert "Batch(batch_size=8, drop_last=True): 60 in, 7 out, 4 left out by" in done.stdout
    assert "  Look at this: Scan(fn=pack, initial=[]) at pipeline.upstream drops" in done.stdout
    assert "  Nothing differs." in done.stdout
    done = call_command(tmp_path, "verify", "mine:packed", "--positions", "2", "--json")
    report = json.loads(done.stdout)
    assert len(report["left_out"]) == len(report["suspicions"]) == 1
