"""Processes of loky forked by a server instead of started as new interpreters."""

# The server is started with the first pool and ends with this process. Workers inherit from the
# server everything otherwise inherited from this process. So the server is replaced when the
# environment has changed, since libraries read the environment at import. The module path, the
# working directory and the standard streams are sent along. But if this process changes its limits,
# affinity, user or umask, later workers do not see the change.
#
# If the server does not answer, an interpreter is started, as loky does.

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from contextlib import suppress
from multiprocessing import process
from multiprocessing.context import set_spawning_popen
from typing import Any, NoReturn, final

# Imported for the workers.
import loky.process_executor  # noqa: F401
import numpy  # noqa: F401
from loky.backend import popen_loky_posix, reduction, spawn
from loky.backend.context import LokyContext
from loky.backend.process import LokyProcess

from . import running_partition, worker_process  # noqa: F401  # for the workers too
from .fork_server import Forked, ForkServer


@final
class SentDescriptor:
    """A descriptor on its way to a process being started.

    Args:
      number: index among the descriptors sent along.
    """

    received: tuple[int, ...]

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """The descriptor, in the new process."""
        return self.received[self._number]


def begin_worker(wish: bytes, todo: int, *descriptors: int) -> NoReturn:
    """Run the worker read from the pipe ``todo``, in a newly forked process."""
    code = 1
    try:
        SentDescriptor.received = descriptors
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


_server: ForkServer | None = None
_environment: dict[str, str] = {}  # of the running server
_earlier: list[ForkServer] = []  # servers not waited for yet
_server_lock = threading.Lock()  # taken only in threads where no signal handler runs


def forking_context() -> ForkingContext:
    """The context of a loky pool with processes forked by the server, which is started here."""
    with suppress(OSError), _server_lock:
        _started()
    return ForkingContext()


def _started() -> ForkServer:
    """The server; a new server if the environment has changed."""
    global _server, _environment
    if _server is None or _environment != dict(os.environ):
        _retire()
        path = [os.path.abspath(folder) for folder in sys.path]
        _environment = dict(os.environ)
        _server = ForkServer(begin_worker, f"import sys; sys.path[:] = {path}")
    return _server


def _retire() -> None:
    """Give up the server, which ends after its workers, and collect earlier servers that ended."""
    global _server
    if _server is not None:
        _server.stop()
        _earlier.append(_server)
        _server = None
    _earlier[:] = [server for server in _earlier if not server.has_ended()]


def _fork(descriptors: list[int]) -> Forked:
    """A new worker with the standard streams of this process and with ``descriptors``."""
    streams = {number: number for number in range(3) if _is_open(number)}
    with _server_lock:
        try:
            return _started().fork(b"", streams, descriptors)
        except OSError:  # the server was killed
            _retire()
            return _started().fork(b"", streams, descriptors)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _forget() -> None:
    """Drop the server in a forked child: the server belongs to the parent."""
    global _server, _server_lock
    server, _server, _server_lock = _server, None, threading.Lock()
    _earlier.clear()
    if server is not None:
        server.stop()


os.register_at_fork(after_in_child=_forget)


@final
class _Popen(popen_loky_posix.Popen):  # type: ignore[misc]
    """A process forked by the server.

    Attributes:
      pid: process id.
      sentinel: a descriptor, readable when the process has ended.
      returncode: the exit status; None before `poll` has seen the end.

    Raises:
      OSError: if the server cannot fork.
    """

    DupFd = SentDescriptor
    returncode: int | None

    def duplicate_for_child(self, descriptor: int) -> int:
        """The index of ``descriptor`` among the descriptors sent along."""
        self._fds.append(descriptor)
        return len(self._fds) - 1

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            self.returncode = self._forked.poll() if flag == os.WNOHANG else self._forked.wait()
        return self.returncode

    def _launch(self, started: Any) -> None:
        todo = self._pickled(started)
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as file:
            try:
                self._forked = _fork([reader, *self._fds])
            finally:
                os.close(reader)
            file.write(todo)
        self.pid, self.sentinel = self._forked.pid, self._forked.sentinel

    def _pickled(self, started: Any) -> memoryview:
        file = io.BytesIO()
        set_spawning_popen(self)
        try:
            prepared = spawn.get_preparation_data(started._name, started.init_main_module)
            for tracker in ("tracker_fd", "mp_tracker_fd"):
                prepared[tracker] = SentDescriptor(self.duplicate_for_child(prepared[tracker]))
            reduction.dump(prepared, file)
            reduction.dump(started, file)
        finally:
            set_spawning_popen(None)
        return file.getbuffer()


@final
class _Process(LokyProcess):  # type: ignore[misc]
    @staticmethod
    def _Popen(started: Any) -> Any:  # noqa: N802  # called by multiprocessing
        with suppress(OSError):
            return _Popen(started)
        return LokyProcess._Popen(started)


@final
class ForkingContext(LokyContext):  # type: ignore[misc]
    """The context of loky, with processes forked by the server if possible."""

    Process = _Process
