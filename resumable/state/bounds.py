"""The cost of decoding a serialised state, computed before decoding."""

# A few bytes of msgpack can expand to much memory. So before anything is built, the cost of the
# items is added up, in the order of the decoder.

from __future__ import annotations

from operator import mul
from typing import Final

BIG_INT, TUPLE, ARRAY, SCALAR, COMPLEX = 1, 2, 3, 4, 5
"""Codes of the extensions for values without a form in msgpack."""

MOST_CONTAINERS: Final = 500_000
# Limit of a serialised state and the state built from it together, as a multiple of the serialised
# size, or of SMALL_STATE bytes if larger. Arrays take four times their size.
MOST_GROWTH: Final = 6.25
SMALL_STATE: Final = 16_000_000
ALWAYS_WITHIN: Final = 250_000
"""A state of at most this many bytes never exceeds a bound."""

# Cost of one item, in bytes of memory, by its first byte: roughly the memory while the state is
# built, and more for an item that is small but slow to build.
ITEM, STRING, LIST, DICT, LARGE_ENTRY, EXTENSION = 40, 72, 72, 240, 160, 160
COSTS: Final = [ITEM] * 256
COSTS[0x80:0x90] = [DICT + LARGE_ENTRY * max(0, count - 5) for count in range(16)]
COSTS[0x90:0xA0] = [LIST] * 16
COSTS[0xA0:0xC0] = [STRING + (length & ~15) for length in range(32)]
# The number of items in a dict or list, if the first byte holds the number.
INNER: Final = [0] * 256
INNER[0x80:0x90] = range(0, 32, 2)
INNER[0x90:0xA0] = range(16)
# The size of an item, if known from the first byte; 0 if more bytes must be read.
SIZES: Final = [1] * 256
SIZES[0xA0:0xC0] = range(1, 33)
SIZES[0xCA:0xD4] = [5, 9, 2, 3, 5, 9, 2, 3, 5, 9]
SIZES[0xC4:0xCA] = [0] * 6
SIZES[0xD4:0xE0] = [0] * 12
# By first byte: the number of bytes of the length field, or the length itself.
LENGTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
LENGTHS.update({0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4})
FIXED: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def explain_excess(data: bytes | memoryview) -> str | None:
    """Why decoding ``data`` would take too much time or memory; None if decoding is safe.

    Counts the items in the order of the decoder, and builds nothing.
    """
    budget = int(MOST_GROWTH * max(len(data), SMALL_STATE)) - len(data)
    heads, inner, cost, place, end = [0] * 256, 0, 0, 0, len(data)
    for _ in range(budget // ITEM + 1):
        if place >= end:
            break
        head = data[place]
        heads[head] += 1
        size = SIZES[head]
        if not size:
            size, inner_here, cost_here = _long_item(data, place, head)
            inner += inner_here
            cost += cost_here
            if cost > budget:
                break
        place += size
    if sum(heads[0x80:0xA0]) + sum(heads[0xDC:0xE0]) > MOST_CONTAINERS:
        return f"it has more than {MOST_CONTAINERS} dicts and lists"
    if cost + sum(map(mul, heads, COSTS)) > budget:
        return f"{end} bytes that would take more than {budget} bytes of memory"
    # The decoder makes room for as many items as a list claims.
    if inner + sum(map(mul, heads, INNER)) >= sum(heads):
        return "incomplete input"
    return None


def _long_item(data: bytes | memoryview, place: int, head: int) -> tuple[int, int, int]:
    """Size, number of inner items, and cost beyond `COSTS`, of an item with a length."""
    start = place + 1 + LENGTHS.get(head, 0)
    length = FIXED.get(head) or int.from_bytes(data[place + 1 : start], "big")
    if head >= 0xDE:
        return start - place, 2 * length, DICT + LARGE_ENTRY * max(0, length - 5)
    if head >= 0xDC:
        return start - place, length, LIST
    if head >= 0xD9:
        wide = not bytes(data[start : start + length]).isascii()
        return start - place + length, 0, STRING + length * (4 if wide else 1)
    if head <= 0xC6:
        return start - place + length, 0, 2 * length
    # An extension is read into bytes, then decoded like a list of one item.
    if start < len(data) and TUPLE <= data[start] <= COMPLEX:
        return start - place + 1, 1, EXTENSION + length
    return start - place + 1 + length, 0, EXTENSION + 2 * length
