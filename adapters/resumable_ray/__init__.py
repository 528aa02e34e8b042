"""A pool of Ray actors as an executor for `map` and `partition`."""

# `executor` is a `concurrent.futures.Executor`, and knows nothing of pipelines.

from __future__ import annotations

from .executor import RayExecutor as RayExecutor
