"""What the tests of every format know of `jsonl`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from campaigns.damaged_records import (
    REFUSED,
    RecordTarget,
    all_lines_of,
    damaged_anywhere,
)
from formats.records_of_formats import files_in, numbered_lines, short_lists
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.jsonl import parse_json_line
from resumable.formats.lines import LINES
from resumable.formats.record import BYTE_ORDER_MARK


def json_files() -> list[bytes]:
    """As `json` writes values of all kinds."""
    values: list[Any] = [
        {"text": "fünf", "numbers": [1, -2.5, 10**30]}, [], None, True, "\ud800", float("inf"),
        {"deep": [[[[{"a": 1e-7}]]]]},
    ]  # fmt: skip
    lines = [json.dumps(value) for value in values]
    wide = json.dumps(values[0], ensure_ascii=False).encode()
    return ["\n".join(lines).encode(), BYTE_ORDER_MARK + wide + b"\r\n\r\n" + wide, wide]


def values_of(data: bytes) -> tuple[list[Any], bool]:
    """The values of JSON lines as `json` reads them."""
    lines = [
        line if number else line.removeprefix(BYTE_ORDER_MARK)
        for number, line in enumerate(all_lines_of(data))
        if line
    ]
    return list(map(value_of, lines)), True


def value_of(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return REFUSED


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".jsonl"):
        path.write_text(f"{json.dumps(data.decode())}\n" * 4)
    return rs.jsonl(folder / "*.jsonl")


def pipelines(folder: Path) -> Pipelines:
    values, cut = folder / "values.jsonl", folder / "cut.jsonl.gz"
    return {
        "jsonl damaged skipping": lambda: rs.jsonl([cut, values, cut], on_error="skip"),
        "jsonl": lambda: rs.jsonl(values).shuffle(2).batch(3),
        "jsonl skipping": lambda: rs.jsonl(folder / "bad.jsonl", on_error="skip"),
    }


def write(folder: Path) -> None:
    lines = [json.dumps({"i": i}) + "\n" for i in range(11)]
    (folder / "values.jsonl").write_text("".join(lines) + "\n")
    cut = gzip.compress(json.dumps({"i": 0}).encode() * 3, 0)[:-9]
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), 0) + cut)
    (folder / "bad.jsonl").write_text('{"a": 1}\n{broken\n[2]\n\n"three"\nnot json\n4')


FACTS = FormatFacts(
    damaged=lambda: {
        "jsonl": RecordTarget(LINES, parse_json_line, json_files(), damaged_anywhere, values_of)
    },
    one_size={"jsonl": OneSize(numbered_lines, rs.jsonl)},
    removed={"jsonl": written},
    pipelines=pipelines,
    write=write,
    behind_urls={
        "jsonl": BehindUrl(
            lambda: b"\r\n".join(b'{"id": %d}' % n + b"\n" * (n % 3) for n in range(60)), rs.jsonl
        )
    },
    in_streams={"jsonl": InStreams(short_lists, rs.jsonl)},
    mutations=[
        Mutation("formats/jsonl.py", "if line.number == 1:", "if True:"),
        Mutation("formats/jsonl.py", "    if LONGEST_NUMBER in signs", "    if False and signs"),
    ],
)
