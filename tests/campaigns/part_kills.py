"""Kill ranks that save parts of one checkpoint, and their workers, start ranks again in other numbers, and count items.

Run as `PYTHONPATH=tests python -m campaigns.part_kills --kills 1000`; the suite runs a short form.
"""

# In one half of the eras all ranks resume before one of them begins, as in a training where they
# exchange gradients; in the other each begins as soon as it can, and one that was killed may begin
# anew while the others run on. Each logs where it resumed, its items, and the saves that were acknowledged.

from __future__ import annotations

import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from campaigns.harness import (
    KILLED,
    Log,
    Progress,
    command_line,
    fresh_folders,
    kill,
    logged,
    run_campaign,
    start,
)
from support.descendants import descendants, is_worker
from support.waiting import wait_until

import resumable as rs
from resumable.checkpoint.ranks.survey import survey

MOST_RANKS = 4
EVERY = 3
Pipelines: TypeAlias = "Callable[[int, int], rs.Pipeline[int]]"
RETENTIONS = [None, rs.Retention(1), rs.Retention(3)]


NUMBERS = rs.range(60_000).shuffle(1)


def shards(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers that are dealt out in one order."""
    return NUMBERS.shard(rank, ranks)


def partitions(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers of which each rank has partitions of its own."""
    return NUMBERS.partition(12, lambda part: part.filter(is_no_third)).shard(rank, ranks)


def in_workers(rank: int, ranks: int) -> rs.Pipeline[int]:
    """The same, which processes run."""
    parts = NUMBERS.partition(
        12, lambda part: part.filter(is_no_third), workers=2, executor="process"
    )
    return parts.shard(rank, ranks)


def is_no_third(number: int) -> bool:
    """A filter, for which a shard must wait and a partition need not."""
    return number % 3 != 0


class Kind(NamedTuple):
    """What ranks do, and for how long.

    Attributes:
      pipelines: make what is delivered, without workers.
      run: make what the ranks run.
      longest_life: of an era, in seconds.
      pause: seconds after each item.
      first: items of all ranks together before the first kill.
      eras: in a folder, so that no pass ends.
    """

    pipelines: Pipelines
    run: Pipelines
    longest_life: float = 0.08
    pause: float = 0.0
    first: int = 0
    eras: int = 12


KINDS = {
    "shards": Kind(shards, shards),
    "partitions": Kind(partitions, partitions),
    "workers": Kind(partitions, in_workers, longest_life=0.8, pause=0.002, first=40, eras=6),
}


@dataclass
class Report:
    """What a campaign found.

    Attributes:
      kills: of ranks and workers.
      workers: how many of them were workers.
      eras: how often all ranks were killed.
      steps: whole ones that later eras began at, or that were the last.
      crashes: ranks that ended by themselves.
      apart: eras that began together, at different steps or before the newest whole one.
      lost: items that are taken neither before the newest whole step nor after it, and resumes before
        a step that all ranks had saved.
      repeated: items that were taken twice before it, or again after it.
      wrong: items of a rank that were others in a later life of the same run.
      damaged: files that are no parts of checkpoints.
    """

    kills: int = 0
    workers: int = 0
    eras: int = 0
    steps: int = 0
    crashes: int = 0
    apart: int = 0
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    damaged: int = 0

    @property
    def clean(self) -> bool:
        """Whether every item was taken once, and every whole step is right."""
        return not (
            self.crashes or self.apart or self.lost or self.repeated or self.wrong or self.damaged
        )


@dataclass
class History:
    """What became of a folder so far.

    Attributes:
      pipelines: makes the pipeline of a rank.
      newest: the newest whole step.
      begun: the step at which the run of ``ranks`` ranks began that saved it.
      taken: the items that were taken in the steps up to it.
      items: of each run, by ranks and first step: the items by step and rank.
    """

    pipelines: Pipelines
    newest: int = 0
    begun: tuple[int, int] = (0, 0)
    taken: list[int] = field(default_factory=list)
    items: dict[tuple[int, int], dict[tuple[int, int], int]] = field(default_factory=dict)

    def run_of(self, ranks: int) -> dict[tuple[int, int], int]:
        """The items of the run in which so many ranks go on."""
        begun = self.begun if self.begun[0] == ranks else (ranks, self.newest)
        return self.items.setdefault(begun, {})

    def check(self, folder: Path, ranks: int, log: Path, together: bool, report: Report) -> None:
        """Compare what an era has left with what its ranks have logged."""
        run = self.run_of(ranks)
        saved: dict[int, set[int]] = {}
        due = dict.fromkeys(range(ranks), self.newest)
        for event, rank, step, item in logged(log):
            if event == "item":
                report.wrong += run.setdefault((step, rank), item) != item
            elif event == "saved":
                saved.setdefault(step, set()).add(rank)
            elif event == "begins":
                whole = by_all(saved, ranks)
                due[rank] = max([self.newest, *whole])
                for step in saved.keys() - set(whole):
                    saved[step].discard(rank)  # which it may discard
            elif event == "resumed":
                report.lost += step < due[rank]
                report.apart += together and step != self.newest
        report.damaged += sum(
            file.problem is not None and not file.incomplete for file in survey(folder)
        )
        reader = rs.Checkpointer(folder, rs.AtEnd())
        latest = reader.latest()
        newest = 0 if latest is None else latest.step
        report.lost += newest < max([self.newest, *by_all(saved, ranks)])
        if newest <= self.newest:
            return
        assert latest is not None
        steps = range(self.newest + 1, newest + 1)
        self.taken += [run.get((step, rank), -1) for step in steps for rank in range(ranks)]
        all_ranks = self.pipelines(0, 1)
        with all_ranks.resume(latest.state) as iterator:
            found = Counter(self.taken) + Counter(iterator)
        expected = Counter(all_ranks)
        report.lost += (expected - found).total()
        report.repeated += (found - expected).total()
        if self.begun[0] != ranks:
            self.begun = ranks, self.newest
        self.newest = newest
        report.steps += 1


def by_all(saved: dict[int, set[int]], ranks: int) -> list[int]:
    """The steps that all ranks have saved."""
    return [step for step, by in saved.items() if len(by) == ranks]


class Era:
    """Ranks that run at the same time."""

    def __init__(self, folder: Path, log: Path, ranks: int, kind: Kind, together: bool) -> None:
        self._folder, self._log = folder, log
        self._ranks, self._kind = ranks, kind
        log.touch()
        self.running: dict[int, int] = {}
        self._begin(range(ranks), together)

    def kill(self, chosen: random.Random, report: Report) -> int:
        """Kill one of them; returns its rank."""
        number = chosen.choice(list(self.running))
        report.kills += 1
        report.crashes += kill(number) != KILLED
        return self.running.pop(number)

    def kill_worker(self, chosen: random.Random, report: Report) -> None:
        """Kill a process that works for one of them, if there is one."""
        workers = [one for rank in self.running for one in descendants(rank) if is_worker(one)]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(chosen.choice(workers), signal.SIGKILL)
                report.kills += 1
                report.workers += 1

    def begin_anew(self, rank: int) -> None:
        """Start a rank again."""
        self._begin([rank], together=False)

    def _begin(self, ranks: Iterable[int], together: bool) -> None:
        reading, writing = os.pipe()
        for rank in ranks:
            self.running[start(partial(self._train, rank, (reading, writing)))] = rank
        if together:
            self.wait_for("resumed", self._ranks)
        os.close(reading)
        os.close(writing)  # at which they begin

    def wait_for(self, event: str, count: int) -> None:
        """Wait until the ranks have logged ``event`` so often."""
        wait_until(lambda: self._log.read_text().count(event) >= count)

    def _train(self, rank: int, go_on: tuple[int, int]) -> None:
        """Save until killed; begins once all have closed the second end of ``go_on``."""
        os.close(go_on[1])
        chosen = random.Random(str(self._folder))
        log = Log(self._log, rank)
        checkpointer = rs.Checkpointer(
            self._folder,
            rs.EverySteps(EVERY),
            rank=rank,
            ranks=self._ranks,
            listeners=[log],
            retention=chosen.choice(RETENTIONS),
            asynchronous=chosen.random() < 0.5,
        )
        log.write("begins")
        loop = checkpointer.resume(self._kind.run(rank, self._ranks))
        log.write("resumed", loop.step)
        os.read(go_on[0], 1)
        for item in loop:
            log.write("item", loop.step, item)
            time.sleep(self._kind.pause)


def campaign(kills: int, seed: int, kind: Kind, folder: Path) -> Report:
    """Kill so many ranks that save in ``folder``, and their workers."""
    chosen = random.Random(seed)
    report, progress = Report(), Progress(kills, every=100)
    history, places = History(kind.pipelines), fresh_folders(folder, kind.eras)
    while report.kills < kills:
        place = next(places)
        if report.eras % kind.eras == 0:
            history = History(kind.pipelines)
            place.mkdir(parents=True)
        before, log = report.kills, folder / f"log-{report.eras}"
        ranks, together = chosen.randint(1, MOST_RANKS), chosen.random() < 0.5
        era = Era(place, log, ranks, kind, together)
        era.wait_for("item", kind.first)
        time.sleep(chosen.uniform(0, kind.longest_life))
        while era.running:
            while kind.run is in_workers and chosen.random() < 0.7:
                era.kill_worker(chosen, report)
                time.sleep(chosen.uniform(0, kind.longest_life / 4))
            rank = era.kill(chosen, report)
            time.sleep(chosen.choice([0.0, chosen.uniform(0, kind.longest_life / 4)]))
            if not together and chosen.random() < 0.3:
                era.begin_anew(rank)
        report.eras += 1
        history.check(place, ranks, log, together, report)
        log.unlink()
        progress.add(report.kills - before)
    return report


def main() -> int:
    """Run a campaign; 0 if it was clean."""
    parser = command_line(__doc__, kills=1000)
    parser.add_argument("--kind", choices=KINDS, default="shards", help="what ranks own")
    options = parser.parse_args()
    run = partial(campaign, options.kills, options.seed, KINDS[options.kind])
    return run_campaign(run, "part-kills", options.folder)


if __name__ == "__main__":
    warnings.simplefilter("error")
    # A rank may be far ahead of others that have not begun.
    warnings.filterwarnings("ignore", "no step in", RuntimeWarning)
    sys.exit(main())
