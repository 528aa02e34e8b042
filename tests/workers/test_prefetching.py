"""Prefetch: threads that end, states that are consumed positions."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from functools import partial

import pytest
from support.command import run_code
from support.graphs import stream
from support.waiting import wait_until, waits_in

import resumable as rs


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("resumable")]


def test_it_runs_ahead_by_no_more_than_its_buffer() -> None:
    made: list[int] = []

    def note(item: int) -> int:
        made.append(item)
        return item

    with iter(rs.range(100).map(note).prefetch(4)) as iterator:
        assert made == []
        # Those handed out, four that are ready, and one for which there is no room yet.
        for ahead in range(6, 11):
            next(iterator)
            (thread,) = alive()
            wait_until(lambda: len(made) >= ahead)  # noqa: B023
            wait_until(partial(waits_in, thread, "put"))
            assert len(made) == ahead


def test_the_thread_ends_with_the_pipeline() -> None:
    iterator = iter(rs.range(5).prefetch(2))
    assert list(iterator) == [0, 1, 2, 3, 4]
    wait_until(lambda: not alive())


def test_the_thread_ends_when_the_iterator_is_dropped() -> None:
    iterator = iter(stream(10**6).prefetch(2))
    next(iterator)
    assert alive()
    gone = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert gone() is None
    wait_until(lambda: not alive())


def test_the_thread_ends_at_close_while_it_waits_and_while_it_works() -> None:
    for seconds in (0.0, 0.05):
        iterator = iter(rs.range(1000).map(lambda item: time.sleep(seconds)).prefetch(2))  # noqa: B023
        next(iterator)
        iterator.close()
        assert not alive()


def test_an_exception_comes_at_its_place_and_ends_the_thread() -> None:
    def fail_at_5(item: int) -> int:
        if item == 5:
            raise KeyError("five")
        return item

    with iter(rs.range(9).map(fail_at_5).prefetch(8)) as iterator:
        assert list(itertools.islice(iterator, 5)) == [0, 1, 2, 3, 4]
        for _ in range(3):
            with pytest.raises(KeyError, match="five"):
                next(iterator)
            assert iterator.step == 5


def test_what_is_passed_over_before_the_thread_runs_is_not_made() -> None:
    made: list[int] = []

    def note(item: int) -> int:
        made.append(item)
        return item

    pipeline = rs.range(100).map(note).repeat(2).prefetch(2)
    with iter(pipeline) as iterator:
        assert iterator.skip(40) == 40
        assert made == []
        assert next(iterator) == 40
        state = iterator.get_state()
    made.clear()
    with pipeline.resume(state) as iterator:
        assert iterator.skip(100) == 100
        assert (made, iterator.epoch) == ([], 1)
        assert next(iterator) == 41
        assert iterator.skip(10) == 10  # while it runs
        assert list(iterator) == list(range(52, 100))
        assert iterator.skip(1) == 0
    with iter(pipeline) as iterator:
        made.clear()
        assert iterator.skip(300) == 200
        assert (made, next(iterator, None)) == ([], None)


def test_an_item_that_raises_can_be_passed_over() -> None:
    def fail_at_3(item: int) -> float:
        return 6 / (item - 3)

    with iter(rs.range(7).map(fail_at_3).prefetch(2)) as iterator:
        assert list(itertools.islice(iterator, 3)) == [-2.0, -3.0, -6.0]
        with pytest.raises(ZeroDivisionError):
            next(iterator)
        assert iterator.skip(1) == 1
        assert list(iterator) == [6.0, 3.0, 2.0]


def test_the_interpreter_exits_with_a_running_prefetch() -> None:
    code = (
        "import resumable as rs, time\n"
        "iterators = [iter(rs.range(10**9).map(lambda item: time.sleep(0.001)).prefetch(2))"
        " for _ in range(3)]\n"
        "for iterator in iterators: next(iterator)\n"
        "workers = iter(rs.range(10**9).map(abs, workers=2)); next(workers)\n"
        "print('leaving')\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "leaving", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_an_iterator_carried_over_a_fork_says_so_instead_of_hanging() -> None:
    code = (
        "import os, sys, warnings, resumable as rs\n"
        "warnings.simplefilter('ignore')\n"
        "iterator = iter(rs.range(10**6).prefetch(2)); next(iterator)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        for _ in range(10): next(iterator)\n"
        "    except rs.WorkerError as error:\n"
        "        os._exit(7 if 'fork' in str(error) else 1)\n"
        "    os._exit(2)\n"
        "_, status = os.waitpid(child, 0)\n"
        "iterator.close()\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    assert run_code(code).returncode == 7


def test_dropping_an_iterator_ends_its_thread_without_a_garbage_collection() -> None:
    gc.collect()
    gc.disable()
    try:
        for use in (next, lambda iterator: iterator.pull(2), lambda iterator: None):
            iterator = iter(stream(1000).prefetch(2))
            use(iterator)
            next(iterator)
            del iterator
            wait_until(lambda: not alive())
    finally:
        gc.enable()


def test_it_may_be_added_and_removed_between_save_and_resume() -> None:
    plain, prefetched = rs.range(30).shuffle(0), rs.range(30).shuffle(0).prefetch(5)
    expected = list(plain)
    for saved, resumed in ((plain, prefetched), (prefetched, plain)):
        with iter(saved) as iterator:
            list(itertools.islice(iterator, 11))
            state = iterator.get_state()
        with resumed.resume(state) as iterator:
            assert list(iterator) == expected[11:]


def test_set_state_on_a_running_one_begins_anew() -> None:
    with iter(stream(1000).prefetch(4)) as iterator:
        list(itertools.islice(iterator, 10))
        state = iterator.get_state()
        list(itertools.islice(iterator, 50))
        iterator.set_state(state)
        assert list(itertools.islice(iterator, 5)) == [10, 11, 12, 13, 14]
        assert len(alive()) == 1
