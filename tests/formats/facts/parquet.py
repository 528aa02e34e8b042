"""What the tests of every format know of `parquet`; its pipelines with golden states are in `tests/golden/write.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from campaigns.damaged_files import OneByteTarget, TableTarget
from formats.table_files import content_of, numbers_of, rows, write_each, write_parquet
from support.format_facts import BehindUrl, FormatFacts, Mutation, OneSize

import resumable as rs


def of_one_size(number: int) -> bytes:
    return content_of(partial(write_parquet, group=99, compression="none"), numbers_of(number))


def behind_url() -> bytes:
    import pyarrow as pa

    return content_of(write_parquet, pa.Table.from_pylist(rows(0, 40)))


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    write_each(folder, data, ".parquet", partial(write_parquet, group=2))
    return rs.parquet(folder / "*.parquet")


FACTS = FormatFacts(
    damaged=lambda: {
        "parquet": TableTarget(rs.parquet, "*.parquet"),
        "parquet in parts": TableTarget(partial(rs.parquet, batch_rows=3), "*.parquet"),
        "parquet, one byte": OneByteTarget(rs.parquet, "*.parquet"),
    },
    one_size={"parquet": OneSize(of_one_size, rs.parquet)},
    removed={"parquet": written},
    package="pyarrow",
    behind_urls={"parquet": BehindUrl(behind_url, rs.parquet, has_index=False)},
    mutations=[
        Mutation("formats/tables/parquet_file.py", "if columns is None or any(", "if any("),
        Mutation(
            "formats/tables/parquet_file.py",
            "if reader is None or reader.next_row > first:",
            "if not reader:",
        ),
        Mutation(
            "formats/tables/parquet_file.py",
            "if footer.num_rows not in (sum(counts), 0):",
            "if False:",
        ),
        Mutation("formats/tables/parquet_file.py", "batch.slice(missing)", "batch"),
        Mutation(
            "formats/tables/parquet_file.py",
            "page_checksum_verification=True",
            "page_checksum_verification=False",
        ),
    ],
)
