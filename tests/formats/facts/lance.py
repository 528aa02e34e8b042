"""What the tests of every format know of `lance`; its pipelines with golden states are in `tests/golden/write.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from formats.records_of_formats import COUNT
from support.format_facts import FormatFacts

import resumable as rs


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    import lance
    import pyarrow as pa

    rows = pa.table({"id": range(4 * COUNT), "data": [data] * (4 * COUNT)})
    lance.write_dataset(rows, folder, max_rows_per_file=4, mode="overwrite")
    return rs.lance(folder)


FACTS = FormatFacts(
    damaged=dict,  # the package finds the damage
    one_size={},  # a dataset has a version, and names of files that never come again
    removed={"lance": written},
    package="lance",
)
