"""Break the library in one place after another, and see whether the quick tests notice.

Run from the root of the checkout: ``PYTHONPATH=tests python -m campaigns.mutants``. Each fault of
`mutations.MUTATIONS` is put into a copy of the tree, and the tests of its package are run there until
one fails or hangs. It prints each that survives, and fails if more than one in twenty do.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from campaigns.mutations import MUTATIONS, Mutation

__all__ = ["main"]

R = TypeVar("R")

ROOT: Final = Path(__file__).parents[2]
MOST_SURVIVORS: Final = 0.05
MEMORY: Final = 4 << 30
"""Bytes that a run may hold: a fault may let it go on for ever."""
PATIENCE: Final = 60.0
"""After so many seconds without the end of a test a run hangs, which is noticing too."""

ALL: Final = ["tests"]
FOR_ITEMS: Final = (
    "tests/test_laws.py tests/core tests/test_golden_states.py tests/test_consumed.py"
)
TESTS: Final = {
    "stages": f"tests/stages {FOR_ITEMS} tests/test_what_others_get_wrong_about_order.py "
    "tests/test_what_others_get_wrong_about_state.py tests/workers tests/sources",
    "sources": f"tests/sources {FOR_ITEMS} tests/test_what_others_get_wrong_about_state.py",
    "formats": f"tests/formats {FOR_ITEMS}",
    "file_cache": "tests/file_cache tests/formats/test_file_cache.py",
    "core": f"{FOR_ITEMS} tests/stages tests/sources tests/workers tests/test_work_counts.py "
    "tests/state tests/test_what_others_get_wrong_about_state.py tests/changes/test_changed_graphs.py",
    "state": "tests/state tests/test_laws.py tests/core tests/checkpoint/test_hostile_files.py",
    "order": f"tests/order tests/windows {FOR_ITEMS} tests/stages",
    "windows": f"tests/windows {FOR_ITEMS}",
    "workers": f"tests/workers {FOR_ITEMS}",
    "shadows": "tests/shadows tests/checkpoint/test_tracing.py",
    "groups": f"tests/shadows tests/stages {FOR_ITEMS}",
    "triggers": "tests/triggers tests/checkpoint",
    "checkpoint": "tests/checkpoint tests/triggers tests/cli/test_inspect.py "
    "tests/changes/test_history.py",
}


class Verdict(NamedTuple):
    """What became of a mutation: the test that noticed it, if one did."""

    mutation: Mutation
    noticed_by: str | None
    seconds: float


def main(arguments: list[str] | None = None) -> int:
    """Try the mutations; the exit status tells whether enough were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--only", default="", help="modules whose path begins so, such as stages/")
    options = parser.parse_args(arguments)
    chosen = [mutation for mutation in MUTATIONS if mutation.path.startswith(options.only)]
    for mutation in chosen:
        _check_found(mutation)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as executor:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            trees.put(_copied_tree(Path(folder) / str(number)))

        def in_a_tree(work: Callable[..., R], *arguments: Any) -> R:
            tree = trees.get()
            try:
                return work(tree, *arguments)
            finally:
                trees.put(tree)

        if failure := in_a_tree(_first_failure, ALL, options.jobs):
            raise SystemExit(f"without a fault: {failure}")

        def judged(mutation: Mutation) -> Verdict:
            return in_a_tree(_judged, mutation)

        verdicts = []
        for verdict in executor.map(judged, chosen):
            verdicts.append(verdict)
            _show(verdict)
    survivors = [verdict for verdict in verdicts if verdict.noticed_by is None]
    caught = len(verdicts) - len(survivors)
    print(f"{caught} of {len(verdicts)} mutations were noticed")
    for verdict in survivors:
        print(f"survived: {_described(verdict.mutation)}")
    return int(len(survivors) > MOST_SURVIVORS * len(verdicts))


def _check_found(mutation: Mutation) -> None:
    found = (ROOT / "resumable" / mutation.path).read_text(encoding="utf-8").count(mutation.old)
    if found != 1:
        raise SystemExit(f"found {found} times, must be once: {_described(mutation)}")


def _copied_tree(tree: Path) -> Path:
    for name in ("resumable", "adapters", "benchmarks", "docs", "examples", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "pyproject.toml",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "README.md",
        "hatch_build.py",
    ):
        shutil.copy(ROOT / name, tree)
    return tree


def _room(mutation: Mutation) -> str:
    return mutation.path.split("/")[0]


def _judged(tree: Path, mutation: Mutation) -> Verdict:
    path = tree / "resumable" / mutation.path
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    began = time.monotonic()
    try:
        noticed_by = _first_failure(tree, TESTS[_room(mutation)].split())
    finally:
        path.write_text(text, encoding="utf-8")
    return Verdict(mutation, noticed_by, time.monotonic() - began)


def _first_failure(tree: Path, tests: list[str], jobs: int = 0) -> str | None:
    # Settings of the run that this is part of, if it is, are not meant for this one.
    inherited = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    # No bytecode: a module that is changed twice within a second would be the old one.
    environment = inherited | {
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", f"-n{jobs}", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    printed = bytearray()
    stream = process.stdout
    assert stream is not None
    with process:
        # Each test prints a letter when it ends.
        while select.select([stream], [], [], PATIENCE)[0]:
            part = os.read(stream.fileno(), 1 << 16)
            if not part:
                break
            printed += part
        else:
            os.killpg(process.pid, signal.SIGKILL)
            return "it hangs"
    if process.returncode == 0:
        return None
    lines = printed.decode(errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"pytest ends with status {process.returncode}"


def _show(verdict: Verdict) -> None:
    told = verdict.noticed_by or "SURVIVED"
    print(f"{verdict.seconds:6.1f} s  {_described(verdict.mutation)}\n          {told}", flush=True)


def _described(mutation: Mutation) -> str:
    old, new = (" ".join(text.split()) for text in (mutation.old, mutation.new))
    return f"{mutation.path}: {old!r} -> {new!r}"


if __name__ == "__main__":
    sys.exit(main())
