"""The result from a thread for a waiting loop, which may be interrupted anywhere."""

# An interrupt may lose the object just returned by a queue. So the value is in an attribute, and
# the queue only carries a hint to look there.

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

R = TypeVar("R")


class Answer(Generic[R]):
    """A value or an error to be given once by another thread.

    Attributes:
      given: whether a value or an error was given.
      value: None before an answer.
      error: the error given instead, if any.
    """

    def __init__(self) -> None:
        self.given = False
        self.value: R | None = None
        self.error: BaseException | None = None
        self._hints: SimpleQueue[None] = SimpleQueue()

    @property
    def succeeded(self) -> bool:
        """Whether a value was given."""
        return self.given and self.error is None

    def give(self, value: R | None, error: BaseException | None = None) -> None:
        """Answer with ``value``, or with ``error``."""
        self.value, self.error = value, error
        self.given = True
        self._hints.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; returns whether the answer is given."""
        if not self.given:
            with suppress(Empty):
                self._hints.get(timeout=max(seconds, 0.0))
        return self.given

    def result(self) -> R:
        """Return the value given, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class Job(Answer[R]):
    """A call made once at most, however often the job is submitted."""

    def __init__(self, call: Callable[[], R]) -> None:
        super().__init__()
        self._call = [call]

    def cancel(self) -> bool:
        """Prevent the call; returns whether the call had not begun."""
        try:
            self._call.pop()
        except IndexError:
            return False
        return True

    def run(self) -> None:
        """Make the call, unless already begun or cancelled."""
        try:
            call = self._call.pop()
        except IndexError:
            return
        try:
            self._answer_with(call)
        except BaseException as error:
            self.give(None, error)

    def _answer_with(self, call: Callable[[], R]) -> None:
        self.give(call())
