"""Items that end the process which is given them, at each place of a chunk, over a resume.

Run as `PYTHONPATH=tests python -m campaigns.poison`; `tests/workers` has a model of it, and one of each.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from support.descendants import descendants

import resumable as rs
from resumable.workers.processes import ProcessWorkers

ITEMS = 48
CHUNK = 8
PLACES = {"first": 16, "middle": 20, "last": 23}


def abort(item: int) -> None:
    os.abort()


def segfault(item: int) -> None:
    ctypes.string_at(0)


def kill(item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory(item: int) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, limits[1]))
    try:
        bytearray(1 << 40)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def leave(item: int) -> None:
    sys.exit(3)


def interrupt(item: int) -> None:
    raise KeyboardInterrupt


def nothing(item: int) -> None:
    """Workers are killed from outside instead."""


class Kind(NamedTuple):
    """What an item does, and what comes of it.

    Attributes:
      error: what is raised, or told if the item is dropped; None if nothing.
      dropped: whether it is dropped on request.
    """

    act: Callable[[int], None]
    error: type[BaseException] | None
    dropped: bool


KINDS = {
    "abort": Kind(abort, rs.WorkerError, True),
    "segfault": Kind(segfault, rs.WorkerError, True),
    "SIGKILL": Kind(kill, rs.WorkerError, True),
    "out of memory": Kind(out_of_memory, MemoryError, True),
    "sys.exit": Kind(leave, SystemExit, False),
    "KeyboardInterrupt": Kind(interrupt, KeyboardInterrupt, False),
    "killed from outside": Kind(nothing, None, False),
}


def pipeline(kind: Kind, poison: int, **options: Any) -> rs.Pipeline[int]:
    """One of whose items does what its kind does."""
    act, seconds = kind.act, 0.002 if kind.error else 0.04

    def fn(item: int) -> int:
        time.sleep(seconds)
        if item == poison:
            act(item)
        return -item

    return rs.range(ITEMS).map(fn, workers=2, executor="process", **options)


def skipping(kind: Kind, poison: int, cut: int) -> str | None:
    """What is wrong with a run that drops items, and is resumed at ``cut``."""
    told: list[tuple[int, type]] = []
    chain = pipeline(
        kind,
        poison,
        on_error="skip",
        on_skip=lambda number, error: told.append((number, type(error))),
    )
    with iter(chain) as iterator:
        got = list(itertools.islice(iterator, cut))
        state = rs.dumps(iterator.get_state())
    with chain.resume(rs.loads(state)) as iterator:
        if kind.error is not None and not kind.dropped:
            if cut > poison:
                return "an item came that ends the program"
            got += itertools.islice(iterator, poison - cut)
            return _raises(kind, iterator) or _differ(got, list(range(poison)))
        got += iterator
    assert kind.error is not None or not told
    if kind.error is not None and told != [(poison, kind.error)]:
        return f"told {told}"
    return _differ(got, [item for item in range(ITEMS) if item != poison or kind.error is None])


def raising(kind: Kind, poison: int, cut: int) -> str | None:
    """What is wrong with a run in which the error is raised, after a resume at ``cut``."""
    chain = pipeline(kind, poison)
    with iter(chain) as iterator:
        got = list(itertools.islice(iterator, cut))
        state = rs.dumps(iterator.get_state())
    with chain.resume(rs.loads(state)) as iterator:
        if kind.error is None:
            return _differ(got + list(_going_on(iterator)), list(range(ITEMS)))
        got += itertools.islice(iterator, poison - cut)
        problem = _raises(kind, iterator)
        state = rs.dumps(iterator.get_state())
    with rs.range(ITEMS).map(lambda item: -item).resume(rs.loads(state)) as iterator:
        got += iterator
    return problem or _differ(got, list(range(ITEMS)))


def _going_on(iterator: Iterator[int]) -> Iterator[int]:
    """The rest: who is killed again and again while one item is alone hears of it, and goes on."""
    while True:
        try:
            yield from iterator
        except rs.WorkerError:
            continue
        return


def _raises(kind: Kind, iterator: Any) -> str | None:
    """The error comes, and comes again."""
    assert kind.error is not None
    step = iterator.step
    for _ in range(2):
        try:
            item = next(iterator)
        except kind.error as error:
            if isinstance(error, rs.WorkerError) and f"item {step}, the last time" not in str(
                error
            ):
                return f"the message is {error}"
        else:
            return f"{item} came in place of an error"
    return None


def _differ(got: list[int], expected: list[int]) -> str | None:
    return None if got == [-item for item in expected] else f"got {got}"


@contextmanager
def killing(wanted: bool, seed: int) -> Iterator[None]:
    """Somebody else kills one of the workers now and then."""
    chosen = random.Random(seed)
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(chosen.uniform(0.8, 1.4)):
            if workers := list(descendants(os.getpid())):
                os.kill(chosen.choice(workers), signal.SIGKILL)

    thread = threading.Thread(target=run)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        if wanted:
            thread.join()


def main() -> int:
    """Try all; the exit status tells whether all was well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    ProcessWorkers.chunk_size = CHUNK
    ProcessWorkers._adapt = lambda *_: None  # type: ignore[method-assign]
    silent = os.open(os.devnull, os.O_WRONLY)
    heard = os.dup(2)
    failed = 0
    for name in options.kind or KINDS:
        for how in (skipping, raising):
            began, problems = time.monotonic(), []
            for number, (place, poison) in enumerate(PLACES.items()):
                os.dup2(silent, 2)  # dying processes say where they were
                with killing(KINDS[name].error is None, number):
                    problem = how(KINDS[name], poison, (0, 11, poison)[number])
                os.dup2(heard, 2)
                if problem is not None:
                    problems.append(f"{place}: {problem}")
            seconds = (time.monotonic() - began) / len(PLACES)
            print(f"{name}, {how.__name__}: {len(problems)} problems, {seconds:.1f} s a run")
            for problem in problems:
                print("   ", problem)
            failed += len(problems)
    left = list(descendants(os.getpid()))
    print(f"{failed} problems, {len(left)} processes left")
    return int(failed > 0 or bool(left))


if __name__ == "__main__":
    sys.exit(main())
