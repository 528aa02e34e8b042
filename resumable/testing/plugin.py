"""The pytest plugin: `assert_resumable`, `assert_loader_resumes` and `--resumable-positions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..pipeline import Pipeline
from .checks import check_resumes_everywhere
from .laws import first_items
from .loaders import LoaderReport, check_loader


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("resumable").addoption(
        "--resumable-positions",
        metavar="N",
        type=int,
        help="check resuming at N positions spread over the first 10 * N items, instead of at "
        "each of the first 400 (for assert_resumable)",
    )


@pytest.fixture
def assert_resumable(pytestconfig: pytest.Config) -> Callable[..., None]:
    """A function to check that a pipeline resumes exactly; see `check_resumes_everywhere`."""
    count = pytestconfig.getoption("--resumable-positions")

    def check(pipeline: Pipeline[Any], **options: Any) -> None:
        if count is not None and options.get("positions") is None:
            length = len(first_items(pipeline, 10 * count))
            steps = max(count - 1, 1)
            options["positions"] = {length * number // steps for number in range(count)}
        check_resumes_everywhere(pipeline, **options)

    return check


@pytest.fixture
def assert_loader_resumes() -> Callable[..., LoaderReport]:
    """A function to check that a loader of any library resumes exactly; see `check_loader`."""
    return check_loader
