"""Read one checkpoint and print, as JSON, what came of it, the seconds and the memory it took."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import resumable as rs
from resumable.checkpoint.envelope import decode, encode
from resumable.checkpoint.reading import read_checkpoint


def peak_bytes(kind: str = "VmHWM") -> int:
    """The most memory that this process has held since it was last set back, or asked for."""
    # Not `ru_maxrss`: a process inherits that from the one that started it.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not tell the peak memory")


def main(folder: str) -> None:
    store = rs.Directory(folder)
    decode(encode(rs.Checkpoint(1, 1.5, {"warm": (1, 2.5)})))
    Path("/proc/self/clear_refs").write_text("5")
    asked, before, began = peak_bytes("VmPeak"), peak_bytes(), time.perf_counter()
    try:
        outcome = type(read_checkpoint(store, 1)).__name__
    except Exception as error:
        outcome = type(error).__name__
        message = str(error)[:200]
    else:
        message = ""
    seconds = time.perf_counter() - began
    found: dict[str, object] = {
        "outcome": outcome,
        "seconds": seconds,
        "bytes": peak_bytes() - before,
    }
    found["asked"] = peak_bytes("VmPeak") - asked
    print(json.dumps(found | {"message": message}))


if __name__ == "__main__":
    main(sys.argv[1])
