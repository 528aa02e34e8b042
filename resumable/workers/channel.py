"""What a thread hands over: items with the state after each, through a bounded queue."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ..core.stage_iterator import Mark
from .threads import HEARTBEAT, leaves_at_exit, when_gone


class Entry(NamedTuple):
    """What the thread delivers: an item, the end, or an error; and upstream's state after it."""

    item: Any
    state: Mark
    epoch: int
    kind: str


class Channel:
    """A bounded queue that both sides can leave.

    An entry that the reader was handed when an interrupt came is lost: it then begins anew.
    """

    def __init__(self, size: int, reader: object) -> None:
        self._entries: SimpleQueue[Entry] = SimpleQueue()
        # Places that nothing was put into yet; only the thread that puts entries counts them.
        self._unused = size
        # One for each place that the reader has emptied.
        self._room: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._reader = when_gone(reader, self._room)
        leaves_at_exit(self)

    def put(self, entry: Entry) -> bool:
        """Wait for room; False if the reader left."""
        if self._unused:
            self._unused -= 1
        else:
            self._room.get()
        if self._closed or self._reader() is None:
            return False
        self._entries.put(entry)
        return True

    def get(self, check_alive: Callable[[], None]) -> Entry:
        """Wait for an entry; ``check_alive`` is called now and then meanwhile."""
        while True:
            try:
                entry = self._entries.get(timeout=HEARTBEAT)
            except Empty:
                check_alive()
                continue
            self._room.put(None)
            return entry

    def leave(self) -> None:
        """Read no more, as when the reader is gone."""
        self._closed = True
        self._room.put(None)
        with suppress(Empty):
            while True:
                self._entries.get_nowait()
