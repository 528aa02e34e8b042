"""Maps of files: their bytes, how long they last, and what they take."""

from __future__ import annotations

import gc
import os
import sys
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from resumable.formats.io import maps
from resumable.formats.io.maps import FEW_MAPS, KNOWN_LIMIT, Mapper, map_file

LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="Linux tells the maps")
WAYS = ["_map_with_descriptor", "_map_of_c"]
if sys.version_info >= (3, 13) and os.name == "posix":
    WAYS.append("_map_of_python")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Mapper:
    if request.param == "_map_of_c":
        if os.name != "posix":
            pytest.skip("Windows has no mmap")
        return maps._map_of_c()
    mapper: Mapper = getattr(maps, request.param)
    return mapper


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mapped-file"
    path.write_bytes(bytes(range(256)) * 40)
    return path


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_every_way_gives_the_bytes(
    path: Path, way: Mapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "_map", way)
    with FileIO(path) as file:
        found = map_file(file, 10_000)
        assert map_file(file, 10_241) is None
    assert found is not None
    data = path.read_bytes()
    assert len(found) == 10_000
    assert type(found[3:3000]) is bytes
    assert found[3:3000] == data[3:3000]
    assert found[9_000:20_000] == data[9_000:10_000]
    assert np.frombuffer(found, np.uint8).tobytes() == data[:10_000]


@LINUX
def test_a_map_lasts_as_long_as_an_array_over_it(path: Path, way: Mapper) -> None:
    with path.open("rb") as file:
        found = way(file.fileno(), 10_240)
    part = np.frombuffer(found, np.uint8)[100:200]
    del found
    gc.collect()
    assert is_mapped(path)
    assert part.tolist() == [number % 256 for number in range(100, 200)]
    del part
    gc.collect()
    assert not is_mapped(path)


@LINUX
def test_maps_hold_no_descriptor(path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    kept = []
    for _ in range(100):
        with FileIO(path) as file:
            kept.append(map_file(file, 10_240))
    assert os.listdir("/proc/self/fd") == before
    assert all(kept)


def test_what_cannot_be_mapped_is_an_error_of_the_system(way: Mapper) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        way(10_000_000, 10)


def test_a_map_takes_its_share_of_what_the_system_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "_address_space_is_limited", lambda: False)
    assert FEW_MAPS <= maps._most_maps(holds_descriptors=False) <= KNOWN_LIMIT // 4
    assert maps._most_maps(holds_descriptors=True) == FEW_MAPS
    monkeypatch.setattr(maps, "_address_space_is_limited", lambda: True)
    assert maps._most_maps(holds_descriptors=False) == FEW_MAPS
