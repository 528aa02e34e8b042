"""States saved by earlier versions of the library still resume, at the same item."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from golden.write import repr_of
from graphs import catalogue, write_data

import resumable as rs

FOLDER = Path(__file__).parent / "golden"
SAVED = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in sorted(FOLDER.glob("states-*.json"))
    for name in json.loads(path.read_text())
]


@pytest.mark.parametrize(("path", "name"), SAVED)
def test_a_state_of_an_earlier_version_resumes(path: Path, name: str, tmp_path: Path) -> None:
    entry = json.loads(path.read_text())[name]
    write_data(tmp_path)
    pipeline = catalogue(tmp_path)[name]()
    with pipeline.resume(rs.loads(bytes.fromhex(entry["state"]))) as iterator:
        got = [repr_of(item) for item in islice(iterator, len(entry["items"]))]
    assert got == entry["items"]


def test_every_stage_and_source_has_a_golden_state() -> None:
    names = {name for path in FOLDER.glob("states-*.json") for name in json.loads(path.read_text())}
    assert set(catalogue(Path())) <= names
