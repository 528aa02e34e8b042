"""10,000 files of 10 lines each: opened for the first time and again, then read by a global shuffle in batches of 256."""

# Each contestant opens the files in a process of its own, and again in another one, in turns. Only
# the time that a process computes is counted, since that of a disk would be the same for all; the
# files are in the page cache. What a contestant keeps in a folder from the first time, it finds
# there the second time: an index here, a table of all lines in Hugging Face datasets. The list by
# hand and the data set by hand for torch, as users write it, keep nothing.
#
# The budget of this library is for files of 100,000 lines. These are one file under many names, each
# with an index, and nobody else opens them.

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import resumable as rs
from benchmarks.discovery import is_here
from benchmarks.fresh import in_fresh_process
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.timings import spread
from benchmarks.work import SEED

MINUTES: Final = 6

BATCH: Final = 256
LINES: Final = 10
"""Of a file."""
FEW_BATCHES: Final = 20
MANY_LINES: Final = 100_000
"""Of a file that only we open."""
WIDTH: Final = 99
CACHE_SUFFIX: Final = ".lines.idx"
OURS: Final = "resumable"
BY_HAND: Final = "a list of all lines, by hand"
TORCH: Final = "torch, a data set by hand"
HUGGING_FACE: Final = "datasets, text"

Batches: TypeAlias = "Iterable[Sequence[str]]"


class Figures(NamedTuple):
    """What opening and reading files took.

    Attributes:
      open: seconds of the processor until batches can be asked for.
      first: seconds until there is one.
      later: seconds for all others that were asked for.
      at_open: descriptors that the process has then beyond those before.
      at_end: the same after the last batch, while the iterator is open.
    """

    open: float
    first: float
    later: float
    at_open: int
    at_end: int


def opened_and_read(
    opened: Callable[[], Batches], most: int | None = None
) -> tuple[Figures, list[Sequence[str]]]:
    """The figures, and up to ``most`` batches; all by default."""
    before = descriptors()
    times = [time.process_time()]
    batches = opened()
    times.append(time.process_time())
    at_open = descriptors() - before
    iterator = iter(batches)
    taken = list(islice(iterator, 1))
    times.append(time.process_time())
    taken += islice(iterator, None if most is None else most - 1)
    times.append(time.process_time())
    opening, first, later = np.diff(times).tolist()
    return Figures(opening, first, later, at_open, descriptors() - before), taken


def descriptors() -> int:
    """How many this process has; 0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0


def run(options: Options) -> Result:
    """Compare what they deliver, and measure."""
    files = 50 if options.quick else 10_000
    folder = options.folder / "many"
    write_files(folder, files)
    ways = [OURS, BY_HAND]
    ways += [HUGGING_FACE] if is_here("datasets") else []
    ways += [TORCH] if is_here("torch") else []
    call = called_here if options.quick else in_fresh_process
    first: dict[str, list[Figures]] = {way: [] for way in ways}
    again: dict[str, list[Figures]] = {way: [] for way in ways}
    for turn in options.journal.turns(options.rounds, until=0.8):
        shift = turn % len(ways)
        for way in ways[shift:] + ways[:shift]:
            kept = options.folder / f"{ways.index(way)}-{turn}"
            measure = partial(_twice, call, way, folder, kept)
            for times, found in zip(
                (first, again), options.journal.once(way, turn, measure=measure), strict=True
            ):
                times[way].append(Figures(*found))
    linked = options.folder / "linked"
    linked.mkdir()
    write_linked_files(linked, files, 1000 if options.quick else MANY_LINES, WIDTH)
    large = [
        Figures(*options.journal.once(turn, measure=partial(call, of_linked_files, linked)))
        for turn in options.journal.turns(options.rounds, "linked")
    ]
    return Result(
        "many_files",
        (__doc__ or "").strip(),
        [_table(files, first, again), _table_of_large(files, large)],
        [] if options.quick else _claims(again[OURS], large),
        raw={"first": first, "again": again, "large": large},
    )


def _twice(call: Callable[..., Figures], way: str, folder: Path, kept: Path) -> list[Figures]:
    """What the first time takes and, with what is in ``kept`` then, another one."""
    return [call(of_one_contestant, way, folder, kept) for _ in range(2)]


def called_here(fn: Callable[..., Figures], *arguments: Any) -> Figures:
    """As `in_fresh_process`, for figures that mean nothing."""
    return fn(*arguments)


def write_files(folder: Path, files: int) -> None:
    """Lines that are all different."""
    folder.mkdir()
    for number in range(files):
        begin = number * LINES
        text = "".join(f"line {line} of many\n" for line in range(begin, begin + LINES))
        (folder / f"{number:05}.txt").write_text(text)


def write_linked_files(folder: Path, files: int, lines: int, width: int) -> None:
    """The same lines under many names, each of which has a cache of its index."""
    first = folder / "00000.txt"
    first.write_text("".join(f"{content(line, width)}\n" for line in range(lines)))
    rs.lines(first)
    cache = first.with_name(first.name + CACHE_SUFFIX)
    for number in range(1, files):
        name = f"{number:05}.txt"
        os.link(first, folder / name)
        os.link(cache, folder / (name + CACHE_SUFFIX))


def content(line: int, width: int) -> str:
    """What stands in a line of those."""
    return f"{line:0{width}}"[-width:]


def of_linked_files(folder: Path) -> Figures:
    """What opening them takes, and a few batches."""
    paths = sorted(str(path) for path in folder.glob("*.txt"))
    for _ in rs.lines(paths[0]).take(BATCH).shuffle(SEED).batch(BATCH):  # imports and first calls
        pass
    figures, _ = opened_and_read(lambda: rs.lines(paths).shuffle(SEED).batch(BATCH), FEW_BATCHES)
    return figures


def of_one_contestant(way: str, folder: Path, kept: Path) -> Figures:
    """What one contestant takes.

    Raises:
      AssertionError: if it does not deliver each line once.
    """
    paths = sorted(str(path) for path in folder.iterdir())
    for _ in WAYS[way](paths[:1], kept / "imports and first calls")():
        pass
    figures, batches = opened_and_read(WAYS[way](paths, kept / "all"))
    found = sorted(line for batch in batches for line in batch)
    expected = sorted(f"line {line} of many" for line in range(LINES * len(paths)))
    assert found == expected, f"{way} delivers other lines"
    return figures


def ours(paths: list[str], kept: Path) -> Callable[[], Batches]:
    """A pipeline; its index lies in ``kept``."""
    return lambda: rs.lines(paths, index_dir=kept).shuffle(SEED).batch(BATCH)


def by_hand(paths: list[str], kept: Path) -> Callable[[], Batches]:
    """All lines in memory, and a permutation of them."""

    def batches_of(lines: list[str]) -> Iterator[list[str]]:
        order = np.random.default_rng(SEED).permutation(len(lines)).tolist()
        for begin in range(0, len(order), BATCH):
            yield [lines[index] for index in order[begin : begin + BATCH]]

    return lambda: batches_of([line for path in paths for line in _lines_of(path)])


def by_torch(paths: list[str], kept: Path) -> Callable[[], Batches]:
    """A data set that counts the lines of all files, and reads a file for each line asked for."""
    from torch.utils.data import DataLoader

    return lambda: DataLoader(Files(paths), BATCH, shuffle=True, collate_fn=list)


class Files:
    """The lines of files, by number."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._ends = list(accumulate(len(_lines_of(path)) for path in paths))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> str:
        number = bisect_right(self._ends, index)
        return _lines_of(self._paths[number])[index - self._ends[number]]


def _lines_of(path: str) -> list[str]:
    with open(path) as file:
        return file.read().splitlines()


def by_hugging_face(paths: list[str], kept: Path) -> Callable[[], Batches]:
    """A table of all lines, which it writes into ``kept`` and maps, shuffled."""
    import datasets

    datasets.disable_progress_bars()

    def opened() -> Batches:
        data: Any = datasets.load_dataset(
            "text", data_files=paths, split="train", cache_dir=str(kept)
        )
        shuffled = data.shuffle(seed=SEED, keep_in_memory=True)
        return (batch["text"] for batch in shuffled.iter(BATCH))

    return opened


WAYS: Final[dict[str, Callable[[list[str], Path], Callable[[], Batches]]]] = {
    OURS: ours,
    BY_HAND: by_hand,
    HUGGING_FACE: by_hugging_face,
    TORCH: by_torch,
}


def _table(files: int, first: dict[str, list[Figures]], again: dict[str, list[Figures]]) -> Table:
    count = files * LINES
    rows: list[tuple[Any, ...]] = []
    for way, figures in again.items():
        seconds = _shown([each.open for each in first[way]], 3)
        rows.append(
            (
                way,
                seconds,
                _shown([each.open for each in figures], 3),
                _shown([1e3 * each.first for each in figures], 1),
                _shown([1e6 * (each.first + each.later) / count for each in figures], 2),
                _most(figures),
            )
        )
    header = (
        "",
        "opened first, s",
        "opened again, s",
        "first batch, ms",
        "µs a line",
        "descriptors more than before",
    )
    return Table(f"{files:,} files of {LINES} lines", header, rows)


def _shown(values: list[float], digits: int) -> str:
    median, lower, upper = spread(values)
    return f"{median:.{digits}f} ({lower:.{digits}f} to {upper:.{digits}f})"


def _table_of_large(files: int, figures: list[Figures]) -> Table:
    later = [1e6 * each.later / (FEW_BATCHES - 1) / BATCH for each in figures]
    row = (
        _shown([each.open for each in figures], 3),
        _shown([1e3 * each.first for each in figures], 1),
        _shown(later, 1),
        _most(figures),
    )
    header = ("opened, s", "first batch, ms", "µs a line after it", "descriptors more than before")
    return Table(f"{files:,} files of {MANY_LINES:,} lines with an index", header, [row])


def _most(figures: list[Figures]) -> int:
    return max(max(each.at_open, each.at_end) for each in figures)


def _claims(again: list[Figures], large: list[Figures]) -> list[Claim]:
    claims = []
    for lines, figures in ((LINES, again), (MANY_LINES, large)):
        seconds = float(np.median([each.open + each.first for each in figures]))
        what = f"files of {lines:,} lines"
        claims += [
            at_most(f"{what}: opening with an index, and the first batch", seconds, 1, "s"),
            at_most(f"{what}: descriptors beyond those before", _most(figures), 64, "descriptors"),
        ]
    return claims
