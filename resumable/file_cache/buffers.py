"""Memory that parts are read into again and again."""

# To get a megabyte of fresh memory from the system takes several times as long as to read a part into
# memory that is in use already. A bytearray cannot change its size while a view of it is in use, which
# tells whether anybody may still look at what was read into it.

from __future__ import annotations

from collections import deque
from typing import Final

MOST: Final = 8
"""Buffers that are kept."""

SMALLEST: Final = 1 << 16
LARGEST: Final = 1 << 22
"""Bytes that are worth a kept buffer, and not too many for one."""

_buffers: Final = deque[bytearray]()


def buffer_of(size: int) -> memoryview:
    """``size`` bytes to read into; nobody else has them before the view and all parts of it are gone."""
    if not SMALLEST <= size <= LARGEST:
        return memoryview(bytearray(size))
    for _ in range(len(_buffers)):
        try:
            buffer = _buffers.popleft()  # so no other thread finds it
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
