"""Text in a JSON-lines file: shuffle, bytes as tokens, rows of 1024 or batches of like length, batches of 16."""

# Tokens are bytes, so that the loaders are measured and not a tokeniser. Whole documents are compared; where
# rows are cut out of one stream of tokens, the order decides where, and single tokens are.

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.by_hand.packing import Document, batches_of_like_length, packed, padded
from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, at_least, at_most
from benchmarks.text_files import write_documents
from benchmarks.timings import Timings
from benchmarks.work import SEED, Bucket, JsonLines, Pack, Tokens, Work

MINUTES: Final = 18

LENGTH: Final = 1024
WINDOW: Final = 1024
BATCH: Final = 16
LONGEST: Final = 8192
BOUNDARIES: Final = (128, 256, 512, 1024, 2048, 4096, 8192)

PACKS: Final = "grain"
"""The peer that has a packer of its own."""

WHOLE, STREAM, LIKE = "packed whole", "packed as a stream", "bucketed"


def tokenise(line: str | bytes) -> Document:
    """The bytes of the text."""
    return np.frombuffer(json.loads(line)["text"].encode(), np.uint8)


def beginning(line: str | bytes) -> Document:
    """The first tokens: whole files differ too much in length for a batch."""
    return tokenise(line)[:LONGEST]


def works(options: Options) -> dict[str, Work]:
    """Three works over the same file, which is written when it is not there."""
    path = options.folder / "documents.jsonl"
    if not path.exists():
        write_documents(path, 10**6 if options.quick else 2 * 10**8)
    source = JsonLines(path, _count_lines(path))
    window = 16 if options.quick else WINDOW
    work = partial(Work, source, shuffle=True, result=np.zeros(0, np.uint8), batch=BATCH)
    whole, stream = Pack(LENGTH, window, whole=True), Pack(LENGTH, window, whole=False)
    return {
        WHOLE: work(map=tokenise, groups=whole, tokens=tokens_of_segments),
        STREAM: work(map=tokenise, groups=stream, tokens=tokens_of_a_stream),
        LIKE: work(map=beginning, groups=Bucket(BOUNDARIES, window), tokens=tokens_of_rows),
    }


@lru_cache(maxsize=1)
def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def tokens_of_segments(batch: dict[str, Any]) -> Tokens:
    """A document for each segment, each token at its position."""
    tokens, ids, positions = _arrays(batch)
    filled = ids > 0
    keys = ids + np.arange(len(ids))[:, None] * (int(ids.max()) + 1)
    segments, numbers = np.unique(keys[filled], return_inverse=True)
    documents = np.zeros((len(segments), ids.shape[1]), tokens.dtype)
    documents[numbers, positions[filled]] = tokens[filled]
    return Tokens(documents, ids.size)


def tokens_of_a_stream(batch: dict[str, Any]) -> Tokens:
    """Every token is a document."""
    tokens, ids, _ = _arrays(batch)
    return Tokens(tokens[ids > 0][:, None], ids.size)


def tokens_of_rows(batch: Any) -> Tokens:
    """A document for each row."""
    rows = np.asarray(batch)
    return Tokens(rows, rows.size)


def _arrays(batch: dict[str, Any]) -> list[npt.NDArray[Any]]:
    return [np.asarray(batch[name]) for name in ("tokens", "segment_ids", "positions")]


def bare(work: Work) -> Iterator[Any]:
    """The whole file in memory, a permutation of its lines, and groups of them."""
    if isinstance(work.groups, Bucket):
        rng = np.random.default_rng(SEED)
        for group in _groups(work):
            batches = list(batches_of_like_length(group, work.groups.boundaries, BATCH))
            yield from (padded(batches[place]) for place in rng.permutation(len(batches)))
    elif work.groups is not None and work.groups.whole:
        yield from _in_batches(packed(group, LENGTH) for group in _groups(work))
    else:
        yield from _in_batches(_rows_of_a_stream(_groups(work)))


def _groups(work: Work) -> Iterator[list[Document]]:
    assert isinstance(work.source, JsonLines)
    assert work.map is not None
    assert work.groups is not None
    fn: Callable[[bytes], Document] = work.map
    data = work.source.path.read_bytes()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    begins = np.append(0, ends[:-1] + 1)
    order = np.random.default_rng(SEED).permutation(len(ends))
    for begin in range(0, len(order), work.groups.window):
        part = order[begin : begin + work.groups.window]
        bounds = zip(begins[part].tolist(), ends[part].tolist(), strict=True)
        yield [fn(data[first:last]) for first, last in bounds]


def _in_batches(groups: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of 16 rows; those that fill no batch wait for the next group."""
    left: dict[str, Any] | None = None
    for rows in groups:
        if left is not None:
            rows = {name: np.concatenate([left[name], rows[name]]) for name in rows}
        count = len(rows["tokens"])
        full = count - count % BATCH
        for begin in range(0, full, BATCH):
            yield {name: column[begin : begin + BATCH] for name, column in rows.items()}
        left = {name: column[full:] for name, column in rows.items()}
    if left is not None and len(left["tokens"]):
        yield left


def _rows_of_a_stream(groups: Iterable[list[Document]]) -> Iterator[dict[str, Any]]:
    """Rows cut out of all documents joined; what fills none waits for the next group."""
    waiting: list[Document] = []
    for group in groups:
        documents = [document for document in chain(waiting, group) if len(document)]
        tokens = np.concatenate(documents)
        count = len(tokens) // LENGTH
        firsts = np.cumsum([0, *map(len, documents)])[:-1]
        yield _rows(tokens[: count * LENGTH], firsts)
        at = int(np.searchsorted(firsts, count * LENGTH, "right")) - 1
        waiting = [documents[at][count * LENGTH - firsts[at] :], *documents[at + 1 :]]
    tokens = np.concatenate(waiting)
    if len(tokens):
        last = _rows(
            np.pad(tokens, (0, LENGTH - len(tokens))), np.cumsum([0, *map(len, waiting)])[:-1]
        )
        last["segment_ids"][0, len(tokens) :] = last["positions"][0, len(tokens) :] = 0
        yield last


def _rows(tokens: Document, firsts: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Rows of ``tokens``, of which documents begin at ``firsts``."""
    begins = np.zeros((len(tokens) // LENGTH, LENGTH), bool)
    begins.ravel()[firsts[firsts < len(tokens)]] = True
    begins[:, 0] = True
    places = np.arange(LENGTH, dtype=np.int32)
    return {
        "tokens": tokens.reshape(-1, LENGTH),
        "segment_ids": np.cumsum(begins, axis=1, dtype=np.int32),
        "positions": places - np.maximum.accumulate(np.where(begins, places, 0), axis=1),
    }


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The budget.

    Where a peer has no packer, it is given that of the loop by hand: what then costs time is the loop.
    """
    whole, stream, like = (timings[variant] for variant in (WHOLE, STREAM, LIKE))
    padding = next(iter(whole.paddings("resumable")), None)
    fill = None if padding is None else 1 - padding
    ours, theirs = like.paddings("resumable"), like.paddings("tf_data")
    beside = ours[0] / theirs[0] if ours and theirs else None
    return [
        at_most("whole documents: resumable's time ÷ the loop's", whole.of_bare, 1.3),
        at_most("a stream: resumable's time ÷ the loop's", stream.of_bare, 1.3),
        at_least("whole documents: the best packer's time ÷ resumable's", whole.of_peer(PACKS), 3),
        at_least("a stream: the best packer's time ÷ resumable's", stream.of_peer(PACKS), 3),
        at_least("whole documents: tokens ÷ places", fill, 0.99),
        at_most("buckets: resumable's padding ÷ tf.data's", beside, 1),
    ]


def run(options: Options) -> Result:
    """Time everybody."""
    works(options)  # which writes the file before the contestants look for it
    return race(options, __name__, claims)
