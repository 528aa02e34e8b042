"""Cases that the two versions of TensorFlow share, so that the tests with each of them try about half.

It is for cases that vary what is ours, such as the step of a crash: whether one of them is exact does not depend on
the version, and the others show what does. The deep tier tries all with both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import tensorflow as tf
from support.tiers import is_deep

__all__ = ["IS_OLD", "dealt"]

T = TypeVar("T")

IS_OLD: Final = hasattr(tf, "estimator")
"""Whether it is TensorFlow 2.15, the last one with Estimator."""


def dealt(cases: Iterable[T]) -> list[T]:
    """The first of ``cases``, and of the others the two at every second turn; the rest is tried with the other version.

    They are dealt in pairs, since tests take one of two hooks by whether a number is even.
    """
    first, *others = cases
    if is_deep():
        return [first, *others]
    return [first, *(case for place, case in enumerate(others) if (place // 2 % 2 == 0) is IS_OLD)]
