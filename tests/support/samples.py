"""What pipelines of the tests are made of: objects with state, functions and items."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import resumable as rs

NUMBERS = rs.range(0, 60, 2)
ten: Any = rs.range(10)


class Point(NamedTuple):
    x: Any
    y: Any


class Loader:
    """A loader in the manner of torch and Hugging Face: a loaded state starts the next pass."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.position = 0
        self.starting: dict[str, int] | None = None

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.starting = state
        self.position = state["position"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state  # as Hugging Face datasets do: a copy shares its attributes

    def __iter__(self) -> Iterator[int]:
        # As in Hugging Face datasets, every later epoch starts there too.
        self.position = self.starting["position"] if self.starting else 0
        while self.position < self.count:
            self.position += 1
            yield self.position


class Dice(random.Random):
    """An endless iterator with getstate/setstate."""

    def __iter__(self) -> Dice:
        return self

    def __next__(self) -> int:
        return self.randint(1, 6)


class RunningSum:
    """A function with state of its own."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, item: int) -> int:
        self.total += item
        return self.total

    def get_state(self) -> dict[str, int]:
        return {"total": self.total}

    def set_state(self, state: dict[str, int]) -> None:
        self.total = state["total"]


class UpTo(RunningSum):
    """A predicate with state of its own: whether the sum of the items is within a bound."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def __call__(self, item: int) -> bool:
        return super().__call__(item) <= self.bound


class SummedBatches(RunningSum):
    """A collate function with state of its own."""

    def __call__(self, items: Any) -> int:
        return super().__call__(sum(items))


class TwoSums(RunningSum):
    """A function of two arguments with state of its own."""

    def __call__(self, *arguments: Any) -> Any:
        return arguments[0], super().__call__(len(repr(arguments[0])))


class Torchlike:
    """A map-style dataset with many-at-once access."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> dict[str, int]:
        if not 0 <= index < 23:
            raise IndexError(index)
        return {"index": index}

    def __getitems__(self, indices: list[int]) -> list[dict[str, int]]:
        return [self[index] for index in indices]


def texts(longest: int = 9) -> np.ndarray[Any, Any]:
    return np.array(["one", "two", "three", "eleven", "x"] * 4, f"U{longest}")


def of_epoch(epoch: int) -> Iterator[int]:
    return iter(range(10 * epoch, 10 * epoch + 7 - epoch))


def double(item: Any) -> Any:
    return item * 2


def read_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def fails_on_thirds(item: int) -> int:
    return 10 // (item % 3)


def without_folder(pair: tuple[str, int]) -> tuple[str, int]:
    return os.path.basename(pair[0]), pair[1]


def bytes_over_size(data: bytes) -> float:
    return sum(data) / len(data)


def noise_but_thirds(item: int, rng: np.random.Generator) -> tuple[int, float]:
    return fails_on_thirds(item), rng.random()


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: np.repeat(column, 2, axis=0) for name, column in batch.items()}


def document(number: int) -> np.ndarray[Any, Any]:
    return np.arange(number, number + number * number % 11, dtype=np.int32)


def length_of_document(number: int) -> int:
    return number * number % 11


def two_fields(number: int) -> dict[str, Any]:
    return {"x": document(number), "y": [number] * len(document(number))}


def inputs_and_targets(number: int) -> dict[str, Any]:
    return {"inputs": document(number), "targets": [number] * (number * 7 % 12), "id": number}


def exotic_fields(number: int) -> dict[str, Any]:
    tokens = document(number)
    return {
        "mask": tokens % 2 == 0,
        "weights": tokens / np.float32(4),
        "vectors": np.stack([tokens, -tokens], axis=1).astype(np.int16),
    }


def three_of(item: Any) -> list[Any]:
    return [item, -item, (item, 1)]


def named_columns(batch: Any) -> dict[str, Any]:
    return {"number": batch, "pair": (batch / 2, np.stack([batch, batch], axis=1))}


def running(carry: int, item: int) -> tuple[int, int]:
    return carry + item, carry * item


def packed(carry: list[int], item: int) -> tuple[list[int], int]:
    return [*carry, item][-4:], item


def unpacked(carry: list[int]) -> Iterator[int]:
    while carry:
        yield 100 + carry.pop()


async def wait(item: Any) -> Any:
    return item


def alone(item: Any) -> list[Any]:
    return [item]


def tokens(_: Any) -> list[int]:
    return [1, 2, 3]


def floats(_: Any) -> dict[str, Any]:
    return {"x": np.ones(3, np.float32)}


def is_no_third(number: int) -> bool:
    return number % 3 > 0


def repeated(number: int) -> list[int]:
    return [number] * (number % 3)


def item_number(item: Any) -> int:
    """A number that follows from an item, whatever it is made of."""
    if isinstance(item, dict):
        return item_number(list(item.values()))
    if isinstance(item, (list, tuple)) or np.ndim(item):
        return sum((place + 1) * item_number(one) for place, one in enumerate(item))
    return int(item)


def number_is_no_third(item: Any) -> bool:
    return item_number(item) % 3 > 0


def copies(item: Any) -> list[Any]:
    return [item] * (item_number(item) % 3)


def as_list(item: Any) -> list[Any]:
    return [item_number(one) for one in (item.values() if isinstance(item, dict) else item)]
