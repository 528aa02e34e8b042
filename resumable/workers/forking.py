"""Processes of loky that a server forks, rather than new interpreters."""

# The server is started with the first process and ends with this one. What its workers have from
# it they would otherwise have from here: so it is replaced when the environment has changed, which
# libraries read as they are imported; the module path, folder and standard streams are sent along. What
# remains is what this process changes of itself meanwhile: limits, affinity, user, umask.
#
# Only under Linux. Of macOS, the import of NumPy may call Accelerate, which does not survive a fork.
# Where the server does not answer, an interpreter is started, as loky does.

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

from .fork_server import Passed

# First of all a group of its own: signals to that of this process are not for the server.
COMMAND: Final = (
    "import os, sys; os.setpgid(0, 0); sys.path[:] = {path}; "
    "from {module} import serve; serve{arguments}"
)


@final
class _Server:
    """The server, and what it was started with.

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

    def leave(self) -> None:
        """Have no more requests."""
        self._socket.close()

    def ask(self, descriptors: list[int]) -> None:
        """Have a process forked that gets ``descriptors``, and this one's standard streams.

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
_pids: list[int] = []  # of all servers whose end was not seen
_server_lock = threading.Lock()  # taken only where no signal handler runs


def forking_context() -> ForkingContext:
    """How a pool of loky's is told to start its processes by the server, which begins to import."""
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
    """Let the system forget the servers that have ended."""
    for pid in _pids.copy():
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # somebody else waited for it
            ended = True
        if ended:
            _pids.remove(pid)


def _ask(descriptors: list[int]) -> None:
    global _server
    with _server_lock:
        try:
            _started().ask(descriptors)
        except OSError:  # it was killed
            _server = None
            _started().ask(descriptors)


def _forget() -> None:
    """In a forked child: the server is the parent's."""
    global _server, _server_lock
    server, _server, _server_lock = _server, None, threading.Lock()
    _pids.clear()
    if server is not None:
        server.leave()


os.register_at_fork(after_in_child=_forget)


@final
class _Popen(popen_loky_posix.Popen):  # type: ignore[misc]
    """A process that the server forked, or one of loky's own if that cannot be.

    Attributes:
      pid: its number.
      sentinel: is ready to be read when it has ended.
      returncode: its exit status, once that was asked for.
    """

    DupFd = Passed
    returncode: int | None

    def duplicate_for_child(self, descriptor: int) -> int:
        """The place of ``descriptor`` among those that travel along."""
        self._fds.append(descriptor)
        return len(self._fds) - 1

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None and (flag != os.WNOHANG or wait([self.sentinel], 0)):
            status = _read(self.sentinel)
            if status is not None:
                self.returncode = status
            elif self.returncode is None:  # no other thread was faster: the server is gone
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
                pid = _read(report)
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


def _read(report: int) -> int | None:
    """The next number out of ``report``; None if nobody writes there any more."""
    found = os.read(report, 8)
    return int.from_bytes(found, "little", signed=True) if found else None


@final
class _Process(LokyProcess):  # type: ignore[misc]
    @staticmethod
    def _Popen(started: Any) -> Any:  # noqa: N802  # the name that multiprocessing calls
        with suppress(OSError):
            return _Popen(started)
        return LokyProcess._Popen(started)


@final
class ForkingContext(LokyContext):  # type: ignore[misc]
    """Processes of the server's, and else what loky has."""

    Process = _Process
