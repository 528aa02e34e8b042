"""A store over another, for tests to override."""

from __future__ import annotations

import copy
from typing import TypeVar

import resumable as rs
from resumable.checkpoint.ranks.part import RankPart
from resumable.checkpoint.store import StoreLock

W = TypeVar("W", bound="WrappedParts")


class Wrapped(rs.Store):
    """A store over another, to override."""

    def __init__(self, inner: rs.Store | None = None) -> None:
        self.inner = inner or rs.Memory()

    def save(self, step: int, data: bytes) -> str:
        return self.inner.save(step, data)

    def load(self, step: int) -> bytes:
        return self.inner.load(step)

    def steps(self) -> list[int]:
        return self.inner.steps()

    def remove(self, step: int) -> None:
        self.inner.remove(step)

    def set_aside(self, step: int, reason: str) -> str:
        return self.inner.set_aside(step, reason)

    def has_damaged(self) -> bool:
        return self.inner.has_damaged()


class WrappedParts(Wrapped):
    """The same for a store that keeps parts: that of a part is a copy, over that of the part."""

    def lock(self) -> StoreLock:
        return self.inner.lock()

    def remove_unfinished(self) -> None:
        self.inner.remove_unfinished()

    def part(self: W, part: RankPart) -> W:
        one = copy.copy(self)
        one.inner = self.inner.part(part)
        return one

    def parts(self) -> list[tuple[int, RankPart]]:
        return self.inner.parts()

    def sync(self) -> None:
        self.inner.sync()
