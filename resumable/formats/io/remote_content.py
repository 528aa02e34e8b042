"""Read ranges of remote files, several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Any, Final, final

from ...file_cache.fetches import FetchJob
from ...file_cache.part_file import Content
from ...file_cache.parts import Span as Span
from ...file_cache.reading import reader_of
from ...file_cache.reading_ahead import Settled
from .conditional import conditional_read, proves_content
from .fetching import Request, begin, fetch_all
from .fetching_process import current_process, fetching_process
from .remote import RemoteFile, calling

LARGEST_RANGE: Final = 1 << 23
"""Bytes of the largest request."""


def read_spans(spans: Sequence[Span], *, checked: bool = True, whole: bool = False) -> list[bytes]:
    """The bytes of each of ``spans``; like `read_pieces`."""
    found = read_pieces(spans, checked=checked, whole=whole)
    return [bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces) for pieces in found]


def read_pieces(
    spans: Sequence[Span], *, checked: bool = True, whole: bool = False
) -> list[list[Content]]:
    """The bytes of each span in some pieces, from a cache if any, or else read at the same time.

    Args:
      spans: of files of one file system.
      checked: whether to check that each file is unchanged.
      whole: whether the neighbours of each span will be wanted soon, and are worth room in a cache.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if a file cannot be read.
      FileNotFoundError: if a file no longer exists.
    """
    found = iter(list[list[Content]]())
    cached = [span for span in spans if span.file.cache]
    if cached:
        reader = reader_of(cached[0].file.cache)
        found = iter(reader.read(cached, _Uncached(checked), whole=whole))
    uncached = [span for span in spans if not span.file.cache]
    directly = iter(read_uncached(uncached, checked=checked))
    return [next(found) if span.file.cache else [next(directly)] for span in spans]


def is_checked_by_reads(file: RemoteFile) -> bool:
    """Whether each read of ``file`` shows if it has changed; reads from a cache do not."""
    return proves_content(file) and not file.cache


@final
class _Uncached:
    """Reads bytes that are not in a cache."""

    def __init__(self, checked: bool) -> None:
        self._checked = checked

    def read(self, wanted: Sequence[Span]) -> list[bytes]:
        return read_uncached(wanted, checked=self._checked)

    def begin(self, jobs: Sequence[FetchJob], settled: Settled) -> None:
        system = jobs[0].file.system
        own = list[int]()
        size = sum(job.end - job.start for job in jobs)
        process = fetching_process(size) if system.is_in_a_network else None
        for place, job in enumerate(jobs):
            if process is None or not process.begin(job, partial(settled, place)):
                own.append(place)

        def done(place: int, content: bytes | None) -> None:
            job = jobs[own[place]]
            settled(own[place], [] if content is None else job.write(content))

        begin([request_for(jobs[place]) for place in own], system.patience, done)

    def collect(self) -> None:
        process = current_process()
        if process is not None:
            process.collect()

    def wait(self, event: Event, seconds: float) -> None:
        process = current_process()
        if process is not None:
            process.wait(event, seconds)
        else:
            event.wait(seconds)


def read_uncached(spans: Sequence[Span], *, checked: bool = False) -> list[bytes]:
    """The bytes of ``spans``, without a cache.

    Args:
      spans: of files of one file system.
      checked: whether to check that each file is unchanged. If answers identify the content, the
        check is always made, without a separate request.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if a file cannot be read.
      FileNotFoundError: if a file no longer exists.
    """
    if not spans:
        return []
    files = {span.file.path: span.file for span in spans} if checked else {}
    files = {path: file for path, file in files.items() if not proves_content(file)}
    requests = [file.look() for file in files.values()]
    parts = []
    for file, start, end in spans:
        cuts = range(start, end, LARGEST_RANGE)
        requests += [request_for(Span(file, cut, min(cut + LARGEST_RANGE, end))) for cut in cuts]
        parts.append(len(cuts))
    answers = iter(fetch_all(requests, spans[0].file.system.patience))
    for file in files.values():
        if not file.is_unchanged(next(answers)):
            file.check_unchanged()
    return [b"".join([next(answers) for _ in range(count)]) for count in parts]


def request_for(span: Span | FetchJob) -> Request:
    """A request for the bytes of ``span``."""
    file, start, end = span.file, span.start, span.end
    opened, _ = file.system.open()
    read = calling(opened, "cat_file", file.key, start=start, end=end)
    if proves_content(file):
        read = partial(conditional_read, file, start, end, read)
    # A range may be missing because the size of the file has changed.
    return Request(file.path, partial(_whole, file, start, end, read), file.check_unchanged)


async def _whole(file: RemoteFile, start: int, end: int, read: Callable[[], Any]) -> bytes:
    data: bytes = await read()
    if len(data) == file.size > end - start:
        raise NotImplementedError("the server sends whole files, not ranges")
    if len(data) != end - start:
        raise OSError(f"the body has {len(data)} bytes instead of {end - start}")
    return data
