"""Make the system calls of saves fail for real, by strace, and check what is left.

Run as `python tests/campaigns/strace_faults.py`; the suite runs ``--quick``.
"""

# Each case is a fork that saves in a loop. When the next save is due it waits on a socket, strace
# attaches to it, and the first call counted is thus the first one of the save; the fork speaks by
# send and recv, which are not among the calls that fail. Once strace is gone, so is the fault.
#
# A call that strace makes fail is not done: a descriptor whose close it refuses stays open.

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkpoint.saving_loops import until_written

import resumable as rs
from resumable.checkpoint.envelope import decode
from resumable.checkpoint.files import NO_LINKS

CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EACCES]
# What the interpreter calls is found by tracing one save.
LINKING = ["link", "linkat"]
WRITING = ["openat", "open", "write", "fsync", "close", *LINKING]
REMOVING = ["unlink", "unlinkat"]
LOOKING = ["newfstatat", "fstat", "fstatat64", "lstat", "getdents64"]
# The interpreter makes these again when they are interrupted, for ever if need be.
MADE_AGAIN = {"openat", "open", "write", "fsync", "newfstatat", "fstat", "lstat"}
STEP, KEPT = 6, 3


class Unusable(Exception):
    """Strace cannot do here what is needed."""


@dataclass(frozen=True)
class Injection:
    """Make the ``first``-th call of ``name`` fail with ``code``, and all later ones if lasting."""

    name: str
    code: int
    first: int = 1
    lasting: bool = False

    def __str__(self) -> str:
        when = f"{self.first}+" if self.lasting else str(self.first)
        return f"{self.name}:error={errno.errorcode[self.code]}:when={when}"


@dataclass(frozen=True)
class Result:
    """How the save ended, and which promises it broke."""

    outcome: str
    broken: list[str]
    injected: list[str]


def pipeline() -> rs.Pipeline[Any]:
    return rs.range(100)


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


def attempt(loop: Any) -> dict[str, Any]:
    """Ask for the next item, before which a save is due."""
    try:
        return {"item": next(loop)}
    except rs.SaveError as error:
        return {"step": error.step, "code": error.errno, "text": str(error)}


def save_in_a_loop(folder: Path, channel: socket.socket) -> None:
    """What the fork does: save steps 1 to 5, then 6 under the fault, then go on without."""
    store = rs.Directory(folder)
    checkpointer = rs.Checkpointer(
        store, rs.EverySteps(1), retention=rs.Retention(KEPT), save_at_end=False
    )
    loop = checkpointer.resume(pipeline())
    for _ in range(STEP):
        next(loop)
    report: dict[str, Any] = {}
    before = len(descriptors())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        channel.send(b"ready")
        channel.recv(1)
        report["first"] = attempt(loop)
        until_written(checkpointer)
        channel.send(b"tried")
        channel.recv(1)
        report["left open"] = len(descriptors()) - before
        report["steps"] = store.steps()
        report["unfinished"] = unfinished(folder)
        if "item" in report["first"] or STEP not in report["steps"]:
            report["then"] = [attempt(loop), attempt(loop)]
        checkpointer.close()
    report["warnings"] = [str(warning.message) for warning in told]
    channel.send(json.dumps(report).encode())


def unfinished(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".tmp-")]


def run_case(folder: Path, injections: list[Injection], traced: list[str]) -> tuple[Any, str]:
    """Run a fork under the faults; returns its report and the trace."""
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        try:
            save_in_a_loop(folder, there)
        finally:
            os._exit(0)
    there.close()
    trace = folder.with_suffix(".trace")
    try:
        here.settimeout(60)
        here.recv(100)
        strace = attach(child, injections, traced, trace)
        here.send(b"x")
        here.recv(100)
        strace.send_signal(signal.SIGTERM)
        strace.communicate()
        here.send(b"x")
        report = json.loads(here.recv(1 << 16) or "null")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        here.close()
    return report, trace.read_text()


def attach(
    child: int, injections: list[Injection], traced: list[str], trace: Path
) -> subprocess.Popen[str]:
    names = ",".join(f"?{name}" for name in traced)
    command = ["strace", "-f", "-p", str(child), "-o", str(trace), "-e", f"trace={names}"]
    for injection in injections:
        command += ["-e", f"inject={injection}"]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    said = strace.stderr.readline()
    if "attached" not in said:
        strace.communicate()
        raise Unusable(f"strace cannot attach here: {said.strip()}")
    return strace


def check_case(folder: Path, injections: list[Injection], traced: list[str]) -> Result:
    """Run one case, and look at what it left with eyes that saw nothing of the fault."""
    report, trace = run_case(folder, injections, traced)
    injected = re.findall(r"(\w+)\(.*\(INJECTED\)", trace)
    if report is None:
        return Result("!", ["the loop died of something else than SaveError"], injected)
    code = injections[0].code
    first, steps = report["first"], report["steps"]
    saved, found = "item" in first, STEP in steps
    outcome = "new" if saved else "in doubt" if found else "old"
    rules = {
        "a save that returned is found": found or not saved,
        "no save returns unless all was done": not saved
        or code == errno.EINTR
        or not {"write", "fsync", *(() if code in NO_LINKS else LINKING)} & set(injected),
        "the error names the step and the cause": saved
        or (first["step"], first["code"]) == (STEP, code),
        "only a refused removal leaves doubt": outcome != "in doubt" or "unlink" in str(injected),
        "older checkpoints are untouched": {4, 5} < set(steps) and (saved or 3 in steps),
        "no descriptor is left open": report["left open"] == injected.count("close"),
        # What cannot be told from another file is left until the next open.
        "nothing unfinished is left": not report["unfinished"]
        or "unlink" in str(injected)
        or (injections[0].lasting and injections[0].name in LOOKING),
        "the loop goes on": outcome == "in doubt"
        or report["then"] == [{"item": STEP + saved}, {"item": STEP + 1 + saved}],
        "only what retention left is told": all(
            "could not be removed" in text and saved for text in report["warnings"]
        ),
        **check_next_open(folder),
    }
    return Result(outcome, [rule for rule, kept in rules.items() if not kept], injected)


def check_next_open(folder: Path) -> dict[str, bool]:
    store = rs.Directory(folder)
    newest = store.steps()[-1]
    with rs.Checkpointer(store, rs.EverySteps(1), save_at_end=False) as checkpointer:
        loop = checkpointer.resume(pipeline())
        item = next(loop)
    return {
        "the next open finds the newest": item == newest >= STEP - 1,
        "the next open removes what is unfinished": not unfinished(folder),
        "every checkpoint is whole": all(
            decode(store.load(step)).step == step for step in store.steps()
        ),
        "none was set aside": not list(folder.glob("*.ckpt.*")),
    }


class Campaign:
    """All cases, each in a fork of this process, and the table of their results."""

    def __init__(self, root: Path, codes: list[int], names: list[str]) -> None:
        self.root = root
        self.codes = codes
        self.cases = 0
        self.broken: list[str] = []
        self.table: dict[str, dict[int, str]] = {}
        _, trace = run_case(root / "unharmed", [], names)
        self.calls = Counter(re.findall(r"^\d+ +(\w+)\(", trace, re.MULTILINE))
        for several in (["fsync"], ["write"], LINKING, REMOVING):
            assert any(name in self.calls for name in several), f"no save calls {several}"

    def run(self) -> None:
        for name in sorted(self.calls):
            for code in self.codes:
                self._each_call(f"{name}, once", Injection(name, code))
                if code != errno.EINTR or name not in MADE_AGAIN:
                    self._each_call(f"{name}, from then on", Injection(name, code, lasting=True))
        removing = next(name for name in REMOVING if name in self.calls)
        for name in sorted(set(self.calls) - {removing, *LOOKING}):
            for code in set(self.codes) - {errno.EINTR}:
                refused = Injection(removing, code, lasting=True)
                self._each_call(
                    f"{name}, once, and every {removing}", Injection(name, code), refused
                )

    def _each_call(self, row: str, injection: Injection, *others: Injection) -> None:
        """Every call of that name that a save makes, one after another."""
        cell = self.table.setdefault(row, {}).setdefault(injection.code, "")
        for first in range(1, self.calls[injection.name] + 1):
            injections = [replace(injection, first=first), *others]
            self.cases += 1
            result = check_case(self.root / f"case-{self.cases}", injections, list(self.calls))
            case = " ".join(map(str, injections))
            if injection.name not in result.injected:
                result.broken.append("the call was reached")
            self.broken += [f"{case}: not true that {rule}" for rule in result.broken]
            cell += "!" if result.broken else result.outcome[0]
        self.table[row][injection.code] = cell

    def show(self) -> None:
        print(
            "One letter a call: o old, n new, i in doubt (found whole, though save raised), ! broken"
        )
        codes = [errno.errorcode[code] for code in self.codes]
        print(f"{'call that fails':32}" + "".join(f"{code:>8}" for code in codes))
        for row, cells in self.table.items():
            print(f"{row:32}" + "".join(f"{cells.get(code, '-'):>8}" for code in self.codes))
        print(f"{self.cases} cases, {len(self.broken)} promises broken")
        for line in self.broken:
            print(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two errors, and writing calls only")
    quick = parser.parse_args().quick
    if shutil.which("strace") is None:
        print("strace is missing")
        return 2
    with tempfile.TemporaryDirectory() as root:
        try:
            campaign = Campaign(
                Path(root),
                [errno.EIO, errno.ENOSPC] if quick else CODES,
                WRITING + REMOVING + ([] if quick else LOOKING),
            )
        except Unusable as error:
            print(error)
            return 2
        campaign.run()
    campaign.show()
    return 1 if campaign.broken else 0


if __name__ == "__main__":
    sys.exit(main())
