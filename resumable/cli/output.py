"""Standard output of a command; the reader may end early, as ``| head`` does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any, Final, TextIO, final

CLOSED_PIPE: Final = 128 + 13
"""The exit status that a shell shows for a program ended by SIGPIPE."""


# Not an `OSError`, nor even an `Exception`: commands report exceptions, and no reader is left.
class ReaderEnded(BaseException):
    """The reader of the output has ended."""


@final
class Output:
    """A stream with a separate exception for a broken pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError as error:
            raise ReaderEnded from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError as error:
            raise ReaderEnded from error

    def drop(self) -> None:
        """Discard unwritten output: the interpreter would try again at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_outcome(as_json: bool, described: Callable[[], object], lines: Iterable[str]) -> None:
    """Print ``described()`` as JSON, for programs, or ``lines``."""
    print(json.dumps(described(), indent=2) if as_json else "\n".join(lines))
