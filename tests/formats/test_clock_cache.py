"""The bound on what is kept: it holds whatever comes between, and keeps what is used."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from resumable.formats.io import clock_cache as clock_cache_module
from resumable.formats.io.clock_cache import ClockCache, Shelved

MOST = 10


class Owner(Shelved[str]):
    """Has a value or none."""


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "use", "drop"]), st.integers(0, 7), st.integers(1, 12))
    )
)
def test_no_more_is_kept_than_the_limit_and_what_was_put_last_if_it_fits(
    moves: list[tuple[str, int, int]],
) -> None:
    shelf: ClockCache[str] = ClockCache(MOST)
    owners = [Owner() for _ in range(8)]
    weights = dict.fromkeys(range(8), 0)
    for move, number, weight in moves:
        owner = owners[number]
        if move == "put":
            shelf.put(owner, f"{number}", weight)
            weights[number] = weight
            assert (owner.kept is not None) == (weight <= MOST)
        elif move == "use":
            owner.used = True
        else:
            shelf.drop(owner)
        kept = [number for number, owner in enumerate(owners) if owner.kept is not None]
        assert all(owners[number].kept == f"{number}" for number in kept)
        assert len(shelf) == len(kept)
        assert sum(weights[number] for number in kept) <= MOST


def test_what_is_used_stays() -> None:
    shelf: ClockCache[str] = ClockCache(MOST)
    owners = [Owner() for _ in range(100)]
    for owner in owners:
        shelf.put(owner, "value")
        owners[0].used = True
    assert owners[0].kept == "value"
    assert sum(owner.kept is not None for owner in owners) == MOST


SOURCE = Path(clock_cache_module.__file__).read_text(encoding="utf-8").splitlines()
WITH = {number for number, line in enumerate(SOURCE, 1) if line.lstrip().startswith("with ")}


class Interrupted(BaseException):
    """What a handler of signals raises."""


def interrupted_after(count: int, shelf: ClockCache[str], owner: Owner) -> bool:
    """Put a value, and raise after that many bytecodes; whether there were as many.

    Those of a `with` itself do not count: Python handles no signal between them.
    """
    left = count

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != clock_cache_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lineno not in WITH:
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        shelf.put(owner, "new", 3)
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_between_any_two_bytecodes_leaves_the_bound_and_the_lock() -> None:
    count = 0
    going_on = True
    while going_on:
        shelf: ClockCache[str] = ClockCache(MOST)
        owners = [Owner() for _ in range(20)]
        for owner in owners[:10]:
            shelf.put(owner, "value")
        going_on = interrupted_after(count, shelf, owners[10])
        count += 1
        assert all(owner in shelf._weights for owner in owners if owner.kept is not None)

        def use(shelf: ClockCache[str] = shelf, owners: list[Owner] = owners) -> None:
            shelf.put(owners[0], "value", MOST)
            for owner in owners:
                shelf.put(owner, "value", 2)

        # In another thread, which a lock that is held would stop.
        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        kept = [owner for owner in owners if owner.kept is not None]
        assert len(shelf) == len(kept) == MOST // 2
    assert count > 50


def test_a_fork_has_a_lock_of_its_own() -> None:
    lock = clock_cache_module._lock
    child = os.fork()
    if not child:
        os._exit(clock_cache_module._lock is lock)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
