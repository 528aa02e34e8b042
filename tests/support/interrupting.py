"""Raise at each of the places where a signal handler may run, one after the other."""

# CPython runs handlers when a function of Python is entered, after a call of a built-in one, and
# when a loop goes back. A profile function is told of the first two, and what it raises
# comes out there. Only the thread that asks for it is profiled, as only the main thread runs handlers.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from random import Random
from types import FrameType
from typing import Any

from support.tiers import is_deep

__all__ = ["Interrupt", "Interrupter", "interrupted", "interrupters", "places", "some_interrupters"]


class Interrupt(BaseException):
    """What a handler raises."""


class Interrupter:
    """Raises `Interrupt` at the place of number ``place``, counted over all calls."""

    def __init__(self, place: int) -> None:
        self.left = place + 1

    @property
    def has_rung(self) -> bool:
        """Whether there was such a place."""
        return self.left <= 0

    def __call__(self, call: Callable[[], Any]) -> bool:
        """Make ``call``; whether it was interrupted."""
        global _counting
        _counting = self
        sys.setprofile(_count)
        try:
            call()
        except Interrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


_counting = Interrupter(0)


# A function that lives on: CPython 3.11 may call it once more after it was taken out.
def _count(frame: FrameType, event: str, argument: object) -> None:
    if event in ("call", "c_return") and argument is not sys.setprofile:
        _counting.left -= 1
        if _counting.left == 0:
            raise Interrupt


def interrupted(call: Callable[[], Any], place: int) -> bool:
    """Make ``call``, and interrupt it at ``place``, a number from 0; whether it came there."""
    return Interrupter(place)(call)


def places(call: Callable[[], Any]) -> int:
    """How many places there are in ``call``."""
    counter = Interrupter(sys.maxsize)
    before = counter.left
    counter(call)
    return before - counter.left


def interrupters() -> Iterator[Interrupter]:
    """One for each place, until the last one finds no place left."""
    return _interrupters(0, 1)


def some_interrupters(seed: object) -> Iterator[Interrupter]:
    """The same; in the quick tier for every fifth place, from one that ``seed`` chooses.

    For what does the same several times, as a loop does for each item: so all that it does is interrupted.
    """
    return _interrupters(0, 1) if is_deep() else _interrupters(Random(repr(seed)).randrange(5), 5)


def _interrupters(place: int, step: int) -> Iterator[Interrupter]:
    while True:
        interrupter = Interrupter(place)
        yield interrupter
        if not interrupter.has_rung:
            return
        place += step
