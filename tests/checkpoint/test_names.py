"""Names of files: one input's are never taken for another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.checkpoint.names import CheckpointNames, parse_file_name, steps_by_name
from resumable.checkpoint.ranks.part import RankPart

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,8}", fullmatch=True).filter(str.isascii)


@given(names, names, st.integers(0, 10**15))
def test_a_name_knows_its_own_files_only(one: str, other: str, step: int) -> None:
    mine, theirs = CheckpointNames(one), CheckpointNames(other)
    same = one == other
    assert mine.steps_among([theirs.of(step)]) == ([step] if same else [])
    assert mine.is_temporary(theirs.new_temporary()) == same
    for number in (0, 7):
        aside = theirs.aside(step, "damaged", number)
        assert mine.is_aside(aside, "damaged") == same
        assert mine.steps_among([aside]) == []
        assert not mine.is_aside(aside, "superseded")


@given(names, st.integers(0, 10**15))
def test_a_file_name_tells_name_and_step(name: str, step: int) -> None:
    found = parse_file_name(CheckpointNames(name).of(step))
    assert found is not None
    assert (found.name, found.step, found.aside) == (name, step, None)


@pytest.mark.parametrize(
    "text",
    [
        "input-1.ckpt", "input-0000000000012.ckpt", "input-00000000001x.ckpt", "input.ckpt",
        "input-000000000001.ckpt~", "-000000000001.ckpt", "a/input-000000000001.ckpt",
        ".input-000000000001.ckpt", "in-put-000000000001.ckpt", "input-000000000001.CKPT",
        "input-000000000001.ckpt.damaged.", "input-\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0661.ckpt", "input-000000000001.ckpt\n",
    ],
)  # fmt: skip
def test_other_files_are_no_checkpoints(text: str) -> None:
    assert parse_file_name(text) is None


def test_the_name_of_a_task_is_that_of_the_original() -> None:
    assert rs.task_name("worker", 3) == "input_worker_3"
    assert rs.task_name("chief", 0, "training") == "training_chief_0"


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: rs.task_name("worker", -1), ValueError, "index must be at least 0, got -1"),
    (lambda: rs.task_name("worker", True), TypeError, "index must be an integer, got True"),
    (lambda: rs.task_name("../worker", 1), ValueError, "task_type must be letters, digits"),
    (lambda: CheckpointNames("../input"), ValueError, "name must be letters, .* got '../input'"),
    (lambda: CheckpointNames("in-put"), ValueError, "name must be letters"),
    (lambda: CheckpointNames(""), ValueError, "name must be letters"),
    (lambda: CheckpointNames(5), TypeError, "name must be a string, got 5"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_names_are_refused(number: int) -> None:
    make, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        make()


def test_the_whole_checkpoints_of_a_folder_are_listed_by_name() -> None:
    files = [
        CheckpointNames("b").of(7),
        CheckpointNames("a").of(20),
        CheckpointNames("a").of(3),
        CheckpointNames("a").aside(5, "superseded", 0),
        CheckpointNames("a", RankPart(0, 2, "0" * 12)).of(9),
        "a-7.ckpt",
    ]
    assert steps_by_name(files) == {"a": [3, 20], "b": [7]}
