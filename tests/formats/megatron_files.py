"""Write the token files of Megatron-LM, in its documented layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Document = Sequence[Any]
"""Its sequences."""

CODES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8,
}  # fmt: skip


def files_of(
    documents: Sequence[Document], dtype: npt.DTypeLike = "uint16", modes: bool = False
) -> tuple[bytes, bytes]:
    """The contents of ``PREFIX.idx`` and ``PREFIX.bin``; modes are arbitrary numbers."""
    dtype = np.dtype(dtype)
    sequences = [np.array(sequence, dtype) for document in documents for sequence in document]
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    ends = np.cumsum(lengths * dtype.itemsize)
    bounds = np.cumsum([0, *map(len, documents)])
    index = [
        struct.pack("<9sQBQQ", b"MMIDIDX", 1, CODES[dtype.name], len(lengths), len(bounds)),
        lengths.astype("<i4").tobytes(),
        np.concatenate([[0], ends])[: len(lengths)].astype("<i8").tobytes(),
        bounds.astype("<i8").tobytes(),
        (lengths % 100).astype("<i1").tobytes() if modes else b"",
    ]
    return b"".join(index), b"".join(sequence.tobytes() for sequence in sequences)


def write_tokens(
    prefix: Path,
    documents: Sequence[Document],
    dtype: npt.DTypeLike = "uint16",
    modes: bool = False,
) -> Path:
    """Write both files; returns the prefix."""
    index, tokens = files_of(documents, dtype, modes)
    Path(f"{prefix}.idx").write_bytes(index)
    Path(f"{prefix}.bin").write_bytes(tokens)
    return prefix
