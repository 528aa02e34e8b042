"""Processes as fresh as one that was just started, at the price of a fork."""

# A fork server is an interpreter of its own, started with its own hash seed. It has imported the
# library and knows nothing of the user's pipeline. Each request is done by a fork of it, which
# begins where `ready` returns. A fork finds what was imported, but no traces of other forks and
# nothing of the process that asks.
#
# A request is one message over a socket, with three descriptors: a pipe for the number of the new
# process and for its exit status, its standard input, and its output.
#
# The server of worker processes (`workers/fork_server.py`) reports in the same way. It differs in two things.
# Here each process has a session of its own, so that all that the user's code starts there is ended with it. And
# a second fork waits for it. So the server runs no handler of SIGCHLD, which the process would inherit.

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, Final, final

from ..workers.fork import fork, next_number, send_number

# Not on macOS, whose frameworks do not work after a fork.
CAN_FORK: Final = sys.platform == "linux"
MOST_BYTES: Final = 1 << 17
PATIENCE: Final = 10.0
"""Seconds after which a process that does not end is killed."""


@final
class Forked:
    """A running process, with the methods of a `subprocess.Popen` that are used."""

    def __init__(self, report: int, stdin: int) -> None:
        self.stdin = open(stdin, "wb")  # noqa: SIM115  # to be closed by who ends the process
        self.returncode: int | None = None
        self._report = open(report, "rb", buffering=0)  # noqa: SIM115  # closed at its end
        try:
            pid = next_number(report)
            if pid is None:
                raise ConnectionError("the fork server is gone")
            self.pid = pid
        except BaseException:
            self._report.close()
            self.stdin.close()
            raise

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status.

        Raises:
          subprocess.TimeoutExpired: if it does not end within ``timeout`` seconds.
        """
        if self.returncode is None:
            report = self._report.fileno()
            if not wait([report], timeout):
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            status = next_number(report)
            # Without a status, the fork that should tell was killed too.
            self.returncode = -signal.SIGKILL if status is None else status
            self._report.close()
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@final
class ForkServer:
    """An interpreter that runs ``code``, whose call of `ready` returns in each process asked for.

    Args:
      code: imports what all of them need, and calls `ready`.
      directory: the working directory.
      environment: the variables.
    """

    def __init__(self, code: str, directory: str, environment: dict[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    cwd=directory,
                    env=environment,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except BaseException:
            self._requests.close()
            raise

    def start(self, wish: bytes, output: Any) -> Forked:
        """A new process, in a session of its own, for which `ready` returns ``wish``.

        Its standard input is a pipe, and its output goes to the file ``output``.

        Raises:
          OSError: if the fork server is gone.
        """
        report, theirs = os.pipe()
        reading, writing = os.pipe()
        try:
            socket.send_fds(self._requests, [wish], [theirs, reading, output.fileno()])
        except BaseException:
            os.close(report)
            os.close(writing)
            raise
        finally:
            os.close(theirs)
            os.close(reading)
        return Forked(report, writing)

    def close(self) -> None:
        """End it; the processes that it has started go on."""
        self._requests.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def ready() -> bytes:
    """Fork for each request; returns in each new process, with what is asked of it.

    It never returns in the server itself, which ends when nobody can send requests any more.
    """
    requests = socket.socket(fileno=os.dup(0))
    gc.collect()
    gc.freeze()  # so that forks do not copy all of it as they end
    while True:
        wish, received, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
        if not wish:
            sys.exit()
        if fork() == 0:
            requests.close()
            _begin_child(*received)
            return wish
        for number in received:
            os.close(number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _begin_child(report: int, standard_input: int, output: int) -> None:
    """Fork once more: the child goes on, and the parent tells how the child ends."""
    child = fork()
    if child:
        os.close(0)  # the requests, which end when no process can read them
        os.close(standard_input)
        os.close(output)
        send_number(report, child)
        send_number(report, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    os.close(report)
    os.setsid()
    for number, stream in ((standard_input, 0), (output, 1), (output, 2)):
        os.dup2(number, stream)
    os.close(standard_input)
    os.close(output)
