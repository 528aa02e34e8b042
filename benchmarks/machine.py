"""Describe where the figures come from: processor, system and versions."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.discovery import load, names, version
from benchmarks.environments import OWN, python_of, versions_in

__all__ = ["machine"]

OTHERS: Final = {"WebDataset": "webdataset", "pyarrow": "pyarrow"}
"""What single workloads compare with or read with."""


def machine(peers: tuple[str, ...] | None) -> dict[str, str]:
    """What a reader must know of the machine and the versions; ``peers`` as in `Options`."""
    found = {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)))
        if hasattr(os, "sched_getaffinity")
        else str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }
    for peer in names("peers"):
        title = load("peers", peer).NAME
        if peers is not None and peer not in (*peers, "resumable"):
            continue
        found[title] = version(peer) or "not installed"
    for framework in sorted({*OWN} - {*names("peers")}) if peers is None else ():
        if versions := versions_in(python_of(framework), framework, framework):
            found[framework] = f"{versions['']} (with NumPy {versions['NumPy']})"
    for title, distribution in OTHERS.items():
        with suppress(metadata.PackageNotFoundError):
            found[title] = metadata.version(distribution)
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
