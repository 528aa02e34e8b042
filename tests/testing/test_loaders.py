"""`check_loader` passes loaders that resume exactly, and names the fault of any other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT, call_command, run_python
from support.forks import verify_by_forks
from testing import loaders as made

import resumable as rs
from resumable.testing import LoaderReport, check_loader
from resumable.testing.loaders import LoaderDiffers
from resumable.workers.fork_server import CAN_FORK

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="nothing is forked on this system")


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process is a fork, and little time is given to processes that stay."""
    verify_by_forks(monkeypatch)
    monkeypatch.setattr("resumable.testing.loaders.LINGER", 0.2)


def checked(make: Callable[..., Any], **options: Any) -> LoaderReport:
    """The report, whether or not the loader is exact."""
    try:
        return check_loader(make, **options)
    except LoaderDiffers as error:
        return error.report


def outcomes(report: LoaderReport) -> dict[str, str]:
    """What came of each case, where nothing was changed."""
    return {row.case: row.outcome for row in report.rows if "→" not in row.change}


DEEP = pytest.mark.deep
SOUND: dict[Callable[..., Any], str] = {
    made.Loader: "state of the loader",
    made.WithCursor: "state of the iterator",
    made.OverDataset: "state of the data set",
    made.Plain: "passing over batches",
    made.plain_list: "passing over batches",
    made.Arrays: "state of the loader",
    made.Pairs: "state of the loader",
    made.Aliased: "state of the loader",
}


@pytest.mark.parametrize(
    "make", [pytest.param(one, marks=DEEP) if n > 3 else one for n, one in enumerate(SOUND)]
)
def test_a_sound_loader_passes_by_the_first_way_that_it_has(make: Callable[..., Any]) -> None:
    report = check_loader(make, positions=2)
    assert report.way == SOUND[make]
    assert {row.outcome for row in report.rows} == {"exact"}


HALF, WHOLE, END = (
    "epoch 0, after batch 5 of 10",
    "at the last batch of epoch 0",
    "2 resumes in a row",
)
FAULTS: dict[Callable[..., Any], tuple[str, str]] = {
    made.LosesOne: (HALF, "lost 4"),
    made.RepeatsAtEnd: (WHOLE, "repeated 40"),
    made.Frozen: (HALF, "repeated 16"),
    made.IgnoresEpoch: ("epoch 1, after batch 5 of 10", "lost 7, repeated 7"),
    made.Reorders: (HALF, "reordered"),
    made.LosesBuffer: (HALF, "lost 8"),
    made.SecondResume: (END, "repeated 20"),
    made.RefusesItself: (HALF, "refused"),
    made.FailsLater: (HALF, "dies"),
    made.Dies: (HALF, "dies"),
    made.Hangs: (HALF, "hangs"),
    made.doubled: ("a run without a stop", "repeated 160"),
}


@pytest.mark.parametrize(
    "make", [pytest.param(one, marks=DEEP) if n % 3 else one for n, one in enumerate(FAULTS)]
)
def test_a_planted_fault_is_named(make: Callable[..., Any]) -> None:
    case, outcome = FAULTS[make]
    report = checked(make, positions=1, workers=(0, 3), timeout=2.0 if make is made.Hangs else 60.0)
    assert not report.exact
    assert outcomes(report)[case] == outcome, str(report)


@DEEP
def test_the_arguments_that_make_takes_are_varied_and_the_others_are_named() -> None:
    # Rule 1 and 8: every change, with every case.
    report = check_loader(
        made.elastic, workers=(0, 2), ranks=(1, 2), batch_sizes=(5, 10), positions=1
    )
    changes = {row.change for row in report.rows if "→" in row.change}
    assert changes == {
        *("workers 0 → 2", "workers 2 → 0", "ranks 1 → 2", "ranks 2 → 1"),
        *("batch_size 5 → 10", "batch_size 10 → 5"),
    }
    for change in changes:
        cases = [row.case for row in report.rows if row.change == change]
        assert cases[-3:] == [
            "at the last batch of epoch 0",
            "after the loop of epoch 0",
            "2 resumes in a row",
        ]
        assert sum(case.startswith("epoch 0, after batch") for case in cases) == 2
        assert sum(case.startswith("epoch 1, after batch") for case in cases) == 1
    assert not any(note.startswith("Not varied") for note in report.notes)
    assert "Not varied: batch_size, ranks, workers." in check_loader(made.Plain, positions=1).notes


def test_a_state_of_the_user_is_taken_and_given_back_first() -> None:
    # Rule 3.
    report = check_loader(made.WithCursor, positions=1, save=made.saved, load=made.loaded)
    assert (report.way, report.exact) == ("save and load", True)
    with pytest.raises(rs.InvalidArgument, match="save and load must both be given"):
        check_loader(made.WithCursor, save=made.saved)


@DEEP
def test_the_report_has_the_size_of_the_state_and_the_time_to_the_first_batch() -> None:
    # Rule 3 and 9.
    report = check_loader(made.Loader, positions=1)
    resumed = [row for row in report.rows if row.case == HALF]
    assert [(row.state_bytes, row.failed, row.lost, row.repeated) for row in resumed] == [
        (22, False, 0, 0)
    ]
    assert all(row.seconds is not None and row.seconds >= 0 for row in report.rows)
    assert report.as_json()["rows"][0]["case"] == "a run without a stop"


def test_whatever_a_loader_started_is_ended_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rule 4.
    monkeypatch.setenv("LEFT", str(tmp_path / "left"))
    report = check_loader(made.LeavesProcesses, positions=1, epochs=1)
    assert any("still ran" in note for note in report.notes)
    left = (tmp_path / "left").read_text().split()
    assert len(left) > 5
    for pid in left:
        status = Path("/proc", pid, "stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_samples_are_the_rows_or_what_items_returns() -> None:
    # Rule 5.
    faulty = checked(made.LosesOne, positions=1)
    assert outcomes(faulty)[HALF] == "lost 4"
    ours = checked(made.LosesOne, positions=1, items=made.first_of)
    assert outcomes(ours)[HALF] == "lost 1"


@DEEP
def test_without_a_fixed_order_only_loss_and_repetition_are_judged() -> None:
    # Rule 6.
    report = check_loader(made.Unseeded, positions=1, epochs=1)
    assert "Two runs without a stop differ, so the order is not judged." in report.notes
    assert outcomes(report)["a second run"] == "reordered"


def test_a_refusal_of_a_change_is_no_failure() -> None:
    # Rule 7.
    report = check_loader(made.refuses_workers, workers=(0, 2), positions=1)
    refused = [row for row in report.rows if row.outcome == "refused"]
    assert {row.change for row in refused} == {"workers 0 → 2", "workers 2 → 0"}
    assert "ValueError: '2 workers instead of 0'" in {row.details for row in refused}
    assert not outcomes(report).keys() & {"refused"}


@DEEP
def test_a_state_that_means_other_samples_after_a_change_is_a_failure() -> None:
    # Rule 7.
    report = checked(made.counts_per_worker, workers=(1, 2), positions=1)
    assert {row.outcome for row in report.rows if "→" not in row.change} == {"exact"}
    failed = {row.change for row in report.rows if row.failed}
    assert failed == {"workers 1 → 2", "workers 2 → 1"}


@DEEP
def test_what_no_outcome_shows_is_a_note() -> None:
    assert any("must be copied" in note for note in check_loader(made.Aliased, positions=1).notes)
    assert any(
        "set_epoch changes nothing" in note
        for note in check_loader(made.OneOrder, positions=1).notes
    )


@DEEP
def test_a_loader_without_an_end_is_tried_up_to_the_limit() -> None:
    report = check_loader(made.Endless, limit=30, positions=2)
    assert not {"after the loop of epoch 0"} & outcomes(report).keys()
    assert checked(made.Endless, limit=30, positions=2).exact


@DEEP
def test_a_pipeline_of_this_library_is_passed_on_to_verify() -> None:
    # Rule 10.
    report = check_loader(made.pipeline)
    assert [(row.case, row.outcome) for row in report.rows] == [("resumable verify", "exact")]
    with pytest.raises(AssertionError, match="unseeded randomness"):
        check_loader(made.unseeded_pipeline)


@DEEP
def test_the_error_has_the_table() -> None:
    # Rule 9.
    with pytest.raises(AssertionError, match="the loader does not resume exactly") as raised:
        check_loader(made.LosesOne, positions=1)
    assert isinstance(raised.value, LoaderDiffers)
    assert str(raised.value.report) in str(raised.value)
    assert not raised.value.report.exact


def test_a_function_that_no_other_process_finds_is_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="make must be a function that can be imported"):
        check_loader(lambda: made.Loader())


HEAVY = """
import os, threading, time
with open(os.environ["IMPORTED"], "a") as file:
    print(os.getpid(), file=file)
if "THREAD" in os.environ:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""
MINE = """
import heavy
from testing.loaders import Loader, pipeline

def make():
    return Loader()
"""
CHECK = """
import mine
from resumable.testing import check_loader
print(len(check_loader(mine.make, positions=1).rows))
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs Python in a folder with a module that imports an installed package, and counts the imports."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages/heavy.py").write_text(HEAVY)
    (tmp_path / "mine.py").write_text(MINE)
    places = (ROOT, ROOT / "tests", tmp_path / "site-packages", tmp_path)

    def count(*arguments: str, **environment: str) -> int:
        environment["IMPORTED"] = str(tmp_path / "imported")
        environment["PYTHONPATH"] = os.pathsep.join(map(str, places))
        done = run_python(*arguments, folder=tmp_path, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return len((tmp_path / "imported").read_text().split())

    return count


@DEEP
def test_an_installed_package_is_imported_once_for_all_resumes(
    imported: Callable[..., int],
) -> None:
    # This script, the first life, and the server whose forks are the other nine lives.
    assert imported("-c", CHECK) == 3


@DEEP
def test_a_package_that_starts_a_thread_is_imported_by_every_life(
    imported: Callable[..., int],
) -> None:
    assert imported("-c", CHECK, THREAD="1") == 3 + 9


@DEEP
def test_the_same_holds_for_the_resumes_of_a_pipeline(imported: Callable[..., int]) -> None:
    options = ("--positions", "6", "--generations", "2")
    # The command, four processes that are compared or measured, and a server for each generation.
    # Seven more processes are forks.
    assert imported("-m", "resumable", "verify", "mine.py:pipeline", *options) == 1 + 4 + 2


@pytest.mark.parametrize(
    ("name", "status"), [("Loader", 0), pytest.param("LosesOne", 1, marks=DEEP)]
)
def test_the_command_prints_the_table(tmp_path: Path, name: str, status: int) -> None:
    (tmp_path / "train.py").write_text(
        f"from testing.loaders import {name}\ndef make():\n    return {name}()\n"
    )
    done = call_command(tmp_path, "verify", "train.py:make")
    assert done.returncode == status, done.stderr
    assert "case                          change  bytes  seconds  outcome" in done.stdout
    assert ("lost 4" in done.stdout) == bool(status)


@DEEP
def test_the_command_prints_json_and_fixes_an_argument(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from testing.loaders import refuses_workers\n")
    done = call_command(
        tmp_path,
        "verify",
        "train.py:refuses_workers",
        "--arg",
        "workers=2",
        "--items",
        "20",
        "--json",
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["exact"]) == (0, True)
    assert {row["change"] for row in report["rows"]} == {""}
