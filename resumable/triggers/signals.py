"""Save when the process receives a signal, as before a preemption."""

# A trigger is a value. A `SignalRecorder` counts the signals received by the process; the loop
# opens a recorder for the signals of its trigger.

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, final

from ..core.arguments import check_int
from ..core.home_process import HomeProcess
from ..errors import InvalidArgument
from .base import Progress, Trigger


@final
@dataclass(frozen=True, init=False)
class OnSignal(Trigger):
    """Due when one of ``signals`` was received since the last save.

    While the loop runs, a handler counts the signal and then calls the previous handler, if
    installed by Python code. An exception of the previous handler is raised after the save. The
    default actions, to end the process or to raise `KeyboardInterrupt`, do not happen. After the
    loop the previous handlers are restored. A forked child always has the previous handling.

    Args:
      signals: such as ``signal.SIGTERM``; at least one, and only signals that can be caught.

    Raises:
      InvalidArgument: if there is no signal, or a value is not a signal or cannot be caught.
      InvalidType: if a value is not an integer.

    >>> import signal
    >>> rs.OnSignal(signal.SIGTERM, signal.SIGINT)
    OnSignal(SIGINT, SIGTERM)
    """

    numbers: tuple[int, ...]

    def __init__(self, *signals: int) -> None:
        if not signals:
            raise InvalidArgument("signals must hold at least one signal, got none")
        object.__setattr__(self, "numbers", tuple(sorted(set(map(_check_signal, signals)))))

    def is_due(self, progress: Progress) -> bool:
        return not progress.signals.isdisjoint(self.numbers)

    @property
    def signals(self) -> frozenset[int]:
        return frozenset(self.numbers)

    def __repr__(self) -> str:
        return f"OnSignal({', '.join(map(_name, self.numbers))})"


@final
class SignalRecorder:
    """Counts received signals, from `open` to `close`.

    Invariant: a handler only counts and calls the previous handler. So a handler may run between
    any two bytecodes of the main thread, also during a save.

    Attributes:
      received: how often each signal was received, by its number.

    Args:
      numbers: of the signals.

    Raises:
      InvalidArgument: outside the main thread, where Python allows no handlers, or if a handler
        was not installed by Python, and so could be neither called nor restored.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self.received: Counter[int] = Counter()
        self._handlers = [_Handler(number, self.received) for number in sorted(numbers)]

    def open(self) -> None:
        """Install the handlers. `close` removes them, also after a call that was cut short."""
        for handler in self._handlers:
            handler.install()

    def raise_deferred(self) -> None:
        """Raise the exception of a previous handler, once."""
        for handler in self._handlers:
            handler.raise_deferred()

    def close(self) -> None:
        """Restore the previous handlers; may be called again."""
        for handler in reversed(self._handlers):
            handler.remove()


class _Handler:
    """The handler of one signal, on top of the previous handler."""

    # Number of active handlers, by process and signal. A later handler may still call an inactive
    # handler, which leaves out the default action as long as another handler is active.
    active: ClassVar[Counter[tuple[int, int]]] = Counter()

    def __init__(self, number: int, received: Counter[int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgument(
                f"{_name(number)} can only be received in the main thread, got "
                f"{threading.current_thread().name!r}"
            )
        previous = signal.getsignal(number)
        if previous is None:
            raise InvalidArgument(
                f"the handler of {_name(number)} must be one that Python installed, got a "
                "foreign one, which could not be restored"
            )
        self._number = number
        self._received = received
        self._previous: Any = previous
        self._process = HomeProcess()
        self._active = False
        self._deferred: BaseException | None = None

    def install(self) -> None:
        """Become the handler of the signal."""
        self.active[self._process.number, self._number] += 1
        self._active = True
        signal.signal(self._number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._active or not self._process.is_this_one():
            self._advance_to(frame)
            return
        self._received[number] += 1
        if callable(self._previous) and self._previous is not signal.default_int_handler:
            try:
                self._previous(number, frame)
            except BaseException as error:
                self._deferred = error

    def raise_deferred(self) -> None:
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            raise deferred

    def remove(self) -> None:
        """Restore the previous handler, unless another handler was installed meanwhile."""
        if not self._active or not self._process.is_this_one():
            return
        # In other threads Python allows no change of handlers. The handler then stays, and only
        # passes on.
        in_main_thread = threading.current_thread() is threading.main_thread()
        installed: object = signal.getsignal(self._number)
        if in_main_thread and installed is self:
            signal.signal(self._number, self._previous)
        self._active = False
        self.active[self._process.number, self._number] -= 1

    def _advance_to(self, frame: FrameType | None) -> None:
        """Act as if this handler were not installed."""
        by_default = self._previous in (signal.SIG_DFL, signal.default_int_handler)
        if by_default and self.active[os.getpid(), self._number]:
            return
        if callable(self._previous):
            self._previous(self._number, frame)
        elif by_default:
            signal.signal(self._number, signal.SIG_DFL)
            os.kill(os.getpid(), self._number)


def _check_signal(value: Any) -> int:
    number = check_int("each of signals", value)
    if number not in signal.valid_signals():
        raise InvalidArgument(f"each of signals must be a signal, got {number}")
    if _name(number) in ("SIGKILL", "SIGSTOP"):
        raise InvalidArgument(
            f"each of signals must be one that can be caught, got {_name(number)}"
        )
    return number


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return f"signal {number}"
