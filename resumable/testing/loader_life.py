"""One life of a loader in a fresh process: resume, iterate, save, and end or be killed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.foreign_protocol import PROTOCOLS, Protocol
from ..errors import shorten
from ..pipeline import Pipeline
from .digest import as_array, item_digest
from .processes import Watch, left_open

PASSING_OVER: Final = "passing over batches"
BY_USER: Final = "save and load"
ITERATOR: Final = "state of the iterator"

Stop: TypeAlias = "tuple[int, int | None]"
"""Epoch, and number of batches that the life has delivered in the epoch; None for after the loop."""


class LoaderState(NamedTuple):
    """A state in a file.

    Attributes:
      samples: how many samples the life had delivered.
      path: of the file.
      size: bytes of the pickled state.
    """

    samples: int
    path: str
    size: int


@final
@dataclass
class LoaderLife:
    """The result of a life.

    Attributes:
      way: how a state is taken; None for a pipeline of this library.
      samples: the epoch and the digest of each sample.
      batches: the number of batches delivered in each epoch.
      saved: the state at each stop.
      error: the exception that ended the life, if any.
      seconds: from the call of ``make`` to the first batch; None if there was none.
      is_cut: whether ``limit`` ended the life.
      is_aliased: whether a state changed after it was taken.
      sets_epoch: whether the loader has ``set_epoch``.
    """

    way: str | None = None
    samples: list[tuple[int, bytes]] = field(default_factory=list)
    batches: dict[int, int] = field(default_factory=dict)
    saved: dict[Stop, LoaderState] = field(default_factory=dict)
    error: str | None = None
    seconds: float | None = None
    is_cut: bool = False
    is_aliased: bool = False
    sets_epoch: bool = False


class LifeTask(NamedTuple):
    """What a process does: make a loader, resume it, and iterate.

    Attributes:
      search_path: ``sys.path``.
      functions: the pickled ``make``, ``items``, ``save`` and ``load``.
      epochs: how many epochs to run.
      limit: the number of samples after which the life ends.
      arguments: of ``make``.
      saved: the file of a state, if any.
      stops: where to save.
      folder: for the states.
      is_killed: whether the process is killed at the last stop.
    """

    search_path: tuple[str, ...]
    functions: bytes
    epochs: int
    limit: int
    arguments: Mapping[str, Any] = {}
    saved: str | None = None
    stops: tuple[Stop, ...] = ()
    folder: str = ""
    is_killed: bool = False

    def live(self, watch: Watch) -> LoaderLife:
        """The life; ``watch`` is called with the number of batches."""
        life = LoaderLife()
        try:
            _run(life, self, watch)
        except Exception as error:
            life.error = f"{type(error).__name__}: {shorten(str(error), 200)}"
        return life


def _run(life: LoaderLife, task: LifeTask, watch: Watch) -> None:
    sys.path[:] = task.search_path
    make, items, save, load = pickle.loads(task.functions)
    began, numbers = perf_counter(), count(1)
    loader = make(**task.arguments)
    if isinstance(loader, Pipeline):
        return
    life.way, first = PASSING_OVER, 0
    state: Any = None
    if task.saved is not None:
        life.way, first, state = pickle.loads(Path(task.saved).read_bytes())
        if life.way not in (PASSING_OVER, BY_USER, ITERATOR):
            target, protocol = _keepers(loader)[life.way]
            protocol.write(target, state)
            own_number = getattr(loader, "epoch", None)
            first = max(first, own_number) if isinstance(own_number, int) else first
    resumed_in = first if task.saved is not None else -1
    latest: tuple[Any, bytes] = (None, pickle.dumps(None))

    def is_end(stop: Stop, next_epoch: int, take: Callable[[], Any]) -> bool:
        """Save at a stop; whether the process is to be killed."""
        nonlocal latest
        if stop not in task.stops:
            return False
        latest = (taken := take()), pickle.dumps(taken)
        path = f"{task.folder}/{len(life.saved)}"
        Path(path).write_bytes(pickle.dumps((life.way, next_epoch, taken)))
        life.saved[stop] = LoaderState(len(life.samples), path, len(latest[1]))
        if task.is_killed and len(life.saved) == len(task.stops):
            left_open.append((loader, iterator))
            return True
        return False

    for epoch in range(first, task.epochs):
        life.sets_epoch = set_epoch(loader, epoch)
        iterator = iter(loader)
        keepers = _keepers(loader, iterator)
        if epoch == resumed_in and life.way == BY_USER:
            load(loader, iterator, state)
        elif epoch == resumed_in and life.way == ITERATOR:
            keepers[ITERATOR][1].write(iterator, state)
        passed: int = state if epoch == resumed_in and life.way == PASSING_OVER else 0
        life.way = BY_USER if save else next(iter(keepers), PASSING_OVER)
        take = partial(save, loader, iterator) if save else None
        if take is None and keepers:
            target, protocol = keepers[life.way]
            take = partial(protocol.read, target)
        delivered = -passed
        for batch in iterator:
            watch(next(numbers))
            delivered += 1
            if delivered <= 0:
                continue
            life.seconds = life.seconds or perf_counter() - began
            life.is_aliased |= pickle.dumps(latest[0]) != latest[1]
            life.batches[epoch] = delivered
            life.samples += [(epoch, item_digest(item)) for item in items(batch)]
            if is_end((epoch, delivered), epoch, take or partial(int, passed + delivered)):
                return
            if len(life.samples) >= task.limit:
                life.is_cut = True
                return
        # The state of an iterator belongs to its epoch, that of a loader to the next loop.
        following = epoch + (life.way not in (ITERATOR, BY_USER))
        if is_end((epoch, None), following, take or partial(int, 0)):
            return


def _keepers(loader: Any, iterator: Any = None) -> dict[str, tuple[Any, Protocol]]:
    """The objects with a state, by name, the first to ask first."""
    data = None if getattr(loader, "num_workers", 0) else getattr(loader, "dataset", None)
    targets = {"state of the loader": loader, ITERATOR: iterator, "state of the data set": data}
    return {
        name: (target, protocol)
        for name, target in targets.items()
        for protocol in PROTOCOLS[:2]  # of both, the second stays: `state_dict`
        if all(callable(getattr(target, method, None)) for method in protocol)
    }


def set_epoch(loader: Any, epoch: int) -> bool:
    """Call ``set_epoch`` of the loader, or of its sampler and its data set; whether there is one."""
    inner = [getattr(loader, name, None) for name in ("sampler", "batch_sampler", "dataset")]
    targets = [loader] if hasattr(loader, "set_epoch") else inner
    methods = [found for found in (getattr(each, "set_epoch", None) for each in targets) if found]
    for method in methods:
        method(epoch)
    return bool(methods)


def samples_of(batch: Any) -> Iterable[Any]:
    """The samples of a batch: rows of arrays, also next to one another in a dict or a tuple."""
    if isinstance(batch, Mapping):
        columns = [[*samples_of(column)] for column in batch.values()]
        if len({*map(len, columns)}) == 1:
            return zip(*columns, strict=True)
        return [batch]
    if isinstance(batch, (list, tuple)):
        arrays = [as_array(part) for part in batch]
        shapes = [array.shape for array in arrays if array is not None]
        if len(shapes) == len(batch) and all(shapes) and len({shape[0] for shape in shapes}) == 1:
            return zip(*arrays, strict=True)
        return batch
    array = as_array(batch)
    return [batch] if array is None or not array.shape else array
