"""Draw the items of a pipeline, and find the first unexpected item."""

# Items never leave the process. A run writes digests to a file, or compares digests with a file.

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, final

from ..errors import shorten
from ..testing.digest import DIGEST_BYTES, item_digest
from ..testing.processes import Watch as Watch

TEXT_LENGTH: Final = 200
FEWEST: Final = 10_000
"""Fewest items drawn of a pipeline that may be endless."""


class ItemDifference(NamedTuple):
    """The first unexpected item.

    Attributes:
      number: of the item in the whole run.
      got: the item as text, or None if no item came.
    """

    number: int
    got: str | None


class PipelineRun(NamedTuple):
    """The result of running a pipeline.

    Attributes:
      items: number of items.
      ended: whether the end was seen.
      difference: the first difference from the expected items, if any.
      error: the exception that ended the run, if any.
      texts: the first items as text, if asked for.
      first_at: when the first item or the end came, by `perf_counter`; None if no item was asked for.
    """

    items: int
    ended: bool
    difference: ItemDifference | None
    error: str | None
    texts: tuple[str, ...] = ()
    first_at: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the run differs from the expected items."""
        return self.difference is not None or self.error is not None


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
        """The digests after the first ``count`` digests."""
        return Digests(self.path, self.first + count)

    def __len__(self) -> int:
        return max(Path(self.path).stat().st_size // DIGEST_BYTES - self.first, 0)

    def __iter__(self) -> Iterator[bytes]:
        joined = self.read()
        for at in range(0, len(joined), DIGEST_BYTES):
            yield bytes(joined[at : at + DIGEST_BYTES])

    def read(self) -> memoryview:
        """All digests, concatenated."""
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
    patience: float | None = None,
) -> PipelineRun:
    """Draw up to ``limit`` items.

    Args:
      items: to draw.
      limit: number of items; without a limit, an end at another item than expected is a difference.
      watch: called with the number of items so far.
      expected: digests to compare with.
      keep: a new file for the digests; then one more item is tried, to see the end.
      texts: how many items to keep as text.
      first: the number of the first item in the whole run.
      patience: seconds after which the run is stopped, though after `FEWEST` items at the earliest; None for never.
    """
    wanted = expected.read() if expected is not None else memoryview(b"")
    kept = bytearray()
    shown: list[str] = []
    difference = error = first_at = None
    count, ended = 0, False
    stop = math.inf if limit is None else limit
    end = math.inf if patience is None else monotonic() + patience
    while count < stop or keep is not None:
        try:
            item = next(items)
        except StopIteration:
            ended = True
            break
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            break
        finally:
            first_at = first_at or perf_counter()
        if count >= stop:  # more items follow
            break
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
        if count >= FEWEST and monotonic() > end:
            stop = count
    if keep is not None:
        Path(keep).write_bytes(kept)
    if expected is not None and difference is None and error is None:
        promised = len(wanted) // DIGEST_BYTES
        if count < (promised if limit is None else min(limit, promised)):
            difference = ItemDifference(first + count, None)
    return PipelineRun(count, ended, difference, error, tuple(shown), first_at)


def text_of(item: Any) -> str:
    """An item for people."""
    return shorten(item, TEXT_LENGTH)
