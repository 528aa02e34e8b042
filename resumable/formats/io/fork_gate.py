"""Keep this process from forking while a package's own threads or locks are in use."""

# If a process forks while another thread is inside the package, the child may wait for ever for a
# lock that nobody releases. So a fork waits until the calls have returned, and calls wait for the
# fork.

from __future__ import annotations

import os
import time
from threading import RLock, get_ident
from typing import Final, final
from weakref import WeakSet

LONGEST_WAIT: Final = 30.0
"""Seconds after which a fork no longer waits for a call, for example a slow network call."""

PAUSE: Final = 0.0005

# Reentrant, since a signal handler may fork between two bytecodes.
_lock = RLock()
_calls: WeakSet[UnforkableCall] = WeakSet()


@final
class UnforkableCall:
    """A context manager for calls into a package: no thread forks this process during the call.

    Several threads may be in calls at the same time.
    """

    def __init__(self) -> None:
        self.thread = get_ident()

    def __enter__(self) -> None:
        with _lock:
            _calls.add(self)

    def __exit__(self, *error: object) -> None:
        with _lock:
            _calls.discard(self)


def _before_fork() -> None:
    end = time.monotonic() + LONGEST_WAIT
    while True:
        _lock.acquire()
        if not _others_call() or time.monotonic() > end:
            return
        _lock.release()
        time.sleep(PAUSE)


def _others_call() -> bool:
    return any(call.thread != get_ident() for call in list(_calls))


def _in_child() -> None:
    global _lock, _calls
    _lock, _calls = RLock(), WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=lambda: _lock.release(), after_in_child=_in_child
    )
