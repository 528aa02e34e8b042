"""`resumable top`: how each rank of a run is doing, while it runs.

Shows for each rank of a run its step, its speed, how much of the time it waits for items, how many items were
skipped, and when it saved last; and for each input of a mixture the items, passes and tokens of all ranks.
Reads the folder of the run only, again and again until it is interrupted. All but the step and the save is
known if the run was started with Checkpointer(..., stats=True), which notes it at each save. Speed and
waiting are those since the save before. The exit status is 0, or 2 if there is no such folder, or with --once
nothing to read.

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
from ..errors import InvalidArgument, MissingDependency, ResumableError
from ..views.table import table_lines
from .inspect import explain, why_no_folder
from .run_store import none_there
from .top_table import RunTable, run_table


def run(options: argparse.Namespace) -> int:
    """Show the run until it is interrupted; returns the exit status."""
    try:
        folder = _folder(options.run)
        if options.once:
            _print(_read(folder, options.name))
        elif sys.stdout.isatty():
            _watch(folder, options.name, options.interval)
        else:
            _print_again_and_again(folder, options.name, options.interval)
    except KeyboardInterrupt:
        pass  # the way to end it
    return 0


def _folder(run: str) -> Path:
    if "://" in run or not Path(run).is_dir():
        raise InvalidArgument(
            f"RUN must be a folder of checkpoints on this machine, got {run}{why_no_folder(run)}"
        )
    return Path(run)


def _read(folder: Path, name: str | None) -> RunTable:
    now = time.time()
    found = run_progress(folder, now)
    names = sorted({one.name for one in found})
    if name is not None:
        found = [one for one in found if one.name == name]
    if not found:
        raise none_there("nothing was saved yet", str(folder), name, names)
    return run_table(found, now)


def _tables(folder: Path, name: str | None, interval: float) -> Iterator[RunTable | str]:
    """The table, or why there is none now, every ``interval`` seconds."""
    while True:
        try:
            yield _read(folder, name)
        except (ResumableError, OSError) as error:  # the job may have not begun, or a disk be away
            yield explain(error)
        time.sleep(interval)


def _lines(table: RunTable) -> Iterator[str]:
    yield from table_lines(table.rows, table.alignment)
    if table.notes:
        yield ""
        yield from table.notes


def _print(table: RunTable) -> None:
    print("\n".join(_lines(table)))


def _print_again_and_again(folder: Path, name: str | None, interval: float) -> None:
    for table in _tables(folder, name, interval):
        print(table if isinstance(table, str) else "\n".join(_lines(table)), end="\n\n", flush=True)


def _watch(folder: Path, name: str | None, interval: float) -> None:
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError as error:
        raise MissingDependency(
            "a live table needs rich: pip install 'resumable-loader[top]'; --once does without it"
        ) from error
    console = Console(file=sys.stdout)
    # A thread of its own for the screen is not needed: it changes when the files were read.
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for table in _tables(folder, name, interval):
            live.update(drawn(table), refresh=True)


def drawn(table: RunTable | str) -> Any:
    """``table`` as rich draws it; no text of it is read as markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if isinstance(table, str):
        return Text(table)
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heading, *rows = table.rows
    for name, side in zip(heading, table.alignment + ">", strict=True):
        drawn.add_column(Text(name), justify="left" if side == "<" else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*map(Text, row), style="bold" if "all" in row[:2] else "")
    return Group(drawn, *([Text("")] if table.notes else []), *map(Text, table.notes))
