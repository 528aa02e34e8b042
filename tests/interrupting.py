"""Interrupt a piece of code at each place where a signal handler may run."""

# CPython runs signal handlers at the entry of a function, after a call of one written in C, and at
# a backward jump. A profile function is called at the first two, always at the same ones in the
# same code, and what it raises comes out there, as what a handler raises does.

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

__all__ = ["Interrupt", "interrupted", "places"]


class Interrupt(BaseException):
    """What the handler raises."""


def interrupted(run: Callable[[], object], place: int) -> None:
    """Call ``run``, and interrupt it at ``place``, a number from 1 on, if it comes there."""
    left = place

    def handler(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise Interrupt

    with suppress(Interrupt):
        sys.setprofile(handler)
        try:
            run()
        finally:
            sys.setprofile(None)


def places(run: Callable[[], object]) -> int:
    """How many places there are in ``run``."""
    count = 0

    def handler(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_return")

    sys.setprofile(handler)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count
