"""Fixtures for every test: nothing may be left behind, and runs are reproducible."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("suite")

# A job in the background of a script is started with interrupts ignored, and what it starts too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-packages",
        action="store_true",
        help="fail a test that skips for lack of a package",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Fail what was skipped for lack of a package, where all are to be had."""
    outcome = yield
    _fail_for_lack_of_a_package(outcome.get_result(), item.config)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    """The same for a module that is skipped as a whole."""
    outcome = yield
    _fail_for_lack_of_a_package(outcome.get_result(), collector.config)


def _fail_for_lack_of_a_package(report: Any, config: pytest.Config) -> None:
    if report.skipped and config.getoption("--require-packages"):
        reason = str(report.longrepr)
        if "is not installed" in reason:
            report.outcome = "failed"
            report.longrepr = reason


# fsspec talks to remote stores, and Dask to its workers, through threads that live as long as the
# process; and the server that a store is tested with lives as long as the tests of its module.
OF_THE_PROCESS = {"fsspecIO", "asyncio_0", "s3 server", "Dask-Offload_0"}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread outlives its iterator."""
    before = _threads()
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while (left := _threads() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"


def _threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        # TensorFlow keeps one for its own asynchronous checkpoints.
        if thread.name not in OF_THE_PROCESS and not thread.name.endswith("(_async_save)")
    }
