"""Prove that a pipeline, or a stage of your own, resumes exactly.

`check_resumes_everywhere` and `check_stage` need only this library. The strategies and the state
machine need Hypothesis (the extra ``test``), imported on first use. With pytest, the fixture
``assert_resumable`` needs no import.
"""

# `laws` has one function for each promise, and `checks` calls them all. With `strategies` and
# `machine`, Hypothesis chooses the pipelines and the calls.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .checks import check_resumes_everywhere as check_resumes_everywhere
from .checks import check_stage as check_stage
from .loaders import LoaderReport as LoaderReport
from .loaders import LoaderRow as LoaderRow
from .loaders import check_loader as check_loader

if TYPE_CHECKING:
    from .machine import PipelineMachine as PipelineMachine
    from .strategies import cut_points as cut_points
    from .strategies import items as items
    from .strategies import pipelines as pipelines

__all__ = [
    "LoaderReport",
    "LoaderRow",
    "PipelineMachine",
    "check_loader",
    "check_resumes_everywhere",
    "check_stage",
    "cut_points",
    "items",
    "pipelines",
]

OF_STRATEGIES: Final = ("cut_points", "items", "pipelines")
WITH_HYPOTHESIS: Final = {
    "PipelineMachine": ".machine",
    **dict.fromkeys(OF_STRATEGIES, ".strategies"),
}


def __getattr__(name: str) -> Any:
    if name not in WITH_HYPOTHESIS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(WITH_HYPOTHESIS[name], __name__), name)
