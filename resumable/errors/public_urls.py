"""The public form of URLs: in messages, states, logs and the names of files."""

# Signed URLs carry a secret in the query, and other URLs a password before the host. Errors of
# other packages quote URLs, so their texts are changed too, and an error that quotes a secret never
# becomes a cause. A digest instead of the query distinguishes URLs that differ only in the query.

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

URL: Final = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*(?:::[a-z][a-z0-9+.-]*)*://)"
    r"(?:(?P<user>[^\s/?#@'\"<>]*)@)?"
    r"(?P<path>[^\s?#'\"<>]*)(?P<query>[?#][^\s'\"<>]*)?",
    re.IGNORECASE,
)
TARGET: Final = re.compile(r"(?P<path>/[^\s?'\"<>:]*)\?(?P<query>[^\s'\"<>]*=[^\s'\"<>]*)")
"""The path and the query of a request, without its host."""

HARMLESS: Final = re.compile(r"\?(?:(?:versionId|generation|hidden)=[\w.-]*&?)+")
"""Queries that name a version of an object, or that are hidden already."""


def public_url(url: str) -> str:
    """``url`` without a password, and with a digest instead of the query."""
    return public_text(url)


def public_name(name: str) -> str:
    """The name of a file, or the end of a URL, as in a public URL."""
    return public_text(name) if "://" in name else public_text(f"/{name}")[1:]


def public_text(text: str) -> str:
    """``text`` with each URL changed by `public_url`."""
    if "://" not in text and "?" not in text:
        return text
    return TARGET.sub(_public_target, URL.sub(_public, text))


def _public(match: re.Match[str]) -> str:
    scheme, user, path, query = match.group("scheme", "user", "path", "query")
    shown = scheme + ("" if user is None else "***@") + path
    # In other URLs a question mark without a value is part of a pattern.
    if not query or HARMLESS.fullmatch(query) or (scheme[:4] != "http" and "=" not in query):
        return shown + (query or "")
    return f"{shown}?hidden={_digest(query)}"


def _public_target(match: re.Match[str]) -> str:
    path, query = match.group("path", "query")
    harmless = HARMLESS.fullmatch(f"?{query}")
    return match[0] if harmless else f"{path}?hidden={_digest(f'?{query}')}"


def _digest(query: str) -> str:
    return hashlib.blake2b(query.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def public_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Make `OSError` and `ValueError` from ``function``, and their causes, quote no secret."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (OSError, ValueError) as error:
            if all(public_text(str(each)) == str(each) for each in _chain(error)):
                raise
            shown = _public_error(error)
        # Outside of the handler, so that the original error is not reachable from the raised error.
        raise shown

    return called


def _chain(error: BaseException | None) -> list[BaseException]:
    chain = list[BaseException]()
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _public_error(error: BaseException) -> BaseException:
    """An error with a public message and public causes."""
    arguments = [public_text(each) if isinstance(each, str) else each for each in error.args]
    kind: Callable[..., BaseException] = type(error)
    if type(error).__module__ not in ("builtins", __package__):
        kind, arguments = OSError, [public_text(f"{type(error).__name__}: {error}")]
    shown = kind(*arguments)
    cause = error.__cause__
    shown.__cause__ = None if cause is None else _public_error(cause)
    return shown
