"""A bounded queue of items, each with the state after it, between two threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ..core.stage_iterator import DeferredState
from .threads import HEARTBEAT, stop_at_exit, when_gone


class Entry(NamedTuple):
    """An item, the end or an error, with upstream's state after it."""

    item: Any
    state: DeferredState
    epoch: int
    kind: str


class Channel:
    """A bounded queue that its reader can stop.

    An interrupt may lose the entry that `get` was about to return. The reader then has to be
    started anew.
    """

    def __init__(self, size: int, reader: object) -> None:
        self._entries: SimpleQueue[Entry] = SimpleQueue()
        # Places that were never used; only the thread that puts entries changes the number.
        self._unused = size
        # One None for each place that the reader has freed.
        self._room: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._reader = when_gone(reader, self._room)
        stop_at_exit(self)

    def put(self, entry: Entry) -> bool:
        """Wait for room, then add ``entry``; returns False if the reader has stopped it, or is gone."""
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
