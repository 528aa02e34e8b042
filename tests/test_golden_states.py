"""States saved by earlier versions of the library still resume, at the same item."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path

import pytest
from golden import write
from golden.write import STREAMS, TABLES, checkpointed, repr_of, sampled
from support.format_facts import named_packages
from support.graphs import catalogue

import resumable as rs
from resumable.checkpoint.envelope import decode, encode

FOLDER = Path(__file__).parent / "golden"
SAVED = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in sorted(FOLDER.glob("states-*.json"))
    for name in json.loads(path.read_text())
]
OF_0_1 = {
    "states-1.json": "9a59fe4fa8d0da9a",
    "states-2.json": "4570bb7ec023c2e7",
    "states-3.json": "22ff25b4b08e1119",
    "states-4.json": "ec22045af3ef08d0",
    "states-5.json": "0361d2a37ff60784",
    "states-6.json": "b1a5e757982ffca0",
    "checkpoint-1.ckpt": "010f0694a6ea21ce",
    "orders.json": "84068eea7f5656c6",
    "block_orders.json": "5780a3fc2b879d1f",
}
"""The beginnings of the digests of what version 0.1 published."""


@pytest.mark.parametrize("name", OF_0_1)
def test_what_a_version_published_is_as_it_was(name: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest().startswith(OF_0_1[name])


@pytest.mark.parametrize(("path", "name"), SAVED)
def test_a_state_of_an_earlier_version_resumes(path: Path, name: str, catalogue_data: Path) -> None:
    package = named_packages().get(name.split()[0])
    if package is not None:
        pytest.importorskip(package, reason=f"{package} is not installed")
    entry = json.loads(path.read_text())[name]
    pipeline = {**STREAMS, **TABLES, **catalogue(catalogue_data)}[name]()
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
    missing = sorted(set(catalogue(Path())) - names)
    told = " ".join(f'"{name}"' for name in missing)
    assert not missing, f"run: PYTHONPATH=. python tests/golden/write.py {told}"


def test_the_states_of_new_pipelines_are_added_and_published_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "FOLDER", tmp_path)
    write.add(["map workers"])
    (path,) = tmp_path.iterdir()
    assert path.name == "states-map-workers.json"
    before = json.loads(path.read_text())
    for names, told in [
        (["map workers"], "never changed"),
        (["map workers", "x"], "never changed"),
        (["x"], "no pipeline"),
    ]:
        with pytest.raises(SystemExit, match=told):
            write.add(names)
    assert json.loads(path.read_text()) == before
    published = json.loads((FOLDER / "states-1.json").read_text())
    assert before == {"map workers": published["map workers"]}
