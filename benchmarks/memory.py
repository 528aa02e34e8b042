"""Measure the private memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["private_bytes"]

STATUS = Path("/proc/self/status")


def private_bytes() -> int:
    """Resident bytes that belong to no file; if unknown, the largest resident size so far."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
