"""Items lost and repeated when a run saved in mid-epoch goes on with other ranks or workers."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.elastic_loaders import GLOBAL_BATCH, ITEMS, LOADERS, Part, installed
from benchmarks.environments import python_of
from benchmarks.fresh import in_fresh_process
from benchmarks.result import Options, Result, Table

MINUTES: Final = 12

STEPS = 11  # before the save, so that no number of workers divides it


class Crew(NamedTuple):
    """The number of ranks of a run, and of workers for each."""

    ranks: int = 1
    workers: int = 0


CHANGES = {
    "4 ranks, then 4": (Crew(ranks=4), Crew(ranks=4)),
    "4 ranks, then 3": (Crew(ranks=4), Crew(ranks=3)),
    "2 workers, then 2": (Crew(workers=2), Crew(workers=2)),
    "2 workers, then 3": (Crew(workers=2), Crew(workers=3)),
    "2 workers, then 0": (Crew(workers=2), Crew(workers=0)),
}
QUICK = {
    "2 ranks, then 1": (Crew(ranks=2), Crew(ranks=1)),
    "2 workers, then 0": (Crew(workers=2), Crew(workers=0)),
}


class Outcome(NamedTuple):
    """How many items of an epoch were lost or repeated.

    Attributes:
      error: the exception of the resume, or "".
    """

    lost: int
    repeated: int
    error: str

    @classmethod
    def of(cls, items: list[int], error: str) -> Outcome:
        """Compare the items that came before the save and after the resume with the epoch."""
        times = Counter(items)
        return cls(ITEMS - len(times), len(items) - len(times), error)

    def __str__(self) -> str:
        if self.error:
            return self.error
        if not self.lost and not self.repeated:
            return "exact"
        return f"{self.lost} lost, {self.repeated} repeated"


def run_of(title: str, part: Part, resumes: bool, port: int) -> tuple[list[int], str]:
    """The items that one rank receives up to its save or, resumed, to the end; and any error."""
    os.environ.update(
        RANK=str(part.rank),
        LOCAL_RANK=str(part.rank),
        WORLD_SIZE=str(part.ranks),
        LOCAL_WORLD_SIZE=str(part.ranks),
        MASTER_ADDR="localhost",
        MASTER_PORT=str(port),
    )
    items: list[int] = []
    try:
        loader = LOADERS[title][0](part)
        iterator: Any = loader.restore() if resumes else loader.start()
        for batch in islice(iterator, None if resumes else STEPS):
            items += np.asarray(batch["item"] if isinstance(batch, dict) else batch).tolist()
        if not resumes:
            loader.save(iterator)
    except Exception as error:
        if not resumes:
            raise
        message = str(error).replace(f"{part.folder}/", "").strip().splitlines() or [""]
        return items, f"{type(error).__name__}: {message[-1]}".rstrip(": ")
    return items, ""


def all_ranks(title: str, folder: Path, crew: Crew, resumes: bool) -> tuple[list[int], str]:
    """What all ranks receive, running at the same time in processes of their own."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    python = next(map(python_of, LOADERS[title][1]), sys.executable)
    with ThreadPoolExecutor(crew.ranks) as threads:
        futures = []
        for rank in range(crew.ranks):
            part = Part(folder, rank, *crew)
            futures.append(
                threads.submit(in_fresh_process, run_of, title, part, resumes, port, python=python)
            )
        done = [future.result() for future in futures]
    errors = [error for _, error in done if error]
    return [item for items, _ in done for item in items], min(errors, default="")


def outcome(title: str, folder: Path, before: Crew, after: Crew) -> Outcome:
    """The outcome of an epoch that is saved with one crew and resumed with another."""
    folder.mkdir()
    first, _ = all_ranks(title, folder, before, resumes=False)
    rest, error = all_ranks(title, folder, after, resumes=True)
    return Outcome.of(first + rest, error)


def run(options: Options) -> Result:
    """Measure all loaders that are installed."""
    changes = QUICK if options.quick else CHANGES
    outcomes: dict[str, dict[str, Outcome]] = {}
    problems = []
    for title in installed(options):
        try:
            outcomes[title] = {
                name: _outcome_once(options, title, name, crews) for name, crews in changes.items()
            }
        except Exception as error:
            problems.append(f"{title}: {error}")
    found = result(outcomes)
    found.problems = problems
    return found


def _outcome_once(options: Options, title: str, name: str, crews: tuple[Crew, Crew]) -> Outcome:
    measure = partial(outcome, title, options.folder / f"{title}, {name}", *crews)
    return Outcome(*options.journal.once(title, name, measure=measure))


def result(outcomes: dict[str, dict[str, Outcome]]) -> Result:
    """The outcomes by title and change, as a table."""
    changes = max(outcomes.values(), key=len)
    table = Table(
        "what became of the items",
        ("contestant", *changes),
        [
            (title, *(str(each.get(change, "not measured")) for change in changes))
            for title, each in outcomes.items()
        ],
        (
            f"An epoch of {ITEMS:,} integers in global batches of {GLOBAL_BATCH} is saved after {STEPS} "
            "batches and resumed in fresh processes. Lost are the items that came neither before nor "
            "after, repeated those that came twice. An error is that of the resume.",
        ),
    )
    raw = {
        title: {change: each[change]._asdict() for change in each}
        for title, each in outcomes.items()
    }
    return Result("elastic", (__doc__ or "").strip(), tables=[table], raw=raw)
