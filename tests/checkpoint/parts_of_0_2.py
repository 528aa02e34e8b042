"""The pipelines of two ranks whose parts version 0.2.0 has saved in `golden/parts-0.2.json`, at the steps 2 and 4."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs
from resumable.core import block_items

__all__ = ["PIPELINES", "BROKEN", "write_parts"]

GOLDEN = Path(__file__).parent.parent / "golden" / "parts-0.2.json"


class Doubled(rs.Transform[Any]):
    """A stage of a user, which says nothing of what it relies on."""

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return _DoubledIterator(self, epoch)


class _DoubledIterator(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        return [2 * item for item in block_items(self._upstream.pull(count))]


def is_no_third(number: int) -> bool:
    return number % 3 > 0


def add(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


def dealt(rank: int, ranks: int) -> rs.Pipeline[int]:
    return rs.range(90).shuffle(0).shard(rank, ranks)


def partitioned(rank: int, ranks: int) -> rs.Pipeline[int]:
    numbers = rs.range(90).shuffle(0).partition(4, lambda part: part.filter(is_no_third))
    return numbers.shard(rank, ranks)


PIPELINES: dict[str, Callable[[int, int], rs.Pipeline[Any]]] = {
    "shard": lambda *rank: dealt(*rank).batch(2),
    "shard, window": lambda *rank: dealt(*rank).shuffle(1, window=5),
    "shard, window carried": lambda *rank: dealt(*rank).shuffle(1, window=5, carry=True),
    "shard, scan": lambda *rank: dealt(*rank).scan(add, 0),
    "shard, a stage of a user": lambda *rank: dealt(*rank).apply(Doubled),
    "partition": lambda *rank: partitioned(*rank).batch(2),
    "partition, take": lambda *rank: partitioned(*rank).take(9),
    "partition, enumerate": lambda *rank: partitioned(*rank).enumerate(),
    "partition, map skipping": lambda *rank: partitioned(*rank).map(hex, on_error="skip"),
    "partition, window": lambda *rank: partitioned(*rank).shuffle(1, window=5),
    "partition, scan": lambda *rank: partitioned(*rank).scan(add, 0),
    "partition, a stage of a user": lambda *rank: partitioned(*rank).apply(Doubled),
}
BROKEN = ("partition, window", "partition, scan", "partition, a stage of a user")
"""Those of which each rank had a run of its own."""


def write_parts(name: str, folder: Path) -> None:
    """Write what version 0.2.0 saved of the pipeline ``name`` into ``folder``."""
    for file, content in json.loads(GOLDEN.read_text())[name].items():
        (folder / file).write_bytes(base64.b64decode(content))
