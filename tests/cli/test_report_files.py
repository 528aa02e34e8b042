"""What other commands have printed as JSON is read again, or refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.bench import BenchReport
from resumable.bench.report import StageTime
from resumable.bench.saving import Saving
from resumable.cli.report_files import read_json_report
from resumable.verify import Finding, Report
from resumable.verify.report import StageCost

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
COUNT = st.integers(0, 2**63)
SECONDS = st.floats(0, 2**63)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


STAGES = st.builds(StageTime, TEXT, TEXT, SECONDS, SECONDS, SECONDS, maybe(COUNT))
SAVINGS = st.builds(Saving, COUNT, COUNT, SECONDS, SECONDS, SECONDS, maybe(COUNT))
BENCHES = st.builds(
    BenchReport,
    target=TEXT,
    items=COUNT,
    seconds=SECONDS,
    complete=st.booleans(),
    first_seconds=maybe(SECONDS),
    cpu_share=maybe(SECONDS),
    slowdown=maybe(SECONDS),
    stages=st.lists(STAGES, max_size=2).map(tuple),
    bottleneck=maybe(COUNT),
    advice=TEXT,
    saving=maybe(SAVINGS),
    notes=TEXTS,
)
FINDINGS = st.builds(
    Finding, *[TEXT] * 5, maybe(COUNT), maybe(COUNT), maybe(TEXT), maybe(TEXT), TEXTS
)
COSTS = st.builds(StageCost, TEXT, TEXT, TEXT, maybe(COUNT))
REPORTS = st.builds(
    Report,
    target=TEXT,
    items=COUNT,
    complete=st.booleans(),
    planned=COUNT,
    positions=COUNT,
    differences=COUNT,
    processes=COUNT,
    resumed=TEXTS,
    reread=maybe(COUNT),
    state_bytes=maybe(COUNT),
    get_state_seconds=maybe(SECONDS),
    resume_seconds=maybe(SECONDS),
    stages=st.lists(COSTS, max_size=2).map(tuple),
    finding=maybe(FINDINGS),
    left_out=TEXTS,
    suspicions=TEXTS,
    notes=TEXTS,
)


def read(folder: Path, found: Any, kind: type = BenchReport) -> Any:
    file = folder / "report.json"
    file.write_bytes(found if isinstance(found, bytes) else json.dumps(found).encode())
    return read_json_report(str(file), kind, "--bench", "bench")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@given(BENCHES | REPORTS)
def test_a_report_comes_back_as_it_was(folder: Path, report: BenchReport | Report) -> None:
    assert read(folder, report.as_json(), type(report)) == report


def places(value: Any, put: Callable[[Any], None]) -> Iterator[Callable[[Any], None]]:
    """A function for each place within ``value`` that puts something else there."""
    yield put
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], lambda new, key=key: value.__setitem__(key, new))  # type: ignore[misc]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)


@given(BENCHES | REPORTS, JSON_VALUES, st.data())
def test_one_with_anything_else_anywhere_is_read_or_refused(
    folder: Path, report: BenchReport | Report, other: Any, data: st.DataObject
) -> None:
    held = {"top": json.loads(json.dumps(report.as_json()))}
    puts = [*places(held["top"], lambda new: held.__setitem__("top", new))]
    data.draw(st.sampled_from(puts))(other)
    with contextlib.suppress(rs.InvalidArgument):
        assert type(read(folder, held["top"], type(report))) is type(report)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (b"[" * 100_000, "recursion"),
        (b"1" * 5000, "digits"),
        ([], "it must be an object, got []"),
        ({"target": "a"}, "it has no items"),
        (Report("a").as_json(), "it has no seconds"),
        ({"target": 1}, "target must be a string, got 1"),
        ({"target": "a", "items": True}, "items must be an integer, got True"),
        ({"target": "a", "items": -1}, "items must be from 0 to 2**63, got -1"),
        (b'{"target": "a", "items": 1, "seconds": NaN}', "seconds must be from 0 to 2**63, got nan"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_told(tmp_path: Path, found: Any, message: str) -> None:
    with pytest.raises(rs.InvalidArgument, match="--bench must be what") as caught:
        read(tmp_path, found)
    assert message in str(caught.value)


def test_a_place_within_is_named(tmp_path: Path) -> None:
    stage = StageTime("Range(stop=5)", "pipeline", 1.0, 0.0, 0.0, None)
    found = BenchReport("a", 1, 1.0, True, stages=(stage, stage)).as_json()
    found["stages"][1]["share"] = "much"
    with pytest.raises(
        rs.InvalidArgument, match=r"stages\[1\]\.share must be a number, got 'much'"
    ):
        read(tmp_path, found)
