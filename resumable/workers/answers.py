"""What a thread gives to a loop that waits for it, and may be interrupted anywhere."""

# An interrupt may lose what a queue has just returned. So the value is in an attribute, and the queue only
# carries a hint to look there.

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

R = TypeVar("R")


class Answer(Generic[R]):
    """A value or an error that another thread will give, once.

    Attributes:
      given: whether there is a value or an error.
      value: None if it is not given.
      error: the error given instead, if any.
    """

    def __init__(self) -> None:
        self.given = False
        self.value: R | None = None
        self.error: BaseException | None = None
        self._hints: SimpleQueue[None] = SimpleQueue()

    @property
    def succeeded(self) -> bool:
        """Whether there is a value."""
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
    """A call that is made once at most, however often it is submitted."""

    def __init__(self, call: Callable[[], R]) -> None:
        super().__init__()
        self._call = [call]

    def cancel(self) -> bool:
        """Prevent the call; returns whether it had not begun."""
        try:
            self._call.pop()
        except IndexError:
            return False
        return True

    def run(self) -> None:
        """Make the call, unless it has begun or was cancelled."""
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
