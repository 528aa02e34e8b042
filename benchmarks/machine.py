"""Describe where the figures come from: processor, system and versions."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np

from benchmarks.discovery import is_installed, load, names, version

__all__ = ["machine"]


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
        found[title] = version(peer) if is_installed(peer) else "not installed"
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
