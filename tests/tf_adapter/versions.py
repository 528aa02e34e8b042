"""Divide the cases of a test between the two versions of TensorFlow, about half for each version.

The cases vary arguments of the adapter, such as the step of a crash. The result of such a case does not depend on the
version of TensorFlow; other tests cover the differences. The deep tier tries all cases with both versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import tensorflow as tf
from support.tiers import is_deep

__all__ = ["IS_OLD", "dealt"]

T = TypeVar("T")

IS_OLD: Final = hasattr(tf, "estimator")
"""Whether TensorFlow is 2.15, the last version with Estimator."""


def dealt(cases: Iterable[T]) -> list[T]:
    """The first of ``cases``, and every second pair of the other cases; the other version tries the remaining pairs.

    The cases come in pairs, since tests choose one of two hooks by whether a number is even.
    """
    first, *others = cases
    if is_deep():
        return [first, *others]
    return [first, *(case for place, case in enumerate(others) if (place // 2 % 2 == 0) is IS_OLD)]
