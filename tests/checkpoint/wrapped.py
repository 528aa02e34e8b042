"""A store over another, for tests to override."""

from __future__ import annotations

import resumable as rs


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
