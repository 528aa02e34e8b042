"""Verify that a pipeline resumes exactly, and find the cause of a difference."""

# `verifier` plans the runs and the stops. `processes` gives each run a fresh process. `work`,
# `deals` and `flow` hold the tasks of a process, `conditions` the circumstances, and `counted`
# counts items. `several` runs ranks with a common checkpoint. `diagnosis` searches for the cause of a
# difference. `report` holds the result.

from __future__ import annotations

from .estimate import Estimate as Estimate
from .report import Finding as Finding
from .report import Report as Report
from .target import Target as Target
from .target import TargetError as TargetError
from .verifier import CannotRun as CannotRun
from .verifier import verify as verify
