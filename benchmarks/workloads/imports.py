"""What `import resumable` costs, and what importing its requirements costs, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from functools import partial
from typing import Final

from benchmarks.result import Options, Result, Table, at_most
from benchmarks.timings import shown

MINUTES: Final = 1

IMPORTS = {"numpy and msgpack": "numpy, msgpack", "resumable": "resumable"}
PROGRAM = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"


def run(options: Options) -> Result:
    """Run four times as many rounds as elsewhere, since an import is short."""
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    journal = options.journal
    for turn in journal.turns(options.rounds if options.quick else 4 * options.rounds):
        order = list(IMPORTS) if turn % 2 else list(reversed(IMPORTS))
        for name in order:
            taken = journal.once(name, turn, measure=partial(_seconds, IMPORTS[name]))
            seconds[name].append(taken)
    needed, whole = seconds.values()
    ratios = [mine / theirs for mine, theirs in zip(whole, needed, strict=True)]
    ratio = statistics.median(ratios)
    rows = [(name, shown([1e3 * each for each in taken], 1)) for name, taken in seconds.items()]
    claims = [at_most("import resumable ÷ import numpy, msgpack", ratio, 1.3)]
    return Result(
        "imports",
        (__doc__ or "").strip(),
        [Table("imports", ("import", "ms"), [*rows, ("ratio", shown(ratios, 2))])],
        [] if options.quick else claims,
        raw=seconds,
    )


def _seconds(modules: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(modules)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
