"""Processes of loky that are forked by a server instead of started as new interpreters."""

# The server is started with the first pool and ends with this process. Its workers inherit from it
# what they would otherwise inherit from this process. So the server is replaced when the
# environment has changed, which libraries read as they are imported. The module path, the working
# directory and the standard streams are sent along. But if this process changes its limits,
# affinity, user or umask, later workers do not see that.
#
# This is for Linux only: under macOS, importing NumPy may call Accelerate, which does not survive a
# fork. Where the server does not answer, an interpreter is started, as loky does.

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import set_spawning_popen
from typing import Any, Final, final

from loky.backend import popen_loky_posix, reduction, spawn
from loky.backend.context import LokyContext
from loky.backend.fork_exec import fork_exec
from loky.backend.process import LokyProcess

from .fork import next_number
from .fork_server import Passed

# Its own process group comes first: signals to the group of this process are not for the server.
COMMAND: Final = (
    "import os, sys; os.setpgid(0, 0); sys.path[:] = {path}; "
    "from {module} import serve; serve{arguments}"
)


@final
class _Server:
    """A server, and the environment that it was started with.

    Raises:
      OSError: if it cannot be started.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = COMMAND.format(
                path=[os.path.abspath(one) for one in sys.path],
                module=Passed.__module__,
                arguments=(theirs.fileno(), os.getpid()),
            )
            try:
                _pids.append(fork_exec([sys.executable, "-c", command], [theirs.fileno()]))
            except BaseException:
                ours.close()
                raise
        self._socket = ours
        util.Finalize(self, self._socket.close, exitpriority=0)

    def stop(self) -> None:
        """Send no more requests."""
        self._socket.close()

    def ask(self, descriptors: list[int]) -> None:
        """Request a process that gets ``descriptors`` and the standard streams of this one.

        Raises:
          OSError: if the server is gone.
        """
        streams = [number for number in range(3) if _is_open(number)]
        todo, report, *others = descriptors
        sent = [todo, report, *streams, *others]
        socket.send_fds(self._socket, [bytes([len(sent), *streams])], sent)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


_server: _Server | None = None
_pids: list[int] = []  # of the servers that were not waited for yet
_server_lock = threading.Lock()  # taken only in threads where no signal handler runs


def forking_context() -> ForkingContext:
    """The context of a loky pool that lets the server fork; the server is started here."""
    with suppress(OSError), _server_lock:
        _started()
    return ForkingContext()


def _started() -> _Server:
    """The server; a new one if there is none for this environment."""
    global _server
    environment = dict(os.environ)
    if _server is None or _server.environment != environment:
        _server = _Server(environment)
        _see_ends()
    return _server


def _see_ends() -> None:
    """Wait for the servers that have ended, so that they are no zombies."""
    for pid in _pids.copy():
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # it was waited for elsewhere
            ended = True
        if ended:
            _pids.remove(pid)


def _ask(descriptors: list[int]) -> None:
    global _server
    with _server_lock:
        try:
            _started().ask(descriptors)
        except OSError:  # the server was killed
            _server = None
            _started().ask(descriptors)


def _forget() -> None:
    """Drop the server in a forked child: it is the parent's."""
    global _server, _server_lock
    server, _server, _server_lock = _server, None, threading.Lock()
    _pids.clear()
    if server is not None:
        server.stop()


os.register_at_fork(after_in_child=_forget)


@final
class _Popen(popen_loky_posix.Popen):  # type: ignore[misc]
    """A process that the server forks.

    Attributes:
      pid: its process id.
      sentinel: a descriptor that can be read when the process has ended.
      returncode: its exit status; None before `poll` has seen its end.

    Raises:
      OSError: if the server cannot fork it.
    """

    DupFd = Passed
    returncode: int | None

    def duplicate_for_child(self, descriptor: int) -> int:
        """The place of ``descriptor`` among those that are sent along."""
        self._fds.append(descriptor)
        return len(self._fds) - 1

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None and (flag != os.WNOHANG or wait([self.sentinel], 0)):
            status = next_number(self.sentinel)
            if status is not None:
                self.returncode = status
            elif self.returncode is None:  # no other thread has read it: the server is gone
                self.returncode = 255
        return self.returncode

    def _launch(self, started: Any) -> None:
        todo = self._pickled(started)
        report, theirs = os.pipe()
        reader, writer = os.pipe()
        try:
            with os.fdopen(writer, "wb") as file:
                try:
                    _ask([reader, theirs, *self._fds])
                finally:
                    os.close(reader)
                    os.close(theirs)
                pid = next_number(report)
                if pid is None:
                    raise BrokenPipeError("the server of worker processes ended")
                file.write(todo)
        except BaseException:
            os.close(report)
            raise
        self.pid, self.sentinel = pid, report
        util.Finalize(self, os.close, (report,))

    def _pickled(self, started: Any) -> memoryview:
        file = io.BytesIO()
        set_spawning_popen(self)
        try:
            prepared = spawn.get_preparation_data(started._name, started.init_main_module)
            for tracker in ("tracker_fd", "mp_tracker_fd"):
                prepared[tracker] = Passed(self.duplicate_for_child(prepared[tracker]))
            reduction.dump(prepared, file)
            reduction.dump(started, file)
        finally:
            set_spawning_popen(None)
        return file.getbuffer()


@final
class _Process(LokyProcess):  # type: ignore[misc]
    @staticmethod
    def _Popen(started: Any) -> Any:  # noqa: N802  # the name that multiprocessing calls
        with suppress(OSError):
            return _Popen(started)
        return LokyProcess._Popen(started)


@final
class ForkingContext(LokyContext):  # type: ignore[misc]
    """The context of loky, with processes that the server forks where it can."""

    Process = _Process
