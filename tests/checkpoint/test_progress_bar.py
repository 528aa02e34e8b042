"""The bar over the steps of a loop: it starts where the loop does, and tells of saves."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest

import resumable as rs


def run(store: rs.Store, pipeline: rs.Pipeline[int], steps: int | None, **options: bool) -> int:
    with rs.Checkpointer(store, rs.EverySteps(4)) as checkpointer:
        for _ in checkpointer.resume(pipeline, **options):
            if checkpointer.step == steps:
                break
    return checkpointer.step


def test_the_bar_starts_at_the_resumed_step(capsys: pytest.CaptureFixture[str]) -> None:
    store = rs.Memory()
    assert run(store, rs.range(20), 10, progress=True) == 10
    shown = capsys.readouterr().err
    assert "| 0/20 [" in shown
    assert "| 10/20 [" in shown
    assert run(store, rs.range(20), None, progress=True) == 20
    shown = capsys.readouterr().err
    assert "| 10/20 [" in shown
    assert "| 0/20" not in shown
    assert re.search(r"\| 20/20 \[.*step 20 saved at \d\d:\d\d:\d\d", shown)
    assert threading.active_count() == 1 or "tqdm" not in str(threading.enumerate())


def test_an_endless_pipeline_has_a_bar_without_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(rs.Memory(), rs.range(20).repeat(), 50, progress=True) == 50
    assert "50step [" in capsys.readouterr().err


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run(rs.Memory(), rs.range(20), None)
    assert capsys.readouterr().err == ""


def test_a_missing_tqdm_is_named_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm: pip install"):
        rs.Checkpointer(rs.Memory(), rs.AtEnd()).resume(rs.range(9).prefetch(2), progress=True)


def test_progress_is_a_truth_value() -> None:
    with pytest.raises(rs.InvalidType, match="progress must be True or False, got 1"):
        rs.Checkpointer(rs.Memory(), rs.AtEnd()).resume(rs.range(9), progress=1)  # type: ignore[arg-type]


def slowly(item: int) -> int:
    time.sleep(0.02)
    return item


def test_the_bar_shows_how_much_of_the_time_the_loop_waited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(1), stats=True) as checkpointer:
        for _ in checkpointer.resume(rs.range(3).map(slowly), progress=True):
            pass
    shares = re.findall(r"waited (\d+)%, step 3 saved", capsys.readouterr().err)
    assert shares
    assert all(0 < int(share) <= 100 for share in shares)
    run(rs.Memory(), rs.range(3), None, progress=True)
    assert "waited" not in capsys.readouterr().err
