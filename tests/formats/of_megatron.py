"""Write token files by Megatron-LM.

``python tests/formats/of_megatron.py tests/formats/of_megatron.json`` wrote that file, by megatron-core 0.16.1.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

DOCUMENTS: list[list[list[int]]] = [
    [[5, 6, 7], [8]], [[9, 10]], [], [[11], [], [12, 13, 14, 15]], [[]], [[127] * 40], [[1, 2]],
]  # fmt: skip
"""Each is a list of sequences, some without tokens."""


def megatron() -> Any:
    """The module of Megatron that reads and writes these files.

    Raises:
      ImportError: if megatron-core is not installed.
    """
    with warnings.catch_warnings():  # about accelerators and their packages
        warnings.simplefilter("ignore")
        from megatron.core.datasets import indexed_dataset

    return indexed_dataset


def write(prefix: Path, documents: Sequence[Any], dtype: str, modes: bool = False) -> Path:
    """Write both files; returns the prefix."""
    import torch

    builder = megatron().IndexedDatasetBuilder(f"{prefix}.bin", getattr(np, dtype), modes)
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64), len(sequence) % 100)
        builder.end_document()
    builder.finalize(f"{prefix}.idx")
    return prefix


def written(dtype: str, modes: bool) -> list[str]:
    """The contents of both files, in hexadecimal digits."""
    with TemporaryDirectory() as folder:
        prefix = write(Path(folder) / "tokens", DOCUMENTS, dtype, modes)
        return [Path(f"{prefix}.{ending}").read_bytes().hex() for ending in ("idx", "bin")]


if __name__ == "__main__":
    found = {
        f"{kind.name}{' with modes' * modes}": written(kind.name, modes)
        for kind in megatron().DType
        for modes in (False, True)
    }
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
