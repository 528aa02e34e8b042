"""Fixtures for every test: nothing may be left behind, and runs are reproducible."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support import tiers

# A job in the background of a script is started with interrupts ignored, and what it starts too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Packages of Hugging Face would report their use, from a thread that stays.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-packages",
        action="store_true",
        help="fail a test that skips for lack of a package",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the tier that is asked for, before any module of tests is imported."""
    tiers.begin("deep" if config.getoption("-m") == "deep" else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each tier leaves out what belongs to the other."""
    if tiers.is_deep():
        for item in items:
            if _tries_more(item):
                item.add_marker("deep")  # the others are left out by `-m deep`
        return
    left_out = [item for item in items if item.get_closest_marker("deep")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("deep")]


def _tries_more(item: pytest.Item) -> bool:
    """Whether the deep tier tries more by this test than the quick one: examples, or what the tier decides."""
    test = getattr(item, "obj", None)
    top = getattr(test, "__qualname__", "").partition(".")[0]
    return hasattr(test, "hypothesis") or top in tiers.names_of_tier(item.path)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call() -> Generator[None, Any, None]:
    """Run each test without the variable that names it.

    Workers are forked by a server that is replaced when the environment has changed. So each test with
    workers would start an interpreter.
    """
    name = "PYTEST_CURRENT_TEST"
    named = os.environ.pop(name)
    yield
    os.environ[name] = named


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
        if "is not installed" in reason or "could not import" in reason:
            report.outcome = "failed"
            report.longrepr = reason


# fsspec talks to remote stores, and Dask to its workers, through threads that live as long as the
# process, as does the one by which tqdm watches over its bars; and the server that a store is tested
# with lives as long as the tests of its module.
OF_THE_PROCESS = {
    "fsspecIO",
    "zarr_io",
    *(f"asyncio_{number}" for number in range(8)),
    "s3 server",
    "Dask-Offload_0",
    "tqdm_monitor",
}


@pytest.fixture(scope="session", autouse=True)
def workers_find_packages_of_tests() -> Iterator[None]:
    """In the quick tier, workers find imported what the modules of tests import, from which their functions come."""
    with pytest.MonkeyPatch.context() as patch:
        if not tiers.is_deep() and find_spec("loky") and sys.platform == "linux":
            from resumable.workers import forking
            from resumable.workers.fork_server import ForkServer

            def preloaded(begin: Any, setup: str) -> Any:
                return ForkServer(begin, f"{setup}; import pytest, hypothesis.strategies")

            patch.setattr(forking, "ForkServer", preloaded)
        yield


@pytest.fixture(scope="session")
def catalogue_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files that `graphs.catalogue` reads; no test changes them."""
    from support.graphs import write_data  # here, since not every run needs NumPy and the library

    folder = tmp_path_factory.mktemp("catalogue")
    write_data(folder)
    return folder


@pytest.fixture
def states_kept_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines keep a state after fewer and fewer items; how many depends on the clock otherwise."""
    monkeypatch.setattr("resumable.core.iterator.perf_counter", partial(next, count()))


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread outlives its iterator."""
    before = _threads()
    yield
    gc.collect()
    gc.freeze()  # so that after the next test only what that one made is looked through
    deadline = time.monotonic() + 60
    while (left := _threads() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"


def _threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        # TensorFlow keeps one for its own asynchronous checkpoints, and others that Python did not
        # start and sees only because they log.
        if thread.name not in OF_THE_PROCESS
        and not thread.name.endswith("(_async_save)")
        and not isinstance(thread, threading._DummyThread)
    }
