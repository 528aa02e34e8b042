"""`resumable top`: the progress of each rank of a running job.

Shows for each rank the step, the speed, the share of the time spent waiting for items, the number of skipped
items, and the time of the last save; and for each input of a mixture the items, passes and tokens of all ranks.
Only reads the folder of the run, again and again until interrupted. The step and the save are always known; the
other columns need a run started with Checkpointer(..., stats=True), which writes the figures at each save. Speed
and waiting cover the time since the save before. The exit status is 0, or 2 if the folder does not exist, or with
--once if nothing was saved yet.

Examples:
  resumable top run
  resumable top run --once
  resumable top run --name train --interval 10
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..checkpoint.stats_lines import run_progress
from ..errors import MissingDependency, ResumableError
from .places import folder_at, none_there
from .texts import explain
from .top_table import RunTable, run_table


def run(options: argparse.Namespace) -> int:
    """Show the run until interrupted; returns the exit status."""
    try:
        folder = folder_at(options.run, "RUN must be a folder of checkpoints on this machine")
        tables = _tables(folder, options.name, options.interval)
        if options.once:
            print("\n".join(_read(folder, options.name).lines()))
        elif sys.stdout.isatty():
            _watch(tables)
        else:
            for table in tables:
                print(*table.lines(), sep="\n", end="\n\n", flush=True)
    except KeyboardInterrupt:
        pass  # the way to end the command
    return 0


def _read(folder: Path, name: str | None) -> RunTable:
    now = time.time()
    found = run_progress(folder, now)
    names = sorted({one.name for one in found})
    if name is not None:
        found = [one for one in found if one.name == name]
    if not found:
        raise none_there("nothing was saved yet", str(folder), name, names)
    return run_table(found, now)


def _tables(folder: Path, name: str | None, interval: float) -> Iterator[RunTable]:
    """The table, or a note on the lack of a table, every ``interval`` seconds."""
    while True:
        try:
            yield _read(folder, name)
        except (ResumableError, OSError) as error:  # the job may have not begun, or a disk be away
            yield RunTable([], "", [explain(error)])
        time.sleep(interval)


def _watch(tables: Iterator[RunTable]) -> None:
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError as error:
        raise MissingDependency(
            "a live table needs rich: pip install 'resumable-loader[top]'; --once does without it"
        ) from error
    console = Console(file=sys.stdout)
    # The screen needs no separate thread: only a read of the files changes the table.
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for table in tables:
            live.update(drawn(table), refresh=True)


def drawn(table: RunTable) -> Any:
    """``table`` as rich draws tables; no text is read as markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    notes = [*map(Text, table.notes)]
    if not table.rows:
        return Group(*notes)
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heading, *rows = table.rows
    for name, side in zip(heading, table.alignment + ">", strict=True):
        drawn.add_column(Text(name), justify="left" if side == "<" else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*map(Text, row), style="bold" if "all" in row[:2] else "")
    return Group(drawn, *([Text("")] if notes else []), *notes)
