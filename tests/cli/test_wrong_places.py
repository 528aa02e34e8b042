"""Every command that reads a place answers a wrong one in one line."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest
from support.command import call_command
from support.damaged import flip_last_bit
from support.tiers import thinned

import resumable as rs

COMMANDS = {
    "inspect": ["inspect", "PLACE"],
    "history": ["inspect", "PLACE", "--history"],
    "one file": ["inspect", "PLACE/input-000000000004.ckpt"],
    "diff from": ["diff", "PLACE", "good"],
    "diff to": ["diff", "good", "PLACE"],
    "amend": ["amend", "PLACE", "train.py"],
    "trace": ["trace", "PLACE", "train.py", "--find", "3"],
    "top": ["top", "PLACE", "--once"],
    "cache": ["cache", "PLACE"],
    "clear": ["cache", "PLACE", "--clear"],
    "demo": ["demo", "--keep", "PLACE"],
    "index": ["index", "PLACE/*.jsonl"],
}
FINE = {
    *(("empty", command) for command in ("trace", "cache", "clear")),
    *((place, "history") for place in ("damaged", "newer")),
    *((place, "top") for place in ("damaged", "newer")),
    *((place, command) for place in ("damaged", "newer") for command in ("cache", "clear")),
    *((place, "demo") for place in ("nowhere", "empty")),
    # What is whole is traced, and a listing shows what is wrong with each.
    ("damaged", "trace"),
    *((place, "inspect") for place in ("damaged", "newer")),
    *((place, "one file") for place in ("damaged", "newer")),
    ("file", "inspect"),
}
"""Where the place is one that the command takes, or the outcome goes to standard output."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import resumable as rs\npipeline = rs.range(9)\n")
    for name in ("good", "damaged", "newer", "locked"):
        with rs.Checkpointer(tmp_path / name, rs.EverySteps(2), save_at_end=False) as checkpointer:
            for _ in checkpointer.resume(rs.range(9)):
                if checkpointer.step == 4:
                    break
    for path in (tmp_path / "damaged").glob("*.ckpt"):
        flip_last_bit(path)
    for path in (tmp_path / "newer").glob("*.ckpt"):
        make_newer(path)
    (tmp_path / "locked").chmod(0)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("something else")
    return tmp_path


def make_newer(path: Path) -> None:
    """Let the checkpoint at ``path`` be of a later format, and whole."""
    data = bytearray(path.read_bytes()[:-32])
    data[7] = 9
    path.write_bytes(data + hashlib.blake2b(data, digest_size=32).digest())


@pytest.mark.parametrize("place", ["steps/5", "steps"])
@pytest.mark.parametrize("command", ["inspect", "history", "amend", "top", "diff from"])
def test_a_checkpoint_of_torch_is_recognised(folder: Path, place: str, command: str) -> None:
    (folder / "steps/5").mkdir(parents=True)
    (folder / "steps/5/.metadata").write_bytes(b"pickled")
    done = call_command(folder, *(part.replace("PLACE", place) for part in COMMANDS[command]))
    assert done.returncode
    assert re.search(
        r"steps/5 was written by torch.distributed.checkpoint, and only dcp.load", done.stderr
    )


PLACES = ("nowhere", "empty", "file", "damaged", "newer", "locked")
WRONG = [
    (place, command) for place in PLACES for command in COMMANDS if (place, command) not in FINE
]


@pytest.mark.parametrize(("place", "command"), thinned(WRONG, 20, "wrong places"))
def test_a_wrong_place_is_answered_in_one_line(folder: Path, place: str, command: str) -> None:
    if place == "locked" and os.access(folder / place, os.R_OK):
        pytest.skip("this user may read everything")
    done = call_command(folder, *(part.replace("PLACE", place) for part in COMMANDS[command]))
    told = [line for line in done.stderr.splitlines() if "it was passed over" not in line]
    assert len(told) == 1, done.stderr
    assert told[0].startswith(f"resumable {COMMANDS[command][0]}: ")
    assert place in told[0] or "--keep" in told[0]
    assert "Errno" not in told[0]
    assert (done.returncode, done.stdout) == (2, "")


def test_the_command_that_finds_no_valid_checkpoint_says_why(folder: Path) -> None:
    for place, why in (("newer", "its format version is 9"), ("damaged", "its digest does not")):
        told = call_command(folder, "diff", "good", place).stderr
        assert f"in {place}; input-000000000004.ckpt: {why}" in told


def test_a_checkpoint_of_a_later_version_is_named(folder: Path) -> None:
    for arguments in (
        ["amend", "newer", "train.py"],
        ["trace", "newer", "train.py", "--step", "3"],
    ):
        told = call_command(folder, *arguments).stderr
        assert "the checkpoint of step " in told
        assert "was written by a later version of the library: its format version is 9" in told
    with pytest.raises(rs.NewerFormat, match=r"checkpoint of step 4 in .*newer"):
        rs.Checkpointer(folder / "newer", rs.EverySteps(2)).latest()
