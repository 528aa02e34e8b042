"""Reuse memory for reading parts."""

# Getting a megabyte of fresh memory from the system takes several times as long as reading a part
# into memory that is already mapped. A bytearray with views cannot change its size: a failed resize
# shows that a buffer is still in use.

from __future__ import annotations

from collections import deque
from typing import Final

MOST: Final = 8
"""Buffers that are kept."""

SMALLEST: Final = 1 << 16
LARGEST: Final = 1 << 22
"""Sizes in bytes from `SMALLEST` to `LARGEST` use kept buffers."""

_buffers: Final = deque[bytearray]()


def buffer_of(size: int) -> memoryview:
    """``size`` bytes to read into, exclusive until the view and all slices of the view are gone."""
    if not SMALLEST <= size <= LARGEST:
        return memoryview(bytearray(size))
    for _ in range(len(_buffers)):
        try:
            buffer = _buffers.popleft()  # so no other thread finds the buffer
        except IndexError:
            break
        view = memoryview(buffer)[:size] if len(buffer) >= size and _is_free(buffer) else None
        _buffers.append(buffer)
        if view is not None:
            return view
    buffer = bytearray(size)
    view = memoryview(buffer)
    _buffers.append(buffer)
    while len(_buffers) > MOST:
        _buffers.popleft()
    return view


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
        buffer.pop()
    except BufferError:
        return False
    return True
