"""Damage files of every format, and count the copies that lose or gain items without an error.

Run it as ``PYTHONPATH=.:tests python -m campaigns.lost_items --count 10000 --seed 0``.

A file of JSON lines that is cut after a line is a sound file with fewer lines: the format has neither
a count nor a checksum of the whole, so no reader can notice. Such copies have a column of their own:
an independent reader finds as many items in them.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import io
import lzma
import os
import shutil
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from campaigns.children import tried_in_children
from campaigns.damaged_files import decompress_zstd
from campaigns.damaged_records import all_lines_of
from formats.archives import FORMATS, archive, numbered
from formats.compressing import COMPRESS, HAS_LZ4, HAS_ZSTD, IN_PARTS
from formats.facts.array_record import ArrayRecordTarget
from formats.facts.tfrecord import starts_of
from formats.megatron_files import files_of
from formats.shard_files import Files, litdata_files, mds_files, write_files
from formats.shard_files import numbered as leaves
from formats.table_files import write_more_parquet, write_tables
from formats.tfrecords import framed
from formats.warcs import records_of, zipped

import resumable as rs
from resumable.formats.tables import parquet_file
from resumable.formats.tables import source as tables
from resumable.formats.tar import split_name
from resumable.testing.comparing import same
from resumable.workers.fork_server import fork

__all__ = ["KINDS", "OUTCOMES", "Kind", "Losses", "losses"]

OUTCOMES: Final = ("whole", "refused", "other values", "another sound file", "lost", "gained")
"""What comes of a damaged copy. The last two must not happen."""
CRASHED: Final = "crashed"

Count = Callable[[bytes], int]


class Kind(NamedTuple):
    """A format whose damaged copies are read.

    Attributes:
      open: makes a pipeline of the path of a dataset: of its only file, or of its folder.
      datasets: makes good ones; small, so that damage strikes what matters.
      sound_count: the items that an independent reader finds in a damaged file, for a format in which a
        damaged file may be a sound one; an exception if it finds damage.
    """

    open: Callable[[Path], rs.Pipeline[Any]]
    datasets: Callable[[], list[Files]]
    sound_count: Count | None = None

    def read(self, folder: Path, files: Files) -> list[Any]:
        """The items of a dataset, written to ``folder``, which is removed afterwards."""
        tables.decoded.clear()
        parquet_file.keep_readers(0)
        write_files(folder, files)
        try:
            return list(self.open(folder if len(files) > 1 else folder / next(iter(files))))
        finally:
            shutil.rmtree(folder)

    def outcome(self, folder: Path, damaged: Files, expected: list[Any]) -> str:
        """One of `OUTCOMES`, for the damaged copy of a dataset with the items ``expected``."""
        try:
            found = self.read(folder, damaged)
        except (rs.MalformedItem, rs.InvalidArgument, OSError):
            return "refused"
        if len(found) == len(expected):
            return "whole" if same(found, expected) else "other values"
        if self.sound_count is not None and self._is_sound(damaged, len(found)):
            return "another sound file"
        return "lost" if len(found) < len(expected) else "gained"

    def _is_sound(self, damaged: Files, count: int) -> bool:
        assert self.sound_count is not None
        try:
            return self.sound_count(next(iter(damaged.values()))) == count
        except Exception:  # packages have errors of their own for damage
            return False


class Losses(NamedTuple):
    """What came of a campaign.

    Attributes:
      outcomes: how many copies had each of `OUTCOMES`, and how many crashed.
      failures: the copies that lost or gained items, or raised an unexpected error, by their numbers.
        A crash of a package is no silence, and counts in ``outcomes`` alone.
    """

    outcomes: Counter[str]
    failures: list[str]


def losses(kind: Kind, count: int, seed: int) -> Losses:
    """Read ``count`` damaged copies that follow from ``seed``."""
    datasets = kind.datasets()

    @cache  # in each child process, since a process that has read some files cannot fork
    def items_of(place: int) -> list[Any]:
        return kind.read(Path(folder) / "sound", datasets[place])

    def read(number: int) -> str:
        random = Random(f"{seed}/{number}")
        place = random.randrange(len(datasets))
        files = datasets[place]
        # A file is struck as often as its size says, but a small index not seldom.
        name = random.choices([*files], [len(data) + 500 for data in files.values()])[0]
        way = random.choice(DAMAGES)
        struck = files | {name: way(random, files[name])}
        try:
            outcome = kind.outcome(Path(folder) / str(number), struck, items_of(place))
        except Exception as error:
            outcome = f"{type(error).__name__}: {str(error)[:200]}"
        return (
            outcome
            if outcome in OUTCOMES[:4]
            else f"{outcome}: copy {number}, {name} {way.__name__}"
        )

    outcomes, failures = Counter[str](), list[str]()
    with TemporaryDirectory() as folder:
        for tried in tried_in_children(read, count):
            result = tried.result or CRASHED
            outcome = result.partition(":")[0]
            outcomes[outcome if outcome in OUTCOMES else CRASHED] += 1
            failures += [result] * (result not in (*OUTCOMES, CRASHED))
    return Losses(outcomes, failures)


def flipped(random: Random, data: bytes) -> bytes:
    """With one to three bits flipped."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncated(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def zeroed(random: Random, data: bytes) -> bytes:
    """With zeros for some bytes, as a disk leaves blocks that it has not written."""
    start, end = stretch(random, len(data))
    return data[:start] + bytes(end - start) + data[end:]


def swapped(random: Random, data: bytes) -> bytes:
    """With two stretches of one size in each other's place."""
    size = random.randrange(len(data) // 2 + 1)
    first = random.randrange(len(data) - 2 * size + 1)
    second = random.randrange(first + size, len(data) - size + 1)
    between = data[first + size : second]
    return (
        data[:first] + data[second : second + size] + between
        + data[first : first + size] + data[second + size :]
    )  # fmt: skip


def appended(random: Random, data: bytes) -> bytes:
    """With noise, zeros, or a part of the file once more behind it."""
    size = random.choice((1, 4, 100, 1024))
    start, end = stretch(random, len(data))
    return data + random.choice(
        (random.randbytes(size), bytes(size), data[start:end], data[start:])
    )


def stretch(random: Random, size: int) -> tuple[int, int]:
    start = random.randrange(size)
    return start, min(start + random.choice((1, 8, 64, 512, 4096)), size)


DAMAGES: Final = (flipped, truncated, zeroed, swapped, appended)


def file_of(name: str, *contents: bytes) -> list[Files]:
    """Datasets of one file."""
    return [{name: content} for content in contents]


@cache
def json_text() -> bytes:
    return b"".join(b'{"id": %d, "text": "%s"}\n' % (n, b"ab" * (n % 9)) for n in range(60))


def csv_text() -> bytes:
    rows = [(n, f'say "{n}"' if n % 3 else f"two\nlines, {n}", n * n) for n in range(40)]
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("id", "text", "square"), *rows])
    return file.getvalue().encode()


def tfrecords() -> bytes:
    return b"".join(framed(b"%d " % number * (number % 30)) for number in range(50))


def archives() -> list[bytes]:
    return [archive(numbered(9, 300), kind) for kind in FORMATS.values()]


def tables_of(pattern: str) -> list[Files]:
    """Tables of many types of columns, and ways to encode them."""
    with TemporaryDirectory() as folder:
        write_tables(Path(folder))
        write_more_parquet(Path(folder))
        paths = sorted(Path(folder).glob(pattern))
        return [{path.name: path.read_bytes()} for path in paths]


def arrow_tables(streams: bool) -> list[Files]:
    return [
        files
        for files in tables_of("*.arrow")
        if next(iter(files.values())).startswith(b"ARROW1") is not streams
    ]


def token_files() -> list[Files]:
    index, tokens = files_of([[np.arange(n + 1)] for n in range(12)])
    return [{"t.idx": index, "t.bin": tokens}]


def lance_datasets() -> list[Files]:
    from formats.lance_datasets import write_datasets

    with TemporaryDirectory() as folder:
        child = fork()  # since a process that has used the package should not fork
        if not child:
            write_datasets(Path(folder))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        root = Path(folder) / "mixed.lance"
        found = [path for path in sorted(root.rglob("*")) if path.is_file()]
        return [{path.relative_to(root).as_posix(): path.read_bytes() for path in found}]


def count_of_lines(data: bytes) -> int:
    return sum(map(bool, all_lines_of(data)))


def count_of_rows(data: bytes) -> int:
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    return max(sum(map(bool, rows)) - 1, 0)


def count_of_tfrecords(data: bytes) -> int:
    """As many as frames follow each other to the last byte."""
    starts = starts_of(data)
    frames = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    if not all(frame == framed(frame[12:-4]) for frame in frames):
        raise ValueError("a checksum is wrong")
    return len(frames)


def count_of_samples(data: bytes) -> int:
    """Those of archives one after another: blocks of zeros are the end of one."""
    count = 0
    while data := data[len(data) - len(data.lstrip(b"\0")) & -512 :]:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            splits = [split_name(member.name.encode()) for member in tar if member.isfile()]
            data = data[tar.offset :]
        count += sum(1 for _ in groupby(split[0] for split in splits if split))
        if data[:512].strip(b"\0"):
            raise ValueError("no header of a member stands there")
    return count


def count_of_warcs(data: bytes) -> int:
    from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-not-found, unused-ignore]

    return sum(1 for _ in ArchiveIterator(io.BytesIO(data)))


def count_of_streamed_rows(data: bytes) -> int:
    """Those of a stream without an end mark, which may end after any record batch."""
    import pyarrow as pa

    if data.endswith(b"\xff" * 4 + bytes(4)):
        raise ValueError("it has an end mark")
    return int(pa.ipc.open_stream(data).read_all().num_rows)


def decompress_lz4(data: bytes) -> bytes:
    import lz4.frame

    content = b""
    while data:
        frame = lz4.frame.LZ4FrameDecompressor()
        content += frame.decompress(data)
        if not frame.eof:
            raise EOFError("a frame is cut short")
        data = frame.unused_data or b""
    return content


DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    ".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress, ".zst": decompress_zstd, ".lz4": decompress_lz4,
}  # fmt: skip


def compressed(
    open: Callable[[Path], rs.Pipeline[Any]], name: str, content: Callable[[], bytes], count: Count
) -> Kind:
    """A format in compressed files: of one member, and of several."""
    suffix = Path(name).suffix

    def datasets() -> list[Files]:
        return file_of(
            name, *(way(content()) for way in (COMPRESS[suffix], IN_PARTS[f"m{suffix}"]))
        )

    return Kind(open, datasets, lambda data: count(DECOMPRESS[suffix](data) if data else b""))


SAMPLES: Final = [(number * 7, "s" * (number % 5)) for number in range(20)]

KINDS: Final[dict[str, Kind]] = {
    "lines": Kind(rs.lines, lambda: file_of("a.txt", json_text()), lambda data: len(all_lines_of(data))),
    "jsonl": Kind(rs.jsonl, lambda: file_of("a.jsonl", json_text()), count_of_lines),
    "csv": Kind(rs.csv, lambda: file_of("a.csv", csv_text()), count_of_rows),
    "tar": Kind(rs.tar, lambda: file_of("a.tar", *archives()), count_of_samples),
    "warc": Kind(rs.warc, lambda: file_of("a.warc", b"".join(records_of(30))), count_of_warcs),
    "warc.gz": Kind(rs.warc, lambda: file_of("a.warc.gz", zipped(records_of(30))), lambda data: count_of_warcs(gzip.decompress(data))),
    "mds": Kind(rs.mds, lambda: [mds_files(SAMPLES, 6)]),
    "mds, compressed": Kind(rs.mds, lambda: [mds_files(SAMPLES, 6, "gz", gzip.compress)]),
    "litdata": Kind(rs.litdata, lambda: [litdata_files(leaves(20), per_chunk=6)]),
    "megatron": Kind(lambda path: rs.megatron(path / "t"), token_files),
    "jsonl.gz": compressed(rs.jsonl, "a.jsonl.gz", json_text, count_of_lines),
    "jsonl.bz2": compressed(rs.jsonl, "a.jsonl.bz2", json_text, count_of_lines),
    "jsonl.xz": compressed(rs.jsonl, "a.jsonl.xz", json_text, count_of_lines),
    "csv.gz": compressed(rs.csv, "a.csv.gz", csv_text, count_of_rows),
    "tar.gz": compressed(rs.tar, "a.tar.gz", lambda: archives()[0], count_of_samples),
}  # fmt: skip
if HAS_ZSTD:
    KINDS["jsonl.zst"] = compressed(rs.jsonl, "a.jsonl.zst", json_text, count_of_lines)
    KINDS["tar.zst"] = compressed(rs.tar, "a.tar.zst", lambda: archives()[0], count_of_samples)
if HAS_LZ4:
    KINDS["jsonl.lz4"] = compressed(rs.jsonl, "a.jsonl.lz4", json_text, count_of_lines)
if find_spec("google_crc32c"):
    KINDS["tfrecord"] = Kind(
        rs.tfrecord, lambda: file_of("a.tfrecord", tfrecords()), count_of_tfrecords
    )
    KINDS["tfrecord.gz"] = compressed(rs.tfrecord, "a.tfrecord.gz", tfrecords, count_of_tfrecords)
if find_spec("pyarrow"):
    KINDS["parquet"] = Kind(rs.parquet, lambda: tables_of("*.parquet"))
    KINDS["arrow stream"] = Kind(rs.arrow, partial(arrow_tables, True), count_of_streamed_rows)
    KINDS["arrow file"] = Kind(rs.arrow, partial(arrow_tables, False))
if find_spec("array_record"):
    KINDS["array_record"] = Kind(
        rs.array_record, lambda: file_of("a.array_record", *ArrayRecordTarget().real)
    )
if find_spec("lance"):
    KINDS["lance"] = Kind(rs.lance, lance_datasets)


def main() -> int:
    """Run a campaign for each format, print a table; the exit status is 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="damaged copies of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="+", default=[*KINDS], choices=[*KINDS])
    options = parser.parse_args()
    columns = (*OUTCOMES, CRASHED)
    print("| format |", " | ".join(columns), "|")
    print("| --- |", " | ".join("---:" for _ in columns), "|", flush=True)
    failed = False
    for name in options.formats:
        outcomes, failures = losses(KINDS[name], options.count, options.seed)
        print(
            f"| {name} |",
            " | ".join(f"{outcomes[column]:,}" for column in columns),
            "|",
            flush=True,
        )
        for failure in failures[:20]:
            print(f"{name}: {failure}", file=sys.stderr)
        failed |= bool(failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
