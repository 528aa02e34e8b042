"""Ranks that share a store, and take turns at it call by call, in any order a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import resumable as rs
from resumable.checkpoint.ranks.part import RankPart

__all__ = ["Gated", "Killed", "Life"]

T = TypeVar("T")
PATIENCE = 60


class Killed(BaseException):
    """The process of a rank is gone."""


class Life:
    """One life of a rank: a thread that stops before each call of its store until it is let go.

    Args:
      body: what the rank does with its store.
      store: that the ranks share.

    Attributes:
      over: whether the thread has come to its end.
      next_call: the method that it will call next.
      error: what ended it, if it was neither killed nor done.
    """

    def __init__(self, body: Callable[[rs.Store], object], store: rs.Store) -> None:
        self.over, self.next_call = False, ""
        self.error: BaseException | None = None
        self._killed = False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, args=(body, Gated(store, self)))
        self._thread.start()
        self._wait()

    def turn(self, calls: int = 1) -> None:
        """Let it make so many calls of its store, and run up to the one after."""
        for _ in range(calls):
            if self.over:
                break
            self._go.release()
            self._wait()

    def turn_until(self, call: str) -> None:
        """Let it run until it is about to ``call``."""
        while self.next_call != call:
            assert not self.over, f"it ended, and never called {call}: {self.error!r}"
            self.turn()

    def kill(self) -> None:
        """End it before the next call; it makes no other."""
        self._killed = True
        while not self.over:
            self.turn()

    def call(self, make: Callable[..., T], *arguments: Any) -> T:
        """Make a call of the store once it is let go."""
        self.next_call = make.__name__
        if not self._killed:
            self._stopped.release()
            assert self._go.acquire(timeout=PATIENCE)
        if self._killed:
            raise Killed
        return make(*arguments)

    def _live(self, body: Callable[[rs.Store], object], store: rs.Store) -> None:
        try:
            body(store)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.over = True
            self._stopped.release()

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=PATIENCE)
        if self.over:
            self._thread.join(PATIENCE)


class Gated(rs.Store):
    """A store whose every call waits for its turn."""

    def __init__(self, store: rs.Store, life: Life) -> None:
        self._store, self._life = store, life

    def save(self, step: int, data: bytes) -> str:
        return self._life.call(self._store.save, step, data)

    def load(self, step: int) -> bytes:
        return self._life.call(self._store.load, step)

    def steps(self) -> list[int]:
        return self._life.call(self._store.steps)

    def remove(self, step: int) -> None:
        self._life.call(self._store.remove, step)

    def set_aside(self, step: int, reason: str) -> str:
        return self._life.call(self._store.set_aside, step, reason)

    def has_damaged(self) -> bool:
        return self._life.call(self._store.has_damaged)

    def part(self, part: RankPart) -> rs.Store:
        return Gated(self._store.part(part), self._life)

    def parts(self) -> list[tuple[int, RankPart]]:
        return self._life.call(self._store.parts)
