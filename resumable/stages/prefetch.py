"""Compute the next items in a background thread."""

# Each item in the channel carries upstream's state after it, so the state of the stage is that
# of the last item handed out, at any depth of prefetch. It is upstream's own state: prefetch
# can be added to a pipeline or removed from it between a save and a resume.
#
# The thread knows only the channel and upstream, never this iterator, so dropping the iterator
# ends the thread.

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, final

from ..arguments import check_int
from ..block import Block, Indices
from ..errors import WorkerError
from ..stage import StageIterator
from ..state import State, TakenState, settled
from ..transform import IndexedTransform, TransformIterator

__all__ = ["Prefetch"]

T = TypeVar("T")

HEARTBEAT: Final = 1.0
"""Seconds between looks at whether the thread is still alive."""

PATIENCE: Final = 10.0
"""Seconds that `close` waits for the item in work."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Prefetch(IndexedTransform[T]):
    """Upstream's items, up to ``buffer_size`` of them computed ahead by a thread.

    The thread starts with the first item and ends with the last one, at `close`, when the
    iterator is dropped, and when the interpreter exits.

    State: upstream's, after the last item handed out. Random access is kept.

    Args:
      upstream: stage that runs in the thread.
      buffer_size: items ready ahead, at least 0; 0 computes each item when it is asked for.
        May differ between save and resume.
    """

    relies_on: ClassVar[frozenset[str]] = frozenset()
    transparent: ClassVar[bool] = True

    buffer_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("buffer_size", self.buffer_size, minimum=0)

    @property
    def concurrent(self) -> bool:
        return self.buffer_size > 0

    @property
    def alternatives(self) -> tuple[Mapping[str, Any], ...]:
        size = self.buffer_size
        return ({"buffer_size": 0}, {"buffer_size": 2 * size + 1}) if size else ()

    @property
    def state_cost(self) -> str:
        return "nothing"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.buffer_size == 0:
            return self.upstream.start(epoch)
        return _PrefetchIterator(self, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        return self.upstream.gather(indices, epoch)


class _Entry(NamedTuple):
    """What the thread delivers: an item, the end, or an error; and upstream's state after it."""

    item: Any
    state: TakenState
    epoch: int
    kind: str


class _Channel:
    """A bounded queue that both sides can leave."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, entry: _Entry) -> bool:
        """Wait for room; False if the reader left."""
        with self._changed:
            while len(self._entries) >= self._size and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._entries.append(entry)
            self._changed.notify()
            return True

    def get(self, thread: threading.Thread) -> _Entry:
        """Wait for an entry from ``thread``."""
        with self._changed:
            while not self._entries:
                if not thread.is_alive():
                    raise WorkerError("the prefetch thread ended without an answer")
                self._changed.wait(HEARTBEAT)
            entry = self._entries.popleft()
            self._changed.notify()
            return entry

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._entries.clear()
            self._changed.notify_all()


class _PrefetchIterator(TransformIterator[T]):
    _stage: Prefetch[T]

    def __init__(self, stage: Prefetch[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._thread: threading.Thread | None = None
        self._leave: weakref.finalize[Any, Any] | None = None
        self._channel = _Channel(stage.buffer_size)
        self._epoch = self._upstream.epoch
        # Upstream's state after the last item handed out, once the thread runs.
        self._handed_out: TakenState | None = None
        self._ended = False
        self._process = os.getpid()

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if self._process != os.getpid():
            raise WorkerError(
                f"the prefetch thread of {self._stage!r} stayed in the process that was forked; "
                "iterate the pipeline in this one"
            )
        if self._thread is None:
            self._thread = self._begin()
        entry = self._channel.get(self._thread)
        if entry.kind == "error":
            raise entry.item
        self._handed_out, self._epoch = entry.state, entry.epoch
        if entry.kind == "end":
            self._ended = True
            self.close()
            raise StopIteration
        item: T = entry.item
        return item

    def pull(self, count: int) -> Block:
        items: list[T] = []
        for _ in range(count):
            try:
                items.append(next(self))
            except StopIteration:
                break
        return items

    @property
    def epoch(self) -> int:
        return self._epoch

    def get_state(self) -> State:
        if self._handed_out is None:
            return self._upstream.get_state()
        return settled(self._handed_out)

    def set_state(self, state: State) -> None:
        self._upstream.set_state(state)
        self._epoch = self._upstream.epoch

    def close(self) -> None:
        thread = self._thread
        if thread is not None and self._leave is not None:
            if self._process != os.getpid():
                return  # neither the thread nor its locks are ours after a fork
            self._leave()
            if thread is not threading.current_thread():
                thread.join(PATIENCE)
            if thread.is_alive():
                warnings.warn(
                    f"the thread of {self._stage!r} is still busy with an item after "
                    f"{PATIENCE:g} s; it ends when that item is done",
                    RuntimeWarning,
                    stacklevel=2,
                )
        else:
            super().close()

    def _begin(self) -> threading.Thread:
        self._handed_out = self._upstream.try_state()
        thread = threading.Thread(
            target=_produce,
            args=(self._channel, self._upstream),
            name="resumable-prefetch",
            daemon=True,
        )
        self._leave = weakref.finalize(self, self._channel.close)
        thread.start()
        return thread


def _produce(channel: _Channel, upstream: StageIterator[Any]) -> None:
    """The thread: upstream's items until the end, an error, or the reader's leaving."""
    try:
        for item in upstream.items():
            if not channel.put(_Entry(item, upstream.try_state(), upstream.epoch, "item")):
                return
        if not upstream.exhausted:
            raise RuntimeError("a user function raised StopIteration")
        channel.put(_Entry(None, upstream.try_state(), upstream.epoch, "end"))
    except BaseException as error:
        channel.put(_Entry(error, {}, 0, "error"))
    finally:
        upstream.close()  # its state stays readable
