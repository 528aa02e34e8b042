"""Fresh processes at the price of a fork: `python -c CODE`, without the start of the interpreter.

For each environment a process is kept that has imported the library, or the modules that are
asked for, and done nothing else. What
is started is a fork of that: it has the hash seed that its environment names, and nothing of the
process that asks. It stands in for `subprocess` where not the start itself is tested.
"""

# A request goes over a socket: one byte with four descriptors, standard input, output and error
# and a second socket, over which the rest of it follows. Over that, the new process says its
# number, and a fork that waits for it says how it ended.

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, STDOUT, TimeoutExpired
from typing import IO, Any, Final

__all__ = ["PIPE", "STDOUT", "Forked", "Popen", "TimeoutExpired", "serve"]

ROOT: Final = Path(__file__).parents[1]
PRELOADED: Final = ("numpy", "resumable.verify.processes")
NUMBER: Final = struct.Struct("<q")


class Forked:
    """A running process; has what is used of a `subprocess.Popen`."""

    def __init__(self, control: socket.socket, stdin: IO[bytes]) -> None:
        self.stdin = stdin
        self.returncode: int | None = None
        self._control = control
        self.pid = self._told()

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        with suppress(TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; raises `TimeoutExpired` if it does not end in time."""
        if self.returncode is None:
            if not select.select([self._control], [], [], timeout)[0]:
                raise TimeoutExpired("a fork", timeout or 0)
            self.returncode = self._told()
            self._control.close()
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _told(self) -> int:
        told = self._control.recv(NUMBER.size, socket.MSG_WAITALL)
        number: int = NUMBER.unpack(told)[0]
        return number


def Popen(  # noqa: N802  # its name in `subprocess`
    command: list[str],
    *,
    cwd: str | os.PathLike[str],
    env: dict[str, str],
    stdout: IO[Any],
    stderr: int,
    stdin: int = PIPE,
    start_new_session: bool = True,
    preloaded: tuple[str, ...] = PRELOADED,
) -> Forked:
    """``[sys.executable, "-c", CODE]`` in a session of its own, with a pipe as its input.

    ``preloaded`` are modules that it finds imported.
    """
    assert (command[:2], stdin) == ([sys.executable, "-c"], PIPE)
    assert start_new_session
    assert stderr == STDOUT
    with _LOCK:
        server = _server_for(env, preloaded)
        control, theirs = socket.socketpair()
        reading, writing = os.pipe()
        descriptors = [theirs.fileno(), reading, stdout.fileno(), stdout.fileno()]
        socket.send_fds(server, [b"."], descriptors)
    theirs.close()
    os.close(reading)
    with control.makefile("wb") as file:
        pickle.dump((command[2], os.fspath(cwd), env), file)
    return Forked(control, open(writing, "wb"))


def _server_for(environment: dict[str, str], preloaded: tuple[str, ...]) -> socket.socket:
    """The socket of a process whose interpreter was started as it would be in ``environment``."""
    settings = {name: value for name, value in environment.items() if name.startswith("PYTHON")}
    key = (preloaded, *sorted(settings.items()))
    if key not in _servers:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), settings.get("PYTHONPATH", "")])
        with theirs:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"from forks import serve; serve({theirs.fileno()}, {preloaded})",
                ],
                env=environment | {"PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        _servers[key] = ours
        atexit.register(process.wait)
        atexit.register(ours.close)
    return _servers[key]


_servers: Final[dict[tuple[Any, ...], socket.socket]] = {}
_LOCK: Final = threading.Lock()


def serve(descriptor: int, preloaded: tuple[str, ...]) -> None:
    """What such a process does, until nobody can ask any more."""
    for module in preloaded:
        import_module(module)
    requests = socket.socket(fileno=descriptor)
    while True:
        message, received, _, _ = socket.recv_fds(requests, 1, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _be_born(socket.socket(fileno=received[0]), received[1:])
        for number in received:
            os.close(number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _be_born(control: socket.socket, streams: list[int]) -> None:
    """Fork once more: the one does what was asked for, the other tells how that ended."""
    child = os.fork()
    if child:
        for number in streams:
            os.close(number)
        with suppress(OSError):  # nobody may want to know any more
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            control.sendall(NUMBER.pack(status))
        os._exit(0)
    status = 1
    try:
        os.setsid()
        with control.makefile("rb") as file:
            code, cwd, environment = pickle.load(file)
        control.sendall(NUMBER.pack(os.getpid()))
        control.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        if "numpy.random" in sys.modules:  # `random` seeds itself anew after a fork
            sys.modules["numpy.random"].seed()
        exec(code, {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
