"""States saved by earlier versions of the library still resume, at the same item."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from golden.write import STREAMS, checkpointed, repr_of, sampled
from graphs import catalogue, write_data

import resumable as rs
from resumable.checkpoint.envelope import decode, encode

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
    pipeline = {**STREAMS, **catalogue(tmp_path)}[name]()
    with pipeline.resume(rs.loads(bytes.fromhex(entry["state"]))) as iterator:
        got = [repr_of(item) for item in islice(iterator, len(entry["items"]))]
    assert got == entry["items"]


def test_the_digest_of_four_of_the_last_items_is_that_of_earlier_versions() -> None:
    assert sampled() == json.loads((FOLDER / "states-3.json").read_text())


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("checkpoint-*.ckpt")), ids=lambda path: path.name
)
def test_a_checkpoint_file_of_an_earlier_version_resumes(path: Path) -> None:
    checkpoint = decode(path.read_bytes())
    assert (checkpoint.step, checkpoint.time) == (5, 1_800_000_000.0)
    with checkpointed().resume(checkpoint.state) as iterator:
        assert [repr_of(item) for item in iterator] == [repr_of(item) for item in checkpointed()][
            5:
        ]


def test_a_checkpoint_file_is_written_as_published() -> None:
    newest = max(FOLDER.glob("checkpoint-*.ckpt"))
    assert encode(decode(newest.read_bytes())) == newest.read_bytes()


def test_every_stage_and_source_has_a_golden_state() -> None:
    names = {name for path in FOLDER.glob("states-*.json") for name in json.loads(path.read_text())}
    assert set(catalogue(Path())) <= names
