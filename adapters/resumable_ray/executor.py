"""An executor whose workers are Ray actors."""

from __future__ import annotations

from concurrent.futures import Executor


class RayExecutor(Executor):
    """Calls functions in a pool of Ray actors."""
