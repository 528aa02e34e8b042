"""A file of 2·10⁸ tokens, cut into windows of 1,025: shuffle, batches of 16."""

# Against the loop that trainers of language models write by hand, in one process and in turns. The usual
# one slices the `numpy.memmap`. A slice of a memmap is a memmap too, which takes time to make, so there
# is a second loop that slices a plain array over the same memory. The file is in the page cache.

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import resumable as rs
from benchmarks.by_hand.turns import INSTANT, take_turns
from benchmarks.digest import check_same, digest
from benchmarks.result import Options, Result, Table, at_most
from benchmarks.timings import spread
from benchmarks.work import SEED, Start

MINUTES: Final = 2

Tokens = npt.NDArray[np.uint16]

LENGTH: Final = 1024
"""Of what a model is given; a window has one token more, the last one that is foretold."""
BATCH: Final = 16
VOCABULARY: Final = 50_257
PORTION: Final = 10**7
LONGEST: Final = 1.0
"""Seconds after which an epoch is stopped."""
OURS: Final = "resumable"
USUAL: Final = "by hand, slices of the memmap"
PLAIN: Final = "by hand, slices of a plain array"


def write_tokens(path: Path, count: int) -> None:
    """``count`` random tokens, two bytes each."""
    rng = np.random.default_rng(SEED)
    with path.open("wb") as file:
        for begin in range(0, count, PORTION):
            tokens = rng.integers(0, VOCABULARY, min(PORTION, count - begin), np.uint16)
            tokens.tofile(file)


def by_hand(tokens: Tokens) -> Iterator[Tokens]:
    """A permutation of the starts of all windows, and a stack of each part of them."""
    starts = np.random.default_rng(SEED).permutation((len(tokens) - 1) // LENGTH) * LENGTH
    for begin in range(0, len(starts), BATCH):
        yield np.stack([tokens[i : i + LENGTH + 1] for i in starts[begin : begin + BATCH]])


def ours(tokens: Tokens) -> rs.Pipeline[Any]:
    """The same as a pipeline."""
    windows = rs.from_arrays(tokens).window(LENGTH + 1, shift=LENGTH, drop_last=True)
    return windows.shuffle(SEED).batch(BATCH)


def epochs_over(path: Path) -> dict[str, Start]:
    """All three, once they are shown to deliver the same windows.

    Raises:
      MultisetsDiffer: if they do not.
    """
    mapped = np.memmap(path, np.uint16, mode="r")
    epochs: dict[str, Start] = {
        USUAL: partial(by_hand, mapped),
        OURS: ours(mapped).start,
        PLAIN: partial(by_hand, np.asarray(mapped)),
    }
    expected = digest(epochs[USUAL](), batched=True)
    for name, start in epochs.items():
        check_same(expected, name, digest(start(), batched=True))
    return epochs


def run(options: Options) -> Result:
    """Compare what they deliver, then time them."""
    path = options.folder / "train.bin"
    write_tokens(path, 10**6 if options.quick else 2 * 10**8)
    longest = INSTANT if options.quick else LONGEST
    seconds = take_turns(epochs_over(path), options.rounds, longest, options.journal)
    ratios = {
        name: spread([mine / theirs for mine, theirs in zip(each, seconds[USUAL], strict=True)])
        for name, each in seconds.items()
    }
    rows: list[tuple[Any, ...]] = [
        (name, f"{1e6 * np.median(each):.1f}", "{:.2f} ({:.2f} to {:.2f})".format(*ratios[name]))
        for name, each in seconds.items()
    ]
    header = ("", "µs a batch", "as a multiple of the first (quartiles)")
    claims = [at_most("resumable's time ÷ the usual loop's", ratios[OURS][0], 1.1)]
    return Result(
        "token_file",
        (__doc__ or "").strip(),
        [Table("windows of a token file", header, rows)],
        [] if options.quick else claims,
        raw={"seconds": seconds},
    )
