"""What a thread hands over: items with the state after each, through a bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, NamedTuple

from ..errors import WorkerError
from ..state.value import TakenState

HEARTBEAT: Final = 1.0
"""Seconds between looks at whether the thread is still alive."""


class Entry(NamedTuple):
    """What the thread delivers: an item, the end, or an error; and upstream's state after it."""

    item: Any
    state: TakenState
    epoch: int
    kind: str


class Channel:
    """A bounded queue that both sides can leave."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, entry: Entry) -> bool:
        """Wait for room; False if the reader left."""
        with self._changed:
            while len(self._entries) >= self._size and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._entries.append(entry)
            self._changed.notify()
            return True

    def get(self, thread: threading.Thread) -> Entry:
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
