"""How far each rank of a run is, by what lies in its folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from checkpoint.stats_folders import line, note, save
from hypothesis import given
from hypothesis import strategies as st

from resumable.checkpoint.stats_lines import (
    MOST_MISSING,
    PATIENCE,
    RankProgress,
    parse_stats_line,
    run_progress,
)

NOW = 1_000_000.0


def told(folder: Path, now: float = NOW) -> list[tuple[int, int, int | None, float | None]]:
    return [(one.rank, one.ranks, one.step, one.time) for one in run_progress(folder, now)]


def test_each_rank_is_told_by_its_last_line(tmp_path: Path) -> None:
    for rank in (1, 0):
        note(tmp_path, rank, 2, line(5, 10.0), line(7 + rank, 20.0 + rank))
    assert told(tmp_path) == [(0, 2, 7, 20.0), (1, 2, 8, 21.0)]


def test_without_lines_the_names_and_times_of_checkpoints_tell(tmp_path: Path) -> None:
    save(tmp_path, 5, 0, 1, 100.0)
    save(tmp_path, 9, 0, 1, 50.0)  # of a run that went on from an earlier step
    assert told(tmp_path) == [(0, 1, 5, 100.0)]


def test_after_a_change_of_the_number_of_ranks_only_the_new_ones_are_shown(tmp_path: Path) -> None:
    for rank in range(4):
        note(tmp_path, rank, 4, line(100, 10.0))
        save(tmp_path, 100, rank, 4, 10.5)
    for rank in range(2):
        note(tmp_path, rank, 2, line(120, 30.0))
    assert told(tmp_path) == [(0, 2, 120, 30.0), (1, 2, 120, 30.0)]
    save(tmp_path, 110, 0, 4, 40.0)  # and again
    assert [one[:2] for one in told(tmp_path)] == [(rank, 4) for rank in range(4)]
    save(tmp_path, 130, 0, 1, 50.0)
    assert told(tmp_path) == [(0, 1, 130, 50.0)]


def test_ranks_that_have_not_saved_yet_are_told_too_if_there_may_be_so_many(tmp_path: Path) -> None:
    note(tmp_path, 2, 4, line(5, 10.0))
    assert told(tmp_path) == [
        (0, 4, None, None),
        (1, 4, None, None),
        (2, 4, 5, 10.0),
        (3, 4, None, None),
    ]
    other = tmp_path / "other"
    other.mkdir()
    note(other, 7, MOST_MISSING + 99, line(5, 10.0))
    assert told(other) == [(7, MOST_MISSING + 99, 5, 10.0)]


def test_each_input_of_a_folder_has_its_own_ranks(tmp_path: Path) -> None:
    note(tmp_path, 0, 2, line(5, 10.0), name="train")
    save(tmp_path, 3, 0, 1, 5.0, name="eval")
    found = run_progress(tmp_path, NOW)
    assert [(one.name, one.rank, one.ranks) for one in found] == [
        ("eval", 0, 1), ("train", 0, 2), ("train", 1, 2),
    ]  # fmt: skip


def test_a_checkpoint_whose_line_has_not_come_yet_is_told_and_one_whose_line_never_comes(
    tmp_path: Path,
) -> None:
    note(tmp_path, 0, 1, line(5, 10.0, items=50, wait_seconds=1, loop_seconds=9))
    save(tmp_path, 5, 0, 1, 12.0)
    assert told(tmp_path, 13.0) == [(0, 1, 5, 10.0)], "the same save"
    save(tmp_path, 8, 0, 1, 30.0)
    (soon,) = run_progress(tmp_path, 31.0)
    assert (soon.step, soon.time, soon.rate) == (8, 30.0, 5.0)
    (late,) = run_progress(tmp_path, 30.0 + PATIENCE)
    assert (late.step, late.time, late.rate) == (8, 30.0, None)


def test_speed_and_waiting_are_those_since_the_save_before(tmp_path: Path) -> None:
    before = line(5, 10.0, items=100, wait_seconds=2.0, loop_seconds=8.0)
    last = line(9, 900.0, items=140, wait_seconds=3.0, loop_seconds=11.0)
    note(tmp_path, 0, 1, before, last)
    (found,) = run_progress(tmp_path, NOW)
    assert (found.rate, found.wait_share) == (10.0, 0.25), "not by the time between two processes"
    note(tmp_path, 0, 1, before)
    (found,) = run_progress(tmp_path, NOW)
    assert (found.rate, found.wait_share) == (10.0, 0.2), "there is none: since the start"
    note(tmp_path, 0, 1, last, before)
    (found,) = run_progress(tmp_path, NOW)
    assert (found.rate, found.wait_share) == (10.0, 0.2), "it went on from an earlier checkpoint"
    fewer = line(9, 900.0, items=60, wait_seconds=1.0, loop_seconds=14.0)
    note(tmp_path, 0, 1, before, fewer)
    (found,) = run_progress(tmp_path, NOW)
    assert (found.rate, found.wait_share) == (4.0, 1 / 15), "never below 0"
    note(tmp_path, 0, 1, line(1, 1.0), line(2, 2.0, items=5))
    (found,) = run_progress(tmp_path, NOW)
    assert (found.rate, found.wait_share) == (None, None)


def test_what_is_skipped_is_added_up() -> None:
    found = parse_stats_line(line(1, 2.0, skipped={"pipeline": 3, "pipeline.upstream": 4}))
    assert found is not None
    assert found.skipped == 7


@pytest.mark.parametrize("name", ["host", "items", "wait_seconds", "loop_seconds", "wait_p99", "skipped"])  # fmt: skip
@pytest.mark.parametrize("value", [None, [], "x", True, 10**400, float("nan"), {"a": "b"}, {"a": -1}])  # fmt: skip
def test_a_value_that_is_none_is_not_known(name: str, value: Any) -> None:
    found = parse_stats_line(line(1, 2.0, wait_seconds=1.0, loop_seconds=1.0) + b"")
    assert found is not None
    made = json.loads(line(1, 2.0, wait_seconds=1.0, loop_seconds=1.0)) | {name: value}
    other = parse_stats_line(json.dumps(made).encode())
    assert other is not None
    if not (name == "host" and value == "x"):
        shown = "elapsed" if name == "loop_seconds" else name
        assert getattr(other, shown) is None


@given(st.binary(max_size=40) | st.from_regex(rb'\{"step": .{0,9}, "time": .{0,9}\}'))
def test_any_line_is_read_or_left_out(content: bytes) -> None:
    found = parse_stats_line(content)
    assert found is None or (found.step >= 0 and found.time == found.time)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b'{"step": 5, "ti', b"[1]\n", b"\xff" * 99, b"[" * 100_000, b'{"step": -1, "time": 2}\n'],
)  # fmt: skip
def test_a_file_without_a_whole_line_is_one_of_a_rank_that_is_not_heard_of(
    tmp_path: Path, content: bytes
) -> None:
    note(tmp_path, 0, 2, content)
    assert run_progress(tmp_path, NOW) == []
    note(tmp_path, 1, 2, line(5, 10.0), content)
    assert told(tmp_path) == [(0, 2, None, None), (1, 2, 5, 10.0)]


def test_what_only_looks_like_a_file_of_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "input-stats.jsonl").mkdir()
    (tmp_path / "other-00005-of-00002-stats.jsonl").write_bytes(line(1, 2.0))
    (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"")
    (tmp_path / "input-000000000005.ckpt.damaged").write_bytes(b"")
    (tmp_path / "input-history.jsonl").write_bytes(line(1, 2.0))
    assert run_progress(tmp_path, NOW) == []


def test_what_is_removed_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(tmp_path, 0, 1, line(5, 10.0))
    names = [*os.listdir(tmp_path), "input-000000000009.ckpt", "gone-stats.jsonl"]
    monkeypatch.setattr(os, "listdir", lambda folder: names)
    assert [one.step for one in run_progress(tmp_path, NOW)] == [5]


def test_nothing_known_is_no_speed() -> None:
    assert RankProgress("input", 0, 1).rate is None
