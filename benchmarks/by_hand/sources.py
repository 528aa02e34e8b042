"""Sources with random access, batches of their items, and chains of several stages."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs
from benchmarks.by_hand.one_input import triple
from benchmarks.by_hand.operator import (
    RANDOM_ACCESS,
    Numbers,
    Operator,
    cut,
    how_many,
    parts_of,
    ranges,
)
from benchmarks.by_hand.shards import shard_operators
from benchmarks.work import SEED

MOST_COLLATED = 1.5
"""The limit for batches of anything but numbers."""
MOST_CHAINED = 1.2
MOST_FILES = 2_000


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Operators with as many items as ``numbers``; only with random access."""
    if numbers.over != RANDOM_ACCESS:
        return
    yield from _memory(numbers.count)
    yield from _files(numbers)
    yield from _batches(numbers.count // 10)
    yield from _chains(numbers)


def _memory(count: int) -> Iterator[Operator]:
    x, y = np.arange(count), np.arange(count) / 2

    def rows() -> Iterator[Any]:
        for index in range(count):
            yield x[index], y[index]

    def row_parts() -> Iterator[Any]:
        for begin, end in ranges(count):
            yield x[begin:end].copy(), y[begin:end].copy()

    yield Operator("from_arrays", rs.from_arrays((x, y)), rows, row_parts, compared=_as_numbers)
    listed = list(range(count))

    def items() -> Iterator[int]:
        for item in listed:  # noqa: UP028
            yield item

    def item_parts() -> Iterator[Any]:
        return map(np.asarray, parts_of(listed))

    yield Operator("from_sequence", rs.from_sequence(listed), items, item_parts, variant="a list")


def _as_numbers(rows: list[Any]) -> list[Any]:
    """The values of rows, with NumPy's scalars as Python's."""
    return [[np.asarray(value).tolist() for value in row] for row in rows]


def _files(numbers: Numbers) -> Iterator[Operator]:
    path = written(numbers.folder / f"{numbers.count // 10}.jsonl", numbers.count // 10)

    def lines() -> Iterator[str]:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    yield Operator("lines", rs.lines(path), lines, lambda: cut(lines, list))

    def values() -> Iterator[Any]:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    yield Operator("jsonl", rs.jsonl(path), values, lambda: cut(values, _by_name))
    yield from _tokens(numbers.folder / f"{numbers.count // 10}", numbers.count // 10)
    yield from shard_operators(numbers.folder, numbers.count // 10)
    yield from _whole_files(numbers.folder / "images", min(numbers.count // 10, MOST_FILES))


def _tokens(prefix: Path, count: int) -> Iterator[Operator]:
    """Documents of 50 tokens, which can be batched; by hand, copies of slices of a mapped array."""
    lengths = np.full(count, 50, np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    index, tokens = prefix.with_suffix(".idx"), prefix.with_suffix(".bin")
    if not index.exists():
        tokens.write_bytes(np.arange(ends[-1], dtype=np.int32).tobytes())
        head = struct.pack("<9sQBQQ", b"MMIDIDX", 1, 4, count, count + 1)
        parts = (lengths, 4 * (ends - lengths), np.arange(count + 1))
        index.write_bytes(head + b"".join(part.tobytes() for part in parts))
    found = np.memmap(tokens, np.int32, "r")
    bounds = [0, *ends.tolist()]

    def documents() -> Iterator[Any]:
        for begin, end in pairwise(bounds):
            yield np.array(found[begin:end])

    yield Operator("megatron", rs.megatron(prefix), documents, lambda: cut(documents, np.stack))


def _whole_files(folder: Path, count: int) -> Iterator[Operator]:
    """Files of 4 KB each, in two folders that are their classes."""
    for number in range(count):
        path = folder / "ab"[number % 2] / f"{number:05}.png"
        if not path.exists():  # an earlier pipeline may still read it
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%5d" % number * 820)
    paths = sorted(map(str, folder.glob("*/*.png")))

    def contents() -> Iterator[bytes]:
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                yield file.read()

    files = rs.files(folder / "*" / "*.png", read=True)
    yield Operator("files", files, contents, lambda: cut(contents, list))

    def images() -> Iterator[tuple[str, int]]:
        for path in paths:
            yield path, int(os.path.dirname(path).endswith("b"))

    yield Operator("image_folder", rs.image_folder(folder), images)


def written(path: Path, count: int) -> Path:
    """A file of ``count`` JSON lines with two numbers each."""
    if not path.exists():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(
                f'{{"id": {number}, "half": {number / 2}}}\n' for number in range(count)
            )
    return path


def _batches(count: int) -> Iterator[Operator]:
    """Batches of various items from a list."""
    numbers = range(count)
    kinds: dict[str, tuple[list[Any], Callable[[list[Any]], Any]]] = {
        "of numbers": (list(numbers), np.asarray),
        "of strings": ([f"word {number}" for number in numbers], list),
        "of ragged lists": ([[number] * (number % 4) for number in numbers], list),
        "of dicts": ([{"id": number, "half": number / 2} for number in numbers], _by_name),
        "of tuples": ([(number, number / 2) for number in numbers], _by_place),
    }
    for variant, (items, collate) in kinds.items():

        def batches(
            items: list[Any] = items, collate: Callable[[list[Any]], Any] = collate
        ) -> Iterator[Any]:
            for begin, end in ranges(count):
                yield collate([items[index] for index in range(begin, end)])

        yield Operator(
            "batch",
            rs.from_sequence(items),
            batches=batches,
            variant=variant,
            most_batches=1.3 if variant == "of numbers" else MOST_COLLATED,
        )


def _by_name(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.asarray([row[name] for row in rows]) for name in rows[0]}


def _by_place(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple([np.asarray([row[place] for row in rows]) for place in range(len(rows[0]))])


def _chains(numbers: Numbers) -> Iterator[Operator]:
    """The chain of the README: two epochs of shuffled items, every other one for this rank."""
    count = numbers.count
    epochs = numbers.pipeline.shuffle(SEED).repeat(2).shard(0, 2)

    def parts() -> Iterator[Any]:
        rng = np.random.default_rng(SEED)
        for _ in range(2):
            yield from parts_of(rng.permutation(count)[::2].copy())

    def items() -> Iterator[int]:
        rng = np.random.default_rng(SEED)
        for _ in range(2):
            for item in rng.permutation(count)[::2].tolist():
                yield triple(item)

    name = "shuffle, repeat, shard"
    yield Operator(
        name,
        epochs,
        batches=parts,
        most_batches=MOST_CHAINED,
        compared=_lengths,
    )
    yield Operator(name, epochs.map(triple), items, variant="and map", compared=how_many)


def _lengths(batches: list[Any]) -> list[int]:
    return list(map(len, batches))
