"""Compare how full packed rows are, and how long they take, with Grain's three packers and with a loop by hand.

Run as `python benchmarks/workloads/scripts/packers.py [--documents N] [--rounds N]`, with Grain installed. The
documents are in memory, and every side gets the same ones in the same order, so that only packing is timed:
one field, two fields of their own lengths, tokens with a mask of the loss, and tokens with images.
A row of Grain's or of the loop by hand is what its own packer makes. Grain's take turns with ours.
"""

# The loop by hand is first-fit over all capacities, in Python: what a user writes.

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import resumable as rs

Document: TypeAlias = Mapping[str, npt.NDArray[Any]]
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Callable[[Sequence[Document], Mapping[str, int]], Iterable[Row]]

WINDOW: Final = 1024
BINS: Final = (64, WINDOW)
SEED: Final = 0
IMAGE: Final = (16, 16, 3)


class Case(NamedTuple):
    """What is packed.

    Attributes:
      documents: dicts of arrays, shape (length, ...).
      lengths: places in a row, by field.
    """

    documents: Sequence[Document]
    lengths: Mapping[str, int]


def cases(count: int) -> dict[str, Case]:
    """Documents of lognormal lengths, none of them longer than a row."""
    rng = np.random.default_rng(SEED)
    tokens = lengths_of(rng, count, 1024)
    targets = lengths_of(rng, count, 256)
    images = rng.integers(0, 5, count)

    def numbers(length: int) -> npt.NDArray[Any]:
        return np.full(length, 7, np.int32)

    return {
        "one field": Case([{"tokens": numbers(each)} for each in tokens], {"tokens": 1024}),
        "two fields": Case(
            [
                {"inputs": numbers(left), "targets": numbers(right)}
                for left, right in zip(tokens, targets, strict=True)
            ],
            {"inputs": 1024, "targets": 256},
        ),
        "a mask": Case(
            [{"tokens": numbers(each), "mask": np.ones(each, np.bool_)} for each in tokens],
            {"tokens": 1024, "mask": 1024},
        ),
        "images": Case(
            [
                {"tokens": numbers(each), "images": np.ones((number, *IMAGE), np.uint8)}
                for each, number in zip(tokens, images.tolist(), strict=True)
            ],
            {"tokens": 1024, "images": 8},
        ),
    }


def lengths_of(rng: np.random.Generator, count: int, most: int) -> list[int]:
    """Lognormal ones up to ``most``, a sixth of it in the median."""
    drawn = rng.lognormal(np.log(most / 6), 0.9, count).astype(np.int64)
    lengths: list[int] = np.clip(drawn, 1, most).tolist()
    return lengths


def ours(documents: Sequence[Document], lengths: Mapping[str, int]) -> Iterable[Row]:
    """The rows of `pack`."""
    if len(lengths) == 1:
        return rs.from_sequence(documents).pack(*lengths.values(), group=WINDOW)
    return rs.from_sequence(documents).pack(dict(lengths), group=WINDOW)


def in_one_stream(documents: Sequence[Document], lengths: Mapping[str, int]) -> Iterable[Row]:
    """The rows of `pack(how="concatenate")`."""
    packed = rs.from_sequence(documents).pack
    if len(lengths) == 1:
        return packed(*lengths.values(), group=WINDOW, how="concatenate")
    return packed(dict(lengths), group=WINDOW, how="concatenate")


def of_grain(name: str, **options: Any) -> Rows:
    """The rows of one of Grain's packers, without threads, as it advises for data in memory."""
    import grain
    import grain.experimental as packers

    def rows(documents: Sequence[Document], lengths: Mapping[str, int]) -> Iterable[Row]:
        source: Any = grain.MapDataset.source(documents)
        read = source.to_iter_dataset(grain.ReadOptions(0, 0))
        packed: Iterable[Row] = getattr(packers, name)(read, length_struct=dict(lengths), **options)
        return packed

    return rows


def by_hand(documents: Sequence[Document], lengths: Mapping[str, int]) -> Iterator[Row]:
    """Rows of a group, each document in the first row that has space for all its fields."""
    for start in range(0, len(documents), WINDOW):
        spaces: list[dict[str, int]] = []
        rows: list[list[Document]] = []
        for document in documents[start : start + WINDOW]:
            needs = {name: len(document[name]) for name in lengths}
            fitting = (
                number
                for number, space in enumerate(spaces)
                if all(needs[name] <= space[name] for name in needs)
            )
            number = next(fitting, len(rows))
            if number == len(rows):
                spaces.append(dict(lengths))
                rows.append([])
            for name, need in needs.items():
                spaces[number][name] -= need
            rows[number].append(document)
        yield from (row_of(row, lengths) for row in rows)


def row_of(documents: Sequence[Document], lengths: Mapping[str, int]) -> Row:
    """A row of ``documents``, which fit into it."""
    row: dict[str, Any] = {}
    for name, length in lengths.items():
        first = documents[0][name]
        column = np.zeros((length, *first.shape[1:]), first.dtype)
        segment_ids, positions = np.zeros(length, np.int32), np.zeros(length, np.int32)
        start = 0
        for number, document in enumerate(documents, 1):
            stop = start + len(document[name])
            column[start:stop] = document[name]
            segment_ids[start:stop] = number
            positions[start:stop] = np.arange(stop - start)
            start = stop
        row |= {name: column, f"{name}_segment_ids": segment_ids, f"{name}_positions": positions}
    return row


def fill(documents: Sequence[Document], lengths: Mapping[str, int], rows: int) -> float:
    """The share of the places that tokens take, of the field of which it is largest: at most 1."""
    return max(
        sum(len(document[name]) for document in documents) / (rows * length)
        for name, length in lengths.items()
    )


def seconds(rows: Iterable[Row]) -> tuple[float, int]:
    """How long all rows take, and how many they are."""
    started = time.perf_counter()
    count = sum(1 for _ in rows)
    return time.perf_counter() - started, count


def contestants() -> dict[str, Rows]:
    """Everybody by name; those that cut documents have `concat` in it."""
    grain = {
        f"Grain {name}, {bins} rows": of_grain(
            f"{name}PackIterDataset", num_packing_bins=bins, seed=SEED
        )
        for name in ("FirstFit", "BestFit")
        for bins in BINS
    }
    return {
        "pack": ours,
        "by hand, first fit": by_hand,
        **grain,
        "pack(how='concatenate')": in_one_stream,
        "Grain ConcatThenSplit": of_grain("ConcatThenSplitIterDataset"),
    }


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=16 * WINDOW)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    import grain

    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Grain {getattr(grain, '__version__', '?')}, {arguments.documents} documents"
    )
    for title, (documents, lengths) in cases(arguments.documents).items():
        sides = contestants()
        times: dict[str, list[float]] = {name: [] for name in sides}
        counts = dict.fromkeys(sides, 0)
        failed = dict[str, str]()
        for round_ in range(arguments.rounds + 1):
            for name, rows in sides.items():
                if name in failed:
                    continue
                try:
                    taken, counts[name] = seconds(rows(documents, lengths))
                except Exception as error:  # what a packer cannot take is a result, too
                    failed[name] = f"{type(error).__name__}: {error}"
                    continue
                if round_:  # the first one warms up
                    times[name].append(taken)
        print(f"\n{title}: {dict(lengths)}")
        print(f"{'':28} {'fill':>6} {'µs a document':>22} {'times pack':>10}")
        base = {True: "pack", False: "pack(how='concatenate')"}
        for name in sides:
            if name in failed:
                print(f"{name:28} {failed[name][:90]}")
                continue
            each = sorted(1e6 * one / len(documents) for one in times[name])
            whole = "Concat" not in name and "concat" not in name
            ratio = statistics.median(times[name]) / statistics.median(times[base[whole]])
            spread = f"{statistics.median(each):.1f} ({each[0]:.1f} to {each[-1]:.1f})"
            print(
                f"{name:28} {fill(documents, lengths, counts[name]):6.3f} {spread:>22} {ratio:10.2f}"
            )


if __name__ == "__main__":
    main()
