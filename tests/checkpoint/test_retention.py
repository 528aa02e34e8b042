"""Retention: what it keeps, what it never touches."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.checkpoint.retention import Retainer

HOUR = 3600.0

rules = st.builds(
    rs.Retention,
    latest=st.integers(1, 5),
    every_steps=st.none() | st.integers(1, 30),
    every_hours=st.none() | st.sampled_from([0.5, 1, 24]),
)
histories = st.lists(
    st.tuples(st.integers(1, 25), st.floats(0, 40 * HOUR)), min_size=1, max_size=25
)


def kept_in_words(rule: rs.Retention, times: dict[int, float]) -> set[int]:
    """What the documentation promises of a whole history, in the plainest way."""
    steps = sorted(times)
    kept = set(steps[-rule.latest :])
    for step in steps:
        earlier = [other for other in steps if other < step]
        if rule.every_steps is not None:
            multiple = step - step % rule.every_steps
            if multiple and not any(other >= multiple for other in earlier):
                kept.add(step)
        if rule.every_hours is not None:
            span = rule.every_hours * HOUR
            if not any(times[other] // span == times[step] // span for other in earlier):
                kept.add(step)
    return kept


@given(rules, histories)
def test_applied_after_every_save_it_keeps_what_it_would_keep_of_them_all(
    rule: rs.Retention, history: list[tuple[int, float]]
) -> None:
    everything: dict[int, float] = {}
    left: dict[int, float] = {}
    step, time = 0, 1e9
    for jump, seconds in history:
        step, time = step + jump, time + seconds
        everything[step] = left[step] = time
        for expired in rule.expired(left):
            del left[expired]
        assert step in left, "the newest one is gone"
        assert left.keys() == kept_in_words(rule, everything)


@given(rules, st.dictionaries(st.integers(0, 100), st.floats(-1e9, 1e10)))
def test_clocks_that_jump_never_cost_the_newest(
    rule: rs.Retention, saved: dict[int, float]
) -> None:
    expired = rule.expired(saved)
    assert set(expired) <= saved.keys()
    assert not set(expired) & set(sorted(saved)[-rule.latest :])


def run(folder: Path | rs.Store, steps: int, retention: rs.Retention, **options: Any) -> None:
    with rs.Checkpointer(folder, rs.EverySteps(1), retention=retention, **options) as checkpointer:
        for _ in checkpointer.resume(rs.range(10**6)):
            if checkpointer.step % steps == 0:
                break


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_loop_keeps_the_newest_and_those_at_intervals(tmp_path: Path, asynchronous: bool) -> None:
    run(tmp_path, 25, rs.Retention(3, every_steps=10), asynchronous=asynchronous)
    assert rs.Directory(tmp_path).steps() == [10, 20, 23, 24, 25]


def test_saves_that_never_hit_a_multiple_leave_one_for_each_all_the_same() -> None:
    saved = dict.fromkeys(range(7, 700, 60), 0.0)
    expired = rs.Retention(1, every_steps=100).expired(saved)
    assert sorted(saved.keys() - set(expired)) == [127, 247, 307, 427, 547, 607, 667]


def test_by_default_everything_is_kept(tmp_path: Path) -> None:
    with rs.Checkpointer(tmp_path, rs.EverySteps(1)) as checkpointer:
        assert len(list(checkpointer.resume(rs.range(12)))) == 12
        assert checkpointer.steps() == list(range(1, 13))


def of_a_later_format(folder: Path) -> bytes:
    sealed = bytearray(rs.Directory(folder).load(3)[:-32])
    sealed[7] = 9
    return bytes(sealed) + hashlib.blake2b(sealed, digest_size=32).digest()


def test_files_of_others_and_damaged_ones_are_never_removed(tmp_path: Path) -> None:
    run(tmp_path, 6, rs.Retention(6))
    (tmp_path / "input-000000000002.ckpt").write_bytes(b"damaged")
    (tmp_path / "input-000000000003.ckpt").write_bytes(of_a_later_format(tmp_path))
    strangers = [
        "input-000000000001.ckpt.damaged", "input-000000000001.ckpt.superseded",
        "training-000000000001.ckpt", "input_worker_3-000000000001.ckpt", "model-1.npz",
        "input-1.ckpt", "input-0000000000001.ckpt", ".tmp-training-0123456789abcdef",
    ]  # fmt: skip
    for name in strangers:
        (tmp_path / name).write_text("x")
    run(tmp_path, 10, rs.Retention(1))
    assert rs.Directory(tmp_path).steps() == [2, 3, 10]
    assert set(strangers) <= set(os.listdir(tmp_path))


def test_a_damaged_one_does_not_count_among_the_newest(tmp_path: Path) -> None:
    run(tmp_path, 5, rs.Retention(5))
    (tmp_path / "input-000000000004.ckpt").write_bytes(b"damaged")
    with rs.Checkpointer(tmp_path, rs.AtEnd(), retention=rs.Retention(3)) as checkpointer:
        next(checkpointer.resume(rs.range(10**6)))
    assert rs.Directory(tmp_path).steps() == [3, 4, 5, 6]


def test_what_cannot_be_removed_does_not_fail_the_save(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(step: int) -> None:
        raise PermissionError("read-only")

    store = rs.Memory()
    monkeypatch.setattr(store, "remove", refuse)
    with pytest.warns(
        RuntimeWarning, match=r"the checkpoint of step 1 could not be removed: read-only"
    ):
        run(store, 3, rs.Retention(1))
    assert store.steps() == [1, 2, 3]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_loop_goes_on_while_old_checkpoints_are_removed(
    monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    store, goes_on, removed = rs.Memory(), Event(), list[int]()
    remove = store.remove

    def when_the_loop_goes_on(step: int) -> None:
        assert goes_on.wait(60), "the loop waits for the retention"
        removed.append(step)
        remove(step)

    monkeypatch.setattr(store, "remove", when_the_loop_goes_on)
    options: dict[str, Any] = {"retention": rs.Retention(1), "save_at_end": False}
    options["asynchronous"] = asynchronous
    with rs.Checkpointer(store, rs.EverySteps(2), **options) as checkpointer:
        loop = checkpointer.resume(rs.range(10**6))
        assert [next(loop) for _ in range(4)] == [0, 1, 2, 3]
        assert next(loop) == 4
        assert asynchronous or store.steps() == [2, 4]
        assert not removed
        goes_on.set()
        # The next save comes after it, so that one thread at a time calls the store.
        assert [next(loop), next(loop)] == [5, 6]
        assert removed[:1] == [2]
    assert (removed, store.steps()) == ([2, 4], [6])


def test_what_fails_behind_a_save_is_told_though_nobody_expected_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: object, step: int, time: float) -> str:
        raise LookupError("no such luck")

    monkeypatch.setattr(Retainer, "apply", fail)
    store = rs.Memory()
    with pytest.warns(
        RuntimeWarning, match=r"the retention after the save of step 1 failed: no such luck"
    ):
        run(store, 1, rs.Retention(1))
    assert store.steps() == [1]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: rs.Retention(0), ValueError, "latest must be at least 1, got 0"),
    (lambda: rs.Retention(True), TypeError, "latest must be an integer, got True"),
    (lambda: rs.Retention(every_steps=0), ValueError, "every_steps must be at least 1, got 0"),
    (lambda: rs.Retention(every_hours=0), ValueError, "every_hours must be finite and above 0"),
    (lambda: rs.Retention(every_hours=math.nan), ValueError, "finite and above 0, got nan"),
    (lambda: rs.Retention(every_hours=True), TypeError, "every_hours must be a number"),
    (
        lambda: rs.Checkpointer(rs.Memory(), rs.AtEnd(), retention=5),  # type: ignore[arg-type]
        TypeError,
        "retention must be a Retention such as",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_arguments_are_refused_at_construction(number: int) -> None:
    make, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        make()
