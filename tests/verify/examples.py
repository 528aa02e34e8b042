"""Pipelines as people write them: some exact, some broken in the usual ways."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs
from resumable.core import Block, block_items


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


held_on_ranks = (
    rs.range(240)
    .partition(4, lambda part: part.filter(lambda item: item % 3))
    .shard(0, 2)
    .shuffle(seed=0, window=8)
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
    return tokens.pack(128, group=64).batch(16)


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
    return tokens.pack(128, group=64).batch(16)


def growing_file() -> rs.Pipeline[Any]:
    path = Path("growing.jsonl")
    with path.open("a") as file:  # as a log would
        file.write("".join(f"{number}\n" for number in range(100)))
    return rs.jsonl(path).shuffle(seed=0).batch(4)


read_once = rs.from_iterable(generated()).map(str).batch(4)

# Broken behind ranks, where a run of a single rank shows nothing.

recent: list[int] = []


def with_last(item: int) -> list[int]:
    recent.append(item)
    return recent[-2:]


remembering_rank = rs.range(120).shuffle(seed=0).shard(0, 2).map(with_last).batch(4)


@dataclass(frozen=True, eq=False, repr=False)
class Changes(rs.Transform[Any]):
    """Items that are not the neighbours of the one before."""

    depends_on = frozenset()  # wrong: the state has an item of this rank

    def start(self, epoch: int = 0) -> ChangesIterator:
        return ChangesIterator(self, epoch)


class ChangesIterator(rs.TransformIterator[Any]):
    last = -1

    def pull(self, count: int) -> Block:
        found: list[Any] = []
        while missing := count - len(found):
            items = list(block_items(self._upstream.pull(missing)))
            for item in items:
                if abs(item - self.last) > 1:
                    found.append((self.last, item))
                self.last = item
            if len(items) < missing:
                break
        return found

    def get_state(self) -> dict[str, Any]:
        return {"last": self.last, "upstream": self._upstream.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.last = state["last"]
        self._upstream.set_state(state["upstream"])


changes_of_a_rank = rs.range(120).shuffle(seed=0).shard(0, 2).apply(Changes)


@dataclass(frozen=True, eq=False, repr=False)
class Swapped(rs.Transform[Any]):
    """Neighbours, the second one first; the state says that the second one is delivered."""

    depends_on = frozenset()  # wrong: another rank has not delivered that one

    def start(self, epoch: int = 0) -> SwappedIterator:
        return SwappedIterator(self, epoch)


class SwappedIterator(rs.TransformIterator[Any]):
    def __init__(self, stage: Swapped, epoch: int) -> None:
        super().__init__(stage, epoch)
        self.passed = 0
        self.waiting: list[Any] = []
        self.before = self._upstream.get_state()

    def pull(self, count: int) -> Block:
        swapped: list[Any] = []
        while len(swapped) < count and (self.waiting or self._take_pair()):
            swapped.append(self.waiting.pop(0))
        return swapped

    def _take_pair(self) -> bool:
        self.before = self._upstream.get_state()
        pair = list(block_items(self._upstream.pull(2)))[::-1]
        self.waiting, self.passed = pair[self.passed :], 0
        return bool(self.waiting)

    def get_state(self) -> dict[str, Any]:
        if self.waiting:
            return {"passed": 1, "upstream": self.before}
        return {"passed": self.passed, "upstream": self._upstream.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.passed = state["passed"]
        self._upstream.set_state(state["upstream"])


swapped_on_ranks = rs.range(120).partition(6, lambda part: part.map(abs)).shard(0, 2).apply(Swapped)


@dataclass(frozen=True, eq=False, repr=False)
class Whimsical(rs.Transform[Any]):
    """The items as they are, or as numbers of NumPy."""

    def start(self, epoch: int = 0) -> WhimsicalIterator:
        return WhimsicalIterator(self, epoch)


class WhimsicalIterator(rs.TransformIterator[Any]):
    def pull(self, count: int) -> Block:
        items = list(block_items(self._upstream.pull(count)))
        return items if count == 1 else [np.int64(item) for item in items]


pulled_in_two_ways = rs.range(60).apply(Whimsical).shuffle(seed=0, window=5)


# Exact, and yet not what one wants.

shared = rs.range(7)
delivered_again = rs.range(5).flat_map(lambda item: shared.map(abs))
