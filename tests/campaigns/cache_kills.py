"""Kill processes that share a cache of remote files at random moments, damage its folder meanwhile, and compare what is read.

Run as `PYTHONPATH=tests python -m campaigns.cache_kills --kills 200`; the suite runs a short form. With
``--folder`` on a file system that is smaller than the cache, the disk is full all the time.
"""

# The files are of random bytes that every process makes anew, so whoever reads compares. The network
# takes a little time, so that kills come while parts are fetched. Each process says by one byte that it
# has come through an epoch; that none waits for the dead shows in that they come through.

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from campaigns.harness import (
    KILLED,
    Progress,
    command_line,
    kill,
    run_campaign,
    start_telling,
    status_of,
)
from file_cache.remote import PART, File, Network, Order, Span, kept_bytes, opened, some_files

import resumable as rs
from resumable.file_cache.claim import Claim
from resumable.file_cache.part_file import HEADER
from resumable.file_cache.reading import CacheReader
from resumable.file_cache.room import NoRoom, Room

PROCESSES: Final = 4
PARTS: Final = 24
ROOM: Final = 10 * (PART + HEADER.size)
LONGEST_LIFE: Final = 0.3
PATIENCE: Final = 120.0
"""Seconds in which some process must come through an epoch."""


@dataclass
class Report:
    """What the campaign found."""

    kills: int = 0
    epochs: int = 0
    damages: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every byte was right, nothing foreign was touched, and nobody waited for the dead."""
        return not self.problems and self.epochs > 0


class SlowNetwork(Network):
    """Takes a millisecond for each request."""

    def read(self, wanted: Sequence[Any]) -> list[bytes]:
        time.sleep(1e-3 * bool(wanted))
        self.fetched.clear()
        return super().read(wanted)


def read_epochs(folder: Path, seed: int, channel: int) -> None:
    """Read all parts in a new order each epoch, and say so after each; does not return."""
    warnings.simplefilter("ignore", RuntimeWarning)  # a full disk
    generator = np.random.default_rng(seed)
    files = some_files(*[4 * PART] * (PARTS // 4))
    cache = rs.FileCache(folder / "cache", ROOM, PART, read_ahead=2 * PART)
    network = SlowNetwork()
    while True:
        reader = opened(cache)
        order = Order(cache, files, [generator.permutation(PARTS) for _ in range(2)])
        check_copy(reader.reader, files[0])
        for span in order.spans():
            begin = span.start + int(generator.integers(0, PART // 2))
            wanted = [span, Span(span.file, begin, span.end)]
            if reader.read(wanted, network) != [one.data for one in wanted]:
                raise AssertionError(f"other bytes of {span}")
        reader.close()
        os.write(channel, b"e")


def check_copy(reader: CacheReader, file: File) -> None:
    """Compare a whole copy of ``file``, which is made slowly if there is none."""

    def write(opened: BinaryIO) -> None:
        for start in range(0, file.size, PART):
            opened.write(file.content[start : start + PART])
            opened.flush()
            time.sleep(2e-3)

    path = reader.copy_of(file, write)
    with suppress(FileNotFoundError):  # it has been removed meanwhile
        if path is not None and Path(path).read_bytes() != file.content:
            raise AssertionError(f"other bytes in the copy of {file}")


def damage(folder: Path, dice: random.Random, foreign: dict[Path, bytes]) -> bool:
    """Damage a part, or put something else in its place; whether there was one."""
    parts = [path for path in folder.rglob("*.part") if path not in foreign]
    if not dice.randrange(4):
        for copy in folder.rglob("*.copy"):
            copy.unlink(missing_ok=True)
    if not parts:
        return False
    path = dice.choice(parts)
    try:
        kind = dice.choice(["flip", "cut", "empty", "remove", "stranger", "beside"])
        if kind == "remove":
            path.unlink()
        elif kind == "stranger" and len(foreign) < 4:
            return put_stranger(folder, path, foreign)
        elif kind == "beside":
            beside = path.with_name(f"{dice.randrange(9)}.txt")
            beside.write_bytes(b"notes")
            foreign[beside] = b"notes"
        else:
            data = bytearray(path.read_bytes())
            if kind == "flip" and len(data) > HEADER.size:
                data[dice.randrange(HEADER.size, len(data))] ^= 1 << dice.randrange(8)
            elif kind == "cut":
                del data[max(dice.randrange(len(data) + 1), 16) :]
            else:
                data.clear()
            made = path.with_suffix(".damaged")
            made.write_bytes(data)
            made.replace(path)
    except OSError:  # a process has removed it meanwhile, or the disk is full
        return False
    return True


def put_stranger(folder: Path, path: Path, foreign: dict[Path, bytes]) -> bool:
    """Put a file of somebody else in the place of a part; whether no process was about to write or remove that."""
    # No system can compare a file and replace or remove it in one call. So the exchange must not come
    # between the two calls of a process: it writes under the claim of the part, and removes under the
    # lock of the room.
    claim = Claim.of(os.fspath(path), 0)
    if claim is None:
        return False
    try:
        with suppress(NoRoom), Room(os.fspath(folder), ROOM)._in_use():
            made = path.with_suffix(".stranger")
            made.write_bytes(b"somebody else's")
            made.replace(path)
            foreign[path] = b"somebody else's"
    finally:
        claim.give_up()
    return path in foreign


def campaign(kills: int, seed: int, folder: Path) -> Report:
    """Kill ``kills`` times one of the processes, and start another one."""
    dice, report, progress = random.Random(seed), Report(), Progress(kills, 50)
    foreign: dict[Path, bytes] = {}
    running: dict[int, BinaryIO] = {}
    last = time.monotonic()
    while report.kills < kills and not report.problems:
        while len(running) < PROCESSES:
            work = partial(read_epochs, folder, dice.randrange(1 << 32))
            child, told = start_telling(work)
            os.set_blocking(told.fileno(), False)
            running[child] = told
        time.sleep(dice.uniform(0, LONGEST_LIFE))
        report.damages += damage(folder / "cache", dice, foreign)
        for child, told in list(running.items()):
            came = len(told.read() or b"")
            report.epochs += came
            last = time.monotonic() if came else last
            if status_of(child) is not None:
                report.problems.append("a process ended by itself")
        if time.monotonic() - last > PATIENCE:
            report.problems.append("nobody has come through an epoch")
        ours = kept_bytes(folder / "cache") - sum(
            len(content) for path, content in foreign.items() if ".part" in path.name
        )
        if ours > ROOM + PROCESSES * (
            PART + HEADER.size
        ):  # some may be removed while they are counted
            report.problems.append(f"{ours} bytes are kept, {ROOM} were allowed")
        report.problems += [
            f"{path} was changed"
            for path, content in foreign.items()
            if not path.is_file() or path.read_bytes() != content
        ]
        child = dice.choice(list(running))
        running.pop(child).close()
        if kill(child) == KILLED:
            report.kills += 1
            progress.add()
    for child, told in running.items():
        kill(child)
        told.close()
    return report


def main() -> int:
    """Run a campaign; 0 if it was clean."""
    parser = command_line(__doc__, kills=200)
    options = parser.parse_args()
    return run_campaign(
        partial(campaign, options.kills, options.seed), "cache-kills", options.folder
    )


if __name__ == "__main__":
    sys.exit(main())
