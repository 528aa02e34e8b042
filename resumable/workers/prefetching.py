"""Compute items ahead in a background thread."""

# Each item in the channel carries the following state of the upstream, so the state of the iterator
# is the state after the last item handed out, however far ahead the thread is.
#
# The thread refers to the channel and the upstream, not to this iterator, so dropping the iterator
# ends the thread.

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from ..core.block import Block
from ..core.home_process import HomeProcess
from ..core.stage_iterator import DeferredState, StageIterator, state_deferrer
from ..core.transform import Transform, TransformIterator
from ..errors import WorkerError
from ..state.value import State
from .answers import Job
from .threads import HEARTBEAT, PATIENCE, Threads, stop_at_exit, when_gone

T = TypeVar("T")


class Entry(NamedTuple):
    """An item, the end or an error, with the following state of the upstream."""

    item: Any
    state: DeferredState
    epoch: int
    kind: str


class Channel:
    """A bounded queue between two threads; the reading thread can stop the queue.

    An interrupt may lose the entry that `get` was about to return. The reader must then be started
    again.
    """

    def __init__(self, size: int, reader: object) -> None:
        self._entries: SimpleQueue[Entry] = SimpleQueue()
        # Number of unused places; changed only by the thread that puts entries.
        self._unused = size
        # One None for each place freed by the reader.
        self._room: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._reader = when_gone(reader, self._room)
        stop_at_exit(self)

    def put(self, entry: Entry) -> bool:
        """Wait for room, then add ``entry``; returns False if the reader has stopped or is gone."""
        if self._unused:
            self._unused -= 1
        else:
            self._room.get()
        if self._closed or self._reader() is None:
            return False
        self._entries.put(entry)
        return True

    def get(self, check_alive: Callable[[], None]) -> Entry:
        """Wait for an entry, and call ``check_alive`` at each heartbeat meanwhile."""
        while True:
            try:
                entry = self._entries.get(timeout=HEARTBEAT)
            except Empty:
                check_alive()
                continue
            self._room.put(None)
            return entry

    def stop(self) -> None:
        """Drop all entries; from now on `put` returns False."""
        self._closed = True
        self._room.put(None)
        with suppress(Empty):
            while True:
                self._entries.get_nowait()


class PrefetchIterator(TransformIterator[T]):
    """Motion of a stage with its upstream in a thread, up to ``buffer_size`` items ahead."""

    def __init__(self, stage: Transform[T], epoch: int, buffer_size: int) -> None:
        super().__init__(stage, epoch)
        self._channel = Channel(buffer_size, self)
        self._threads = Threads(1, "resumable-prefetch")
        self._production = Job(partial(_produce, self._channel, self._upstream))
        self._epoch = self._upstream.epoch
        # State of the upstream after the last item handed out, once the thread runs.
        self._handed_out: DeferredState | None = None
        self._ended = False
        self._process = HomeProcess()

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if not self._process.is_this_one():
            raise WorkerError(
                f"the prefetch thread of {self._stage!r} is in the process that started it, not in "
                "this fork of it; iterate the pipeline anew here"
            )
        if self._handed_out is None:
            self._handed_out = state_deferrer(self._upstream)()
            self._threads.submit(self._production)
        entry = self._channel.get(self._threads.check_alive)
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
        return list(islice(self, count))

    @property
    def reads_ahead(self) -> bool:
        """Whether the thread has begun, so the upstream is ahead of the last item handed out."""
        return self._handed_out is not None

    def skip(self, count: int) -> int:
        if self.reads_ahead:
            return super().skip(count)
        passed = self._upstream.skip(count)
        self._epoch = self._upstream.epoch
        return passed

    @property
    def epoch(self) -> int:
        return self._epoch

    def get_state(self) -> State:
        if self._handed_out is None:
            return self._upstream.get_state()
        return self._handed_out()

    def set_state(self, state: State) -> None:
        self._upstream.set_state(state)
        self._epoch = self._upstream.epoch

    def close(self) -> None:
        if not self._process.is_this_one():
            return  # after a fork, thread and upstream are the parent's
        if self._production.cancel():  # not begun, so the thread closes no upstream
            super().close()
        self._channel.stop()
        if not self._threads.close(PATIENCE):
            warnings.warn(
                f"the thread of {self._stage!r} is still busy with an item after "
                f"{PATIENCE:g} s; it ends when that item is done",
                RuntimeWarning,
                stacklevel=2,
            )


def _produce(channel: Channel, upstream: StageIterator[Any]) -> None:
    """Deliver the items of ``upstream`` until the end, an error, or a stop by the reader."""
    note_state = state_deferrer(upstream)
    try:
        for item in upstream.items():
            if not channel.put(Entry(item, note_state(), upstream.epoch, "item")):
                return
        channel.put(Entry(None, note_state(), upstream.epoch, "end"))
    except BaseException as error:
        channel.put(Entry(error, dict, 0, "error"))
    finally:
        upstream.close()  # the state stays readable
