"""Fixtures for every test: nothing may be left behind, and runs are reproducible."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread outlives its iterator."""
    before = set(threading.enumerate())
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"
