"""What a map does, call by call, to compare it with workers and without."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from support.graphs import catalogue

import resumable as rs
from resumable.core.block import block_items
from resumable.testing.comparing import assert_same

NAMES = list(catalogue(Path()))
AT_MOST = 50

sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4)
keys = st.sets(st.integers(0, 9), max_size=3)
calls = st.lists(
    st.sampled_from(["next", "next", "resume"]) | st.integers(-7, 12), min_size=2, max_size=10
)


def key_of(item: Any) -> int:
    return zlib.crc32(repr(item).encode()) % 10


class Fragile:
    """Fails on the items with some keys, until they are mended."""

    def __init__(self, keys: set[int], gives: Callable[[Any], Any]) -> None:
        self.keys = set(keys)
        self.gives = gives

    def __call__(self, item: Any) -> Any:
        if key_of(item) in self.keys:
            raise KeyError(key_of(item), "of", repr(item))
        return self.gives(item)


def named(name: str, data: Path) -> rs.Pipeline[Any]:
    """A pipeline of the catalogue; a `take` would make a stream of one looked up by index."""
    pipeline = catalogue(data)[name]()
    stage = pipeline.stage
    short = stage.random_access and stage.length is not None and stage.length <= 100
    return pipeline if short else pipeline.take(AT_MOST)


class Event(NamedTuple):
    """What one call did: items or an error, and the position after it."""

    call: Any
    items: list[Any]
    error: str
    state: bytes
    epoch: int


def trace(make: Callable[[], rs.Pipeline[Any]], calls: list[Any], mend: set[int]) -> list[Event]:
    """What ``calls`` do one after the other, and then `next` up to the end.

    A call that fails is made again; after the second failure, ``mend`` is emptied.
    """
    events: list[Event] = []
    iterator = iter(make())
    try:
        for call in itertools.chain(calls, itertools.repeat("next", AT_MOST)):
            for _ in range(3):
                items: list[Any] = []
                error = ""
                try:
                    if call == "resume":
                        state = rs.loads(rs.dumps(iterator.get_state()))
                        iterator.close()
                        iterator = make().resume(state)
                    elif call == "next":
                        items = list(itertools.islice(iterator, 1))
                    elif call < 0:
                        items = [iterator.skip(-call)]
                    else:
                        items = list(block_items(iterator.pull(call)))
                except KeyError as raised:
                    # Which of several errors within one pull comes first, is not promised.
                    error = f"{raised!r}" if call == "next" else "an error"
                    if events and events[-1].error:
                        mend.clear()
                ended = not error and _ended(call, items)
                # Past the end, positions within the graph may differ.
                state_now = b"" if ended else rs.dumps(iterator.get_state())
                # After an error, the epoch is that of the item asked for, or of the one before.
                events.append(Event(call, items, error, state_now, -1 if error else iterator.epoch))
                if not error:
                    break
            if ended:
                break  # asked again at the end, some streams read on in vain
    finally:
        iterator.close()
    return events


def _ended(call: Any, items: list[Any]) -> bool:
    """Whether the call got less than it asked for."""
    if call == "resume":
        return False
    if call == "next":
        return not items
    received = items[0] if call < 0 else len(items)
    return bool(received < abs(call))


def assert_same_events(got: list[Event], expected: list[Event]) -> None:
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert_same(ours.items, theirs.items, f"items of call {number}, {ours.call}")
        assert ours._replace(items=[]) == theirs._replace(items=[]), f"call {number}"
