"""Run functions in fresh processes, and end all that they start."""

# Function and result are pickles in files, since the user's code may print. The process writes the
# progress to another file.
#
# A process leads a session, and names itself in its environment. So processes that it has started
# are found even if they have left the session or lost their parents.

from __future__ import annotations

import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ..core.regular_files import replacing
from ..workers.fork_server import CAN_FORK, Forked, ForkServer

T = TypeVar("T")

Watch = Callable[[int], object]
"""Called now and then with the number of items drawn."""

POLL: Final = 0.1
"""Seconds between two checks of the progress of a process."""
FIND_LIBRARY: Final = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r})"
PLACE: Final = "RESUMABLE_PROCESS"
"""The variable that names a process by its folder."""
INSTALLED: Final = re.compile(r"[/\\\\](site|dist)-packages[/\\\\]")
LAST_LINES: Final = 5
"""Number of output lines shown of a process that died."""


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
      result: of the function; None if the process died or hung.
      error: how the process died, or that it hung; None if it has a result.
      hung: whether it was ended since it made no progress.
      left: the number of processes that it left behind.
    """

    result: Any
    error: str | None = None
    hung: bool = False
    left: int = 0


left_open: list[object] = []
"""Objects of a run that ends by a kill, such as checkpoints: never closed."""


class FreshProcesses:
    """Runs functions, each in a separate process.

    Processes start with the working directory and the environment of the object's creation. The
    object must be closed.

    Args:
      folder: an empty folder, for the files exchanged by the processes.
      at_once: how many processes to run at the same time.

    Attributes:
      at_once: the argument.
      started: how many processes were started.
    """

    def __init__(self, folder: Path, at_once: int) -> None:
        self._folder = folder
        self.at_once = at_once
        self._directory = os.getcwd()
        self._environment = dict(os.environ)
        self._packages = folder / "packages"
        self._fork_servers: dict[int, ForkServer] = {}
        self._stopped = False
        self.started = 0

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        while self._fork_servers:
            self._fork_servers.popitem()[1].close()

    def fork_with(self, hash_seeds: Iterable[int]) -> bool:
        """Fork processes with ``hash_seeds``, from processes that have run no code of the user.

        Such a process has imported the library, and the installed packages found in an earlier
        process, unless these start threads. Returns whether the system allows forks. A run to compare with must have another seed:
        addresses differ less between two forks of one process than between two started processes.
        """
        if not CAN_FORK:
            return False
        for seed in set(hash_seeds) - self._fork_servers.keys():
            try:
                setup, variables = _call_of("preload", self._packages), self._variables(seed)
                self._fork_servers[seed] = ForkServer(main, setup, self._directory, variables)
            except OSError:  # no more processes can be started
                return False
        return True

    def new_folder(self) -> str:
        """An empty folder for states."""
        return tempfile.mkdtemp(prefix="states-", dir=self._folder)

    def do(
        self,
        function: Callable[[Watch], Any],
        hash_seed: int,
        watch: Watch = lambda count: None,
        *,
        may_fork: bool = True,
        patience: float = math.inf,
        lingers: float = 0.0,
    ) -> Ended:
        """Call ``function`` in a fresh process.

        Args:
          function: gets a function to report the number of items drawn.
          hash_seed: ``PYTHONHASHSEED`` of the process.
          watch: called with the number of items drawn.
          may_fork: whether the process may be a fork.
          patience: seconds without an item after which the process is ended.
          lingers: seconds to wait for the end of everything that the function has started.
        """
        if self._stopped:
            raise RuntimeError("the work was stopped")
        self.started += 1
        place = Path(tempfile.mkdtemp(prefix="task-", dir=self._folder))
        left: list[int] = []
        try:
            (place / "task").write_bytes(pickle.dumps((function, str(self._packages))))
            process = self._start(place, hash_seed, may_fork)
            try:
                hung = self._wait(process, place, watch, patience)
                ends = time.monotonic() + lingers
                while (place / "outcome").exists() and (left := _running(process.pid, place)):
                    if time.monotonic() >= ends:
                        break
                    time.sleep(POLL)
            finally:
                status = _end(process, place)
            return _ended(place, status, hung)._replace(left=len(left) if lingers else 0)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _wait(
        self, process: subprocess.Popen[bytes] | Forked, place: Path, watch: Watch, patience: float
    ) -> bool:
        """Wait for the end of a process, or for its result with ``patience``; whether it hung."""
        count, since = 0, time.monotonic()
        while process.poll() is None and not self._stopped:
            if (reached := _progress(place)) != count:
                count, since = reached, time.monotonic()
            watch(count)
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
            if patience != math.inf and (place / "outcome").exists():
                break
            if time.monotonic() - since > patience:
                return True
        return False

    def run_all(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """The results of ``jobs``, functions that run tasks, several at the same time."""
        with ThreadPoolExecutor(self.at_once) as pool:
            waiting = [pool.submit(job) for job in jobs]
            try:
                return [done.result() for done in waiting]
            except BaseException:  # of a job, or the user's interrupt
                self._stopped = True
                raise

    def _start(
        self, place: Path, hash_seed: int, may_fork: bool
    ) -> subprocess.Popen[bytes] | Forked:
        with open(place / "said", "wb") as said:
            if may_fork and hash_seed in self._fork_servers:
                with suppress(OSError):  # the process may have been killed
                    return self._fork_servers[hash_seed].start(os.fsencode(place), said)
            return subprocess.Popen(
                [sys.executable, "-c", _call_of("main", place)],
                cwd=self._directory,
                env=self._variables(hash_seed),
                # Never written to: end of file shows the child the death of this process.
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _variables(self, hash_seed: int) -> dict[str, str]:
        return self._environment | {"PYTHONHASHSEED": str(hash_seed)}


def _call_of(function: str, path: Path) -> str:
    """The program of an interpreter that calls a function of this module."""
    return f"{FIND_LIBRARY}; from {__name__} import {function}; {function}({str(path)!r})"


def _running(session: int, place: Path) -> list[int]:
    """The running processes of a session, and others started by the process of ``place``."""
    named = os.fsencode(f"{PLACE}={place}\0")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # just ended, or of another user
            status, _, _, led_by = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            is_ours = int(led_by) == session or named in (folder / "environ").read_bytes()
            if is_ours and status != "Z":
                found.append(int(folder.name))
    return found


def _end(process: subprocess.Popen[bytes] | Forked, place: Path) -> int:
    """End a process and all processes that it has started; returns the exit status."""
    for pid in _running(process.pid, place):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    status = process.wait()
    if process.stdin is not None:
        process.stdin.close()
    return status


def _ended(place: Path, status: int, hung: bool) -> Ended:
    if hung:
        return Ended(None, "it hung", hung=True)
    try:
        return Ended(pickle.loads((place / "outcome").read_bytes()))
    except FileNotFoundError:
        lines = (place / "said").read_text(errors="replace").splitlines()
        said = "\n".join(lines[-LAST_LINES:]).strip()[-2000:]
        return Ended(None, f"the process {_how_it_ended(status)} and said: {said!r}")


def _how_it_ended(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _progress(place: Path) -> int:
    try:
        return int((place / "progress").read_text())
    except FileNotFoundError:
        return 0


def main(folder: str | bytes) -> None:
    """Do the task in ``folder``, as the fresh process."""
    place = Path(os.fsdecode(folder))
    threading.Thread(target=_end_with_parent, args=(os.dup(0),), daemon=True).start()
    _close_standard_input()
    os.environ[PLACE] = str(place)
    function, packages = pickle.loads((place / "task").read_bytes())
    result = function(_Teller(place / "progress"))
    _note_packages(Path(packages))
    with replacing(place / "outcome", ".part") as file:
        file.write(pickle.dumps(result))
    be_killed()


def be_killed() -> None:
    """End the process as a kill does, if objects were `left_open`."""
    if left_open:
        if hasattr(signal, "SIGKILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)


def _note_packages(path: Path) -> None:
    """Write the names of the installed modules imported in this process, once for all processes."""
    if path.exists():
        return
    specs = [getattr(module, "__spec__", None) for module in [*sys.modules.values()]]
    names = [spec.name for spec in specs if spec is not None and INSTALLED.search(str(spec.origin))]
    with replacing(path, f".{os.getpid()}") as file:
        file.write("\n".join(names).encode())


def preload(packages: str) -> None:
    """Import the modules listed in a file, if forks of this process are then sound.

    A fork has none of the threads of its parent. So a server whose packages start threads ends,
    and processes are started instead.
    """
    if not os.path.exists(packages):
        return
    before = len(os.listdir("/proc/self/task"))
    for name in Path(packages).read_text().splitlines():
        with suppress(Exception):
            import_module(name)
    if len(os.listdir("/proc/self/task")) > before:
        sys.exit()


def _end_with_parent(end: int) -> None:
    """Wait until the parent is gone, then end this process and all child processes."""
    os.read(end, 1)
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _close_standard_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


class _Teller:
    """Writes now and then how many items were drawn."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due = time.monotonic()

    def __call__(self, count: int) -> None:
        if time.monotonic() >= self._due:
            with replacing(self._path, ".part") as file:
                file.write(b"%d" % count)
            self._due = time.monotonic() + POLL
