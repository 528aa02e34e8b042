"""Read ranges of remote files, several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Any, Final, final

from ...file_cache.fetches import FetchJob
from ...file_cache.local import reader_of
from ...file_cache.part_file import Content
from ...file_cache.parts import Span as Span
from ...file_cache.reading_ahead import Settled
from .conditional import conditional_read, proves_content
from .fetching import Request, begin, fetch_all
from .fetching_process import current_process, fetching_process
from .remote import RemoteFile, calling

LARGEST_RANGE: Final = 1 << 23
"""Bytes of the largest request."""


def read_spans(spans: Sequence[Span], *, checked: bool = True, whole: bool = False) -> list[bytes]:
    """The bytes of ``spans``; like `read_pieces`."""
    found = read_pieces(spans, checked=checked, whole=whole)
    return [bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces) for pieces in found]


def read_pieces(
    spans: Sequence[Span], *, checked: bool = True, whole: bool = False
) -> list[list[Content]]:
    """The bytes of ``spans``, each in some pieces, from the cache if the files have one, or read at the same time.

    Args:
      spans: of files of one file system.
      checked: whether to ask for each file that is read if it is what it was.
      whole: whether what is next to each span will be wanted soon, so that it is worth a place in a cache.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if one cannot be read.
      FileNotFoundError: if one is no longer there.
    """
    cached = [span for span in spans if span.file.is_cached]
    if not cached:
        return [[content] for content in _fetched(spans, checked=checked)]
    cache = cached[0].file.system.cache
    assert cache is not None
    found = reader_of(cache).read(cached, _Uncached(checked), whole=whole)
    if len(cached) == len(spans):
        return found
    from_cache = iter(found)
    directly = iter(_fetched([span for span in spans if not span.file.is_cached], checked=checked))
    return [next(from_cache) if span.file.is_cached else [next(directly)] for span in spans]


def read_uncached(spans: Sequence[Span]) -> list[bytes]:
    """The bytes of ``spans``, whatever a cache has of them; raises what `read_pieces` raises."""
    return _fetched(spans, checked=False)


def is_fetched_ahead(file: RemoteFile, size: int) -> bool:
    """Whether a cache fetches a part of ``file`` before it is needed, if so many bytes of it will be."""
    cache = file.cache
    return cache is not None and reader_of(cache).fetches_ahead(size)


def is_checked_by_reads(file: RemoteFile) -> bool:
    """Whether each read of ``file`` tells if it has changed. What a cache has says nothing of that."""
    return proves_content(file) and not file.is_cached


@final
class _Uncached:
    """Reads what is not in a cache."""

    def __init__(self, checked: bool) -> None:
        self._checked = checked

    def read(self, wanted: Sequence[Span]) -> list[bytes]:
        return _fetched(wanted, checked=self._checked)

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


def _fetched(spans: Sequence[Span], *, checked: bool) -> list[bytes]:
    """The bytes of ``spans``, without a cache.

    Args:
      spans: of files of one file system.
      checked: whether to ask for each file if it is what it was. Where an answer says of which
        content it is, that is always checked, and needs no request of its own.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if one cannot be read.
      FileNotFoundError: if one is no longer there.
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
    """A request for some bytes of a remote file."""
    file, start, end = span.file, span.start, span.end
    opened, _ = file.system.open()
    read = calling(opened, "cat_file", file.key, start=start, end=end)
    if proves_content(file):
        read = conditional_read(file, start, end, read)
    # A range may be missing because the size of the file has changed.
    return Request(file.path, partial(_whole, file, start, end, read), file.check_unchanged)


async def _whole(file: RemoteFile, start: int, end: int, read: Callable[[], Any]) -> bytes:
    data: bytes = await read()
    if len(data) == file.size > end - start:
        raise NotImplementedError("the server sends whole files, not ranges")
    if len(data) != end - start:
        raise OSError(f"the body has {len(data)} bytes in place of {end - start}")
    return data
