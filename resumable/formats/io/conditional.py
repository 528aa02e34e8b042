"""Read ranges of remote files only if the content is unchanged since the pipeline was built."""

# The answer to a GET has the ETag of its content, so no HEAD is needed to learn whether the file
# has changed. `If-Match` spares the body of a changed file. Not every server knows `If-Match`, so
# the ETag of the answer decides. An answer without an ETag proves nothing: a HEAD follows, and from
# then on this server is asked by HEADs.

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from .failures import statuses
from .object_store import read_range

if TYPE_CHECKING:
    from .remote import RemoteFile

PRECONDITION_FAILED: Final = 412


class _Content(NamedTuple):
    """The answer of a server.

    Attributes:
      data: the bytes of the range; None if the condition was not met.
      tag: the ETag of the content; None if missing.
      span: the range and the size of the content, from the header Content-Range.
    """

    data: bytes | None = None
    tag: str | None = None
    span: str | None = None

    def is_of(self, file: RemoteFile) -> bool:
        """Whether the bytes are known to be from the content of ``file`` when it was found."""
        assert file.tag is not None
        if self.data is None or self.tag is None:
            return False
        size = (self.span or "").rpartition("/")[2]
        return _strong(self.tag) == _strong(file.tag[1]) and size in ("", "*", str(file.size))


_Asking: TypeAlias = "Callable[[Any, RemoteFile, int, int], Awaitable[_Content]]"

servers_without_tags: Final = set[str]()
"""Servers whose answers have proved nothing, as the beginnings of their URLs."""


def proves_content(file: RemoteFile) -> bool:
    """Whether each read of ``file`` by `conditional_read` shows if it has changed."""
    return (
        file.tag is not None
        and file.tag[0] == "ETag"
        and _asking_of(file) is not None
        and _server(file) not in servers_without_tags
    )


def conditional_read(
    file: RemoteFile, start: int, end: int, otherwise: Callable[[], Any]
) -> Callable[[], Any]:
    """A function that returns a coroutine to read ``file`` from ``start`` to ``end``.

    The coroutine raises `MalformedItem` if the file has changed since the pipeline was built.

    Args:
      file: must satisfy `proves_content`.
      start: of the range.
      end: of the range.
      otherwise: reads the range without a condition.
    """
    asking = _asking_of(file)
    assert asking is not None
    return partial(_read, asking, file, start, end, otherwise)


async def _read(
    asking: _Asking, file: RemoteFile, start: int, end: int, otherwise: Callable[[], Any]
) -> bytes:
    assert file.tag is not None
    system, _ = file.system.open()
    found = await asking(system, file, start, end)
    if found.data is not None and found.is_of(file):
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


async def _ask_by_http(system: Any, file: RemoteFile, start: int, end: int) -> _Content:
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
            return _Content()
        system._raise_not_found_for_status(answer, file.key)
        return _Content(
            await answer.read(), answer.headers.get("ETag"), answer.headers.get("Content-Range")
        )


async def _ask_s3(system: Any, file: RemoteFile, start: int, end: int) -> _Content:
    assert file.tag is not None
    bucket, key, version = system.split_path(file.key)
    options = {"VersionId": version} if version else {}
    if not getattr(system, "local_expiry_check", False):  # set for servers without If-Match
        options["IfMatch"] = file.tag[1]
    if not version:
        found = await read_range(system, bucket, key, start, end, options.get("IfMatch"))
        if found is not None:
            return _Content(found.data, found.tag, f"bytes {start}-{end - 1}/{found.size}")
    span = f"bytes={start}-{end - 1}"
    try:
        answer = await system._call_s3("get_object", Bucket=bucket, Key=key, Range=span, **options)
    except OSError as error:
        if PRECONDITION_FAILED in statuses(error):
            return _Content()
        raise
    try:
        data = await answer["Body"].read()
        return _Content(data, answer.get("ETag"), answer.get("ContentRange"))
    finally:
        answer["Body"].close()


ASKING: Final[dict[str, _Asking]] = {
    "fsspec.implementations.http.HTTPFileSystem": _ask_by_http,
    "s3fs.core.S3FileSystem": _ask_s3,
}
"""For each class of file systems, the function that makes a conditional request."""


def _asking_of(file: RemoteFile) -> _Asking | None:
    # A derived class may read in another way.
    kind = type(file.system.open()[0])
    return ASKING.get(f"{kind.__module__}.{kind.__qualname__}")


def _server(file: RemoteFile) -> str:
    parts = urlsplit(file.path)
    endpoint = getattr(file.system.open()[0], "endpoint_url", None)
    return str(endpoint or f"{parts.scheme}://{parts.netloc}")


def _strong(tag: str) -> str:
    """``tag`` without the mark of a weak tag, which a server may add to unchanged content."""
    return tag.removeprefix("W/")
