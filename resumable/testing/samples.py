"""Sources and functions for random pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..core.block import Block, Indices, block_items
from ..core.identity import ALWAYS, IdentityFields
from ..core.indexed import Indexed
from ..core.lookup import LookedUp
from ..formats.ahead import ReadAheadItems, TurnsSeen, growing
from ..pipeline import Pipeline, from_iterable


class Counter:
    """An iterable with get_state/set_state on the iterator."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> CounterIterator:
        return CounterIterator(self.count)


class CounterIterator:
    """The motion of a `Counter`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.position = 0

    def __iter__(self) -> CounterIterator:
        return self

    def __next__(self) -> int:
        if self.position == self.count:
            raise StopIteration
        self.position += 1
        return self.position * 10

    def get_state(self) -> dict[str, int]:
        return {"position": self.position}

    def set_state(self, state: dict[str, int]) -> None:
        self.position = state["position"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class MadeAhead(LookedUp[int]):
    """Multiples of ten, made a few items early, like records of files."""

    identity: ClassVar[IdentityFields] = {"count": ALWAYS}
    state_cost = "the position"

    count: int

    @property
    def length(self) -> int:
        return self.count

    def indexed(self, epoch: int = 0) -> Indexed[int]:
        seen = TurnsSeen()
        return Indexed(
            _tens,
            prepare=lambda indices: ReadAheadItems(_tens, indices, growing(5), seen),
            every_epoch=True,
        )


def _tens(indices: Indices) -> Block:
    return (10 * indices).tolist()


def stream(count: int) -> Pipeline[int]:
    """Integers, readable in order only."""
    return from_iterable(lambda: iter(range(count)))


def with_noise(item: Any, rng: np.random.Generator) -> tuple[Any, float]:
    """The item and a random number, for `random_map`."""
    return item, float(rng.random())


def fails_on_some(item: Any) -> int:
    """Fails on arrays, lists and dicts, and on a third of the rest."""
    return 7 // (len(repr(hash(item) and item)) % 3)


def without_last(batch: Block) -> list[Any]:
    """All but the last of a group of items, for `map_batches`."""
    return block_items(batch)[:-1]


def as_document(item: Any) -> dict[str, Any]:
    """A few tokens made of an item, for `pack`."""
    return {"tokens": list(repr(item).encode()[-9:]), "from": item}


def as_two_fields(item: Any) -> dict[str, Any]:
    """Two fields of different lengths made of an item, for `pack`."""
    tokens = list(repr(item).encode())
    return {"x": tokens[-9:], "y": tokens[: len(tokens) % 5], "from": item}


def columns(count: int = 17) -> Any:
    """Two columns of ``count`` rows: float32 of shape (count, 2), int64 of shape (count,)."""
    return {
        "x": np.arange(2.0 * count, dtype=np.float32).reshape(count, 2),
        "y": np.arange(count, dtype=np.int64),
    }


def any_dtype(count: int = 17) -> dict[str, Any]:
    """Columns of ``count`` rows in unusual dtypes: byte orders, widths, fields, gaps."""
    words = [chr(97 + number % 7) * (number % 4 + 1) for number in range(count)]
    numbers = np.arange(count)
    objects = np.empty(count, object)
    objects[:] = words
    objects[0], objects[-1] = None, [1]
    record = np.dtype([("a", ">i2"), ("b", "f8"), ("s", "U4")], align=True)
    return {
        "foreign": numbers.astype(">i4"),
        "wide": np.stack([numbers, -numbers], axis=1).astype(">f8"),
        "half": numbers.astype(np.float16),
        "flags": numbers % 3 == 0,
        "text": np.array(words, "U9"),
        "bytes": np.array(words, "S6"),
        "texts": np.array([words, words[::-1]]).T,
        "times": numbers.astype(">M8[s]"),
        "objects": objects,
        "records": np.array([(n, n / 2, words[n]) for n in range(count)], record),
    }
