"""A server process with imported packages, which forks processes on request."""

# An interpreter takes longer to import NumPy, loky or this library than a short epoch lasts, and n
# interpreters take n times the processor's time. A server imports the packages once, and its forks
# share the memory. The server runs no Python threads, so it may fork at any time, and a fork
# contains nothing of the requesting process or of other forks.
#
# Each fork has a separate session: signals to the group of the requesting process do not reach the
# fork, and all processes started by the fork can be ended together. A fork is a child of the
# server, which waits for the fork, woken by SIGCHLD.

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import util
from multiprocessing.connection import wait
from types import FrameType
from typing import IO, Any, Final, final

# Not on macOS: its frameworks do not survive a fork, and importing NumPy may call the frameworks.
CAN_FORK: Final = sys.platform == "linux"
HEARTBEAT: Final = 1.0
PATIENCE: Final = 10.0
"""Seconds after which a server is killed if still alive."""
MOST_BYTES: Final = 1 << 17
MOST_DESCRIPTORS: Final = 253
"""The limit of Linux for one message."""

forked_by: int | None = None
"""The process id of the server that forked this process, if any."""


def fork() -> int:
    """`os.fork` without the warning about threads, and with new random numbers in the child.

    Only for a process without other Python threads. Threads of libraries do no harm: NumPy's
    OpenBLAS starts some when imported. They wait for work, and OpenBLAS starts threads again in a
    child.

    Raises:
      OSError: if no more processes are possible.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
    if not child and "numpy.random" in sys.modules:  # `random` seeds itself again after a fork
        sys.modules["numpy.random"].seed()
    return child


def serve(descriptor: int, parent: int, begin: Callable[..., object]) -> None:
    """Fork a process for each request from the socket ``descriptor``, and call ``begin`` there.

    A request comes with descriptors: a pipe for the process id and the exit status, the standard
    streams, and others. ``begin`` is called with the bytes of the request and the other
    descriptors; then this function returns in the new process.

    In the server this function returns when the other end of the socket is closed and no fork is
    left, or when the process ``parent``, which started the server, is gone.
    """
    global forked_by
    handlers: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, _wake_up),
    }
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()  # so ending forks do not copy the memory
    forked_by = os.getpid()
    reports: dict[int, int] = {}  # the pipe of each fork, by process id
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
            message, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, MOST_DESCRIPTORS)
            if not message:
                asked = False
                continue
            count, streams, wish = pickle.loads(message)
            try:
                pid = fork() if len(descriptors) == count else None
            except OSError:  # no more processes are possible
                pid = None
            if pid == 0:
                known = (requests.detach(), woken, waker, descriptors.pop(0), *reports.values())
                _leave_server(known, handlers)
                _take_streams(streams, descriptors)
                begin(wish, *descriptors[len(streams) :])
                return
            if pid is not None:
                reports[pid] = descriptors.pop(0)
                _send_number(reports[pid], pid)
            # Without a fork, the requesting process finds the pipe closed.
            for each in descriptors:
                os.close(each)


def _wake_up(signal_number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal to the pipe only for a signal with a handler."""


def _report_ends(reports: dict[int, int]) -> None:
    """Send the exit status of each ended fork."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        report = reports.pop(pid)
        _send_number(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _leave_server(descriptors: Sequence[int], handlers: Mapping[int, Any]) -> None:
    """Close the server's descriptors in a fork, and restore the handlers of signals."""
    os.setsid()
    for descriptor in descriptors:
        os.close(descriptor)
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _take_streams(streams: Sequence[int], descriptors: Sequence[int]) -> None:
    """Make the first descriptors the standard streams with these numbers."""
    for number, descriptor in zip(streams, descriptors, strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)


@final
class Forked:
    """A running fork, with the needed methods of a `subprocess.Popen`.

    Attributes:
      pid: process id of the fork.
      sentinel: a descriptor, readable when the process has ended.
      returncode: the exit status, once the end was seen.
      stdin: the pipe to the standard input, if any; to be closed by the owner that ends the
        process.

    Raises:
      ConnectionError: if the server could not fork, or is gone.
    """

    def __init__(self, report: int, stdin: IO[bytes] | None = None) -> None:
        self.returncode: int | None = None
        self.stdin = stdin
        self.sentinel = report
        util.Finalize(self, os.close, (report,))
        pid = _next_number(report)
        if pid is None:
            raise ConnectionError("the fork server is gone")
        self.pid = pid

    def poll(self) -> int | None:
        """The exit status, if the process has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status.

        Raises:
          subprocess.TimeoutExpired: if the process does not end within ``timeout`` seconds.
        """
        if self.returncode is None:
            if not wait([self.sentinel], timeout):
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            status = _next_number(self.sentinel)
            if status is not None:
                self.returncode = status
            elif self.returncode is None:  # not read by another thread: the server was killed
                self.returncode = -signal.SIGKILL
        return self.returncode

    def kill(self) -> None:
        """End the process at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@final
class ForkServer:
    """A running server. The server ends when this object is gone, and with this process.

    Args:
      begin: the function of a module that each fork calls.
      setup: Python code, run first in the server.
      directory: working directory of the server; None for the directory of this process.
      environment: variables of the server; None for the variables of this process.

    Attributes:
      pid: process id of the server.

    Raises:
      OSError: if the server cannot be started.
    """

    def __init__(
        self,
        begin: Callable[..., object],
        setup: str,
        directory: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = begin.__name__
        serving = f"serve({theirs.fileno()}, {os.getpid()}, {name})"
        imports = f"from {begin.__module__} import {name}; from {__name__} import serve"
        try:
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", f"{setup}; {imports}; {serving}"],
                    cwd=directory,
                    env=environment,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except BaseException:
            self._requests.close()
            raise
        self.pid = process.pid
        process.returncode = 0  # a placeholder: this object waits for the process
        util.Finalize(self, self._requests.close, exitpriority=0)

    def fork(self, wish: bytes, streams: Mapping[int, int], others: Sequence[int] = ()) -> Forked:
        """A new process, in a separate session, with the call ``begin(wish, *others)``.

        Args:
          wish: bytes for ``begin``.
          streams: a descriptor for each of the standard streams, by number.
          others: further descriptors for the new process.

        Raises:
          OSError: if the server is gone, or no more processes are possible.
        """
        report, theirs = os.pipe()
        try:
            descriptors = [theirs, *streams.values(), *others]
            message = pickle.dumps((len(descriptors), list(streams), wish))
            socket.send_fds(self._requests, [message], descriptors)
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(theirs)
        return Forked(report)

    def start(self, wish: bytes, output: IO[Any]) -> Forked:
        """A fork with a pipe as standard input, and the file ``output`` for the other streams."""
        reading, writing = os.pipe()
        stdin = open(writing, "wb")  # noqa: SIM115  # to be closed by who ends the process
        try:
            process = self.fork(wish, {0: reading, 1: output.fileno(), 2: output.fileno()})
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(reading)
        process.stdin = stdin
        return process

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:  # already waited for elsewhere
            return True

    def stop(self) -> None:
        """Send no more requests; the server ends when no fork is left."""
        self._requests.close()

    def close(self) -> None:
        """End the server, and wait for the end."""
        with suppress(OSError):  # the server was killed
            self._requests.shutdown(socket.SHUT_WR)
        if not wait([self._requests], PATIENCE):
            os.kill(self.pid, signal.SIGKILL)
        self._requests.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _send_number(pipe: int, number: int) -> None:
    """Send a process id or an exit status, if a reader is left."""
    with suppress(BrokenPipeError):
        os.write(pipe, number.to_bytes(8, "little", signed=True))


def _next_number(pipe: int) -> int | None:
    """Wait for a number from `_send_number`; None if no sender is left."""
    found = os.read(pipe, 8)
    return int.from_bytes(found, "little", signed=True) if found else None
