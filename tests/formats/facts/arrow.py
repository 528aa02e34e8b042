"""What the tests of every format know of `arrow`; its pipelines with golden states are in `tests/golden/write.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from campaigns.damaged_files import OneByteTarget, TableTarget
from formats.table_files import content_of, numbers_of, rows, write_arrow, write_each
from support.format_facts import BehindUrl, FormatFacts, Mutation, OneSize

import resumable as rs


def of_one_size(number: int) -> bytes:
    return content_of(partial(write_arrow, batch=99), numbers_of(number))


def behind_url() -> bytes:
    import pyarrow as pa

    return content_of(write_arrow, pa.Table.from_pylist(rows(0, 40)))


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    write_each(folder, data, ".arrow", partial(write_arrow, batch=2))
    return rs.arrow(folder / "*.arrow")


FACTS = FormatFacts(
    damaged=lambda: {
        "arrow": TableTarget(rs.arrow, "*.arrow"),
        "arrow, one byte": OneByteTarget(rs.arrow, "*.arrow"),
    },
    one_size={"arrow": OneSize(of_one_size, rs.arrow)},
    removed={"arrow": written},
    package="pyarrow",
    behind_urls={"arrow": BehindUrl(behind_url, rs.arrow, has_index=False)},
    mutations=[
        Mutation(
            "formats/tables/arrow_file.py",
            "if self._is_file or each.start < batch.start",
            "if True",
        ),
        Mutation("formats/tables/arrow_file.py", "array.validate(full=True)", "pass"),
        Mutation("formats/tables/arrow_messages.py", "if column != rows:", "if False:"),
        Mutation(
            "formats/tables/arrow_messages.py",
            "if message.stop > end or message.rows < 0:",
            "if False:",
        ),
        Mutation("formats/tables/arrow_messages.py", "if message.stop < end:", "if False:"),
        Mutation("formats/tables/arrow_messages.py", ">= MOST_PADDING:", ">= 1 << 40:"),
        Mutation(
            "formats/tables/arrow_messages.py",
            "if is_file:\n        _check",
            "if not 1:\n        _check",
        ),
        Mutation(
            "formats/tables/arrow_messages.py",
            "(marks == -1) & (lengths > 0)",
            "(marks == -1) & (lengths < 0)",
        ),
    ],
)
