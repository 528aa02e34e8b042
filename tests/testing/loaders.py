"""Loaders that resume exactly, and loaders with one fault each, to be found by `check_loader`."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs

SAMPLES, SIZE = 40, 4


class Loader:
    """Batches of numbers in another order each epoch, with a position in the epoch as state."""

    def __init__(self, size: int = SIZE) -> None:
        self.size, self.number, self.at = size, 0, 0

    def set_epoch(self, epoch: int) -> None:
        self.number = epoch

    def batches(self) -> list[Any]:
        order = [*range(SAMPLES)]
        random.Random(self.number).shuffle(order)
        return [order[at : at + self.size] for at in range(0, SAMPLES, self.size)]

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches()[self.at :]:
            self.at += 1
            yield batch
        self.at = 0

    def state_dict(self) -> Any:
        return {"at": self.at}

    def load_state_dict(self, state: Any) -> None:
        self.at = state["at"]


# Sound ones.


class Cursor:
    """An iterator with a state of its own."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.at = batches, 0

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Any:
        if self.at == len(self.batches):
            raise StopIteration
        self.at += 1
        return self.batches[self.at - 1]

    def get_state(self) -> int:
        return self.at

    def set_state(self, state: int) -> None:
        self.at = state


class Plain:
    """A loader without a state: batches are passed over."""

    def __init__(self) -> None:
        self.inner = Loader()

    def set_epoch(self, epoch: int) -> None:
        self.inner.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner.batches())


class WithCursor(Plain):
    def __iter__(self) -> Iterator[Any]:
        return Cursor(self.inner.batches())


class OverDataset:
    """A loader whose data set has the state, without workers."""

    num_workers = 0

    def __init__(self) -> None:
        self.dataset = Loader()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)


class Arrays(Loader):
    def batches(self) -> list[Any]:
        return [
            {"x": np.array(batch) / 3, "y": [str(n) for n in batch]} for batch in super().batches()
        ]


class Pairs(Loader):
    def batches(self) -> list[Any]:
        return [(np.array(batch), np.zeros((len(batch), 2))) for batch in super().batches()]


class Elastic(Loader):
    """Deals one order out to ranks; the state counts the samples of all."""

    def __init__(self, rank: int, ranks: int, size: int) -> None:
        super().__init__(size)
        self.rank, self.ranks = rank, ranks

    def __iter__(self) -> Iterator[Any]:
        order = list(itertools.chain.from_iterable(self.batches()))
        while self.at < SAMPLES:
            step = order[self.at : self.at + self.size * self.ranks]
            self.at += len(step)
            yield step[self.rank :: self.ranks]
        self.at = 0


class Endless(Loader):
    def __iter__(self) -> Iterator[Any]:
        for at in itertools.count(self.at):
            self.at = at + 1
            yield [at]


class Unseeded(Loader):
    """The order of each run is another, and the state has all that is left."""

    left: list[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.left is None:
            self.left = random.sample(range(SAMPLES), SAMPLES)
        while self.left:
            yield [self.left.pop()]
        self.left = None

    def state_dict(self) -> Any:
        return self.left and [*self.left]

    def load_state_dict(self, state: Any) -> None:
        self.left = state


class Refuses(Loader):
    """Refuses a state of other workers, and says so."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers

    def state_dict(self) -> Any:
        return {**super().state_dict(), "workers": self.workers}

    def load_state_dict(self, state: Any) -> None:
        if state["workers"] != self.workers:
            raise ValueError(f"{self.workers} workers instead of {state['workers']}")
        super().load_state_dict(state)


def plain_list() -> Any:
    return Loader().batches()


def elastic(workers: int = 0, rank: int = 0, ranks: int = 1, batch_size: int = 5) -> Any:
    return Elastic(rank, ranks, batch_size)


def refuses_workers(workers: int = 0) -> Any:
    return Refuses(workers)


def pipeline(size: int = 12) -> Any:
    return rs.range(size).shuffle(seed=0).batch(3)


def unseeded_pipeline() -> Any:
    return rs.range(12).map(lambda item: random.random())


# One fault each.


class LosesOne(Loader):
    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict({"at": state["at"] + bool(state["at"])})


class RepeatsAtEnd(Loader):
    def state_dict(self) -> Any:
        return {"at": self.at % (SAMPLES // SIZE)}


class Frozen(Loader):
    kept: Any = None

    def state_dict(self) -> Any:
        self.kept = self.kept or super().state_dict()
        return self.kept


class IgnoresEpoch(Loader):
    """Counts its epochs itself, in each process from 0."""

    def set_epoch(self, epoch: int) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.number += 1


class OneOrder(Loader):
    def set_epoch(self, epoch: int) -> None:
        pass


class Doubled(Loader):
    """Each of several workers delivers everything."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers

    def batches(self) -> list[Any]:
        return super().batches() * max(self.workers, 1)


class CountsPerWorker(Loader):
    """The state has the position of a worker, and is accepted with another number of them."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = max(workers, 1)

    def state_dict(self) -> Any:
        return {"at": self.at / self.workers}

    def load_state_dict(self, state: Any) -> None:
        self.at = round(state["at"] * self.workers)


class Hangs(Loader):
    def load_state_dict(self, state: Any) -> None:
        time.sleep(600)


class Dies(Loader):
    def load_state_dict(self, state: Any) -> None:
        print("no more memory", flush=True)
        os._exit(3)


class FailsLater(Loader):
    resumed = False

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.resumed = True

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(super().__iter__()):
            if self.resumed and number == 1:
                raise IndexError("pop from an empty deque")
            yield batch


class RefusesItself(Loader):
    def load_state_dict(self, state: Any) -> None:
        raise KeyError("_iterator")


class Reorders(Loader):
    resumed = False

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.resumed = True

    def batches(self) -> list[Any]:
        whole = super().batches()
        return whole[: self.at] + whole[self.at :][::-1] if self.resumed else whole


class LosesBuffer(Loader):
    """Reads two batches ahead, and the state counts them as delivered."""

    def state_dict(self) -> Any:
        return {"at": min(self.at + 2, SAMPLES // SIZE) if self.at else 0}


class SecondResume(Loader):
    """The state of a resumed run counts from the resume."""

    since = 0

    def state_dict(self) -> Any:
        return {"at": self.at - self.since}

    def load_state_dict(self, state: Any) -> None:
        self.at = self.since = state["at"]

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.since = 0


class Aliased(Loader):
    def __init__(self) -> None:
        self.state = {"at": 0}
        super().__init__()

    @property
    def at(self) -> int:
        return self.state["at"]

    @at.setter
    def at(self, value: int) -> None:
        self.state["at"] = value

    def state_dict(self) -> Any:
        return self.state


class LeavesProcesses(Loader):
    def __iter__(self) -> Iterator[Any]:
        # In a session of its own, where a signal to the group of its parent does not come.
        left = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with Path(os.environ["LEFT"]).open("a") as file:
            print(left.pid, file=file)
        left.returncode = 0
        yield from super().__iter__()


def doubled(workers: int = 0) -> Any:
    return Doubled(workers)


def counts_per_worker(workers: int = 1) -> Any:
    return CountsPerWorker(workers)


# Functions of a user.


def saved(loader: Any, iterator: Any) -> Any:
    return iterator.at


def loaded(loader: Any, iterator: Any, state: Any) -> None:
    iterator.at = state


def first_of(batch: Any) -> Any:
    return batch[:1]
