"""Runs the steps side by side, one more at once than there are cores, since all of them wait now and then.

Environments are made one after the other, in the order of the steps that need them, while earlier
steps run: that waits for the network more than for a core. What a command prints is shown when it
ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from environments import CACHE, Environment, folders_of_interpreters
from steps import STEPS, Step

AT_ONCE = (os.cpu_count() or 1) + 1
LONGEST = 75 * 60  # seconds; the longest take 20 minutes on two cores, so what takes longer hangs
PATIENCE = 10  # seconds in which a command that is interrupted can end by itself

Waited: TypeAlias = tuple[int, int, resource.struct_rusage]  # what os.wait4 returns


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its time, that of all its processes on cores, and its exit status.

    A status below 0 is that of a signal; none is that of a step that could not begin.
    """

    name: str
    seconds: float = 0
    busy: float = 0
    status: int | None = None

    def __str__(self) -> str:
        result = {0: "passed", None: "FAILED: not run"}.get(self.status, f"FAILED: {self.status}")
        return f"{self.name:21} {self.seconds:7.0f} s {self.busy:7.0f} s of a core   {result}"


class Run:
    """One run of some steps."""

    def __init__(self, work: Path) -> None:
        self.outcomes: list[Outcome] = []
        self._work = work
        self._places = asyncio.Semaphore(AT_ONCE)
        self._network = asyncio.Lock()

    async def check(self, steps: list[Step]) -> None:
        """Run all of them, also when one fails."""
        made: dict[Environment | None, asyncio.Task[bool]] = {}
        for step in steps:
            if step.environment and step.environment not in made:
                made[step.environment] = asyncio.create_task(self._make(step))
        await asyncio.gather(*(self._check(step, made.get(step.environment)) for step in steps))

    async def _make(self, step: Step) -> bool:
        """Make the environment of a step; whether it is there."""
        assert step.environment
        async with self._network:
            return step.environment.is_made or await self._run(
                f"packages of {step.name}", step.environment.command, os.environ
            )

    async def _check(self, step: Step, made: asyncio.Task[bool] | None) -> None:
        if made and not await made:
            self.outcomes.append(Outcome(step.name))
            return
        async with self._places:
            folder = self._work / step.name
            folder.mkdir()
            with folder_of_types(step, folder) as types:
                await self._run(
                    f"{step.name}: {step.title}",
                    ["bash", "-euo", "pipefail", "-c", step.script],
                    environ(step, folder) | {"MYPY_CACHE_DIR": str(types)},
                )
            shutil.rmtree(folder, ignore_errors=True)

    async def _run(self, title: str, command: list[str], environ: Mapping[str, str]) -> bool:
        """Run a command in a process group of its own; whether it succeeded."""
        say(f"begun: {title}")
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            # wait4 knows the time that the process and its children spent on cores.
            ended = asyncio.ensure_future(asyncio.to_thread(os.wait4, process.pid, 0))
            try:
                await asyncio.wait([ended], timeout=LONGEST)
            finally:
                await end(process.pid, ended)
                _, status, usage = ended.result()
                outcome = Outcome(
                    title.partition(":")[0],
                    time.monotonic() - began,
                    usage.ru_utime + usage.ru_stime,
                    os.waitstatus_to_exitcode(status),
                )
                self.outcomes.append(outcome)
                show(title, outcome, log)
        return outcome.status == 0


async def end(group: int, ended: asyncio.Future[Waited]) -> None:
    """End all processes of a group, by force what does not end when it is interrupted."""
    if not ended.done():
        os.killpg(group, signal.SIGINT)
        await asyncio.wait([ended], timeout=PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    await ended


def environ(step: Step, folder: Path) -> dict[str, str]:
    """The variables for a step: nothing that it writes is shared with another, but what it looks up."""
    variables = {
        name: value
        for name, value in os.environ.items()
        # The tests start so many processes that compiling the library in each takes minutes.
        if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV")
    }
    programs = [*folders_of_interpreters(), variables["PATH"]]
    if step.environment:
        programs.insert(0, str(step.environment.folder / "bin"))
    temporary = folder / "tmp"
    temporary.mkdir()
    # What it keeps here it derives from Unicode and from the source, and looks up by their version and
    # digest. No example is among it, since they are the same in every run.
    hypothesis = (step.environment.folder if step.environment else CACHE) / "hypothesis"
    return variables | {
        "PATH": os.pathsep.join(programs),
        "WORK": str(folder),
        "TMPDIR": str(temporary),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(hypothesis),
        "PYTEST_ADDOPTS": f"-o cache_dir={folder / 'pytest'}",
        # What `-n auto` of the project's settings means: one core is what a step has. The test runner
        # itself uses it, since a worker that reports each test to it takes a tenth more.
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@contextmanager
def folder_of_types(step: Step, folder: Path) -> Iterator[Path]:
    """Where mypy keeps what it found, so that it reads the packages of an environment once.

    mypy reads a file again if it is no longer the one that it has read. Two of it cannot write into one folder, so
    a run beside another has one of its own.
    """
    if step.environment is None:
        yield folder / "mypy"
        return
    kept = step.environment.folder / "mypy"
    with open(kept.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            kept = folder / "mypy"
        yield kept


def show(title: str, outcome: Outcome, log: IO[bytes]) -> None:
    """Print all that a command printed."""
    say(f"{title}: {'passed' if outcome.status == 0 else 'FAILED'} in {outcome.seconds:.0f} s")
    log.seek(0)
    shutil.copyfileobj(log, sys.stdout.buffer)
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a line that stands out from what the steps print."""
    print(f"\n== {text}", flush=True)


async def main(names: list[str]) -> int:
    """Run the steps with these names, or all; 1 if something failed."""
    known = {step.name: step for step in STEPS}
    if unknown := [name for name in names if name not in known]:
        print(f"no step {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    task = asyncio.current_task()
    assert task
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="checks-", ignore_cleanup_errors=True) as work:
        run = Run(Path(work))
        try:
            await run.check([known[name] for name in names or known])
        finally:
            say(f"{time.monotonic() - began:.0f} s in all")
            print(*run.outcomes, sep="\n")
    failed = [outcome.name for outcome in run.outcomes if outcome.status != 0]
    say(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except asyncio.CancelledError:
        sys.exit("interrupted")
