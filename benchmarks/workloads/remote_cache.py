"""A cache of remote files: the bytes that epochs fetch, and the speed from a distant store against local files."""

# 200 MB in 200 shards are served over HTTP by another process. The bytes are those of two shuffled epochs with room
# for a part of the data. Next to them is what a cache of the same size would fetch that removes what was used
# longest ago, of the same parts. The store of the speeds answers after 20 ms with 100 MB a second for each
# connection. Its first epoch, through an empty cache with read-ahead, is compared with one over local files that are in memory.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.result import Options, Result, Table, skipped
from benchmarks.timings import spread

MINUTES: Final = 6

NEEDED: Final = ("aiohttp", "fsspec")
EPOCHS: Final = 2
ITEMS: Final = 40
"""Of a shard."""
SIZE: Final = 25_000
"""Bytes of an item."""


def run(options: Options) -> Result:
    """Measure both, if there is a server."""
    title = (__doc__ or "").partition("\n")[0]
    if missing := [name for name in NEEDED if not find_spec(name)]:
        return skipped("remote_cache", title, f"{' and '.join(missing)} must be installed")
    from benchmarks.workloads.scripts.remote_cache import measure_bytes
    from benchmarks.workloads.scripts.remote_speed import SHARDS, measure_speed

    items, size, shards = (2, 250_000, 24) if options.quick else (ITEMS, SIZE, SHARDS)
    measure = partial(_measured, measure_bytes, options.folder, items, size, EPOCHS, shards)
    fetched = options.journal.once("bytes", measure=measure)
    turns = [
        options.journal.once(
            "speed",
            turn,
            measure=partial(_measured, measure_speed, options.folder, items, size, 1, shards),
        )
        for turn in options.journal.turns(options.rounds)
    ]
    by_work = {rows[0]["work on an item"]: rows for rows in zip(*turns, strict=True)}
    speeds = {
        work: {kind: [row[f"{kind} MB/s"][0] for row in rows] for kind in ("remote", "local")}
        for work, rows in by_work.items()
    }
    return Result(
        "remote_cache",
        title,
        [_table_of_bytes(fetched), _table_of_speeds(speeds)],
        raw={"bytes": fetched, "speeds": speeds},
    )


def _measured(
    measure: Callable[..., Any], place: Path, items: int, size: int, times: int, shards: int
) -> list[dict[str, Any]]:
    with TemporaryDirectory(dir=place) as folder:
        return [*measure(Path(folder), items, size, times, shards)]


def _table_of_bytes(rows: list[dict[str, Any]]) -> Table:
    header = ("shuffle", "room for", "fetched in each epoch ÷ data", "by last use")
    cells = [
        (
            row["shuffle"],
            f"{row['cache']:.0%}",
            ", ".join(f"{each:.2f}" for each in row["fetched"]),
            ", ".join(f"{each:.2f}" for each in row["by last use"]),
        )
        for row in rows
    ]
    return Table("bytes fetched", header, cells)


def _table_of_speeds(speeds: dict[str, dict[str, list[float]]]) -> Table:
    rows = []
    for work, found in speeds.items():
        pairs = zip(found["remote"], found["local"], strict=True)
        local = "{:,.0f} ({:,.0f} to {:,.0f})".format(*spread(found["local"]))
        ratio = "{:.2f} ({:.2f} to {:.2f})".format(*spread([one / other for one, other in pairs]))
        rows.append((work, local, ratio))
    return Table("speed", ("work on an item", "local, MB/s", "remote ÷ local"), rows)
