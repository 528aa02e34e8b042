"""Measure a pipeline: speed, time by stage, cost of the state."""

# `measuring` plans the runs. `runs` draws items against the clock. `timed` puts a timing stage
# after each stage, and a `ledger` adds up the time of each stage. `saving` takes states, saves and
# resumes. `report` holds the result, with `advice` about the bottleneck; `plot` draws it.

from __future__ import annotations

from .measuring import measure as measure
from .plot import check_plot as check_plot
from .plot import check_writable as check_writable
from .plot import draw as draw
from .report import BenchReport as BenchReport
from .report import brief as brief
from .report import percent as percent
