"""What an executor is asked to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

if TYPE_CHECKING:
    from .slot import ActorSlot

_numbers: Final = count()


class Call(NamedTuple):
    """A function and its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@final
class Task:
    """A call that an actor is to make.

    Args:
      call: the call.
      lane: where it waits; None if any actor may make it.

    Attributes:
      future: of its result.
      call: the argument, until it was sent, so that the items in it are freed then.
      lane: the argument.
      number: larger than that of each task before it.
      ref: Ray's name of the result, while an actor has it.
      sent: when an actor got it, in seconds.
    """

    def __init__(self, call: Call, lane: Lane | None) -> None:
        self.future: Future[Any] = Future()
        self.call: Call | None = call
        self.lane = lane
        self.number = next(_numbers)
        self.ref: Any = None
        self.sent = 0.0

    def answer(self, value: Any, error: BaseException | None) -> None:
        """Give ``value`` or ``error`` to who waits for the future, which is running."""
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


@final
class Lane:
    """Tasks for one actor, as long as it lives.

    Attributes:
      waiting: those that no actor has, in order.
      slot: where that actor is; None if there is none.
    """

    def __init__(self) -> None:
        self.waiting: deque[Task] = deque()
        self.slot: ActorSlot | None = None
