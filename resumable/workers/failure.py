"""Errors on their way from a worker to the loop."""

# A worker with an error has often made results before. The worker delivers both. The loop hands the
# results out and raises the error then, as it does without workers. The loop never retries
# automatically: an error that comes only once would be lost.

from __future__ import annotations

import pickle
import traceback
from importlib.util import find_spec
from typing import Any, NoReturn, final

from ..errors import WorkerError


@final
class Failure:
    """An error of a worker. In another process the error stays raisable, and shows its origin."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def throw(self) -> NoReturn:
        """Raise the error."""
        raise self.error

    def __reduce__(self) -> tuple[Any, ...]:
        trace = "".join(traceback.format_tb(self.error.__traceback__)).rstrip()
        return _arrived, (dumps(sendable(self.error)), trace)


@final
class _RemoteTraceback(Exception):
    """The frames of an error in the process of its origin."""


def dumps(value: Any, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """``value`` as bytes, by cloudpickle where pickle cannot; large buffers are put into ``buffers``."""
    keep = None if buffers is None else buffers.append
    try:
        return pickle.dumps(value, 5, buffer_callback=keep)
    except Exception:  # such as an object of the unimported main module
        if find_spec("cloudpickle") is None:
            raise
        import cloudpickle

        if buffers is not None:
            buffers.clear()
        data: bytes = cloudpickle.dumps(value, 5, buffer_callback=keep)
        return data


def sendable(error: Any) -> Any:
    """``error`` if picklable, or else a `WorkerError` with its description."""
    try:
        pickle.loads(dumps(error))
    except Exception as reason:
        text = traceback.format_exception_only(error)[0].strip()  # notes are copied below
        described = WorkerError(f"{text} (this exception cannot be pickled: {reason})")
        described.__dict__["__notes__"] = list(getattr(error, "__notes__", []))
        return described
    return error


def sendable_errors(failed: dict[int, Exception | None], tell: bool) -> dict[int, Exception | None]:
    """``failed`` with picklable errors, or with None for each unless ``tell``."""
    return {number: sendable(error) if tell else None for number, error in failed.items()}


def _arrived(packed: bytes, trace: str) -> Failure:
    error = pickle.loads(packed)
    if error.__cause__ is None:
        error.__cause__ = _RemoteTraceback(f"in a worker process\n{trace}")
    return Failure(error)
