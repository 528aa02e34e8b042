"""A catalogue of pipelines with every source and stage, and random graphs of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import random
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from formats.tfrecords import framed, write_records

import resumable as rs
from resumable.testing.samples import Counter as Counter
from resumable.testing.samples import any_dtype as any_dtype
from resumable.testing.samples import columns as columns
from resumable.testing.samples import stream as stream
from resumable.testing.samples import with_noise as with_noise
from resumable.testing.samples import without_last as without_last


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


def two_fields(number: int) -> dict[str, Any]:
    return {"x": document(number), "y": [number] * len(document(number))}


def named_columns(batch: Any) -> dict[str, Any]:
    return {"number": batch, "pair": (batch / 2, np.stack([batch, batch], axis=1))}


def running(carry: int, item: int) -> tuple[int, int]:
    return carry + item, carry * item


def packed(carry: list[int], item: int) -> tuple[list[int], int]:
    return [*carry, item][-4:], item


def unpacked(carry: list[int]) -> Iterator[int]:
    while carry:
        yield 100 + carry.pop()


def write_data(folder: Path) -> None:
    """The files that the catalogue reads."""
    (folder / "text.txt").write_bytes("one\r\ntwo\n\nfünf\nlast".encode())
    (folder / "more.txt").write_bytes(b"")
    (folder / "third.txt").write_bytes(b"x\n" * 30)
    lines = [json.dumps({"i": i}) + "\n" for i in range(11)]
    (folder / "values.jsonl").write_text("".join(lines) + "\n")
    for number, name in enumerate(("cat/1.png", "cat/deep/2.JPG", "dog/3.png", "dog/4.webp")):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89" * number)
    (folder / "text.txt.gz").write_bytes(
        gzip.compress(b"one\r\n\ntwo\n", 0) + gzip.compress(b"last", 0)
    )
    (folder / "none.bz2").write_bytes(b"")
    (folder / "numbers.BZ2").write_bytes(bz2.compress(b"".join(b"%d\n" % i for i in range(40))))
    cut = gzip.compress(json.dumps({"i": 0}).encode() * 3, 0)[:-9]
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), 0) + cut)
    (folder / "bad.jsonl").write_text('{"a": 1}\n{broken\n[2]\n\n"three"\nnot json\n4')
    (folder / "rows.csv").write_bytes(
        b'id,text\r\n\r\n1,"a\nb"\r\n2,"say ""x"""\n3,\n4,\xc3\xbc\n5,last'
    )
    (folder / "more.csv").write_bytes(b"id,text\n" + b"6,x\n" * 9)
    (folder / "bad.csv").write_bytes(b'id,text\n1,a\nshort\n\n2,"b"\n3,5" pipe\n4,"open')
    write_archive(folder / "0.tar", tarfile.GNU_FORMAT, ["txt", "cls"])
    write_archive(folder / "1.tar", tarfile.PAX_FORMAT, ["cls"])
    write_archive(folder / "bad.tar", tarfile.USTAR_FORMAT, ["cls", "cls"])
    write_records(folder / "0.tfrecord", [b"%d" % 7**number for number in range(11)])
    write_records(folder / "none.tfrecord", [])
    bad = [framed(b"good"), framed(b"bad")[:-1], b"?", framed(b"good too"), framed(b"cut")[:-9]]
    (folder / "bad.tfrecord").write_bytes(b"".join(bad))
    (folder / "bad.tfrecord.gz").write_bytes(gzip.compress(b"".join(bad), 0))


def write_archive(path: Path, kind: int, extensions: list[str]) -> None:
    """Thirteen samples, with names of many lengths."""
    with tarfile.open(path, "w", format=kind) as tar:
        for index in range(13):
            for extension in extensions:
                member = tarfile.TarInfo(f"ж/{index:0{7 * index}d}.{extension}")
                member.size = 1 + index
                tar.addfile(member, io.BytesIO(b"7" * member.size))


def six_stages(count: int, batch_size: int, batches: int) -> rs.Pipeline[Any]:
    """Six stages with random access, over ``count`` items."""
    return rs.range(count).shuffle(0).map(abs).batch(batch_size).repeat().take(batches)


def catalogue(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """Pipelines by name; each call makes a new one, with data of its own where it is stateful."""
    text, values, more = folder / "text.txt", folder / "values.jsonl", folder / "more.txt"
    numbers = rs.range(0, 60, 2)
    packaged: dict[str, Callable[[], rs.Pipeline[Any]]] = {}
    if find_spec("google_crc32c"):
        packaged = {
            "tfrecord": lambda: (
                rs.tfrecord([folder / "0.tfrecord", folder / "none.tfrecord"]).shuffle(2).repeat(2)
            ),
            "tfrecord skipping": lambda: rs.tfrecord(
                [folder / "bad.tfrecord", folder / "0.tfrecord"], decode=len, on_error="skip"
            ).batch(2),
            "tfrecord compressed": lambda: rs.tfrecord(
                [folder / "bad.tfrecord.gz", folder / "0.tfrecord"], on_error="skip"
            ).repeat(2),
        }
    return packaged | {
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
        "arrays of any dtype": lambda: rs.from_arrays(any_dtype()).shuffle(1).batch(4).repeat(2),
        "arrays of any dtype in windows": lambda: rs.from_arrays(any_dtype()).window(4, shift=3),
        "arrays of any dtype rebatched": lambda: (
            rs.from_arrays(any_dtype()).batch(4).shuffle(1).rebatch(3)
        ),
        "arrays of any dtype in one": lambda: rs.zip(
            {"a": rs.from_arrays(any_dtype()).shuffle(1, window=4), "b": rs.range(20).enumerate()}
        ).batch(3),
        "arrays of any dtype kept": lambda: (
            rs.from_arrays(any_dtype()).filter(lambda row: row["flags"]).cache().repeat(2).batch(4)
        ),
        "arrays of foreign bytes": lambda: rs.from_arrays(np.arange(17, dtype=">i4")).repeat(2),
        "arrays of texts in workers": lambda: (
            rs.from_arrays(texts())
            .partition(2, lambda part: part.filter(lambda text: text != "two"), workers=2)
            .batch(2)
        ),
        "arrays of texts carried": lambda: rs.from_arrays(
            (texts(), np.arange(20).astype("M8[D]"))
        ).shuffle(3, window=6, carry=True),
        "arrays of two kinds": lambda: rs.interleave(
            rs.from_arrays(texts()), rs.from_arrays(texts(7)), block_length=2
        ).batch(3),
        "iterable function": lambda: stream(25),
        "iterable of epochs": lambda: rs.from_iterable(of_epoch).repeat(2).repeat(2),
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
        "lines compressed": lambda: rs.lines(
            [folder / "text.txt.gz", text, folder / "none.bz2", folder / "numbers.BZ2"]
        ),
        "lines compressed not blank": lambda: (
            rs.lines(folder / "text*", skip_blank=True, encoding=None).repeat(3).batch(4)
        ),
        "jsonl damaged skipping": lambda: rs.jsonl(
            [folder / "cut.jsonl.gz", values, folder / "cut.jsonl.gz"], on_error="skip"
        ),
        "jsonl": lambda: rs.jsonl(values).shuffle(2).batch(3),
        "tar": lambda: rs.tar(folder / "[01].tar", decode={"cls": int}).shuffle(2).repeat(2),
        "tar skipping": lambda: rs.tar(folder / "*.tar", on_error="skip").map(len),
        "jsonl skipping": lambda: rs.jsonl(folder / "bad.jsonl", on_error="skip"),
        "csv": lambda: rs.csv([folder / "rows.csv", folder / "more.csv"]),
        "csv shuffled": lambda: rs.csv(folder / "[rm]o*.csv", columns=["text"]).shuffle(3).batch(2),
        "csv skipping": lambda: rs.csv(folder / "bad.csv", on_error="skip"),
        "files": lambda: rs.files([text, folder / "t*.txt"]).map(os.path.basename).repeat(2),
        "files read": lambda: rs.files(folder / "*.txt", read=True).shuffle(2).repeat(3),
        "image folder": lambda: (
            rs.image_folder(folder / "images").map(without_folder).shuffle(1).repeat(2)
        ),
        "image folder skipping": lambda: rs.image_folder(
            folder / "images", decode=bytes_over_size, on_error="skip"
        ).repeat(3),
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
        "random_map of a rank": lambda: (
            rs.range(23).shuffle(1).shard(1, 3, uneven="keep").random_map(with_noise, 3).repeat(2)
        ),
        "random_map workers skipping": lambda: (
            stream(20).shard(1, 2).random_map(noise_but_thirds, 3, workers=2, on_error="skip")
        ),
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
        "shuffle in blocks": lambda: rs.range(83).shuffle(7, block=5).repeat(2),
        "shuffle in large blocks": lambda: (
            rs.range(100_000).shuffle(7, block=1000).shard(1, 3).skip(2500).take(60)
        ),
        "shuffle in one block": lambda: (
            rs.from_arrays(columns()).shuffle(7, block=2**62).batch(4).repeat(2)
        ),
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
        "map_batches": lambda: rs.range(23).shuffle(1).map_batches(without_last, 4).repeat(2),
        "map_batches of columns": lambda: rs.interleave(
            rs.range(17).batch(3).unbatch(), rs.range(40, 60)
        ).map_batches(double, 4),
        "map_batches columns": lambda: rs.from_arrays(columns()).map_batches(twice, 4).batch(3),
        "map_batches workers skipping": lambda: stream(23).map_batches(
            lambda batch: [fails_on_thirds(batch[0]), *batch], 4, workers=2, on_error="skip"
        ),
        "map_batches to nothing": lambda: stream(23).map_batches(lambda batch: [], 4).repeat(2),
        "bucket": lambda: rs.range(40).map(document).bucket(len, batch_size=3, window=9).repeat(2),
        "bucket tokens": lambda: (
            stream(40)
            .map(two_fields)
            .bucket(
                lambda item: len(item["y"]),
                max_tokens=24,
                window=11,
                seed=5,
                boundaries=[3, 6],
                multiple_of=4,
                collate=rs.padded({"x": -1}, multiple_of=4, side="left", mask="mask"),
                drop_last=True,
            )
            .repeat(2)
        ),
        "pack": lambda: rs.range(40).map(document).pack(16, window=9).repeat(2),
        "pack short rows": lambda: stream(40).map(document).pack(5, window=4, tail="short"),
        "pack fields": lambda: (
            stream(20).map(two_fields).pack(16, pad={"x": -1, "y": 7}, window=7).batch(2)
        ),
        "pack concatenated": lambda: (
            rs.range(40).map(document).pack(16, how="concatenate", window=9).repeat(2)
        ),
        "pack concatenated short": lambda: (
            stream(40).map(document).pack(5, how="concatenate", window=4, tail="short").repeat(2)
        ),
        "pack nothing": lambda: stream(3).map(lambda item: []).pack(5).repeat(2),
        "rebatch": lambda: rs.from_arrays(columns()).batch(4).rebatch(3).repeat(2),
        "rebatch of a stream": lambda: stream(17).batch(6).rebatch(4, drop_last=True).repeat(2),
        "rebatch of lists": lambda: (
            rs.from_sequence(["ab", "", "cde", "f"] * 4).map(list).rebatch(5)
        ),
        "windows": lambda: rs.range(23).shuffle(1).window(5, shift=2).repeat(2),
        "windows of columns shuffled": lambda: (
            rs.from_arrays(columns()).window(4, shift=3, drop_last=True).shuffle(1).batch(2)
        ),
        "windows of a stream": lambda: stream(23).window(4, shift=3).repeat(2),
        "windows drop_last": lambda: stream(23).window(6, shift=2, drop_last=True).repeat(2),
        "windows with gaps": lambda: stream(23).window(2, shift=5).repeat(2),
        "windows longer than stream": lambda: stream(3).window(9),
        "windows of nothing": lambda: stream(0).window(3, shift=1).repeat(2),
        "unbatch": lambda: rs.from_arrays(columns()).batch(4).unbatch(),
        "unbatch columns": lambda: rs.from_sequence(
            [
                *np.arange(24).reshape(4, 6),
                np.arange(0),
                np.arange(3.0),
                np.arange(5, dtype=np.uint8),
                [1, 2],
                np.array(["a", "bcd"]),
                *np.arange(24).reshape(2, 3, 4),
            ]
        ).unbatch(),
        "unbatch stream of dicts": lambda: (
            stream(23).batch(5).map(named_columns).unbatch().repeat(2)
        ),
        "repeat endless": lambda: rs.range(6).shuffle(1).repeat().batch(4),
        "repeat nested": lambda: rs.range(4).shuffle(1).repeat(2).repeat(3),
        "repeat zero": lambda: rs.range(4).repeat(0),
        "repeat empty endless": lambda: rs.range(0).repeat(),
        "repeat stream": lambda: stream(6).repeat(3),
        "take": lambda: stream(30).take(11).repeat(2),
        "take_while": lambda: stream(30).take_while(lambda item: item < 11).repeat(2),
        "take_while to the end": lambda: rs.range(9).shuffle(2).take_while(lambda item: True),
        "take_while stateful": lambda: rs.range(20).take_while(UpTo(30)).repeat(2),
        "take by index": lambda: rs.range(90).take(61),
        "skip": lambda: rs.range(30).shuffle(1).skip(11).repeat(2),
        "skip stream": lambda: stream(30).skip(11).repeat(2),
        "skip everything": lambda: stream(3).skip(11),
        "partition": lambda: (
            rs.range(60)
            .shuffle(1)
            .partition(4, lambda part: part.filter(lambda item: item % 3).batch(4))
            .repeat(2)
        ),
        "partition of a rank": lambda: (
            rs.range(23)
            .partition(5, lambda part: part.map(double))
            .map(double)
            .shard(1, 3)
            .batch(2)
        ),
        "partition in workers": lambda: rs.range(50).partition(
            4,
            lambda part: part.map(fails_on_thirds, on_error="skip").shuffle(2, window=5),
            workers=2,
            buffer_size=3,
        ),
        "partition of files": lambda: rs.files(folder / "t*.txt").partition(
            2, lambda part: part.flat_map(read_lines).enumerate()
        ),
        "partition of epochs": lambda: (
            rs.range(7)
            .partition(3, lambda part: part.shuffle(2).repeat(3))
            .shard(0, 2, uneven="drop")
        ),
        "partition evened out": lambda: (
            rs.range(9)
            .shuffle(3)
            .partition(4, lambda part: part.map(double))
            .shard(3, 4, uneven="pad")
        ),
        "partition packed": lambda: (
            rs.range(40)
            .partition(3, lambda part: part.map(document).pack(16, window=4))
            .shard(1, 2)
            .prefetch(2)
            .take(9)
        ),
        "partition of several": lambda: rs.partition(
            {"few": rs.range(19).shuffle(2), "many": rs.range(100, 160)},
            4,
            lambda few, many: rs.mix(
                few.filter(lambda item: item % 4).repeat(),
                many.shuffle(3, window=5),
                weights=(1, 3),
            ).batch(3),
            workers=2,
        ).shard(0, 2),
        "partition of several evened out": lambda: rs.partition(
            (rs.range(9), rs.range(100, 105)),
            4,
            lambda one, two: rs.concatenate(one, two.map(double)),
        ).shard(2, 3, uneven="pad"),
        "partition drawn": lambda: (
            rs.range(40)
            .partition(4, lambda part: part.filter(lambda item: item % 7))
            .random_map(with_noise, 3)
            .shard(1, 2)
            .filter(lambda item: item[0] % 5)
            .random_map(with_noise, 4)
        ),
        "partition drawn by batches": lambda: (
            rs.range(40)
            .partition(4, lambda part: part.map(double))
            .shard(1, 3)
            .batch(2)
            .random_map(with_noise, 3)
        ),
        "partition empty": lambda: rs.range(2).partition(4, lambda part: part).shard(1, 4),
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
        "zip by index": lambda: rs.zip(rs.range(80), rs.range(70), rs.range(90)),
        "concatenate": lambda: rs.concatenate(rs.range(5), rs.range(0), rs.range(9).shuffle(1)),
        "concatenate shuffled": lambda: rs.concatenate(rs.range(5), rs.range(9, 20)).shuffle(4),
        "concatenate streams": lambda: rs.concatenate(stream(3), stream(0), stream(4)).repeat(2),
        "interleave": lambda: rs.interleave(rs.range(5), stream(11), rs.range(0), block_length=2),
        "interleave by index": lambda: rs.interleave(
            rs.range(900), rs.range(0), rs.range(50).shuffle(0), rs.range(4_000), block_length=3
        ),
        "interleave of sequences": lambda: rs.interleave(*map(rs.from_sequence, ["abc", "xy"])),
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
        "mix rare": lambda: rs.mix(
            rs.range(9_000), stream(9), weights=[0.9999, 1e-4], seed=1, stop="all"
        ).skip(8_990),
        "mix rare by index": lambda: rs.mix(
            rs.range(5_000), rs.range(9), weights=[9_999, 1], stop="all"
        ).skip(4_990),
        "mix streams": lambda: rs.mix(stream(20), rs.range(100, 110), weights=[1, 2], stop="all"),
        "mix streams first": lambda: rs.mix(stream(20), rs.range(100, 110), seed=4),
        "mix shuffled": lambda: rs.mix(
            rs.range(20), rs.range(100, 110), seed=2, stop="all"
        ).shuffle(3),
        "mix cycle": lambda: rs.mix(
            rs.range(5).shuffle(1), rs.range(100, 120), weights=[1, 2], seed=3, stop="cycle"
        ).repeat(2),
        "mix cycle streams": lambda: rs.mix(
            stream(5), stream(11).shuffle(1, window=3), rs.range(20), seed=3, stop="cycle"
        ).repeat(2),
        "mix cycle workers": lambda: rs.mix(
            stream(4).map(double, workers=2), stream(9), weights=[2, 1], stop="cycle"
        ),
        "mix reshuffled": lambda: rs.mix(
            rs.range(30), rs.range(100, 120), weights=[2, 1], seed=5, reshuffle=True
        ).repeat(3),
        "mix reshuffled streams": lambda: rs.mix(
            stream(20), rs.range(100, 110), seed=1, stop="all", reshuffle=True
        ).repeat(2),
        "mix changing": lambda: rs.mix(
            {"a": rs.range(60), "b": rs.range(100, 150)},
            weights={0: {"a": 7, "b": 3}, 24: {"a": 3, "b": 7}, 55: {"a": 5001, "b": 4999}},
            seed=2,
        ).repeat(2),
        "mix changing streams": lambda: rs.mix(
            stream(30),
            stream(4),
            weights={7: (1, 2), 0: (3, 1)},
            seed=2,
            stop="cycle",
            reshuffle=True,
        ).repeat(2),
        "scan": lambda: rs.range(12).scan(running, 1).repeat(2),
        "scan finish": lambda: stream(7).scan(packed, [], unpacked).repeat(2),
        "cache": lambda: rs.range(20).map(double).cache().shuffle(1).repeat(2),
        "cache of a shuffle": lambda: rs.range(12).shuffle(1).map(double).cache().repeat(3),
        "cache of a stream": lambda: stream(9).random_map(with_noise, 2).cache().repeat(3),
        "cache of workers": lambda: rs.range(20).map(double, workers=2).cache().repeat(2),
        "cache of columns": lambda: rs.from_arrays(columns()).cache().batch(4).repeat(2),
        "cache stateful": lambda: rs.range(9).map(RunningSum()).cache().batch(2).repeat(2),
        "cache of nothing": lambda: stream(0).cache().repeat(2),
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


# Pipelines of an object with state, which belongs to one running iterator at a time.
SHARE_AN_OBJECT = (
    "map stateful",
    "filter stateful",
    "take_while stateful",
    "cache stateful",
    "scan stateful",
    "random_map stateful",
    "collate stateful",
    "iterable getstate",
    "iterable state_dict",
    "iterable state_dict repeated",
)
