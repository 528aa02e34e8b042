"""Checks of arguments: each error names the argument, the rule and the value."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import InvalidArgument, InvalidType, shorten
from ..state.value import LARGEST_COUNT

SEED_LIMIT = 2**64


def check_int(
    name: str, value: Any, *, minimum: int | None = None, maximum: int | None = LARGEST_COUNT
) -> int:
    """Return ``value`` as an int; NumPy integers are integers, bools are not.

    The default maximum is 2**63 - 1, since counts and states have 64 bits.
    """
    if isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(f"{name} must be an integer, got {shorten(value)}") from None
    if minimum is not None and number < minimum:
        raise InvalidArgument(f"{name} must be at least {minimum}, got {shorten(number)}")
    if maximum is not None and number > maximum:
        raise InvalidArgument(f"{name} must be at most {maximum}, got {shorten(number)}")
    return number


def check_field(
    owner: object, name: str, check: Callable[..., Any], *, optional: bool = False, **limits: Any
) -> None:
    """Replace a field of a frozen dataclass by the result of ``check(name, value, **limits)``.

    With ``optional``, None is left unchanged.
    """
    value = getattr(owner, name)
    if value is not None or not optional:
        object.__setattr__(owner, name, check(name, value, **limits))


def check_below(name: str, value: Any, limit_name: str, limit: Any) -> tuple[int, int]:
    """Return ``value`` and ``limit`` as ints, if ``value`` is in ``range(limit)``, as a rank is."""
    limit = check_int(limit_name, limit, minimum=1)
    value = check_int(name, value, minimum=0)
    if value >= limit:
        raise InvalidArgument(f"{name} must be below {limit_name}={limit}, got {value}")
    return value, limit


def check_seed(name: str, value: Any) -> int:
    """Return ``value`` as an int in [0, 2**64)."""
    if value is None:
        raise InvalidType(
            f"{name} must be an integer, got None: without a seed the order cannot be reproduced; "
            "for another order in each run, draw a seed once and keep it with the run"
        )
    return check_int(name, value, minimum=0, maximum=SEED_LIMIT - 1)


def check_seconds(name: str, value: Any) -> float:
    """Return ``value`` as a finite number of seconds above zero."""
    return check_positive(name, value, "a number of seconds")


def check_hours(name: str, value: Any) -> float:
    """Return ``value`` as a finite number of hours above zero."""
    return check_positive(name, value, "a number of hours")


def check_positive(name: str, value: Any, kind: str) -> float:
    """Return ``value`` as a finite float above zero; errors call the value ``kind``."""
    numbers = (int, float, Fraction, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, numbers):
        raise InvalidType(f"{name} must be {kind}, got {shorten(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise InvalidArgument(f"{name} must be finite and above 0, got {shorten(value)}")
    return number


def check_type(name: str, value: Any, kind: type[Any], described: str) -> Any:
    """Return ``value`` if it is a ``kind``, which errors call ``described``."""
    if not isinstance(value, kind):
        raise InvalidType(f"{name} must be {described}, got {shorten(value)}")
    return value


def check_bool(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False."""
    return bool(check_type(name, value, bool, "True or False"))


def check_callable(name: str, value: Any) -> Callable[..., Any]:
    """Return ``value`` if it can be called, and its result need not be awaited."""
    if not callable(value):
        raise InvalidType(f"{name} must be callable, got {shorten(value)}")
    if any(
        is_async(each)
        for each in (value, getattr(value, "__call__", None))  # noqa: B004
        for is_async in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    ):
        raise InvalidType(
            f"{name} must be a plain function, got the async {shorten(value)}, whose results would have to "
            "be awaited; call asyncio.run in a plain one, and let workers=n call it at the same time"
        )
    return value  # type: ignore[no-any-return]


def is_several(value: Any) -> bool:
    """Whether ``value`` can be iterated; an array without axes is an `Iterable` but cannot."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def check_strings(what: str, names: Iterable[Any]) -> None:
    """Refuse ``names`` other than strings; errors call them ``what``, in the plural."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"{what} must be strings, got {shorten(name)}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidArgument(f"{name} must be one of {listed}, got {shorten(value)}")
    return value
