"""Lance datasets that the real package writes, for the tests of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formats.table_files import numbers, rows

__all__ = ["KEPT", "write_datasets"]

KEPT = [number for number in range(24) if number % 5 != 3]
"""The ids that are left of the mixed rows."""


def write_datasets(folder: Path) -> None:
    """Datasets of several fragments: with rows deleted and columns added, of numbers alone, and empty."""
    import lance
    import pyarrow as pa

    mixed = pa.Table.from_pylist(rows(0, 24))
    dataset: Any = lance.write_dataset(
        mixed.slice(0, 16), folder / "mixed.lance", max_rows_per_file=7
    )
    dataset = lance.write_dataset(mixed.slice(16), folder / "mixed.lance", mode="append")
    dataset.delete("id % 5 = 3")
    stable: Any = lance.write_dataset(
        numbers(0, 40), folder / "numbers.lance", max_rows_per_file=9, enable_stable_row_ids=True
    )
    stable.delete("id >= 31 or id = 4")
    lance.write_dataset(numbers(0, 3).slice(0, 0), folder / "none.lance")
