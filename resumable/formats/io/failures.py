"""Describe an error of a remote file system, and decide whether the error is transient."""

# File systems wrap errors: s3fs raises FileNotFoundError for a missing bucket, and fsspec does for
# any file of unknown size. So the first error with a status or a code in the chain of causes
# counts. Packages of file systems are not imported to find it: their classes are known by name.

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
"""Classes of botocore, google-auth and aiohttp for permanent errors."""

TRANSIENT_STATUS: Final = (408, 425, 429)
"""HTTP statuses below 500 that ask to retry later."""
TRANSIENT_CODES: Final = frozenset((
    "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestThrottled",
    "RequestThrottledException", "TooManyRequestsException", "OperationAborted", "IncompleteBody",
    "PriorRequestNotComplete", "BandwidthLimitExceeded", "XAmzContentSHA256Mismatch",
))  # fmt: skip
"""Codes of S3 with a status below 500 that ask to retry later."""


def is_transient(error: BaseException) -> bool:
    """Whether a retry may help."""
    for cause in _chain(error):
        code, status = code_of(cause), status_of(cause)
        if code in TRANSIENT_CODES:
            return True
        if status is not None:
            return status >= 500 or status in TRANSIENT_STATUS
        if any(kind.__name__ in PERMANENT_NAMES for kind in type(cause).__mro__):
            return False
    # If a request for the size of a file fails, fsspec reports a missing file.
    last = root_of(error)
    return not isinstance(last, PERMANENT)


def described(error: BaseException) -> str:
    """``error`` in words: the code, the status and the message of the answer, if known."""
    answered = next((cause for cause in _chain(error) if status_of(cause) is not None), None)
    if answered is None:
        root = root_of(error)
        name = type(root).__name__
        return f"{name}: {root}" if str(root) else name
    status, code = status_of(answered), code_of(answered)
    message = _message_of(answered)
    if code is None:
        return f"{type(answered).__name__}: {message}"
    return f"{code} (status {status}): {message}" if code else f"status {status}: {message}"


def status_of(error: BaseException) -> int | None:
    """The HTTP status of ``error`` itself, without its causes; None if it has none."""
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
    """The S3 code of ``error``; empty if the answer had no body, None if the error is not of S3."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return None
    code = str(response.get("Error", {}).get("Code", ""))
    return "" if code.isdigit() else code


def has_no_body(error: BaseException) -> bool:
    """Whether ``error`` comes from an answer without a body, such as the answer to a HEAD."""
    codes = [code for cause in _chain(error) if (code := code_of(cause)) is not None]
    return codes == [""] * len(codes) and bool(codes)


def statuses(error: BaseException) -> set[int]:
    """The HTTP statuses of ``error`` and its causes."""
    found = (status_of(cause) for cause in _chain(error))
    return {status for status in found if status is not None}


def root_of(error: BaseException) -> BaseException:
    """The error itself, or the cause of a `FileNotFoundError`."""
    while isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and its causes, up to the first error that is not a built-in wrapper."""
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
