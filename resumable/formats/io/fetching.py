"""Make requests to a remote file system with a timeout, and retry transient failures."""

# Calls are made in the thread of fsspec's event loop. The calling thread only waits on a simple
# queue: a signal handler may raise there at any moment, and its exception is never taken for an
# error of the file system, even if it has the same class.

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import ENOENT
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ...core.process_counts import process_counts
from ...errors import (
    InvalidArgument,
    InvalidType,
    MissingFile,
    ReadError,
    shorten,
)
from ...errors.public_urls import public_errors
from .failures import described, has_no_body, is_transient, statuses

T = TypeVar("T")
U = TypeVar("U")

GRACE: Final = 5.0
"""Seconds beyond the timeout after which the event loop itself is taken to be stuck."""


MOST_AT_ONCE: Final = 100
"""Most connections that aiohttp makes to a host."""


class Patience(NamedTuple):
    """How long to wait for a remote file system, how often to retry, and how much to read at once.

    Attributes:
      attempts: how often a request is made in all.
      timeout: seconds that an attempt may take.
      wait: seconds to wait after the first failed attempt, doubled after each further failure; a
        random part of up to a half is left out.
      longest_wait: upper limit of the wait in seconds.
      at_once: requests that are made at the same time.
      ahead: bytes that all streams of a process together may read ahead.
    """

    attempts: int = 6
    timeout: float = 60.0
    wait: float = 0.5
    longest_wait: float = 30.0
    at_once: int = 16
    ahead: int = 1 << 25

    @classmethod
    def of(cls, retry: Any, read: Any) -> Patience:
        """The settings from the storage options ``"retry"`` and ``"read"``.

        Raises:
          InvalidArgument: if a key is not known, or a value is out of range.
          InvalidType: if ``retry`` or ``read`` is no dict, or a value is no number.
        """
        retrying, reading = cls._fields[:4], cls._fields[4:]
        return cls(**_numbers("retry", retry, retrying), **_numbers("read", read, reading))

    def seconds_after(self, attempt: int) -> float:
        """How long to wait after the ``attempt``-th attempt."""
        longest = min(self.wait * 2.0 ** min(attempt - 1, 64), self.longest_wait)
        return longest * (0.5 + _jitter.random() / 2)


def _numbers(option: str, values: Any, known: Sequence[str]) -> Mapping[str, Any]:
    """The ``values`` of a storage option, checked; all keys must be ``known``."""
    if not isinstance(values, Mapping):
        raise InvalidType(f"storage_options[{option!r}] must be a dict, got {shorten(values)}")
    unknown = values.keys() - set(known)
    if unknown:
        raise InvalidArgument(
            f"storage_options[{option!r}] must have keys of {list(known)}, got "
            f"{sorted(map(str, unknown))}"
        )
    for name, value in values.items():
        wanted = int if name in ("attempts", "at_once", "ahead") else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InvalidType(f"{name} must be a number, got {shorten(value)}")
        least = {"attempts": 1, "at_once": 1, "timeout": 1e-3}.get(name, 0)
        if not least <= value < float("inf"):
            raise InvalidArgument(f"{name} must be at least {least:g}, got {value}")
        if name == "at_once" and value > MOST_AT_ONCE:
            raise InvalidArgument(f"at_once must be at most {MOST_AT_ONCE}, got {value}")
    return values


# Not the generator of the module `random`, which belongs to the user.
_jitter: Final = random.Random()


AT_ONCE: Final = 16
"""Calls of `map_at_once` that are made at the same time."""


class Request(NamedTuple):
    """A request to a remote file system.

    Attributes:
      url: for messages.
      call: made in the thread of the event loop; a returned coroutine is run in the loop.
      explain: called when the request has failed for good; may raise a better error.
      again: a call whose answer has a body, for a ``call`` without a body in its answer: made once
        when the request has failed for good, to get the message of the server.
    """

    url: str
    call: Callable[[], Any]
    explain: Callable[[], None] = lambda: None
    again: Callable[[], Any] | None = None


class _FailedRequest(NamedTuple):
    """A request that failed.

    Attributes:
      request: the request.
      error: why.
    """

    request: Request
    error: BaseException


def fetch(request: Request, patience: Patience) -> Any:
    """The result of the call of ``request``; raises the errors of `fetch_all`."""
    return fetch_all([request], patience)[0]


@public_errors
def fetch_all(requests: Sequence[Request], patience: Patience) -> list[Any]:
    """The results of the calls of ``requests``, several made at once.

    Only failed requests are made again.

    Raises:
      ReadError: if a request never succeeded, or its error is permanent; the cause is the last
        error.
      FileNotFoundError: if the file does not exist.
    """
    if not requests:
        return []
    found: dict[int, Any] = {}
    attempt = 1
    while failed := _try_missing(requests, found, patience):
        if not is_transient(failed.error) or attempt == patience.attempts:
            error = _explained(failed, patience)
            raise _given_up(failed, attempt, patience, error) from error
        time.sleep(patience.seconds_after(attempt))
        attempt += 1
    return [found[number] for number in range(len(requests))]


def _try_missing(
    requests: Sequence[Request], found: dict[int, Any], patience: Patience
) -> _FailedRequest | None:
    """Make the requests not ``found`` yet, once; returns a failure, preferably a permanent one."""
    missing = [number for number in range(len(requests)) if number not in found]
    failed: _FailedRequest | None = None
    answers = _answers([requests[number] for number in missing], patience)
    for number, (value, error) in zip(missing, answers, strict=True):
        if error is None:
            found[number] = value
        elif failed is None or is_transient(failed.error):
            failed = _FailedRequest(requests[number], error)
    return failed


def map_at_once(function: Callable[[T], U], values: Sequence[T]) -> list[U]:
    """The results of ``function`` for ``values``, for a function that waits for a network."""
    with ThreadPoolExecutor(min(AT_ONCE, len(values))) as executor:
        return list(executor.map(function, values))


def _explained(failed: _FailedRequest, patience: Patience) -> BaseException:
    """The error of ``failed``, or the server's own from a body; may raise a better error."""
    request, error = failed
    # A server that is down or overloaded explains nothing.
    if not is_transient(failed.error) or (type(error) is OSError and not statuses(error)):
        request.explain()
    if request.again is None or not has_no_body(error):
        return error
    ((_, other),) = _answers([request._replace(call=request.again)], patience)
    return other if other is not None and statuses(other) & statuses(error) else error


def _given_up(
    failed: _FailedRequest, attempt: int, patience: Patience, error: BaseException
) -> ReadError:
    """The final error of a request that is not made again."""
    url, reason = failed.request.url, described(error)
    if isinstance(error, asyncio.TimeoutError):
        reason = f"no answer within {patience.timeout:g} seconds"
    if is_transient(failed.error):
        ended = f"attempt {attempt} of {patience.attempts} ended with {reason}"
        return ReadError(f"{url} could not be read: {ended}")
    if isinstance(error, FileNotFoundError) and statuses(error) <= {404, 410}:
        why = "" if error.__cause__ is None else f": {reason}"
        return MissingFile(ENOENT, f"there is no {url}{why}")
    return ReadError(f"{url} could not be read, and trying again would not help: {reason}")


Answer: TypeAlias = "tuple[Any, BaseException | None]"
"""The result of a call and None, or None and the error it raised."""


def _answers(requests: Sequence[Request], patience: Patience) -> list[Answer]:
    """The results or the errors of the calls of ``requests``, each made once."""
    answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()
    give_up = _begin(requests, patience, lambda place, answer: answers.put((place, answer)))
    found: dict[int, Answer] = {}
    try:
        # At least one call is running until the end, so the next answer comes within the timeout.
        while len(found) < len(requests):
            place, answer = answers.get(timeout=patience.timeout + GRACE)
            found[place] = answer
    except Empty:
        give_up()
    except BaseException:
        give_up()
        raise
    late: Answer = (None, asyncio.TimeoutError())
    return [found.get(place, late) for place in range(len(requests))]


def begin(
    requests: Sequence[Request],
    patience: Patience,
    done: Callable[[int, Any], None],
    gate: asyncio.Semaphore | None = None,
) -> Callable[[], None]:
    """Begin to make ``requests``, once each; returns a function that cancels the unfinished ones.

    Args:
      requests: several are made at once.
      patience: has the timeout of a request.
      done: called in another thread with the place of each request and the result of its call, or
        None if the call failed.
      gate: limits the requests made at once; by default a gate for ``requests`` alone.
    """

    # A reader asks for failed requests again, and gets the error.
    def answered(place: int, answer: Answer) -> Awaitable[None]:
        return asyncio.to_thread(done, place, answer[0])

    return _begin(requests, patience, answered, gate)


def _begin(
    requests: Sequence[Request],
    patience: Patience,
    answered: Callable[[int, Answer], Awaitable[None] | None],
    gate: asyncio.Semaphore | None = None,
) -> Callable[[], None]:
    """Like `begin`; ``answered`` is called in the event loop, and awaited if it is a coroutine."""
    from fsspec.asyn import get_loop

    loop, tasks = get_loop(), set[asyncio.Task[None]]()
    open_gate = gate or asyncio.Semaphore(patience.at_once)

    async def run(place: int, call: Callable[[], Any]) -> None:
        answer: Answer = (None, asyncio.CancelledError())
        try:
            async with open_gate:
                answer = (await asyncio.wait_for(_called(call), patience.timeout), None)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            answer = (None, error)
        finally:
            with suppress(RuntimeError):  # the interpreter ends
                writing = answered(place, answer)
                if writing is not None:
                    await writing

    def start() -> None:
        for place, request in enumerate(requests):
            task = loop.create_task(run(place, request.call))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def give_up() -> None:
        for task in list(tasks):
            task.cancel()

    loop.call_soon_threadsafe(start)
    return partial(loop.call_soon_threadsafe, give_up)


async def _called(call: Callable[[], Any]) -> Any:
    process_counts.requests += 1
    made = call()
    answer = await made if asyncio.iscoroutine(made) else made
    if isinstance(answer, bytes):
        process_counts.bytes_read += len(answer)
    return answer
