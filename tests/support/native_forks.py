"""Fork while other threads are within a package that has threads and locks of its own."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from resumable.workers.fork_server import fork


def holds_in_a_fork(check: Callable[[], bool]) -> bool:
    """Whether ``check`` returns True in a fork of this process, within a minute."""
    child = fork()
    if not child:
        code = 70
        try:
            signal.alarm(60)
            code = 0 if check() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


@contextmanager
def called_in_threads(call: Callable[[], object], count: int = 2) -> Iterator[None]:
    """While the context lasts, ``count`` threads do nothing but ``call``."""
    stop = threading.Event()

    def call_often() -> None:
        while not stop.is_set():
            call()

    threads = [threading.Thread(target=call_often) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
