"""Read ranges of remote files only if the content is unchanged since the pipeline was built."""

# The answer to a GET has the ETag of its content, so no HEAD is needed to learn whether the file
# has changed. `If-Match` spares the body of a changed file. Not every server knows `If-Match`, so
# the ETag of the answer decides. An answer without an ETag proves nothing: a HEAD follows, and from
# then on this server is asked by HEADs.

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from .failures import statuses
from .object_store import RangeAnswer, read_range

if TYPE_CHECKING:
    from .remote import RemoteFile

PRECONDITION_FAILED: Final = 412


_Asking: TypeAlias = "Callable[[Any, RemoteFile, int, int], Awaitable[RangeAnswer]]"

servers_without_tags: Final = set[str]()
"""Servers whose answers have proved nothing, as the beginnings of their URLs."""


def proves_content(file: RemoteFile) -> bool:
    """Whether each read of ``file`` by `conditional_read` shows if it has changed."""
    return (
        file.tag is not None
        and file.tag[0] == "ETag"
        and file.system.kind in ASKING
        and _server(file) not in servers_without_tags
    )


async def conditional_read(
    file: RemoteFile, start: int, end: int, otherwise: Callable[[], Any]
) -> bytes:
    """The bytes of ``file`` from ``start`` to ``end``.

    Args:
      file: must satisfy `proves_content`.
      start: of the range.
      end: of the range.
      otherwise: reads the range without a condition.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
    """
    assert file.tag is not None
    found = await ASKING[file.system.kind](file.system.open()[0], file, start, end)
    if found.data is not None and _is_of(found, file):
        return found.data
    # An answer that was cut short may have a wrong size, so a change is checked twice.
    for _ in range(2):
        if file.is_unchanged(await file.look().call()):
            break
    else:
        raise file.changed()
    if found.tag is not None:
        raise OSError(f"a range has the ETag {found.tag}, but HEAD reports {file.tag[1]}")
    servers_without_tags.add(_server(file))
    data: bytes = await otherwise() if found.data is None else found.data
    return data


async def _ask_by_http(system: Any, file: RemoteFile, start: int, end: int) -> RangeAnswer:
    assert file.tag is not None
    options = dict(system.kwargs)
    headers = dict(options.pop("headers", None) or {})
    # Only the stored content has the ETag that a HEAD reports.
    headers |= {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
    if not file.tag[1].startswith("W/"):
        headers["If-Match"] = file.tag[1]
    session = await system.set_session()
    async with session.get(system.encode_url(file.key), headers=headers, **options) as answer:
        if answer.status == PRECONDITION_FAILED:
            return RangeAnswer()
        system._raise_not_found_for_status(answer, file.key)
        span = answer.headers.get("Content-Range")
        return RangeAnswer(await answer.read(), answer.headers.get("ETag"), _size_in(span))


async def _ask_s3(system: Any, file: RemoteFile, start: int, end: int) -> RangeAnswer:
    assert file.tag is not None
    bucket, key, version = system.split_path(file.key)
    options = {"VersionId": version} if version else {}
    if not getattr(system, "local_expiry_check", False):  # set for servers without If-Match
        options["IfMatch"] = file.tag[1]
    if not version:
        found = await read_range(system, bucket, key, start, end, options.get("IfMatch"))
        if found is not None:
            return found
    span = f"bytes={start}-{end - 1}"
    try:
        answer = await system._call_s3("get_object", Bucket=bucket, Key=key, Range=span, **options)
    except OSError as error:
        if PRECONDITION_FAILED in statuses(error):
            return RangeAnswer()
        raise
    try:
        data = await answer["Body"].read()
        return RangeAnswer(data, answer.get("ETag"), _size_in(answer.get("ContentRange")))
    finally:
        answer["Body"].close()


ASKING: Final[dict[str, _Asking]] = {
    "fsspec.implementations.http.HTTPFileSystem": _ask_by_http,
    "s3fs.core.S3FileSystem": _ask_s3,
}
"""For each class of file systems, the function that makes a conditional request.

A derived class is not named, since it may read in another way.
"""


def _server(file: RemoteFile) -> str:
    parts = urlsplit(file.path)
    endpoint = getattr(file.system.open()[0], "endpoint_url", None)
    return str(endpoint or f"{parts.scheme}://{parts.netloc}")


def _is_of(found: RangeAnswer, file: RemoteFile) -> bool:
    """Whether the bytes ``found`` are known to be of ``file`` as it was found."""
    assert file.tag is not None
    if found.tag is None or _strong(found.tag) != _strong(file.tag[1]):
        return False
    return found.size in ("", "*", str(file.size))


def _size_in(span: str | None) -> str:
    """The size of the whole content in the header Content-Range, if any."""
    return (span or "").rpartition("/")[2]


def _strong(tag: str) -> str:
    """``tag`` without the mark of a weak tag, which a server may add to unchanged content."""
    return tag.removeprefix("W/")
