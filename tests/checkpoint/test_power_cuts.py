"""A power cut at any moment costs no acknowledged checkpoint, and leaves no damaged one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checkpoint.crash_checks import (
    FOLDER,
    Promise,
    Subject,
    check_kills,
    check_scenario,
    pairs,
    recover_only,
    save_twice,
    train,
)
from checkpoint.crash_model import Recorder, State, power_cuts, scan
from support.tiers import thinned

import resumable as rs


def test_the_model_leaves_in_doubt_what_was_not_synced(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, (), None)

    def states_left() -> set[State]:
        return {state for _, state in power_cuts((), recorder.log, after=len(recorder.log) - 1)}

    file = recorder.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    recorder.write(file, memoryview(b"xy"))
    recorder.rename(tmp_path / "a", tmp_path / "b")
    contents = [b"", b"x", b"xy", b"x\0", b"\0\0"]
    names = [[], ["a"], ["b"], ["a", "b"]]
    assert states_left() == {
        tuple((name, content) for name in present) for present in names for content in contents
    }
    recorder.fsync(file)
    recorder.close(file)
    assert states_left() == {tuple((name, b"xy") for name in present) for present in names}
    folder = recorder.open(tmp_path, os.O_RDONLY)
    recorder.fsync(folder)
    recorder.close(folder)
    assert states_left() == {(("b", b"xy"),)}


RETENTIONS = [
    None,
    rs.Retention(latest=1),
    rs.Retention(latest=2),
    rs.Retention(latest=1, every_steps=2),
]


@pytest.mark.parametrize("retention", thinned(RETENTIONS, 2, "retentions"), ids=str)
def test_no_power_cut_costs_an_acknowledged_save(
    tmp_path: Path, retention: rs.Retention | None
) -> None:
    assert check_scenario(partial(train, retention=retention), tmp_path) > 400


@pytest.mark.deep
def test_a_second_power_cut_in_the_recovery_costs_nothing_either(tmp_path: Path) -> None:
    assert check_scenario(partial(train, items=2), tmp_path, cuts=2) > 500


def test_no_power_cut_costs_an_acknowledged_save_where_there_are_no_links(tmp_path: Path) -> None:
    assert check_scenario(train, tmp_path, links=False) > 400


def test_a_second_save_of_a_step_changes_nothing(tmp_path: Path) -> None:
    check_scenario(save_twice, tmp_path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "empty": lambda data: b"",
}


@pytest.mark.deep
@pytest.mark.parametrize("damage", DAMAGES)
def test_setting_damaged_ones_aside_costs_nothing(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "before"
    train(Subject(), Recorder(root, (), Promise()), root, items=5)
    for step in (2, 4, 5):
        path = root / FOLDER / f"input-{step:012d}.ckpt"
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    (root / FOLDER / ".tmp-input-0123456789abcdef").write_bytes(b"unfinished")
    found = pairs(Subject().open(root))
    valid = frozenset(pair for pair in found if pair[0] in (1, 3))
    promise = Promise(begun=valid, kept=valid, fewest=2, damaged=frozenset(found - valid))
    start = scan(root)
    check_scenario(recover_only, tmp_path / "alone", start=start, promise=promise, cuts=3)
    resumed = partial(train, items=4, retention=rs.Retention(latest=1))
    check_scenario(resumed, tmp_path / "resumed", start=start, promise=promise)


def test_what_a_killed_process_left_unfinished_costs_nothing(tmp_path: Path) -> None:
    assert check_kills(tmp_path, (("run", None), ("run/input", None))) >= 8


@pytest.mark.deep
def test_a_process_killed_while_it_makes_folders_costs_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, ())
