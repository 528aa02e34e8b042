"""Run tasks in fresh processes; each process loads the pipeline."""

# Task and outcome are pickles in files, since the user's code may print. The process writes the
# progress to another file.

from __future__ import annotations

import os
import pickle
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
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ..checkpoint.directory import Directory
from ..core.graph import Tuning, cut_after, tuned
from ..core.regular_files import replacing
from ..errors import ResumableError
from ..pipeline import Pipeline
from ..workers.fork_server import CAN_FORK, Forked, ForkServer
from .conditions import SAME, Conditions
from .target import Target
from .work import Work, be_killed

T = TypeVar("T")

POLL: Final = 0.1
"""Seconds between two checks of the progress of a process."""
FIND_LIBRARY: Final = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r})"
LAST_LINES: Final = 5
"""Number of output lines shown of a process that died."""


class TaskOutcome(NamedTuple):
    """The outcome of a task in a fresh process.

    Attributes:
      fingerprint: of the pipeline in the process; None if loading failed.
      result: of the work; None after an error.
      error: the error, if the work could not be done.
      kind: the name of the error's type.
      seconds: of the work alone, without loading the pipeline.
      loading: seconds that loading took.
    """

    fingerprint: str | None
    result: Any
    error: str | None = None
    kind: str | None = None
    seconds: float = 0.0
    loading: float = 0.0

    @property
    def died(self) -> bool:
        """Whether the process ended without using the pipeline, or failed to load the pipeline."""
        return self.error is not None and self.fingerprint is None


class TaskProcesses:
    """Runs tasks for a target, each task in a separate process.

    Processes start with the working directory and the environment of the object's creation. The
    object must be closed.

    Args:
      target: the pipeline; all arguments must be picklable.
      folder: an empty folder, for the files exchanged by the processes.
      at_once: how many processes to run at the same time.

    Attributes:
      at_once: the argument.
      started: how many processes were started.
    """

    def __init__(self, target: Target, folder: Path, at_once: int) -> None:
        self._target = target
        self._folder = folder
        self.at_once = at_once
        self._directory = os.getcwd()
        self._environment = dict(os.environ)
        self._fork_servers: dict[int, ForkServer] = {}
        self._stopped = False
        self.started = 0

    def __enter__(self) -> TaskProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        while self._fork_servers:
            self._fork_servers.popitem()[1].close()

    def fork_with(self, hash_seeds: Iterable[int]) -> bool:
        """Fork processes with ``hash_seeds``, from processes that have imported only the library.

        Returns whether the system allows forks. A run to compare with must have another seed:
        addresses differ less between two forks of one process than between two started processes.
        """
        if not CAN_FORK:
            return False
        for seed in set(hash_seeds) - self._fork_servers.keys():
            try:
                variables = self._variables(seed)
                self._fork_servers[seed] = ForkServer(
                    main, FIND_LIBRARY, self._directory, variables
                )
            except OSError:  # no more processes can be started
                return False
        return True

    def new_folder(self) -> str:
        """An empty folder for checkpoints."""
        return tempfile.mkdtemp(prefix="checkpoints-", dir=self._folder)

    def new_file(self) -> str:
        """A path where no file is yet."""
        return f"{tempfile.mkdtemp(prefix='run-', dir=self._folder)}/digests"

    def moved(self, saved_in: str, step: int) -> str:
        """A new folder with a copy of the checkpoint of ``step`` in ``saved_in``."""
        folder = self.new_folder()
        Directory(folder).save(step, Directory(saved_in).load(step))
        return folder

    def run(
        self,
        work: Work,
        cut: int = 0,
        tuning: Tuning | None = None,
        conditions: Conditions = SAME,
        watch: Callable[[int], object] | None = None,
    ) -> TaskOutcome:
        """Do ``work`` in a fresh process.

        Args:
          work: the task.
          cut: the number of the stage to cut the pipeline after; 0 leaves the pipeline whole.
          tuning: changes to the cut pipeline.
          conditions: the circumstances.
          watch: called with the number of items drawn.
        """
        if self._stopped:
            raise RuntimeError("the work was stopped")
        self.started += 1
        place = Path(tempfile.mkdtemp(prefix="task-", dir=self._folder))
        try:
            (place / "task").write_bytes(
                pickle.dumps((self._target, work, cut, tuning, conditions))
            )
            process = self._start(place, conditions.hash_seed)
            try:
                while process.poll() is None and not self._stopped:
                    if watch is not None:
                        watch(_progress(place))
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(POLL)
            finally:
                status = _end(process)
            return _outcome(place, status)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def run_all(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """The results of ``jobs``, functions that run tasks, several at the same time."""
        with ThreadPoolExecutor(self.at_once) as pool:
            waiting = [pool.submit(job) for job in jobs]
            try:
                return [done.result() for done in waiting]
            except BaseException:  # of a job, or the user's interrupt
                self._stopped = True
                raise

    def _start(self, place: Path, hash_seed: int) -> subprocess.Popen[bytes] | Forked:
        with open(place / "said", "wb") as said:
            if hash_seed in self._fork_servers:
                with suppress(OSError):  # the process may have been killed
                    return self._fork_servers[hash_seed].start(os.fsencode(place), said)
            return subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"{FIND_LIBRARY}; from {__name__} import main; main({str(place)!r})",
                ],
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


def _end(process: subprocess.Popen[bytes] | Forked) -> int:
    """End a process and all child processes; returns the exit status."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    status = process.wait()
    if process.stdin is not None:
        process.stdin.close()
    return status


def _outcome(place: Path, status: int) -> TaskOutcome:
    try:
        outcome: TaskOutcome = pickle.loads((place / "outcome").read_bytes())
    except FileNotFoundError:
        lines = (place / "said").read_text(errors="replace").splitlines()
        said = "\n".join(lines[-LAST_LINES:]).strip()[-2000:]
        error = f"the process {_how_it_ended(status)} and said: {said!r}"
        return TaskOutcome(None, None, error, "ProcessEnded")
    return outcome


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
    target, work, cut, tuning, conditions = pickle.loads((place / "task").read_bytes())
    conditions.bring_about()
    fingerprint = None
    starts = time.monotonic()
    try:
        stage = cut_after(target.load().stage, cut)
        fingerprint = Pipeline(stage).fingerprint
        if tuning is not None:
            stage = tuned(stage, tuning)
        began = time.monotonic()
        result = work(stage, _Teller(place / "progress"))
        seconds = time.monotonic() - began
        outcome = TaskOutcome(fingerprint, result, seconds=seconds, loading=began - starts)
    except Exception as error:
        kind = type(error).__name__
        known = isinstance(error, ResumableError)
        outcome = TaskOutcome(fingerprint, None, str(error) if known else f"{kind}: {error}", kind)
    with replacing(place / "outcome", ".part") as file:
        file.write(pickle.dumps(outcome))
    be_killed()


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
