"""Runs of a pipeline: draw its items, and find the first that is not the expected one."""

# The items themselves never leave their process. A run writes their digests to a file, or compares them
# with those in a file.

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, final

from ..errors import shorten
from .digest import DIGEST_BYTES, item_digest

Watch = Callable[[int], object]
"""Called now and then with the number of items drawn."""

TEXT_LENGTH: Final = 200


class ItemDifference(NamedTuple):
    """The first item that is not what was expected.

    Attributes:
      number: of the item in the whole run.
      got: the item as text, or None if no item came.
    """

    number: int
    got: str | None


class PipelineRun(NamedTuple):
    """What came out of a pipeline.

    Attributes:
      items: how many.
      ended: whether the end was seen.
      difference: from what was expected, if anything was.
      error: what ended the run, if it was an exception.
      texts: the first items for people, if they were asked for.
    """

    items: int
    ended: bool
    difference: ItemDifference | None
    error: str | None
    texts: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether it is not what was expected."""
        return self.difference is not None or self.error is not None


class WaitLimit:
    """How long a run is waited for that may have no end.

    Args:
      items: that are drawn at least.
      seconds: that it may take from now on, if there are more.
    """

    def __init__(self, items: int, seconds: float) -> None:
        self._items = items
        self._end = monotonic() + seconds

    def is_over(self, count: int) -> bool:
        """Whether a run that has drawn ``count`` items is stopped."""
        return count >= self._items and monotonic() > self._end


@final
@dataclass(frozen=True)
class Digests:
    """The digests of a run's items, in a file.

    Attributes:
      path: of the file.
      first: the number of the first item meant.
    """

    path: str
    first: int = 0

    def after(self, count: int) -> Digests:
        """Those of the items after ``count`` more."""
        return Digests(self.path, self.first + count)

    def __len__(self) -> int:
        return max(Path(self.path).stat().st_size // DIGEST_BYTES - self.first, 0)

    def read(self) -> memoryview:
        """All of them, one after another."""
        return memoryview(Path(self.path).read_bytes())[self.first * DIGEST_BYTES :]


def draw(
    items: Iterator[Any],
    limit: int | None,
    watch: Watch,
    *,
    expected: Digests | None = None,
    keep: str | None = None,
    texts: int = 0,
    first: int = 0,
    patience: WaitLimit | None = None,
) -> PipelineRun:
    """Draw up to ``limit`` items.

    Args:
      items: to draw.
      limit: how many; without a limit, an end other than the expected one is a difference.
      watch: called with how many there were.
      expected: to compare them with.
      keep: a new file for their digests; it is then also tried whether more items would come.
      texts: how many items to keep as text.
      first: the number of the first item in the whole run.
      patience: when to stop a run without a limit that does not end; None for never.
    """
    wanted = expected.read() if expected is not None else memoryview(b"")
    kept = bytearray()
    shown: list[str] = []
    difference = None
    count = 0
    drawing = _Drawing(items)
    for item in itertools.islice(drawing, limit):
        digest = item_digest(item)
        at = count * DIGEST_BYTES
        if keep is not None:
            kept += digest
        if expected is not None and difference is None and wanted[at : at + len(digest)] != digest:
            difference = ItemDifference(first + count, text_of(item))
        if len(shown) < texts:
            shown.append(text_of(item))
        count += 1
        watch(count)
        if patience is not None and patience.is_over(count):
            break
    if keep is not None:
        Path(keep).write_bytes(kept)
        next(drawing, None)
    error = None
    if drawing.error is not None:
        error = f"{type(drawing.error).__name__}: {drawing.error}"
    elif expected is not None and difference is None:
        promised = len(wanted) // DIGEST_BYTES
        if count < (promised if limit is None else min(limit, promised)):
            difference = ItemDifference(first + count, None)
    return PipelineRun(count, drawing.ended, difference, error, tuple(shown))


def text_of(item: Any) -> str:
    """An item for people."""
    return shorten(item, TEXT_LENGTH)


class _Drawing:
    """Items until the end or an exception, which is kept."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self.ended = False
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.ended or self.error is not None:
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            self.ended = True
            raise
        except Exception as error:
            self.error = error
            raise StopIteration from None


class TimeToFirstItem:
    """Items, and the seconds from ``began`` until the first one; None without an item."""

    def __init__(self, items: Iterator[Any], began: float) -> None:
        self._items = items
        self._began = began
        self.seconds: float | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._items)
        finally:
            if self.seconds is None:
                self.seconds = perf_counter() - self._began
