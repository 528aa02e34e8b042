"""Damage to the file of a real checkpoint is found, whatever it is and wherever it lies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint.reading import newest_valid, read_checkpoint

PIPELINES: dict[str, rs.Pipeline[Any]] = {
    "small": rs.range(100).shuffle(0).batch(3),
    "carried": rs.from_iterable(range(50))
    .map(lambda number: (number, np.arange(3) + number))
    .shuffle(2, window=4, carry=True),
}


@pytest.fixture(params=PIPELINES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of a checkpoint that a loop saved."""
    with rs.Checkpointer(tmp_path, rs.EverySteps(5), save_at_end=False) as checkpointer:
        for _, _item in zip(range(6), checkpointer.resume(PIPELINES[request.param]), strict=False):
            pass
    (found,) = tmp_path.glob("*.ckpt")
    return found


def truncations(data: bytes) -> Iterator[bytes]:
    return (data[:size] for size in range(len(data)))


def zero_fills(data: bytes) -> Iterator[bytes]:
    """A file whose last blocks were never written."""
    return (data[:size] + bytes(len(data) - size) for size in range(len(data)))


def appended(data: bytes) -> Iterator[bytes]:
    return (data + junk for junk in (b"\x00", b"\n", b"junk", data, bytes(4096)))


def flips(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            yield bytes(damaged)


DAMAGES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "flipped bits": flips,
    "truncations": truncations,
    "zero fills": zero_fills,
    "appended junk": appended,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damage_to_a_file_is_read(path: Path, damage: str) -> None:
    store, data = rs.Directory(path.parent), path.read_bytes()
    assert read_checkpoint(store, 5).step == 5
    # The digest may end in zeros; filling those with zeros is no damage.
    every = [damaged for damaged in DAMAGES[damage](data) if damaged != data]
    assert len(every) >= min(len(list(DAMAGES[damage](data))), len(data) - 8)
    for damaged in thinned(every, 80, damage):
        path.write_bytes(damaged)
        with pytest.raises(rs.CorruptCheckpoint):
            read_checkpoint(store, 5)


def test_a_file_in_the_place_of_another_is_not_read(path: Path) -> None:
    path.rename(path.with_name("input-000000000006.ckpt"))
    with pytest.raises(rs.CorruptCheckpoint, match="holds step 5"):
        read_checkpoint(rs.Directory(path.parent), 6)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_set_aside_and_the_one_before_taken(path: Path, damage: str) -> None:
    data = path.read_bytes()
    store = rs.Directory(path.parent)
    earlier = newest_valid(store)
    for number, damaged in enumerate(sampled(DAMAGES[damage], data)):
        newer = path.with_name(f"input-{1000 + number:012d}.ckpt")
        newer.write_bytes(damaged)
        with pytest.warns(RuntimeWarning, match=r"is damaged.*passed over"):
            assert repr(newest_valid(store)) == repr(earlier)
        with pytest.warns(RuntimeWarning, match=r"is damaged.*set aside"):
            assert repr(newest_valid(store, set_aside=True)) == repr(earlier)
        assert newer.with_name(f"{newer.name}.damaged").read_bytes() == damaged
    assert path.read_bytes() == data


def test_only_damaged_files_are_an_error_and_not_a_start(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with rs.Checkpointer(path.parent, rs.EverySteps(5)) as checkpointer:
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                with pytest.raises(rs.NoValidCheckpoint, match="damaged"):
                    checkpointer.latest()


def sampled(damage: Callable[[bytes], Iterator[bytes]], data: bytes) -> list[bytes]:
    """Some twenty of the ways to damage ``data``, from its first byte to its last."""
    every = [damaged for damaged in damage(data) if damaged != data]
    return every[:: max(1, len(every) // 20)]


@pytest.mark.parametrize("path", ["small"], indirect=True)
def test_the_warning_about_a_damaged_file_points_at_the_line_that_resumes(path: Path) -> None:
    path.with_name("input-000000001000.ckpt").write_bytes(path.read_bytes()[:-1])
    checkpointer = rs.Checkpointer(path.parent, rs.EverySteps(1))
    with checkpointer, pytest.warns(RuntimeWarning, match="is damaged") as warned:
        checkpointer.resume(PIPELINES["small"])
    assert warned[0].filename == __file__
