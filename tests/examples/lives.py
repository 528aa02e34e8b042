"""Programs of the folder `examples`, killed and started again until they end by themselves."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support import forks

__all__ = ["Life", "Program", "trained"]

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 300.0
"""Seconds after which a program is taken to hang."""
MOST_RUNS: Final = 6
"""Runs beyond those asked for, to find a life that goes on from the middle."""
STARTING: Final = re.compile(r"^starting after [a-z]+ ([\d,]+)", re.MULTILINE)
"""What each program says when it knows where it goes on."""


@dataclass(frozen=True)
class Life:
    """How a process of a program ended.

    Attributes:
      status: the exit status, or the negative number of the signal.
      said: its output.
      moments: how many it passed, if it ended by itself.
      before_work: how many of them before it said where it starts.
    """

    status: int
    said: str
    moments: int = 0
    before_work: int = 0

    @property
    def start(self) -> int | None:
        """The step after which it went on, unless it ended before it knew."""
        said = STARTING.search(self.said)
        return int(said[1].replace(",", "")) if said else None


class Program:
    """A program of the folder `examples`.

    Args:
      name: of the file.
      arguments: for its command line.
      preloaded: modules that take long to import; None if an interpreter must be started for each life,
        since one that has imported them cannot be forked.
    """

    def __init__(self, name: str, *arguments: str, preloaded: tuple[str, ...] | None = ()) -> None:
        self.path = ROOT / "examples" / name
        self.arguments = arguments
        self.preloaded = preloaded

    def live(self, folder: Path, last: int | None = None) -> Life:
        """Run it in ``folder``, until it ends or the moment ``last`` comes."""
        folder.mkdir(exist_ok=True)
        report, log = folder.with_suffix(".moments"), folder.with_suffix(".log")
        report.unlink(missing_ok=True)
        with log.open("w+", encoding="utf-8") as said:
            process = self._started(folder, last, report, said)
            try:
                status = process.wait(PATIENCE)
            finally:
                process.kill()
                process.stdin.close()
            said.seek(0)
            passed = json.loads(report.read_text()) if report.exists() else {}
            return Life(status, said.read(), **passed)

    def whole(self, folder: Path) -> Life:
        """Run it in ``folder`` from where it stands to its end."""
        life = self.live(folder)
        assert life.status == 0, life.said
        return life

    def check_kills(
        self, folder: Path, result: Callable[[Path], object], *, runs: int, kills: int = 4
    ) -> None:
        """Kill it at random moments: what it leaves is what an uninterrupted run leaves.

        Args:
          folder: of all runs.
          result: what a run has left in its folder.
          runs: how many there are with kills, or more until a life goes on from the middle.
          kills: how many there are in a run at most, one after another.
        """
        whole = self.whole(folder / "whole")
        expected = result(folder / "whole")
        after_the_end = self.whole(folder / "whole").start
        assert result(folder / "whole") == expected, "a start after the end changes something"
        in_the_middle = False
        for run in range(MOST_RUNS + runs):
            if run >= runs and in_the_middle:
                return
            lives = self._with_kills(folder / f"{run}", whole, kills, run)
            assert result(folder / f"{run}") == expected, f"run {run} differs"
            starts = {life.start for life in lives} - {None, 0, after_the_end}
            in_the_middle = in_the_middle or bool(starts)
        raise AssertionError("no life went on from between the start and the end")

    def _with_kills(self, folder: Path, whole: Life, kills: int, run: int) -> list[Life]:
        rng = random.Random(f"{self.path.name} {run}")
        # Most write the data that they are tried with at first, and save nothing for a while.
        middle = (whole.before_work + whole.moments) // 2
        lives = [self.live(folder, rng.randint(middle, whole.moments))]
        assert lives[0].status == -signal.SIGKILL, lives[0].said
        while len(lives) < kills:
            # These may have less left to do, and end by themselves. The next one has nothing to do then.
            lives.append(self.live(folder, rng.randint(1, whole.moments)))
            assert lives[-1].status in (-signal.SIGKILL, 0), lives[-1].said
        return [*lives, self.whole(folder)]

    def _started(self, folder: Path, last: int | None, report: Path, output: Any) -> Any:
        code = (
            "from pathlib import PosixPath\n"
            "from examples.moments import run\n"
            f"run({self.path!r}, {self.arguments!r}, {last!r}, {report!r})\n"
        )
        path = [
            *(str(ROOT / part) for part in ("", "tests", "adapters")),
            os.environ.get("PYTHONPATH", ""),
        ]
        settings = {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "PYTHONDONTWRITEBYTECODE": "1",  # which would be moments of the first run
            "PYTHONHASHSEED": "random",
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        options: dict[str, Any] = {
            "cwd": folder,
            "env": os.environ | settings,
            "stdin": subprocess.PIPE,
            "stdout": output,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
        }
        command = [sys.executable, "-c", code]
        if self.preloaded is None:
            return subprocess.Popen(command, **options)
        # Most programs take longer to import what they need than to do what they do.
        preloaded = (*forks.PRELOADED, *self.preloaded)
        return forks.Popen(command, **options, preloaded=preloaded)


def trained(folder: Path) -> dict[int, list[Any]]:
    """What each step was trained on, in the run that counts: a start drops the steps after its own."""
    steps: dict[int, list[Any]] = {}
    for line in (folder / "trained.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "start" in entry:
            steps = {step: rows for step, rows in steps.items() if step <= entry["start"]}
        else:
            steps.setdefault(entry["step"], []).append(entry["rows"])
    return steps
