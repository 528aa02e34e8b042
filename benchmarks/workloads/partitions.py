"""Text in a JSON-lines file: shuffle, tokens by a pattern in Python, rows of 1024, batches of 16; 2 processes."""

# The work is that of the processor, and most of it is Python's. Without processes one core does all. Processes
# that call the function send tokens back to the loop, which packs them. Processes that have parts of the
# data do the whole chain and send batches. What is measured are whole epochs, see `whole_epochs`.

from __future__ import annotations

import dataclasses
import json
import os
import re
import statistics
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.by_hand.packing import Document
from benchmarks.contestant import Contestant
from benchmarks.digest import check_same
from benchmarks.discovery import BARE, OURS, is_installed, load
from benchmarks.result import Claim, Options, Result, Table, at_least
from benchmarks.text_files import write_documents
from benchmarks.timings import spread
from benchmarks.whole_epochs import Entry, Spent, whole_epoch
from benchmarks.work import JsonLines, Pack, Unsupported, Work
from benchmarks.workloads import language_model
from benchmarks.workloads.language_model import BATCH, LENGTH, tokens_of_segments

MINUTES: Final = 10

WINDOW: Final = 64
PARTITIONS: Final = 16
PROCESSES: Final = 2
PEERS: Final = ("grain", "torch")
"""Those whose processes can do the whole chain."""

SIZES: Final = {"short": 4 * 10**6, "long": 4 * 10**7}
ALONE, CALLS, CHAIN = "one process", "2 processes call the function", "2 processes do the chain"
WAYS: Final = {BARE: (ALONE,), OURS: (ALONE, CALLS, CHAIN)}
"""What others do is the chain."""
LEFT_OUT: Final = "BestFit"
"""Grain's packer that searches all open rows is slower than the one that takes the first."""

TOKEN: Final = re.compile(rb"\w+|[^\w\s]")
TOKENS: Final = 1 << 15


def tokenise(line: str | bytes) -> Document:
    """A number from 1 for each word and sign of the text."""
    text = json.loads(line)["text"].encode()
    return np.array([zlib.crc32(token) % TOKENS + 1 for token in TOKEN.findall(text)], np.int32)


def works(options: Options) -> dict[str, Work]:
    """Each way over a short and a long file, which are written when they are not there."""
    made: dict[str, Work] = {}
    for name, size in SIZES.items():
        path = options.folder / f"{name}.jsonl"
        if not path.exists():
            write_documents(path, size // 40 if options.quick else size)
        with path.open("rb") as file:
            lines = sum(1 for _ in file)
        work = partial(
            Work,
            JsonLines(path, lines),
            shuffle=True,
            map=tokenise,
            result=np.zeros(0, np.int32),
            groups=Pack(LENGTH, WINDOW, whole=True),
            tokens=tokens_of_segments,
            batch=BATCH,
        )
        processes = partial(work, workers=PROCESSES, executor="process")
        made[_variant(ALONE, name)] = work()
        made[_variant(CALLS, name)] = processes()
        made[_variant(CHAIN, name)] = processes(partitions=PARTITIONS)
    return made


def _variant(way: str, size: str) -> str:
    return f"{way}, {size}"


def bare(work: Work) -> Iterator[Any]:
    """A loop by hand, in one process."""
    return language_model.bare(work)


def run(options: Options) -> Result:
    """Compare what all deliver, then let them take turns."""
    chosen = PEERS if options.peers is None else tuple(set(PEERS) & set(options.peers))
    options = dataclasses.replace(options, peers=chosen)
    works(options)  # which writes the files before the contestants look for them
    entries = _entries(options)
    spent: dict[tuple[str, str], list[Spent]] = {label: [] for label in entries}
    load_then: list[float] = []
    labels = list(entries)
    for turn in options.journal.turns(options.rounds):
        shift = turn * len(labels) // options.rounds
        for way, title in labels[shift:] + labels[:shift]:
            measure = partial(_measured, entries[way, title], way, options)
            taken, load = options.journal.once(way, title, turn, measure=measure)
            spent[way, title].append(Spent(*taken))
            load_then.append(load)
    return result(spent, load_then, options.quick)


def _measured(entry: Entry, way: str, options: Options) -> tuple[Spent, float]:
    """What an epoch over the long file takes more than one over the short, and the load of the machine."""
    short, long = (whole_epoch(entry, _variant(way, size), options) for size in SIZES)
    return long - short, os.getloadavg()[0]


def _entries(options: Options) -> dict[tuple[str, str], Entry]:
    """All contestants by way and title, each of which delivers what the bare loop does."""
    found: dict[tuple[str, str], Entry] = {}
    expected = None
    contestants = [BARE, OURS, *filter(is_installed, options.peers or ())]
    with ExitStack() as stack:
        for name in contestants:
            contestant = stack.enter_context(Contestant(name, __name__, options))
            title = name if name == BARE else load("peers", name).NAME
            for way in WAYS.get(name, (CHAIN,)):
                variant = _variant(way, "short")
                try:
                    configurations = contestant.configurations(variant)
                except Unsupported:
                    continue
                for configuration in configurations:
                    if configuration.startswith(LEFT_OUT):
                        continue
                    label = f"{title}, {configuration}" if configuration else title
                    digest = contestant.digest(variant, configuration)
                    expected = expected or digest
                    check_same(expected, f"{label}, {way}", digest)
                    found[way, label] = Entry(__name__, name, configuration)
    return found


def result(
    spent: dict[tuple[str, str], list[Spent]], load_then: list[float], quick: bool
) -> Result:
    """A table of both clocks, and the claims."""
    rows = []
    for (way, title), each in sorted(spent.items(), key=lambda entry: _median(entry[1])):
        rows.append(
            (
                way,
                title,
                f"{statistics.median(one.processor for one in each):.2f}",
                _cell([one.processor for one in each], [one.processor for one in spent[BASIS]]),
                f"{statistics.median(one.seconds for one in each):.2f}",
                _cell([one.seconds for one in each], [one.seconds for one in spent[BASIS]]),
            )
        )
    table = Table(
        "an epoch over 36 MB",
        ("way", "contestant", "processor s", "÷ one process", "seconds", "÷ one process"),
        rows,
        (
            "What an epoch over 4 MB takes is taken off that of 40 MB, so starting is not in it. Processor "
            "seconds are those of all processes together. One process is resumable's own. Behind a ratio "
            f"are its quartiles. The machine had {os.cpu_count()} cores, and "
            f"{statistics.median(load_then):.1f} processes wanted them: with more of them than cores, "
            "the clock says how the cores were dealt out and not what idle ones would do.",
        ),
    )
    raw = {"load": load_then, "spent": {" / ".join(key): each for key, each in spent.items()}}
    return Result(
        "partitions",
        (__doc__ or "").strip(),
        tables=[table],
        claims=[] if quick else list(_claims(spent)),
        raw=raw,
    )


BASIS: Final = (ALONE, "resumable")
"""What others are multiples of."""


def _claims(spent: dict[tuple[str, str], list[Spent]]) -> Iterator[Claim]:
    chain = spent[CHAIN, "resumable"]
    yield at_least("seconds of one process ÷ 2 with partitions", _times(spent[BASIS], chain), 1.7)
    calls = spent[CALLS, "resumable"]
    yield at_least("seconds of 2 that call the function ÷ with partitions", _times(calls, chain), 1)
    for title in {title for way, title in spent if way == CHAIN} - {"resumable"}:
        yield at_least(
            f"seconds of {title} ÷ with partitions", _times(spent[CHAIN, title], chain), 1
        )


def _times(one: list[Spent], other: list[Spent]) -> float:
    return statistics.median(a.seconds / b.seconds for a, b in zip(one, other, strict=True))


def _median(each: list[Spent]) -> float:
    return statistics.median(one.processor for one in each)


def _cell(mine: list[float], theirs: list[float]) -> str:
    median, low, high = spread([a / b for a, b in zip(mine, theirs, strict=True)])
    return f"{median:.2f} ({low:.2f} to {high:.2f})"
