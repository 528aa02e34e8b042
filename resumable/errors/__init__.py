"""The exceptions raised by the library on purpose, and the form of values in messages.

Each exception derives from `ResumableError`. Most also derive from the built-in exception
expected for the same mistake, so `except ValueError` keeps working.
"""

from __future__ import annotations

import functools
import re
import reprlib
from typing import Any, Final

from .public_urls import public_text


class ResumableError(Exception):
    """The base of all exceptions raised by this library on purpose."""


class InvalidArgument(ResumableError, ValueError):
    """An argument breaks a rule, or a call is not allowed at this place or time."""


class InvalidType(ResumableError, TypeError):
    """An argument has the wrong type."""


class UnknownLength(ResumableError, TypeError):
    """`len()` was called on an endless pipeline, or on a pipeline of unknown length."""


class StateMismatch(ResumableError, ValueError):
    """A state belongs to another pipeline, or is not a state at all.

    Args:
      message: why the state is refused.

    Attributes:
      stage: the stage that refused the state; None if not refused by a stage.
      located: whether the message gives the place of ``stage`` in the pipeline.
    """

    def __init__(self, message: str, stage: object = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.located = False

    def locate(self, place: str) -> None:
        """Put ``place`` before the message."""
        self.reword(f"{place}: {self}")
        self.located = True

    def reword(self, message: str) -> None:
        """Replace the message by ``message``, which has more details.

        A second exception raised from this exception would print the message twice.
        """
        self.args = (message,)


class NewerFormat(ResumableError):
    """A checkpoint was written in a later format than this library reads."""


class ExternalStateError(ResumableError):
    """The position of a foreign object can be neither read nor restored exactly."""


class UnencodableState(ResumableError, TypeError):
    """A state holds a value without an exact serialised form."""


class CorruptCheckpoint(ResumableError, ValueError):
    """Bytes that should hold a state or a checkpoint are damaged or hostile."""


class NoValidCheckpoint(ResumableError):
    """All checkpoints are damaged, or the chosen checkpoint is missing."""


class SaveError(ResumableError, OSError):
    """A checkpoint could not be stored; ``__cause__`` is the error of the store.

    Args:
      message: which checkpoint, and why.

    Attributes:
      step: of the checkpoint; of several checkpoints, the last step.
    """

    def __init__(self, message: str, step: int = 0) -> None:
        super().__init__(message)
        self.step = step


class ReadError(ResumableError, OSError):
    """A file could not be read, even after retries; ``__cause__`` is the last error."""


class MissingFile(ReadError, FileNotFoundError):
    """A file does not exist, or no longer exists."""


class NameInUse(ResumableError, BlockingIOError):
    """Another loop, of this process or another process, writes checkpoints under the name.

    Args:
      message: describes the other loop.

    Attributes:
      host: the name of the machine of the other loop; None if unknown.
      process: the id of the process of the other loop; None if unknown.
    """

    def __init__(self, message: str, host: str | None = None, process: int | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.process = process


class MissingDependency(ResumableError, ImportError):
    """An argument or a command needs a package that is not installed."""


class MalformedItem(ResumableError, ValueError):
    """An item of the source, or a batch of items, cannot be decoded."""


class WorkerError(ResumableError, RuntimeError):
    """A background thread or a worker ended without delivering its result."""


class IteratorClosed(ResumableError, ValueError):
    """An iterator or a checkpointer was used after `close()`."""


OPTIONS: Final = "storage_options"
MOST_CHARACTERS: Final = 10_000


class _Shown(reprlib.Repr):
    """Like `reprlib`, but an object without a custom `repr` is shown by class, not by address.

    Possible secrets are left out: in URLs, and in storage options.
    """

    def repr_str(self, x: str, level: int) -> str:
        # A longer text is no URL, and searching for URLs would take long.
        is_url = len(x) <= MOST_CHARACTERS and "://" in x
        return super().repr_str(public_text(x) if is_url else x, level)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if isinstance(x.get(OPTIONS), dict):
            x = x | {OPTIONS: ...}
        return super().repr_dict(x, level)

    def repr_partial(self, x: functools.partial[Any], level: int) -> str:
        name = getattr(x.func, "__qualname__", None) or self.repr1(x.func, level - 1)
        options = [
            f"{key}="
            + ("..." if key == OPTIONS or isinstance(value, dict) else self.repr1(value, level - 1))
            for key, value in x.keywords.items()
        ]
        given = [self.repr1(argument, level - 1) for argument in x.args]
        return f"partial({', '.join([name, *given, *options])})"

    def repr_instance(self, x: object, level: int) -> str:
        kind = type(x)
        if kind.__repr__ is object.__repr__:
            return f"<{kind.__module__}.{kind.__qualname__} object>"
        return super().repr_instance(x, level)


_shown = _Shown().repr


def shorten(value: object, limit: int = 60) -> str:
    """`repr` of ``value`` in at most about ``limit`` characters, for messages."""
    try:
        text = _shown(value)
    except ValueError:  # an integer with more digits than Python prints
        text = f"a {type(value).__name__} that is too large to show"
    text = re.sub(r"\s*\n\s*", " ", text)  # a repr of several lines would break a table
    if len(text) <= limit:
        return text
    if text.startswith("<"):  # the end of the name identifies the class
        return "<..." + text[4 - limit :]
    return text[: limit - 3] + "..."


def brief(text: str, limit: int = 60) -> str:
    """``text``; only the beginning and the end of a text longer than ``limit``."""
    if len(text) <= limit:
        return text
    kept = limit - 3
    return f"{text[: kept - kept // 2]}...{text[-(kept // 2) :]}"
