"""Map on Ray's actors: exact, whoever dies, and resumed without Ray."""

from __future__ import annotations

from concurrent.futures import Executor

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install resumable-loader[ray]")
from resumable_ray import RayExecutor


def test_the_executor_is_one() -> None:
    assert issubclass(RayExecutor, Executor)
