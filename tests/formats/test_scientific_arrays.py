"""Arrays in files of h5py and zarr, as sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.testing import check_resumes_everywhere

ROWS = np.arange(60, dtype="float32").reshape(20, 3)


def test_rows_of_a_zarr_array_are_found_by_number_also_in_processes(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    zarr.save_array(tmp_path / "a", ROWS)
    pipeline: Any = rs.from_sequence(zarr.open_array(tmp_path / "a", mode="r"))
    assert len(pipeline) == 20
    assert np.array_equal(list(pipeline), ROWS)
    assert np.array_equal(pipeline[-1], ROWS[-1])
    check_resumes_everywhere(pipeline.shuffle(0).batch(3))
    parts = pipeline.partition(2, lambda part: part.map(np.sum), workers=2, executor="process")
    assert sorted(parts) == sorted(ROWS.sum(axis=1))
    with pytest.raises(rs.InvalidType, match="sequence must have"):
        rs.from_sequence(zarr.create_array(tmp_path / "b", shape=(), dtype="i8"))


def test_rows_of_an_hdf5_dataset_are_found_by_number(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["rows"], file["one"] = ROWS, 1
        pipeline: Any = rs.from_sequence(file["rows"])
        assert np.array_equal(list(pipeline), ROWS)
        check_resumes_everywhere(pipeline.shuffle(0).batch(3))
        sums = pipeline.map(np.sum, workers=2, executor="process")
        assert list(sums) == list(ROWS.sum(axis=1))
        with pytest.raises(rs.InvalidType, match="sequence must have a first axis"):
            rs.from_sequence(file["one"])
