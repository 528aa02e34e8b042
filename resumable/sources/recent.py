"""What a source handed out last, in a few bytes that a later run can be compared with."""

# An item belongs to whoever got it, and may be another by the time a state is taken. So what is kept
# of it is a sample that nobody can change, of few parts. The rest of the work is done when a state is
# taken, once for a sample. What differs between runs that are the same goes into none: no address, no
# order of a set, no value of a kind that is not known here, and of a float only seven digits, since
# other versions of a library compute the last bits in other ways.
#
# A sample takes longer than handing an item out, so one is taken of each of the first items, then of
# every 16th. Which these are depends on their numbers alone: runs that came to a position by other
# calls have the same samples there. Another order is found all the same, as it seldom has the right
# items in four given places.

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgpack
import numpy as np

FEW: Final = 4
"""Samples that a digest is made of."""
KEPT: Final = FEW + 1
"""Samples that are kept, so that the digest before the last item is known too."""
EVERY: Final = 16
"""From this number on, samples are taken of its multiples only; before, of each item."""
NOTHING_KNOWN: Final = 0
LARGEST_DIGEST: Final = 2**32 - 1

NUMBERS: Final = frozenset({int, float, bool, type(None)})
TEXT: Final = frozenset({str, bytes})
LONGEST_HELD: Final = 1 << 16
MOST_PARTS: Final = 8
LONGEST_PART: Final = 64
LARGEST_INT: Final = 2**63 - 1

Sample: TypeAlias = Any
"""A number, text, None, an array of ours, or a tuple of them."""
UNKNOWN: Final = ()
"""The sample of what has no value known here."""


def next_sampled(first: int) -> int:
    """The first number from ``first`` on that a sample is taken of."""
    return first + -first % EVERY if first > EVERY else first


def sampled(first: int, end: int) -> Sequence[int]:
    """The last few numbers from ``first`` to before ``end`` that samples are taken of."""
    if first >= EVERY:
        return range(first + -first % EVERY, end, EVERY)[-KEPT:]
    return [*range(first, min(end, EVERY))[-KEPT:], *range(EVERY, end, EVERY)[-KEPT:]][-KEPT:]


def sample(item: Any) -> Sample:
    """What tells much of ``item``, and nobody can change."""
    kind = type(item)
    if kind in NUMBERS:
        return item
    if kind is dict:
        parts = item.values()  # not the keys, which are mostly the same
    elif isinstance(item, (tuple, list)):
        parts = item
    else:
        return _part(item)
    if len(parts) > MOST_PARTS:
        parts = islice(parts, MOST_PARTS)
    # Inline, since it is done in the loop over items.
    return (
        len(item),
        *[
            part
            if (kind := type(part)) in NUMBERS or (kind in TEXT and len(part) <= LONGEST_HELD)
            else _part(part)
            for part in parts
        ],
    )


def _part(part: Any) -> Sample:
    """The sample of what is no number, and nothing that has parts."""
    kind = type(part)
    if kind in TEXT:
        return part if len(part) <= LONGEST_HELD else _ends(part)
    if kind is np.ndarray:
        return (*part.shape, part.flat[:: part.size // MOST_PARTS or 1])
    return part if isinstance(part, np.generic) else UNKNOWN


class Recent:
    """Samples of the last few items that any are taken of.

    Args:
      samples: those so far, at most `KEPT`.
    """

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._samples: deque[Sample] = deque(samples, KEPT)
        self.append = self._samples.append

    def copy(self) -> Recent:
        """The same samples, to which others may be appended."""
        return Recent(self._samples)

    def extend(self, items: list[Any], first: int) -> None:
        """Take samples of ``items``, numbered from ``first``, that came after those before."""
        for number in sampled(first, first + len(items)):
            item = items[number - first]
            self.append(item if type(item) in NUMBERS else sample(item))

    def digest(self, position: int, later: int = 0) -> int:
        """A number that tells these samples, without the last ``later`` of them, from others.

        Up to `LARGEST_DIGEST`; `NOTHING_KNOWN` where some of the items before ``position`` that
        samples are taken of did not pass here.
        """
        samples, end = self._samples, len(self._samples) - later
        needed = min(position, FEW)
        if not end >= needed > 0:
            return NOTHING_KNOWN
        for number in range(end - needed, end):
            one = samples[number]
            if type(one) is not _Packed:
                samples[number] = _Packed(
                    msgpack.packb(_packable(one), unicode_errors="surrogatepass")
                )
        return zlib.crc32(b"".join(islice(samples, end - needed, end)))

    def digest_before(self, last: int) -> int:
        """The same as it was before item ``last``, the last one that has passed."""
        return self.digest(last, int(next_sampled(last) == last))


class _Packed(bytes):
    """A sample as bytes."""


def _packable(one: Sample) -> Any:
    """A sample in what msgpack has a form of."""
    kind = type(one)
    if kind in TEXT:
        return one if len(one) <= 2 * LONGEST_PART else _packable(_ends(one))
    if kind is float:
        return f"{one:.6e}"
    if kind is tuple:
        return [_packable(part) for part in one]
    if kind is int and not -LARGEST_INT <= one <= LARGEST_INT:
        return [one.bit_length(), one & LARGEST_INT]
    if isinstance(one, (np.ndarray, np.generic)):
        known = one.dtype.kind in "biuf" and one.dtype.itemsize <= 8
        return [one.dtype.str, *map(_packable, np.ravel(one).tolist() if known else [])]
    return one


def _ends(text: Any) -> tuple[int, Any, Any]:
    return len(text), text[:LONGEST_PART], text[-LONGEST_PART:]
