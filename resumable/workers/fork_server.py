"""A process that imports what workers need, and forks each worker."""

# A new interpreter takes longer to import NumPy and loky than a short epoch lasts, and n of them
# take n times the processor's time. This process imports them once, and the workers share the
# memory. Unlike the process of the loop it runs no Python threads, so it may fork at any time.
#
# The server of `verify` (`verify/fork_server.py`) reports in the same way. It differs in two things. Here each
# worker is a child of the server, so that it sees the server end. So the server waits for it, woken by SIGCHLD.
# And a worker has no session of its own: it ends by itself when the server does (`worker_process.py`).

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import sys
from multiprocessing import process
from types import FrameType
from typing import Any, Final, NoReturn, final

# Imported only so that it is there in each worker.
import loky.process_executor  # noqa: F401
import numpy  # noqa: F401
from loky.backend import spawn

from . import worker_process
from .fork import fork, send_number
from .worker_process import HEARTBEAT

MOST_DESCRIPTORS: Final = 253
"""As many as Linux sends with one message."""


@final
class Passed:
    """A descriptor on its way to a process that is being started.

    Args:
      number: its place among the descriptors that are sent along.
    """

    received: list[int]

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """The descriptor, in the new process."""
        return self.received[self._number]


def serve(descriptor: int, parent: int) -> None:
    """Fork a worker for each request from the socket ``descriptor``.

    A request is a message of bytes: how many descriptors come along, and the numbers of the
    standard streams among them. The descriptors are, in this order: the pipe from which the worker
    is unpickled, the pipe for its process id and its exit status, these streams, and whatever the
    worker needs.

    It returns when the other end of the socket is closed and no worker is left, or when the process
    ``parent``, which started this one, is gone. The workers end soon after this process.
    """
    handlers: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, _wake_up),
    }
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    gc.freeze()
    server = os.getpid()
    reports: dict[int, int] = {}  # the second pipe of each worker, by its process id
    asked = True
    with socket.socket(fileno=descriptor) as requests:
        while os.getppid() == parent and (asked or reports):
            watched: list[int | socket.socket] = [woken, *([requests] if asked else [])]
            ready, _, _ = select.select(watched, [], [], HEARTBEAT)
            if woken in ready:
                os.read(woken, 1 << 16)
                _report_ends(reports)
            if requests not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, 16, MOST_DESCRIPTORS)
            if not message:
                asked = False
                continue
            try:
                pid = fork() if len(descriptors) == message[0] else None
            except OSError:  # no more processes are possible
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
                send_number(report, pid)
            # If there is no worker, the other side finds its pipe closed.
            for known in descriptors:
                os.close(known)


def _wake_up(signal_number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal to the pipe only if it has a handler."""


def _report_ends(reports: dict[int, int]) -> None:
    """Send the exit status of each worker that has ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        report = reports.pop(pid)
        send_number(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _be_worker(server: int, todo: int, streams: list[int], descriptors: list[int]) -> NoReturn:
    """Run the worker that comes out of the pipe ``todo``, in a process that was just forked."""
    code = 1
    try:
        for number, descriptor in zip(streams, descriptors, strict=False):
            os.dup2(descriptor, number)
            os.close(descriptor)
        Passed.received = descriptors[len(streams) :]
        worker_process.forked_by = server
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
