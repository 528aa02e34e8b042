"""Whatever a checkpoint file holds, reading it gives a checkpoint or one error, soon and in bounds."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.bombs import ACCEPTED, BOMBS, ext, sealed, state_of
from campaigns.fuzz_checkpoints import fuzz
from support import forks
from support.tiers import is_deep, thinned

import resumable as rs
from resumable.checkpoint import envelope
from resumable.checkpoint.names import CheckpointNames, check_name
from resumable.checkpoint.reading import read_checkpoint
from resumable.state.encoding import MAGIC

# A guard against what never ends; how long it really takes is measured by the campaign.
MOST_SECONDS = 60.0
MOST_BYTES = 100_000_000
FILE = "input-000000000001.ckpt"

measures_memory = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="the peak memory is told by Linux"
)


def measured(folder: Path) -> dict[str, Any]:
    """What came of reading the checkpoint in ``folder`` in a process of its own."""
    environment = dict(os.environ)
    environment.pop("PYTHONDEVMODE", None)  # in which every object is larger
    code = f"import campaigns.measure; campaigns.measure.main({str(folder)!r})"
    with tempfile.TemporaryFile("w+") as said:
        process = forks.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=forks.STDOUT,
        )
        status = process.wait(120)
        assert process.stdin is not None
        process.stdin.close()
        said.seek(0)
        output = said.read()
    assert status == 0, output
    found: dict[str, Any] = json.loads(output)
    assert found["seconds"] < MOST_SECONDS, found
    assert found["bytes"] < MOST_BYTES, found
    assert found["asked"] < 2 * MOST_BYTES, found
    return found


@measures_memory
@pytest.mark.parametrize("name", thinned(BOMBS, 6, "bombs"))
def test_a_bomb_is_refused_in_bounded_time_and_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / FILE
    path.write_bytes(sealed(BOMBS[name]()))
    assert measured(tmp_path)["outcome"] == "CorruptCheckpoint"
    path.unlink()


@measures_memory
@pytest.mark.parametrize("name", thinned(ACCEPTED, 4, "accepted"))
def test_a_large_checkpoint_is_read_within_the_same_bounds(tmp_path: Path, name: str) -> None:
    path = tmp_path / FILE
    path.write_bytes(sealed(ACCEPTED[name]()))
    assert measured(tmp_path)["outcome"] == "Checkpoint"
    path.unlink()


LARGE_STATES: dict[str, Any] = {
    "integers": lambda: list(range(10**12, 10**12 + 10**6)),
    "short strings": lambda: [f"item {number:011d}" for number in range(10**6)],
    "rows": lambda: [{"id": number, "text": "abc", "value": 0.5} for number in range(100_000)],
    "pairs": lambda: [(number, 0.5) for number in range(200_000)],
    "a large array": lambda: np.zeros(100_000_000, np.uint8),
    "a large array in a tuple": lambda: ([(np.zeros(30_000_000, np.uint8), 1)],),
    "many arrays": lambda: [np.zeros((28, 28), np.uint8)] * 20_000,
    "floats": lambda: [0.5] * 2_000_000,
}


@pytest.mark.parametrize("name", thinned(LARGE_STATES, 2, "large states"))
def test_a_large_state_is_saved_and_loaded(name: str) -> None:
    value = LARGE_STATES[name]()
    loaded = rs.loads(rs.dumps({"value": value}))["value"]
    assert type(loaded) is type(value)
    assert len(loaded) == len(value)
    np.testing.assert_equal(loaded[-1], value[-1])


REFUSED_STATES: dict[str, Any] = {
    "integers": lambda: [10**9] * 2_300_000,
    "truth values": lambda: [True] * 2_500_000,
    "short strings": lambda: ["ab"] * 1_500_000,
    "a dict": lambda: {str(number): None for number in range(500_000)},
    "an array in many tuples": lambda: ((((np.zeros(20_000_000, np.uint8),),),),),
}


@pytest.mark.parametrize("name", thinned(REFUSED_STATES, 2, "refused states"))
def test_what_would_not_be_loaded_is_not_saved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"value": REFUSED_STATES[name]()}
    with pytest.raises(rs.UnencodableState, match=r"more than [0-9]+ bytes of memory"):
        rs.dumps(state)
    monkeypatch.setattr(
        "resumable.state.encoding.ALWAYS_WITHIN", 10**12
    )  # `dumps` then looks no further
    data = rs.dumps(state)
    with pytest.raises(rs.CorruptCheckpoint, match=r"more than [0-9]+ bytes of memory"):
        rs.loads(data)


def test_inputs_of_every_hostile_kind_do_nothing_but_be_refused() -> None:
    count = 20_000 if is_deep() else 2_000
    report = fuzz(count, seed=0)
    assert report.failures == []
    assert report.tried == count
    assert report.decoded > count / 40, "hardly anything got past the digest"
    assert report.resumed > count / 200, "hardly anything got as far as a pipeline"
    assert set(report.refused) == {"CorruptCheckpoint", "NewerFormat", "StateMismatch"}
    assert report.slowest_seconds < MOST_SECONDS


def test_a_step_of_many_digits_is_refused() -> None:
    step = ext(1, b"\x7f" + bytes(2000))
    store = rs.Memory()
    store.save(
        1, sealed(MAGIC + b"\x83\xa4step" + step + b"\xa4time\xcb" + bytes(8) + b"\xa5state\x80")
    )
    with pytest.raises(rs.CorruptCheckpoint):
        read_checkpoint(store, 1)


FORMS: dict[str, Callable[[bytes], Any]] = {
    "strided": lambda data: memoryview(bytes(b for byte in data for b in (byte, 0)))[::2],
    "signed": lambda data: memoryview(data).cast("b"),
    "characters": lambda data: memoryview(data).cast("c"),
    "square": lambda data: memoryview(data).cast("B", [2, len(data) // 2]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_view_of_any_form_is_read_as_its_bytes(form: str) -> None:
    data = rs.dumps({"a": [1, "x"], "b": "y" * 4})
    assert len(data) % 2 == 0
    assert rs.loads(FORMS[form](data)) == {"a": [1, "x"], "b": "y" * 4}


@measures_memory
@pytest.mark.parametrize("head", [b"", envelope.HEADER.pack(envelope.MAGIC, 100)])
def test_a_huge_sparse_file_is_refused_without_being_read(tmp_path: Path, head: bytes) -> None:
    with open(tmp_path / FILE, "wb") as file:
        file.write(head)
        file.truncate(3 << 30)
    found = measured(tmp_path)
    assert found["outcome"] == "CorruptCheckpoint"
    assert found["bytes"] < 5_000_000


@measures_memory
def test_a_sparse_file_with_a_fitting_header_is_never_held(tmp_path: Path) -> None:
    size = 64 << 20
    with open(tmp_path / FILE, "wb") as file:
        file.write(envelope.HEADER.pack(envelope.MAGIC, size - envelope.HEADER.size - 32))
        file.truncate(size)
    found = measured(tmp_path)
    assert found["outcome"] == "CorruptCheckpoint"
    assert found["bytes"] < 30_000_000


def make_strange(kind: str, path: Path) -> None:
    """Something at ``path`` that is no regular file."""
    targets = {"device": "/dev/zero", "link": str(path.parent / "real"), "dangling": "/nowhere"}
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(targets[kind])


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link", "dangling"])
def test_what_is_no_regular_file_is_never_read(tmp_path: Path, kind: str) -> None:
    valid = sealed(state_of(b"\x01"))
    (tmp_path / "real").write_bytes(valid)
    make_strange(kind, tmp_path / FILE)
    with pytest.raises(rs.CorruptCheckpoint, match="not a regular file"):
        read_checkpoint(rs.Directory(tmp_path), 1)
    if os.path.exists("/proc/self/clear_refs"):
        assert measured(tmp_path)["outcome"] == "CorruptCheckpoint"
    with (
        rs.Checkpointer(tmp_path, rs.EverySteps(1)) as checkpointer,
        pytest.warns(RuntimeWarning, match="not a regular file"),
        pytest.raises(rs.NoValidCheckpoint),
    ):
        checkpointer.latest()
    assert (tmp_path / "real").read_bytes() == valid


NAMES = [
    "", ".", "..", "../other", "a/../b", "/etc/passwd", "a/b", "a\\b", ".hidden", "a-b", "a b",
    "a\0", "a\n", "\n", "a\nb", "ä", "C:", "~", "$HOME", "*", "a\u202e",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "store"
    with pytest.raises(rs.InvalidArgument):
        rs.Directory(folder, name)
    with pytest.raises(rs.InvalidArgument):
        CheckpointNames(name)
    with pytest.raises(rs.InvalidArgument):
        check_name("name", name)
    assert os.listdir(tmp_path) == []
