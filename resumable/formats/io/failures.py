"""Tell what an error of a remote file system says, and whether it may pass."""

# File systems wrap errors: s3fs raises FileNotFoundError for a missing bucket, and fsspec does for any
# file whose size it could not learn. So the first error of the chain of causes that has a status or a
# code counts. Packages of file systems are not imported for that: their classes are known by name.

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from ssl import SSLCertVerificationError
from typing import Final

from ...errors import ResumableError

PERMANENT: Final = (
    FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError,
    NotImplementedError, TypeError, AttributeError, ImportError, AssertionError,
    SSLCertVerificationError, ResumableError,
)  # fmt: skip
PERMANENT_NAMES: Final = frozenset((
    "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ConfigNotFound",
    "ConfigParseError", "NoRegionError", "InvalidRegionError", "ParamValidationError",
    "UnauthorizedSSOTokenError", "SSOTokenLoadError", "UnknownCredentialError",
    "DefaultCredentialsError", "InvalidURL",
))  # fmt: skip
"""Classes of botocore, google-auth and aiohttp: what they complain of stays as it is."""

TRANSIENT_STATUS: Final = (408, 425, 429)
"""Answers of HTTP below 500 that ask to come back later."""
TRANSIENT_CODES: Final = frozenset((
    "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestThrottled",
    "RequestThrottledException", "TooManyRequestsException", "OperationAborted", "IncompleteBody",
    "PriorRequestNotComplete", "BandwidthLimitExceeded", "XAmzContentSHA256Mismatch",
))  # fmt: skip
"""Codes of S3 that ask for the same with a status below 500."""


def is_transient(error: BaseException) -> bool:
    """Whether it may help to try again."""
    for cause in _chain(error):
        code, status = code_of(cause), status_of(cause)
        if code in TRANSIENT_CODES:
            return True
        if status is not None:
            return status >= 500 or status in TRANSIENT_STATUS
        if any(kind.__name__ in PERMANENT_NAMES for kind in type(cause).__mro__):
            return False
    # If a request for the size of a file fails, fsspec says that there is no such file.
    last = root_of(error)
    return not isinstance(last, PERMANENT)


def described(error: BaseException) -> str:
    """What ``error`` says: the code and the status of the answer as far as there are any."""
    told = next((cause for cause in _chain(error) if status_of(cause) is not None), None)
    if told is None:
        told = root_of(error)
        return f"{type(told).__name__}: {told}" if str(told) else type(told).__name__
    status, code = status_of(told), code_of(told)
    message = _message_of(told)
    if code is None:
        return f"{type(told).__name__}: {message}"
    return f"{code} (status {status}): {message}" if code else f"status {status}: {message}"


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that ``error`` itself tells, if it does."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # of botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif hasattr(error, "status"):  # of aiohttp, whose `code` is deprecated
        found = error.status
    else:  # of azure, gcsfs and requests
        found = getattr(error, "status_code", getattr(error, "code", None))
        found = getattr(response, "status_code", found)
    return found if isinstance(found, int) and 300 <= found < 600 else None


def code_of(error: BaseException) -> str | None:
    """The code that S3 gives with ``error``; empty if an answer had no body, None if it is not of S3."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return None
    code = str(response.get("Error", {}).get("Code", ""))
    return "" if code.isdigit() else code


def has_no_body(error: BaseException) -> bool:
    """Whether ``error`` comes from an answer that could not say the reason, as that to a HEAD."""
    codes = [code for cause in _chain(error) if (code := code_of(cause)) is not None]
    return codes == [""] * len(codes) and bool(codes)


def statuses(error: BaseException) -> set[int]:
    """All that ``error`` and its causes tell."""
    found = (status_of(cause) for cause in _chain(error))
    return {status for status in found if status is not None}


def root_of(error: BaseException) -> BaseException:
    """The error itself, or what a `FileNotFoundError` was made of."""
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and its causes, as far as the errors before them are built-in ones that wrap them."""
    while error is not None:
        yield error
        error = error.__cause__ if type(error).__module__ == "builtins" else None


def _message_of(error: BaseException) -> str:
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        message = str(response.get("Error", {}).get("Message", ""))
        if message:
            return message
        status = status_of(error)
        return HTTPStatus(status).phrase if status in set(HTTPStatus) else str(error)
    return str(error)
