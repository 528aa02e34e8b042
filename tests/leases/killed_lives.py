"""A rank of leases that writes down what is done, saves now and then, and is killed."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import resumable as rs


def pipeline(kind: str) -> rs.Pipeline[int]:
    """What the ranks work on."""
    if kind == "stream":
        return rs.from_iterable(numbers).filter(is_odd).shuffle(3, window=9)
    return rs.range(150).shuffle(seed=3).repeat(2)


def numbers() -> range:
    return range(400)


def is_odd(number: int) -> bool:
    return number % 2 == 1


def main(kind: str, folder: str, rank: int, ranks: int, seed: int, lasts: int) -> None:
    """Work until ``lasts`` items are done, then die; a negative number means: to the end.

    A save has the state and what was done before, in one file.
    """
    rng = random.Random(seed * 100 + rank)
    before = Path(folder, "whole.state")
    state = rs.loads(before.read_bytes()) if before.exists() else None
    leases = rs.Leases(pipeline(kind), max_open=7, rank=rank, ranks=ranks, state=state)
    done: list[int] = []
    held: list[rs.Lease[int]] = []

    def save() -> None:
        saved = rs.dumps({"done": done, "state": leases.get_state()})
        path = Path(folder, f"{rank}-of-{ranks}.state")
        path.with_suffix(".part").write_bytes(saved)
        os.replace(path.with_suffix(".part"), path)

    save()
    while not leases.finished:
        held += leases.available()
        if not held:
            continue
        lease = held.pop(rng.randrange(len(held)))
        if rng.random() < 0.2:
            lease.release()
            continue
        lease.done()
        done.append(lease.number)
        if rng.random() < 0.3:
            save()
        if len(done) == lasts:
            os.kill(os.getpid(), signal.SIGKILL)
    save()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
