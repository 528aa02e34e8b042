"""One run of several workloads, which goes on after it was killed."""

# Each workload runs in a process of its own, so that what one has imported, or a crash, does not reach the next.
# That process keeps a journal, and with the workload's result in it there is nothing left to be measured.

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.discovery import load
from benchmarks.fresh import in_fresh_process
from benchmarks.journal import Journal
from benchmarks.result import Options, Result
from resumable.checkpoint.files import write_if_new
from resumable.checkpoint.locking import lock_file

__all__ = ["Run", "code_digest", "opened_run"]

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = {"data", "lock"}
"""What a run that is set aside leaves."""
MINUTES_MORE: Final = 15
"""A workload is killed if it takes twice its time and so much more."""


class Run:
    """What has been measured in a folder.

    Args:
      folder: of the journals.
      options: of the run.
      minutes: that all workloads may take together.
    """

    def __init__(self, folder: Path, options: Options, minutes: float) -> None:
        self._folder = folder
        self._options = options
        self._seconds = 60 * minutes

    def result_of(self, name: str, left: list[str]) -> Result:
        """Measure what is missing of a workload.

        Args:
          name: of the workload.
          left: the workloads that are still to come, with this one.

        Raises:
          Exception: what ends the workload without a result.
        """
        share = load("workloads", name).MINUTES / sum(
            load("workloads", each).MINUTES for each in left
        )
        seconds = max(share * self._seconds, 0.0)
        path = self._folder / f"{name}.jsonl"
        most = 2 * seconds + 60 * MINUTES_MORE
        written, elapsed = in_fresh_process(
            _measured,
            name,
            self._options,
            path,
            seconds,
            seconds=most,
            log=path.with_suffix(".log"),
        )
        self._seconds -= elapsed
        return Result.read(written)


def _measured(
    name: str, options: Options, path: Path, seconds: float
) -> tuple[dict[str, Any], float]:
    """The result of a workload as JSON has it, and the seconds that it took in all lives."""
    journal = Journal(path, seconds)
    with TemporaryDirectory(prefix=f"{name}-", dir=options.folder) as folder:
        own = replace(options, folder=Path(folder), journal=journal)
        written = journal.once("result", measure=lambda: asdict(load("workloads", name).run(own)))
    return written, journal.elapsed


@contextmanager
def opened_run(
    folder: Path, options: Options, circumstances: dict[str, Any], minutes: float
) -> Iterator[Run]:
    """The run in a folder; one of other circumstances is set aside.

    Raises:
      NameInUse: if another process measures there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(lock_file(folder / "lock", "a run of the benchmark")):
        if difference := _difference(folder / "circumstances.json", circumstances):
            print(f"{difference} What it measured is in {_set_aside(folder)} now.")
        if any(folder.glob("*.jsonl")):
            print(f"Going on with what was measured in {folder}.")
        data = json.dumps(circumstances, ensure_ascii=False, indent=1).encode() + b"\n"
        write_if_new(folder / "circumstances.json", data)
        shutil.rmtree(options.folder, ignore_errors=True)  # of a life that was killed
        options.folder.mkdir()
        try:
            yield Run(folder, options, minutes)
        finally:
            shutil.rmtree(options.folder, ignore_errors=True)


def _difference(path: Path, circumstances: dict[str, Any]) -> str:
    """In which way the run that has begun is not this one; "" if it is, or if none has begun."""
    if not path.exists():
        return ""
    before = json.loads(path.read_text())
    for name in {**circumstances, **before}:
        if before.get(name) != circumstances.get(name):
            said = f"{_said(before, circumstances, name)}, not {_said(circumstances, before, name)}"
            return f"The run that was begun has the {name} {said}."
    return ""


def _said(one: dict[str, Any], other: dict[str, Any], name: str) -> str:
    """A value, or of a dict only what another one does not have."""
    value, others = one.get(name), other.get(name)
    if isinstance(value, dict) and isinstance(others, dict):
        value = {key: value[key] for key in value if value[key] != others.get(key)}
    return json.dumps(value, ensure_ascii=False)


def _set_aside(folder: Path) -> Path:
    """Move the files of a run into a folder next to it."""
    place = folder.with_name(f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    number = 1
    while place.exists():
        number += 1
        place = place.with_name(f"{place.name.partition('.')[0]}.{number}")
    place.mkdir()
    for path in [each for each in folder.iterdir() if each.name not in KEPT]:
        path.rename(place / path.name)
    return place


def code_digest() -> str:
    """What all code that is measured, and that measures, hashes to."""
    found = hashlib.sha256()
    for folder in ("resumable", "adapters", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.update(f"{path.relative_to(ROOT)}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]
