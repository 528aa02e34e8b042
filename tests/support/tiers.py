"""How much the tests try: a little of everything in the quick tier, much of it in the deep one.

``pytest`` is the quick tier, ``pytest -m deep`` the deep one; `conftest.py` says here which it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings

__all__ = ["begin", "depends_on_tier", "examples", "is_deep", "thinned"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES: Final = {"quick": 8, "deep": 18}
"""Examples of a random test, unless the environment variable RESUMABLE_EXAMPLES says how many."""


def begin(tier: str) -> None:
    """Let all tests that are imported from now on be of ``tier``.

    Examples are the same in every run, so that a failure tells of the change that was made. Whoever
    asks for more of them searches, and gets others each time.
    """
    examples = int(os.environ.get("RESUMABLE_EXAMPLES") or EXAMPLES[tier])
    settings.register_profile(
        tier,
        max_examples=examples,
        derandomize=examples <= EXAMPLES[tier],
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile(tier)
    global _tier
    _tier = tier


_tier = "quick"


def is_deep() -> bool:
    """Whether this is the deep tier."""
    return _tier == "deep"


def depends_on_tier(function: F) -> F:
    """Mark a function that asks for the tier, so that a module of tests that uses it belongs to both."""
    function.__dict__["depends_on_tier"] = True
    return function


def examples() -> int:
    """How many examples a random test tries, for one that draws them without Hypothesis."""
    return int(settings().max_examples)


def thinned(values: Iterable[T], most: int, seed: Any) -> list[T]:
    """All of ``values`` in the deep tier; in the quick one the ends, and ``most`` - 2 between them.

    They are fewer where fewer examples are asked for. Which ones is a matter of ``seed``, the name of
    what is tested: so two tests try other ones, and one test the same every time.
    """
    chosen = list(values)
    most = max(most * min(examples(), EXAMPLES["quick"]) // EXAMPLES["quick"], 2)
    if is_deep() or len(chosen) <= most:
        return chosen
    between = Random(repr(seed)).sample(range(1, len(chosen) - 1), most - 2)
    return [chosen[0], *(chosen[number] for number in sorted(between)), chosen[-1]]
