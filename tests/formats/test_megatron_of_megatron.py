"""What Megatron-LM writes and reads as token files, and what we read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.megatron_files import CODES
from formats.of_megatron import DOCUMENTS, megatron, write

import resumable as rs

try:
    theirs = megatron()
except ImportError as error:
    pytest.skip(f"megatron-core is not installed: {error}", allow_module_level=True)


@pytest.fixture
def more() -> list[list[list[int]]]:
    rng = np.random.default_rng(0)
    return [
        [rng.integers(0, 127, rng.integers(0, 300)).tolist() for _ in range(rng.integers(0, 4))]
        for _ in range(60)
    ]


@pytest.mark.parametrize("modes", [False, True])
@pytest.mark.parametrize("dtype", sorted(CODES))
def test_documents_and_sequences_are_those_that_indexed_dataset_gives(
    tmp_path: Path, dtype: str, modes: bool, more: list[list[list[int]]]
) -> None:
    for name, documents in (("few", DOCUMENTS), ("many", more)):
        prefix = write(tmp_path / name, documents, dtype, modes)
        dataset = theirs.IndexedDataset(str(prefix), multimodal=modes)
        parts = [dataset[number] for number in range(len(dataset))]
        sequences = [part[0] if modes else part for part in parts]
        bounds = dataset.document_indices
        # Copies, since what is left of a view of a closed map kills the process.
        whole = [
            np.concatenate([np.empty(0, dtype), *sequences[begin:end]])
            for begin, end in pairwise(bounds)
        ]
        check_same(rs.megatron(prefix, items="sequence"), sequences)
        check_same(rs.megatron(prefix), whole)


def check_same(ours: Any, expected: list[Any]) -> None:
    items = list(ours)
    assert [item.dtype for item in items] == [item.dtype for item in expected]
    assert [item.tolist() for item in items] == [item.tolist() for item in expected]


def test_a_wrong_pair_of_files_is_refused_where_megatron_refuses_it(tmp_path: Path) -> None:
    write(tmp_path / "one", [[[1, 2]], [[3]]], "int32")
    (tmp_path / "one.bin").write_bytes(b"\0" * 8)
    with pytest.raises(ValueError, match="buffer"):
        theirs.IndexedDataset(str(tmp_path / "one"))[1]
    with pytest.raises(rs.MalformedItem, match="12 bytes"):
        rs.megatron(tmp_path / "one")
