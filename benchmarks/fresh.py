"""Call a function in a process that has done nothing else."""

# A process of its own interpreter, since a contestant may need other packages than the others. Functions,
# arguments and results are pickled; what is printed is not touched.

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["end_with_parent", "environ", "in_fresh_process", "started"]

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]
DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class ProcessEnded(Exception):
    """A process ended without an answer."""


def in_fresh_process(
    fn: Callable[..., T],
    *arguments: Any,
    python: str = sys.executable,
    seconds: float | None = None,
    log: Path | None = None,
) -> T:
    """Return ``fn(*arguments)``; the function must be defined at the top of a module.

    Args:
      fn: what is called.
      arguments: of the call.
      python: the interpreter.
      seconds: after which the process is killed; None: never.
      log: gets what the process prints; None: that of this one.

    Raises:
      ProcessEnded: if it ends without an answer, or is killed.
      Exception: what the function raises.
    """
    process, connection = started("benchmarks.fresh", python, log)
    with connection:
        try:
            connection.send_bytes(pickle.dumps((fn, arguments)))
            if not connection.poll(seconds):
                raise ProcessEnded(f"{fn.__name__} had no answer after {seconds:.0f} s")
            kind, value = pickle.loads(connection.recv_bytes())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise ProcessEnded(f"{fn.__name__} ended with {process.wait()}") from None
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
    if kind == "raised":
        raise value
    returned: T = value
    return returned


def started(
    module: str, python: str, log: Path | None
) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """A process that runs a module of the benchmark, and our end of a pipe whose other end it is given.

    Args:
      module: that is run.
      python: its interpreter.
      log: gets what the process and all its own print, also from C++; None: that of this one.
    """
    ours, theirs = Pipe()
    with theirs, open(log or os.devnull, "ab") as file:
        process = subprocess.Popen(
            [python, "-m", module, str(theirs.fileno()), str(os.getpid())],
            env=environ(os.environ),
            pass_fds=[theirs.fileno()],
            stdout=file if log else None,
            stderr=file if log else None,
        )
    return process, ours


def environ(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with which an interpreter finds the benchmark and this checkout."""
    paths = [str(ROOT), str(ROOT / "adapters"), variables.get("PYTHONPATH", "")]
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def end_with_parent(parent: int) -> None:
    """Let this process be killed when the one that started it ends (Linux)."""
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # which ended before
            os._exit(1)


def _main(descriptor: str, parent: str) -> None:
    end_with_parent(int(parent))
    with Connection(int(descriptor)) as connection:
        fn, arguments = pickle.loads(connection.recv_bytes())
        try:
            answer = pickle.dumps(("done", fn(*arguments)))
        except Exception as error:
            answer = pickle.dumps(("raised", error))
        connection.send_bytes(answer)


if __name__ == "__main__":
    _main(*sys.argv[1:])
