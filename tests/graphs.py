"""A catalogue of pipelines with every source and stage, and random graphs of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import resumable as rs


class Point(NamedTuple):
    x: Any
    y: Any


class Counter:
    """An iterable whose iterator has get_state/set_state."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> CounterIterator:
        return CounterIterator(self.count)


class CounterIterator:
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
        # As in Hugging Face datasets, every later pass starts there too.
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


def stream(count: int) -> rs.Pipeline[int]:
    """Integers that can only be read in order."""
    return rs.from_iterable(lambda: iter(range(count)))


def double(item: Any) -> Any:
    return item * 2


def fails_on_thirds(item: int) -> int:
    return 10 // (item % 3)


def running(carry: int, item: int) -> tuple[int, int]:
    return carry + item, carry * item


def with_noise(item: Any, rng: np.random.Generator) -> tuple[Any, float]:
    return item, float(rng.random())


def hash_of(item: Any) -> int:
    """Fails on arrays, lists and dicts, and on a third of the rest."""
    return 7 // (len(repr(hash(item) and item)) % 3)


def columns(count: int = 17) -> Any:
    return {
        "x": np.arange(2.0 * count, dtype=np.float32).reshape(count, 2),
        "y": np.arange(count, dtype=np.int64),
    }


def write_data(folder: Path) -> None:
    """The files that the catalogue reads."""
    (folder / "text.txt").write_bytes("one\r\ntwo\n\nfünf\nlast".encode())
    (folder / "more.txt").write_bytes(b"")
    (folder / "third.txt").write_bytes(b"x\n" * 30)
    lines = [json.dumps({"i": i}) + "\n" for i in range(11)]
    (folder / "values.jsonl").write_text("".join(lines) + "\n")
    (folder / "bad.jsonl").write_text('{"a": 1}\n{broken\n[2]\n\n"three"\nnot json\n4')


def catalogue(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """Pipelines by name; each call makes a new one, with data of its own where it is stateful."""
    text, values, more = folder / "text.txt", folder / "values.jsonl", folder / "more.txt"
    numbers = rs.range(0, 60, 2)
    return {
        "range": lambda: rs.range(5, 50, 7),
        "range downwards": lambda: rs.range(9, -9, -2),
        "range empty": lambda: rs.range(0),
        "sequence of None": lambda: rs.from_sequence([None, 1, None, None]),
        "sequence empty": lambda: rs.from_sequence([]),
        "sequence torchlike": lambda: rs.from_sequence(Torchlike()),
        "sequence array": lambda: rs.from_sequence(np.arange(12).reshape(6, 2)),
        "arrays dict": lambda: rs.from_arrays(columns()).shuffle(1).batch(4),
        "arrays tuple": lambda: rs.from_arrays((np.arange(9), np.arange(9.0))),
        "arrays named": lambda: rs.from_arrays(Point(np.arange(5), np.eye(5))).batch(2),
        "arrays one": lambda: rs.from_arrays(np.arange(10, dtype=np.uint8)).filter(bool).batch(3),
        "iterable function": lambda: stream(25),
        "iterable state on iterator": lambda: rs.from_iterable(Counter(20)),
        "iterable state_dict": lambda: rs.from_iterable(Loader(20)),
        "iterable state_dict repeated": lambda: rs.from_iterable(Loader(6)).repeat(3),
        "iterable getstate": lambda: rs.from_iterable(Dice(3)).take(30),
        "iterable dict": lambda: rs.from_iterable({"a": 1, "b": 2, "c": 3}),
        "iterable None": lambda: rs.from_iterable(lambda: iter([None, None, 0])),
        "iterable file": lambda: rs.from_iterable(lambda: iter(["a\n", "b\n"])),
        "lines": lambda: rs.lines([text, more, folder / "third.txt"]),
        "lines glob shuffled": lambda: rs.lines(folder / "t*.txt", encoding=None).shuffle(3),
        "lines not blank": lambda: rs.lines(text, skip_blank=True),
        "jsonl": lambda: rs.jsonl(values).shuffle(2).batch(3),
        "jsonl skipping": lambda: rs.jsonl(folder / "bad.jsonl", on_error="skip"),
        "map": lambda: numbers.map(double),
        "map skipping": lambda: rs.range(30).map(fails_on_thirds, on_error="skip").batch(4),
        "map stateful": lambda: rs.range(20).map(RunningSum()),
        "filter stateful": lambda: rs.range(20).filter(RunningSum()).batch(3),
        "collate stateful": lambda: rs.range(20).batch(3, collate=SummedBatches()).repeat(2),
        "scan stateful": lambda: rs.range(20).scan(TwoSums(), 3).repeat(2),
        "random_map stateful": lambda: stream(20).random_map(TwoSums(), 3).batch(3),
        "map workers": lambda: numbers.map(double, workers=2),
        "map workers skipping": lambda: rs.range(20).map(
            fails_on_thirds, workers=3, on_error="skip"
        ),
        "random_map": lambda: rs.range(20).shuffle(1).random_map(with_noise, 3).repeat(2),
        "random_map stream": lambda: stream(20).random_map(with_noise, 3).repeat(2),
        "filter": lambda: numbers.filter(lambda item: item % 3),
        "filter nothing left": lambda: numbers.filter(lambda item: False).repeat(3),
        "flat_map": lambda: rs.range(8).flat_map(range),
        "flat_map pipelines": lambda: rs.range(7).flat_map(
            lambda n: rs.range(n).shuffle(n).filter(lambda i: i != 1)
        ),
        "shuffle": lambda: rs.range(40).shuffle(7),
        "shuffle large": lambda: rs.range(10_000).shuffle(7).take(60),
        "shuffle epochs": lambda: rs.range(12).shuffle(7).repeat(4),
        "shuffle twice": lambda: rs.range(30).shuffle(1).shuffle(2),
        "shuffle batches": lambda: rs.range(30).batch(4).shuffle(2).unbatch(),
        "window": lambda: stream(100).shuffle(3, window=8),
        "window of one": lambda: stream(9).shuffle(3, window=1),
        "window longer than stream": lambda: stream(9).shuffle(3, window=50),
        "window as long as stream": lambda: stream(9).shuffle(3, window=9),
        "window past snapshots": lambda: stream(1500).shuffle(3, window=20).skip(1200),
        "window epochs": lambda: stream(30).shuffle(3, window=7).repeat(3),
        "window empty": lambda: stream(0).shuffle(3, window=7),
        "window over epochs": lambda: stream(13).repeat(6).shuffle(3, window=7),
        "window carried prefetched": lambda: (
            stream(40).shuffle(3, window=8, carry=True).prefetch(2)
        ),
        "window carried": lambda: stream(60).shuffle(3, window=8, carry=True).repeat(2),
        "window carried arrays": lambda: (
            rs.from_arrays(columns()).shuffle(3, window=6, carry=True).repeat(2)
        ),
        "window carried short": lambda: stream(5).shuffle(3, window=8, carry=True),
        "batch": lambda: rs.range(23).batch(5),
        "batch drop_last": lambda: stream(23).batch(5, drop_last=True).repeat(2),
        "batch over epochs": lambda: rs.range(7).shuffle(0).repeat(5).batch(4),
        "batch collate": lambda: rs.range(23).batch(5, collate=sum),
        "batch of batches": lambda: rs.range(24).batch(3).batch(2),
        "batch of strings": lambda: rs.from_sequence(["a", None, "b"]).batch(2),
        "unbatch": lambda: rs.from_arrays(columns()).batch(4).unbatch(),
        "repeat endless": lambda: rs.range(6).shuffle(1).repeat().batch(4),
        "repeat nested": lambda: rs.range(4).shuffle(1).repeat(2).repeat(3),
        "repeat zero": lambda: rs.range(4).repeat(0),
        "repeat empty endless": lambda: rs.range(0).repeat(),
        "repeat stream": lambda: stream(6).repeat(3),
        "take": lambda: stream(30).take(11).repeat(2),
        "skip": lambda: rs.range(30).shuffle(1).skip(11).repeat(2),
        "skip stream": lambda: stream(30).skip(11).repeat(2),
        "skip everything": lambda: stream(3).skip(11),
        "shard drop": lambda: rs.range(23).shuffle(1).shard(1, 4).repeat(2),
        "shard pad": lambda: rs.range(23).shard(3, 4, uneven="pad").batch(2),
        "shard keep": lambda: rs.range(23).shard(3, 4, uneven="keep").repeat(2),
        "shard stream": lambda: stream(23).shard(1, 4, uneven="pad").repeat(2),
        "shard stream keep": lambda: stream(21).shard(0, 4, uneven="keep"),
        "shard shuffled after": lambda: rs.range(23).shard(1, 4, uneven="keep").shuffle(2),
        "enumerate": lambda: rs.from_arrays(columns()).enumerate().batch(4),
        "enumerate stream": lambda: stream(9).enumerate().repeat(2),
        "zip": lambda: rs.zip(rs.range(9).shuffle(0), rs.from_sequence("abcdefgh")),
        "zip columns": lambda: rs.zip(rs.range(9), rs.from_arrays(columns())).batch(4),
        "zip streams": lambda: rs.zip(stream(9), stream(5), rs.range(100)),
        "concatenate": lambda: rs.concatenate(rs.range(5), rs.range(0), rs.range(9).shuffle(1)),
        "concatenate shuffled": lambda: rs.concatenate(rs.range(5), rs.range(9, 20)).shuffle(4),
        "concatenate streams": lambda: rs.concatenate(stream(3), stream(0), stream(4)).repeat(2),
        "interleave": lambda: rs.interleave(rs.range(5), stream(11), rs.range(0), block_length=2),
        "interleave fn": lambda: rs.range(7).interleave(lambda n: range(n * 2), 3, 2),
        "interleave fn pipelines": lambda: rs.range(5).interleave(
            lambda n: stream(9).shuffle(n, window=4).repeat(2), cycle_length=2, block_length=3
        ),
        "interleave fn wide": lambda: stream(3).interleave(lambda n: [n] * n, cycle_length=8),
        "mix first": lambda: rs.mix(rs.range(40), rs.range(100, 120), weights=[3, 1], seed=5),
        "mix all": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), rs.range(7), weights=[0.5, 0.3, 0.2], stop="all"
        ),
        "mix all seeded": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), weights=[1, 2], seed=1, stop="all"
        ).repeat(2),
        "mix streams": lambda: rs.mix(stream(20), rs.range(100, 110), weights=[1, 2], stop="all"),
        "mix streams first": lambda: rs.mix(stream(20), rs.range(100, 110), seed=4),
        "mix shuffled": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), seed=2, stop="all"
        ).shuffle(3),
        "scan": lambda: rs.range(12).scan(running, 1).repeat(2),
        "prefetch": lambda: rs.range(20).map(double).prefetch(3),
        "prefetch epochs": lambda: stream(6).shuffle(1, window=3).repeat(3).batch(4).prefetch(2),
        "prefetch inside": lambda: rs.range(20).prefetch(2).map(double).batch(3).prefetch(1),
        "everything": lambda: (
            rs.mix(rs.range(50).shuffle(1), rs.range(100, 150), seed=3)
            .random_map(with_noise, 1)
            .repeat(3)
            .shard(1, 2)
            .shuffle(9, window=10)
            .batch(4)
            .prefetch(2)
        ),
    }


@st.composite
def pipelines(draw: st.DrawFn, depth: int = 5) -> rs.Pipeline[Any]:
    """A random graph: items are hashable, and every function is pure."""
    try:
        pipeline = draw(st.one_of(_sources(), _combinations())) if depth else draw(_sources())
    except rs.InvalidArgument:  # a mix of inputs with threads
        pipeline = draw(_sources())
    for _ in range(draw(st.integers(0, depth))):
        try:
            pipeline = draw(_transformed(pipeline))
        except rs.InvalidArgument:  # a thread before a stage that looks items up by index
            pipeline = draw(_threadless(pipeline))
    return pipeline


def _threadless(pipeline: rs.Pipeline[Any]) -> st.SearchStrategy[rs.Pipeline[Any]]:
    """Stages that may follow any other."""
    return st.sampled_from([pipeline.enumerate(), pipeline.batch(3, collate=list)])


def _sources() -> st.SearchStrategy[rs.Pipeline[Any]]:
    counts = st.integers(0, 40)
    return st.one_of(
        counts.map(rs.range),
        counts.map(stream),
        counts.map(lambda count: rs.from_iterable(Counter(count))),
        st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=20).map(
            rs.from_sequence
        ),
        st.integers(1, 30).map(lambda count: rs.from_arrays(columns(count)["y"])),
        st.integers(1, 30).map(lambda count: rs.from_arrays(columns(count))),
        st.tuples(st.integers(1, 20), st.integers(1, 8)).map(
            lambda pair: rs.range(pair[0]).repeat().take(pair[1] * 5)
        ),
    )


def _combinations() -> st.SearchStrategy[rs.Pipeline[Any]]:
    inputs = st.lists(pipelines(depth=1), min_size=1, max_size=3)
    return st.one_of(
        inputs.map(lambda chosen: rs.zip(*chosen)),
        inputs.map(lambda chosen: rs.concatenate(*chosen)),
        st.tuples(inputs, st.integers(1, 3)).map(
            lambda pair: rs.interleave(*pair[0], block_length=pair[1])
        ),
        st.tuples(inputs, st.none() | st.integers(0, 9), st.sampled_from(["first", "all"])).map(
            lambda chosen: rs.mix(
                *chosen[0],
                weights=[number + 1 for number in range(len(chosen[0]))],
                seed=chosen[1],
                stop=chosen[2],
            )
        ),
    )


def _transformed(pipeline: rs.Pipeline[Any]) -> st.SearchStrategy[rs.Pipeline[Any]]:
    seeds, sizes = st.integers(0, 2**64 - 1), st.integers(1, 9)
    choices: list[st.SearchStrategy[rs.Pipeline[Any]]] = [
        st.just(pipeline.map(lambda item: (item, 1))),
        st.just(pipeline.map(hash_of, on_error="skip")),
        st.just(pipeline.map(repr, workers=2)),
        st.just(pipeline.filter(lambda item: len(repr(item)) % 3)),
        st.just(pipeline.flat_map(lambda item: [item] * (len(repr(item)) % 4))),
        st.just(pipeline.enumerate()),
        st.just(pipeline.scan(lambda carry, item: (carry + 1, (carry, item)), 0)),
        seeds.map(lambda seed: pipeline.random_map(with_noise, seed)),
        sizes.map(lambda size: pipeline.batch(size, collate=list).unbatch()),
        st.tuples(sizes, st.booleans()).map(
            lambda pair: pipeline.batch(pair[0], collate=list, drop_last=pair[1])
        ),
        st.tuples(seeds, sizes).map(lambda pair: pipeline.shuffle(pair[0], window=pair[1])),
        st.integers(0, 3).map(lambda epochs: pipeline.repeat(epochs)),
        st.integers(0, 60).map(pipeline.take),
        st.integers(0, 9).map(pipeline.skip),
        st.tuples(st.integers(1, 4), st.sampled_from(["drop", "pad", "keep"])).map(
            lambda pair: pipeline.shard(pair[0] - 1, pair[0], uneven=pair[1])
        ),
        st.integers(0, 3).map(pipeline.prefetch),
        st.tuples(st.integers(1, 4), sizes).map(
            lambda pair: pipeline.interleave(
                lambda item: [item] * (len(repr(item)) % 4), pair[0], pair[1]
            )
        ),
    ]
    if pipeline.length != float("inf"):
        choices.append(
            st.tuples(seeds, sizes).map(
                lambda pair: pipeline.map(repr).shuffle(pair[0], window=pair[1], carry=True)
            )
        )
    if pipeline.random_access and pipeline.length != float("inf"):
        choices += [seeds.map(pipeline.shuffle)] * 2
    return st.one_of(choices)
