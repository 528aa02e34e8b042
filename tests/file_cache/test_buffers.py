"""Memory that is read into again is nobody else's meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resumable.file_cache.buffers import MOST, SMALLEST, buffer_of


@given(st.lists(st.tuples(st.integers(0, 3 * SMALLEST), st.integers(0, 30)), max_size=40))
def test_no_two_views_in_use_share_memory(steps: list[tuple[int, int]]) -> None:
    used: list[tuple[memoryview, int]] = []
    for number, (size, dropped) in enumerate(steps):
        view = buffer_of(size)
        assert len(view) == size
        view[:] = bytes([number]) * size
        used.append((view[size // 3 :], number))  # a part of it keeps it in use
        del view
        if dropped < len(used):
            del used[dropped]
        for kept, value in used:
            assert kept == bytes([value]) * len(kept)


def test_what_nobody_uses_is_used_again() -> None:
    found = {id(buffer_of(4 * SMALLEST).obj) for _ in range(3 * MOST)}
    assert len(found) <= MOST
