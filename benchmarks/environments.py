"""Where peers are installed: with this library, or in an environment of their own."""

# A peer whose requirements conflict with those of others has a file `requirements-PEER.txt` here, and an
# environment of these packages in a folder PEER. All others are in `requirements.txt`, and run with the
# interpreter that runs the benchmark. A framework that only one workload needs has such a file too.

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.fresh import environ

__all__ = ["OWN", "command_that_makes", "python_of", "versions_in"]

ROOT: Final = Path(__file__).parents[1]
OWN: Final = tuple(
    sorted(
        path.stem.removeprefix("requirements-")
        for path in Path(__file__).parent.glob("requirements-*.txt")
    )
)
"""Peers and frameworks that have an environment of their own."""
VERSIONS: Final = """
import importlib.util, importlib.metadata, json, sys
distribution, *packages = sys.argv[1:]
found = all(importlib.util.find_spec(package) for package in packages)
names = {"NumPy": "numpy", "torch": "torch", "": distribution}
versions = {}
for title, name in names.items() if found else ():
    try:
        versions[title] = importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


def folder_of(peer: str) -> Path:
    """The environment of a peer that has its own."""
    place = os.environ.get("RESUMABLE_BENCHMARK_ENVIRONMENTS") or ROOT / "build" / "benchmarks"
    return Path(place, peer)


def python_of(peer: str) -> str:
    """The interpreter that runs a peer."""
    own = folder_of(peer) / "bin" / "python"
    return str(own) if peer in OWN and own.exists() else sys.executable


def command_that_makes(peer: str) -> str:
    """What makes the environment of a peer."""
    folder, file = folder_of(peer), f"benchmarks/requirements-{peer}.txt"
    return f"{sys.executable} -m venv {folder} && {folder}/bin/pip install -r {file}"


@cache
def versions_in(python: str, distribution: str, *packages: str) -> dict[str, str]:
    """Versions of NumPy, torch and a distribution (under ""); none if a package is missing."""
    command = [python, "-c", VERSIONS, distribution, *packages]
    done = subprocess.run(
        command, env=environ(os.environ), capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found
