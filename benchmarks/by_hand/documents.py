"""Operators that make rows and batches of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.by_hand.operator import BATCH, Numbers, Operator
from benchmarks.by_hand.packing import Document, batches_of_like_length, filled, packed, padded
from benchmarks.work import Start

LENGTH = 128
WINDOW = 256
LIKE = 16


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Of documents, one for each of ``numbers``."""
    pipeline = numbers.pipeline.map(document)
    rows: dict[str, Callable[[Numbers], Iterator[dict[str, Any]]]] = {
        "best_fit": of_groups,
        "concatenate": of_a_stream,
    }
    for how, blocks in rows.items():
        yield Operator(
            "pack",
            pipeline.pack(LENGTH, group=WINDOW, how=how),
            partial(one_by_one, blocks, numbers),
            partial(in_batches, blocks, numbers),
            variant=how,
            compared=tokens_of_rows,
        )
    bucketed = pipeline.bucket(len, batch_size=LIKE, group=WINDOW)
    yield Operator("bucket", bucketed, alike(numbers), compared=tokens_of_batches)


def document(number: int) -> Document:
    """1 to 100 tokens."""
    return np.full(number * 7 % 100 + 1, number, np.int64)


def groups(numbers: Numbers) -> Iterator[list[Document]]:
    """Lists of `WINDOW` documents."""
    items = numbers.items()
    while group := [document(number) for number in islice(items, WINDOW)]:
        yield group


def of_groups(numbers: Numbers) -> Iterator[dict[str, Any]]:
    """Rows of whole documents."""
    return (packed(group, LENGTH) for group in groups(numbers))


def of_a_stream(numbers: Numbers) -> Iterator[dict[str, Any]]:
    """Rows cut out of all documents joined."""
    row: list[Document] = []
    rows: list[list[Document]] = []
    space = LENGTH
    for group in groups(numbers):
        for tokens in group:
            while len(tokens) >= space:
                rows.append([*row, tokens[:space]])
                row, tokens, space = [], tokens[space:], LENGTH
            if len(tokens):
                row.append(tokens)
                space -= len(tokens)
        yield filled(rows, LENGTH)
        rows = []
    if row:
        yield filled([row], LENGTH)


def one_by_one(blocks: Callable[[Numbers], Iterable[Any]], numbers: Numbers) -> Iterator[Any]:
    """The rows of all blocks."""
    for block in blocks(numbers):
        for number in range(len(block["tokens"])):
            yield {name: column[number] for name, column in block.items()}


def in_batches(blocks: Callable[[Numbers], Iterable[Any]], numbers: Numbers) -> Iterator[Any]:
    """Of 256 rows; those that fill no batch wait for the next block."""
    left: dict[str, Any] = {}
    for block in blocks(numbers):
        joined = (
            {name: np.concatenate([left[name], block[name]]) for name in block} if left else block
        )
        count = len(joined["tokens"])
        full = count - count % BATCH
        for begin in range(0, full, BATCH):
            yield {name: column[begin : begin + BATCH] for name, column in joined.items()}
        left = {name: column[full:] for name, column in joined.items()}
    if left and len(left["tokens"]):
        yield left


def alike(numbers: Numbers) -> Start:
    """Batches of documents of like length, in a random order."""

    def batches() -> Iterator[Any]:
        rng = np.random.default_rng(0)
        for group in groups(numbers):
            found = list(batches_of_like_length(group, (), LIKE))
            for place in rng.permutation(len(found)):
                yield padded(found[place])

    return batches


def tokens_of_rows(rows: list[dict[str, Any]]) -> list[int]:
    """How many there are of each."""
    return counted(row["tokens"][row["segment_ids"] > 0] for row in rows)


def tokens_of_batches(batches: list[Any]) -> list[int]:
    """How many there are of each; a zero may be padding."""
    return counted(batch[batch > 0] for batch in batches)


def counted(tokens: Iterable[Any]) -> list[int]:
    """How often each token comes."""
    counts: list[int] = np.bincount(np.concatenate(list(tokens))).tolist()
    return counts
