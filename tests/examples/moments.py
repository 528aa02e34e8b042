"""Run a program, and let it die at one moment of its run, by SIGKILL."""

# A *moment* is a line of the program that is about to be executed, or a file that its process is about
# to open for writing, to link, rename or remove, in whatever library. So two runs that do the same pass
# the same moments, however long they take, and every place between two effects of a program is one.
#
# Of a line that a process comes to often only some times are moments: the first 8, then 4 between one power
# of two and the next. Otherwise nearly all would lie in the innermost loop, and a random one next to never
# where something is committed.

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

__all__ = ["run"]

CHANGES: Final = {"os.link", "os.remove", "os.rename", "os.truncate"}
WRITING: Final = os.O_WRONLY | os.O_RDWR


def run(program: Path, arguments: Sequence[str], last: int | None, report: Path) -> None:
    """Run ``program`` as the main module, until it ends or the moment ``last`` comes, from 1 on.

    One that ends by itself writes to ``report`` how many moments it passed, and how many of them before
    it said where it starts.
    """
    moments = _Moments(str(program), last)
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    sys.addaudithook(moments.of_event)
    threading.settrace(moments.of_call)
    sys.settrace(moments.of_call)
    runpy.run_path(str(program), run_name="__main__")
    sys.settrace(None)
    passed = {"moments": moments.passed, "before_work": moments.before_work}
    report.write_text(json.dumps(passed), encoding="utf-8")


class _Moments:
    """Counts them, in the process that made it and not in its workers."""

    def __init__(self, program: str, last: int | None) -> None:
        self.passed = 0
        self.before_work = 0
        self._times: Counter[int] = Counter()
        self._lock = threading.RLock()  # a signal handler of the program has lines too
        self._process = os.getpid()
        self._program = program
        (self._saying,) = (
            number
            for number, line in enumerate(Path(program).read_text().splitlines(), 1)
            if "starting after" in line
        )
        self._last = last

    def of_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and arguments[2] & WRITING):
            self._pass_one()

    def of_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._of_line if frame.f_code.co_filename == self._program else None

    def _of_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._times[frame.f_lineno] += 1
            if frame.f_lineno == self._saying:
                self.before_work = self.passed
            if _counts(self._times[frame.f_lineno]):
                self._pass_one()
        return self._of_line

    def _pass_one(self) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            self.passed += 1
            if self.passed == self._last:
                os.kill(self._process, signal.SIGKILL)


def _counts(time: int) -> bool:
    """Whether all digits of ``time`` in binary are zeros behind the first three."""
    zeros = max(time.bit_length() - 3, 0)
    return time >> zeros << zeros == time
