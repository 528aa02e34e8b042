"""What an item costs as a pipeline grows: in depth, in inputs, in files, in epochs."""

# All costs should be linear, so that the cost of an item is the same at each size. In depth, or
# where an item has a field of each input, it is the cost for each stage or field.

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import resumable as rs
from benchmarks.by_hand.one_input import triple
from benchmarks.by_hand.operator import BATCH, RANDOM_ACCESS, STREAM, Numbers
from benchmarks.by_hand.turns import INSTANT, take_turns
from benchmarks.result import Claim, Options, Table, at_most
from benchmarks.timings import shown
from benchmarks.work import Start

__all__ = ["claim", "measured", "table"]

DEPTH_ITEMS: Final = 20_480
ITEMS_OF_AN_INPUT: Final = 512
LINES_OF_A_FILE: Final = 10
ITEMS_OF_AN_EPOCH: Final = 100
LONGEST: Final = 0.5
"""Seconds after which an epoch is stopped; many inputs take long to begin."""
FLAT: Final = 2.0
"""Largest ratio between the largest and the smallest size: more than noise, less than growth."""


@dataclass(frozen=True)
class Growth:
    """One pipeline at several sizes.

    Attributes:
      sizes: numbers of stages, inputs, files or epochs.
      make: an epoch at a size.
      shared: by how much the time of what is delivered is divided, at a size.
    """

    name: str
    way: str
    over: str
    sizes: tuple[int, ...]
    make: Callable[[int], Start]
    shared: Callable[[int], float]


def growths(folder: Path, quick: bool = False) -> Iterator[Growth]:
    """All growths; only with the smaller sizes if ``quick``."""
    for over in (STREAM, RANDOM_ACCESS):
        for way, batch in (("item by item", 0), ("before batch(256)", BATCH)):
            for name, sizes, build, each in _built(over, folder):
                if (over, name) == (STREAM, "lines of so many files"):
                    continue
                yield Growth(
                    name,
                    way,
                    over,
                    sizes[:2] if quick else sizes,
                    partial(_start, build, batch),
                    partial(_shared, batch, each),
                )


def _built(
    over: str, folder: Path
) -> Iterator[tuple[str, tuple[int, ...], Callable[[int], rs.Pipeline[Any]], bool]]:
    """Name, sizes, pipeline at a size, and whether the cost of an item is divided by the size."""
    yield "stages of map", (10, 20, 40), partial(maps, over, folder), True
    for name, join in (("mix", mixed), ("concatenate", rs.concatenate)):
        build = partial(nested, join, over, folder)
        yield f"{name} in {name}", (5, 10, 20), build, True
    for name, combine in COMBINING.items():
        build = partial(inputs, combine, over, folder)
        yield f"inputs of {name}", (10, 100, 1_000), build, name == "zip"
    yield "lines of so many files", (100, 1_000, 10_000), partial(lines, folder), False
    yield "epochs of repeat", (10, 1_000, 100_000), partial(epochs, over, folder), False


COMBINING: Final[dict[str, Callable[..., rs.Pipeline[Any]]]] = {
    "mix": partial(rs.mix, seed=0),
    "interleave": rs.interleave,
    "concatenate": rs.concatenate,
    "zip": rs.zip,
}


def _start(build: Callable[[int], rs.Pipeline[Any]], batch: int, size: int) -> Start:
    pipeline = build(size)
    return lambda: iter(pipeline.batch(batch) if batch else pipeline)


def _shared(batch: int, each: bool, size: int) -> float:
    return (batch or 1) * (size if each else 1)


def maps(over: str, folder: Path, depth: int) -> rs.Pipeline[Any]:
    """``depth`` functions, one after the other, that keep the integers small."""
    numbers = Numbers(over, DEPTH_ITEMS, folder).pipeline
    return reduce(lambda pipeline, _: pipeline.map(abs), range(depth), numbers.map(triple))


def mixed(deep: rs.Pipeline[Any], one: rs.Pipeline[Any], inputs: int) -> rs.Pipeline[Any]:
    """A mix with as many items of ``one`` as of each input of ``deep``."""
    return rs.mix(deep, one, weights=[inputs, 1], seed=0)


def nested(
    join: Callable[..., rs.Pipeline[Any]], over: str, folder: Path, depth: int
) -> rs.Pipeline[Any]:
    """A pipeline joined with another, the result with another, and so on ``depth`` times."""
    parts = [part.pipeline for part in Numbers(over, DEPTH_ITEMS, folder).parts(depth + 1)]
    made = parts[0]
    for number, part in enumerate(parts[1:], 1):
        made = join(made, part, number) if join is mixed else join(made, part)
    return made


def inputs(
    combine: Callable[..., rs.Pipeline[Any]], over: str, folder: Path, number: int
) -> rs.Pipeline[Any]:
    """``number`` inputs of equal length, combined."""
    every = Numbers(over, number * ITEMS_OF_AN_INPUT, folder).parts(number)
    return combine(*(part.pipeline for part in every))


def lines(folder: Path, files: int) -> rs.Pipeline[Any]:
    """The lines of ``files`` short files."""
    there = folder / f"{files}-files"
    if not there.exists():
        there.mkdir()
        for number in range(files):
            (there / f"{number:06}.txt").write_text("a short line\n" * LINES_OF_A_FILE)
    return rs.lines(str(there / "*.txt"), index_dir=folder / f"{files}-indexes")


def epochs(over: str, folder: Path, number: int) -> rs.Pipeline[Any]:
    """``number`` short epochs."""
    return Numbers(over, ITEMS_OF_AN_EPOCH, folder).pipeline.repeat(number)


class Grown(NamedTuple):
    """The key of a growth."""

    name: str
    over: str
    way: str


def measured(options: Options) -> dict[Grown, dict[int, list[float]]]:
    """Nanoseconds of an item at each size, in each round."""
    found: dict[Grown, dict[int, list[float]]] = {}
    every: dict[Grown, Growth] = {
        Grown(each.name, each.over, each.way): each
        for each in growths(options.folder, options.quick)
    }
    for key, each in every.items():
        epochs = {size: each.make(size) for size in each.sizes}
        longest = INSTANT if options.quick else LONGEST
        what = " / ".join(key)
        seconds = take_turns(epochs, options.rounds, longest, options.journal, what)
        found[key] = {
            size: [1e9 * one / each.shared(size) for one in taken]
            for size, taken in seconds.items()
        }
    return found


def _growths(costs: dict[int, list[float]]) -> list[float]:
    smallest, *_, largest = costs.values()
    return [last / first for first, last in zip(smallest, largest, strict=True)]


def _growth(costs: dict[int, list[float]]) -> float:
    return statistics.median(_growths(costs))


def table(grown: dict[Grown, dict[int, list[float]]]) -> Table:
    """A row for each growth."""
    rows: list[tuple[Any, ...]] = [
        (
            *key,
            ", ".join(f"{size:,}" for size in costs),
            ", ".join(shown(each, 0) for each in costs.values()),
            shown(_growths(costs), 2),
        )
        for key, costs in grown.items()
    ]
    header = ("what grows", "over", "way", "sizes", "ns an item", "last ÷ first")
    note = "With nested stages, and with a zip, the time is that of one stage or one field."
    return Table("everything is linear", header, rows, (note,))


def claim(grown: dict[Grown, dict[int, list[float]]]) -> Claim:
    """The claim about the growth with the largest ratio."""
    worst = max(grown, key=lambda key: _growth(grown[key]))
    text = f"an item at the largest ÷ the smallest size: {', '.join(worst)}"
    return at_most(text, _growth(grown[worst]), FLAT)
