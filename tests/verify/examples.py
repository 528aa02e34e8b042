"""Pipelines as people write them: some exact, some broken in the usual ways."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs


def augment(row: Any, rng: np.random.Generator) -> Any:
    image, label = row
    return image + rng.normal(size=image.shape), label


def images() -> rs.Pipeline[Any]:
    data = np.arange(300 * 12, dtype=np.float32).reshape(300, 3, 4), np.arange(300) % 10
    rows = rs.from_arrays(data).shuffle(seed=0).random_map(augment, seed=1)
    return rows.batch(16, drop_last=True).repeat(2).prefetch(2)


def lines_on_disk() -> rs.Pipeline[Any]:
    path = Path("lines.jsonl")
    if not path.exists():
        path.write_text("".join(f"{json.dumps({'text': f'line {n}'})}\n" for n in range(400)))
    return rs.jsonl(path).shuffle(seed=3).map(parsed, workers=2).batch(8)


def parsed(row: Any) -> str:
    return str(row["text"]).upper()


def generated() -> Iterator[int]:
    return iter(range(600))


def odd(item: int) -> bool:
    return item % 2 == 1


stream = rs.from_iterable(generated).shuffle(seed=5, window=30).filter(odd).batch(4)
ranks = rs.range(500).shuffle(seed=7).repeat(2).shard(1, 3).batch(6)


def spread(item: int) -> list[int]:
    return [item] * (item % 4)


mixture = (
    rs.mix(rs.range(200).flat_map(spread), rs.from_iterable(generated), weights=[2, 1], seed=1)
    .enumerate()
    .take(300)
)


def documents() -> rs.Pipeline[Any]:
    """Of 0 to 130 words."""
    path = Path("documents.jsonl")
    if not path.exists():
        texts = (
            " ".join(f"word{number * at % 31}" for at in range(number % 131))
            for number in range(400)
        )
        path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return rs.jsonl(path).shuffle(seed=3)


def as_bytes(row: Any) -> Any:
    return np.frombuffer(row["text"].encode(), np.uint8)


def language_model() -> rs.Pipeline[Any]:
    tokens = documents().map(as_bytes, workers=2, executor="process")
    return tokens.pack(128, window=64).batch(16)


# Broken, each in one of the usual ways.


def with_noise(item: int) -> float:
    return item + random.random()


unseeded = rs.range(300).shuffle(seed=0).map(with_noise).batch(4)


def stamped(item: int) -> tuple[int, float]:
    return item, time.time()


timed = rs.range(300).map(stamped).batch(4)


def words(item: int) -> list[str]:
    return list({f"{item}", f"{item + 1}", "a", "word"})


set_order = rs.range(300).shuffle(seed=0).map(words).batch(4)

calls = 0


def numbered(item: int) -> tuple[int, int]:
    global calls
    calls += 1
    return item, calls


counting = rs.range(300).shuffle(seed=0).map(numbered).filter(bool).batch(4)

vocabulary: dict[int, int] = {}


def looked_up(item: int) -> int:
    return vocabulary.setdefault(item % 41, len(vocabulary))


growing_vocabulary = rs.range(300).shuffle(seed=0).map(looked_up).batch(4)


class Tokeniser:
    """Numbers words as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, row: Any) -> list[int]:
        return [self.numbers.setdefault(word, len(self.numbers)) for word in row["text"].split()]


def growing_tokeniser() -> rs.Pipeline[Any]:
    tokens = documents().map(Tokeniser(), workers=1, executor="process")
    return tokens.pack(128, window=64).batch(16)


def growing_file() -> rs.Pipeline[Any]:
    path = Path("growing.jsonl")
    with path.open("a") as file:  # as a log would
        file.write("".join(f"{number}\n" for number in range(100)))
    return rs.jsonl(path).shuffle(seed=0).batch(4)


read_once = rs.from_iterable(generated()).map(str).batch(4)
