"""Fresh processes at the price of a fork: `python -c CODE`, without the start of the interpreter.

For each environment a fork server is kept that has imported the library, or the modules that are
asked for, and done nothing else. What is started is a fork of that: it has the hash seed that its
environment names, and nothing of the process that asks. It stands in for `subprocess` where not
the start itself is tested.
"""

# The servers are those of the library. Each process needs a session of its own, so that a test can end the process
# with all processes that it has started.

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT, TimeoutExpired
from typing import IO, TYPE_CHECKING, Any, Final

from resumable.workers.fork_server import Forked, ForkServer

if TYPE_CHECKING:  # each server would import it
    import pytest

__all__ = [
    "PIPE",
    "STDOUT",
    "Forked",
    "Popen",
    "TimeoutExpired",
    "obey",
    "verify_by_forks",
]

ROOT: Final = Path(__file__).parents[2]
PRELOADED: Final = ("numpy", "resumable.verify.processes")


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
    return server.start(pickle.dumps((command[2], os.fspath(cwd), env)), stdout)


def verify_by_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that `verify` starts be forks, those of its own fork servers too."""
    monkeypatch.setattr("resumable.testing.processes.subprocess", sys.modules[__name__])
    monkeypatch.setattr("resumable.testing.processes.ForkServer", SharedForkServer)


class SharedForkServer:
    """Stands in for a `ForkServer`: what it starts are forks of a server that other tests use too."""

    def __init__(self, begin: Any, setup: str, directory: str, environment: dict[str, str]) -> None:
        name = begin.__name__
        setup = setup.partition("; from")[0]  # packages would be imported by each fork
        self._code = f"{setup}; from {begin.__module__} import {name}; {name}"
        self._directory, self._environment = directory, environment

    def start(self, wish: bytes, output: IO[Any]) -> Forked:
        """A new process that begins with ``wish``."""
        return Popen(
            [sys.executable, "-c", f"{self._code}({wish!r})"],
            cwd=self._directory,
            env=self._environment,
            stdout=output,
            stderr=STDOUT,
        )

    def close(self) -> None:
        """Nothing: the server goes on for others."""


def _server_for(environment: dict[str, str], preloaded: tuple[str, ...]) -> ForkServer:
    """One whose interpreter was started as it would be in ``environment``."""
    settings = {name: value for name, value in environment.items() if name.startswith("PYTHON")}
    key = (preloaded, *sorted(settings.items()))
    if key not in _fork_servers:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), settings.get("PYTHONPATH", "")])
        imports = f"import {', '.join(preloaded)}"
        _fork_servers[key] = ForkServer(
            obey, imports, environment=environment | {"PYTHONPATH": path}
        )
        atexit.register(_fork_servers[key].close)
    return _fork_servers[key]


_fork_servers: Final[dict[tuple[Any, ...], ForkServer]] = {}
_LOCK: Final = threading.Lock()


def obey(wish: bytes) -> None:
    """What a new process does."""
    status = 1
    try:
        code, cwd, environment = pickle.loads(wish)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        exec(code, {"__name__": "__main__"})
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
