"""A process that has imported what workers need, and forks them."""

# A new interpreter takes longer to import NumPy and loky than a short epoch lasts, and n of them
# take n times the processor's time. This one does it once. It runs no thread of Python, unlike the
# process of the loop, and has called nothing that runs threads of its own, so that its children
# may go on as they like. They share the memory of what was imported.

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import sys
import warnings
from contextlib import suppress
from multiprocessing import process
from types import FrameType
from typing import Any, Final, NoReturn, final

# What comes first of all in a worker.
import loky.process_executor  # noqa: F401
import numpy as np
from loky.backend import spawn

from . import worker_process
from .worker_process import HEARTBEAT

MOST_DESCRIPTORS: Final = 253
"""That Linux sends with one message."""


@final
class Passed:
    """A descriptor on its way to a process that is being started.

    Args:
      number: its place among those that travel along.
    """

    received: list[int]

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """The descriptor, in the new process."""
        return self.received[self._number]


def serve(descriptor: int, parent: int) -> None:
    """Fork a worker for each request out of the socket ``descriptor``.

    A request is a message of bytes: how many descriptors come along, and the numbers of the standard
    streams among them. The descriptors are, in this order: the pipe with what the worker is to do,
    the pipe for its number and exit status, these streams, and whatever the worker needs.

    It ends once nobody has any request and no worker is left, or when the process ``parent``, which
    started it, is gone; the workers notice that.
    """
    handlers: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, _wake_up),
    }
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    # OpenBLAS has threads since the import, and starts them anew in a forked child.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.freeze()
    server = os.getpid()
    reports: dict[int, int] = {}  # the pipe of each worker
    requests: socket.socket | None = socket.socket(fileno=descriptor)
    while os.getppid() == parent and (requests or reports):
        watched: list[int | socket.socket] = [woken, *([requests] if requests else [])]
        ready, _, _ = select.select(watched, [], [], HEARTBEAT)
        if woken in ready:
            os.read(woken, 1 << 16)
            _report_ends(reports)
        if requests is None or requests not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, 16, MOST_DESCRIPTORS)
        if not message:
            requests.close()
            requests = None
            continue
        try:
            pid = os.fork() if len(descriptors) == message[0] else None
        except OSError:  # there can be no more processes
            pid = None
        if pid == 0:
            todo, report, *others = descriptors
            for known in (requests.detach(), woken, waker, report, *reports.values()):
                os.close(known)
            signal.set_wakeup_fd(-1)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            _be_worker(server, todo, list(message[1:]), others)
        if pid is not None:
            report = reports[pid] = descriptors.pop(1)
            _write(report, pid)
        # Who asked finds its pipe closed if there is no worker.
        for known in descriptors:
            os.close(known)


def _wake_up(signal_number: int, frame: FrameType | None) -> None:
    """Let a signal be written to the pipe, which it is not while it is ignored."""


def _report_ends(reports: dict[int, int]) -> None:
    """Say of workers that have ended how they did."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        report = reports.pop(pid)
        _write(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _write(report: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(report, number.to_bytes(8, "little", signed=True))


def _be_worker(server: int, todo: int, streams: list[int], descriptors: list[int]) -> NoReturn:
    """What a process does that was just forked."""
    code = 1
    try:
        for number, descriptor in zip(streams, descriptors, strict=False):
            os.dup2(descriptor, number)
            os.close(descriptor)
        Passed.received = descriptors[len(streams) :]
        worker_process.forked_by = server
        if "numpy.random" in sys.modules:
            np.random.seed()  # or all workers draw the same numbers; `random` knows of forks itself
        current: Any = process.current_process()
        with os.fdopen(todo, "rb") as source:
            current._inheriting = True
            try:
                prepared = pickle.load(source)
                for tracker in ("tracker_fd", "mp_tracker_fd"):
                    prepared[tracker] = prepared[tracker].detach()
                spawn.prepare(prepared)
                worker = pickle.load(source)
            finally:
                del current._inheriting
        code = worker._bootstrap()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
