"""Digest the last items of a source, to compare with a later run."""

# The user may change an item before a state is taken. So a sample of the item is kept: a few
# unchangeable parts. A sample is encoded when a state is taken, and only once. It leaves out all
# values that may differ between equal runs: addresses, the order of a set, values of unknown types.
# Only seven digits of a float enter, since versions of a library differ in the last bits.
#
# Taking a sample takes longer than handing out an item. So each of the first items is sampled, then
# every 16th. The sampled items depend on their numbers alone: runs that reach a position by
# different calls have the same samples. Another order is still noticed: it seldom has the right
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
"""Number of samples in a digest."""
KEPT: Final = FEW + 1
"""Number of samples kept, so that the digest before the last item is known too."""
EVERY: Final = 16
"""Every item before this number is sampled; later, only the multiples of this number."""
NOTHING_KNOWN: Final = 0
LARGEST_DIGEST: Final = 2**32 - 1

NUMBERS: Final = frozenset({int, float, bool, type(None)})
TEXT: Final = frozenset({str, bytes})
LONGEST_HELD: Final = 1 << 16
MOST_PARTS: Final = 8
LONGEST_PART: Final = 64
LARGEST_INT: Final = 2**63 - 1

Sample: TypeAlias = Any
"""A number, text, None, an array that nobody else has, or a tuple of samples."""
UNKNOWN: Final = ()
"""The sample of an object of an unknown type."""


def next_sampled(first: int) -> int:
    """The first sampled number from ``first`` on."""
    return first + -first % EVERY if first > EVERY else first


def sampled(first: int, end: int) -> Sequence[int]:
    """The last `KEPT` sampled numbers from ``first`` to before ``end``."""
    if first >= EVERY:
        return range(first + -first % EVERY, end, EVERY)[-KEPT:]
    return [*range(first, min(end, EVERY))[-KEPT:], *range(EVERY, end, EVERY)[-KEPT:]][-KEPT:]


def sample(item: Any) -> Sample:
    """A few unchangeable parts of ``item``."""
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
    # Inline, for the loop over items.
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
    """The sample of an object other than a number, tuple, list or dict."""
    kind = type(part)
    if kind in TEXT:
        return part if len(part) <= LONGEST_HELD else _ends(part)
    if kind is np.ndarray:
        return (*part.shape, part.flat[:: part.size // MOST_PARTS or 1])
    return part if isinstance(part, np.generic) else UNKNOWN


class Recent:
    """The last `KEPT` samples, of which a digest has `FEW`.

    Args:
      samples: the samples so far, at most `KEPT`.
    """

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._samples: deque[Sample] = deque(samples, KEPT)
        self.append = self._samples.append

    def copy(self) -> Recent:
        """A copy with the same samples."""
        return Recent(self._samples)

    def extend(self, items: list[Any], first: int) -> None:
        """Sample ``items``, the next items, numbered from ``first``."""
        for number in sampled(first, first + len(items)):
            item = items[number - first]
            self.append(item if type(item) in NUMBERS else sample(item))

    def digest(self, position: int, later: int = 0) -> int:
        """A number for the samples, without the last ``later``, to tell runs apart.

        `NOTHING_KNOWN` if some of the items sampled before ``position`` did not pass here.
        """
        samples, end = self._samples, len(self._samples) - later
        needed = min(position, FEW)
        if not end >= needed > 0:
            return NOTHING_KNOWN
        for number in range(end - needed, end):
            one = samples[number]
            if type(one) is not _PackedSample:
                samples[number] = _PackedSample(
                    msgpack.packb(_packable(one), unicode_errors="surrogatepass")
                )
        return zlib.crc32(b"".join(islice(samples, end - needed, end)))

    def digest_before(self, last: int) -> int:
        """The digest before item ``last``, the last passed item."""
        return self.digest(last, int(next_sampled(last) == last))


class _PackedSample(bytes):
    """A sample as bytes."""


def _packable(one: Sample) -> Any:
    """A sample as a value for msgpack."""
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
