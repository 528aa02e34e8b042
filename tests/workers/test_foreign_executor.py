"""Executors that are passed in get chunks, and may lose their workers or end: the map stays what it is without workers."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.graphs import fails_on_thirds, stream
from support.map_traces import NAMES, Event, Fragile, assert_same_events, keys, named, trace
from support.map_traces import calls as some_calls
from support.tiers import thinned
from support.waiting import wait_until

import resumable as rs
from resumable.core.block import block_items
from resumable.testing.comparing import assert_same
from resumable.testing.laws import resumes_at_every_position, states_along
from resumable.workers import chunk_work, foreign_executor
from resumable.workers.executor_thread import ExecutorWorkers
from resumable.workers.foreign_executor import this_process
from resumable.workers.running_partition import PartitionTask

cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")


@contextmanager
def chunks_of(size: int, cut_short: bool = False) -> Iterator[None]:
    """Executors get so many items at once, whatever they take; ``cut_short``: they do only the first of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExecutorWorkers, "chunk_size", size)
        patch.setattr(ExecutorWorkers, "_adapt", lambda *_: None)
        if cut_short:
            patch.setattr(chunk_work, "LONGEST_SECONDS", -1.0)
        yield


class Cluster(ThreadPoolExecutor):
    """Stands for other machines: everything goes through bytes, and workers die of some items.

    Args:
      poison: a chunk with one of these items ends its worker.
      deaths: whether the chunks that are begun end theirs, in order, whatever they have.

    Attributes:
      died_of: at each death, the items of the chunks in work.
    """

    def __init__(self, poison: Any = (), deaths: Any = ()) -> None:
        super().__init__(2)
        self._poison = set(poison)
        self._deaths = itertools.chain(deaths, itertools.repeat(False))
        self._lock = threading.Lock()
        self._in_work: dict[Any, list[Any]] = {}
        self.died_of: list[list[Any]] = []

    def submit(self, fn: Any, work: Any, /) -> Future[Any]:  # type: ignore[override]
        sent = cloudpickle.dumps((fn, work))
        chunk, items = object(), block_items(work.block)
        with self._lock:
            self._in_work[chunk] = items
        return super().submit(self._work, chunk, sent)

    def _work(self, chunk: object, sent: bytes) -> Any:
        with self._lock:
            in_work = list(itertools.chain(*self._in_work.values()))
            items = self._in_work[chunk]
            poisoned = self._poison and any(item in self._poison for item in items)
            if next(self._deaths) or poisoned:
                self.died_of.append(in_work)
                del self._in_work[chunk]
                raise BrokenExecutor("its worker died")
        fn, work = pickle.loads(sent)
        work.loop = "elsewhere", 0
        try:
            buffers: list[pickle.PickleBuffer] = []
            result = fn(work)
            data = cloudpickle.dumps(result, 5, buffer_callback=buffers.append)
            # Large buffers arrive in memory that is shared and may not be written to, as Ray's do.
            return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])
        finally:
            with self._lock:
                del self._in_work[chunk]


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "threads": lambda: ThreadPoolExecutor(2),
    "cluster": Cluster,
}


@given(
    st.sampled_from(sorted(EXECUTORS)),
    st.sampled_from(NAMES),
    st.sampled_from(["raise", "skip"]),
    st.integers(1, 20),
    st.booleans(),
    keys,
    some_calls,
)
def test_a_map_on_an_executor_is_the_map_without_it_in_any_chunks(
    catalogue_data: Path,
    executor: str,
    name: str,
    on_error: str,
    size: int,
    cut_short: bool,
    failing: set[int],
    calls: list[Any],
) -> None:
    # NumPy may give what it pickles the byte order of the machine.
    assume(executor == "threads" or not name.startswith("arrays of any dtype"))
    if on_error == "raise" and failing:  # without workers, `skip` calls nothing
        calls = [call if isinstance(call, str) else abs(call) for call in calls]

    def events(options: dict[str, Any]) -> list[Event]:
        fragile = Fragile(failing, done)

        def make() -> rs.Pipeline[Any]:
            upstream = named(name, catalogue_data)
            return upstream.map(fragile, on_error=on_error, **options)

        return trace(make, calls, fragile.keys)

    with chunks_of(size, cut_short), EXECUTORS[executor]() as pool:
        assert_same_events(events({"workers": 2, "executor": pool}), events({}))


def done(item: Any) -> Any:
    return "done", item


def test_every_cut_on_a_process_pool_is_exact_with_and_without_it() -> None:
    with ProcessPoolExecutor(2) as pool:
        options: Any = {"workers": 2, "executor": pool}
        for source in (rs.range(25).shuffle(1), stream(25)):
            for on_error in ("raise", "skip"):
                fn: Any = fails_on_thirds if on_error == "skip" else done
                alone = source.map(fn, on_error=on_error)
                spread = source.map(fn, on_error=on_error, **options)
                with chunks_of(4):
                    resumes_at_every_position(spread)
                    expected = list(alone)
                    states = states_along(alone, len(expected))
                    for position in (0, 3, 7, len(expected)):
                        with iter(spread) as iterator:
                            head = list(itertools.islice(iterator, position))
                            state = rs.dumps(iterator.get_state())
                        assert state == states[position]
                        with alone.resume(rs.loads(state)) as iterator:
                            assert_same(head + list(iterator), expected, f"from {position}")


def arrays_of(item: int) -> list[Any]:
    random = np.random.default_rng(item).random
    return [
        random((2, item)),
        random((3, 0)),
        np.asfortranarray(random((4, 3))),
        np.arange(3).astype(">i2"),
        np.array(["2024-02-29", "NaT"], "datetime64[D]"),
        np.array([None, item], object),
        np.array(item),
    ]


@pytest.mark.parametrize("kind", ["cluster", "processes"])
def test_arrays_come_bit_for_bit_and_may_be_written_to(kind: str) -> None:
    pools: Any = {"processes": lambda: ProcessPoolExecutor(2), "cluster": Cluster}
    with pools[kind]() as pool, chunks_of(5):
        for item, got in enumerate(rs.range(23).map(arrays_of, workers=2, executor=pool)):
            assert_same(got, arrays_of(item), f"item {item}")
            assert all(array.flags.writeable for array in got)


def test_columns_and_blocks_are_those_of_the_map_without_workers() -> None:
    source = rs.from_arrays({"x": np.arange(40, dtype=np.int16), "y": np.ones((40, 2))})
    with ProcessPoolExecutor(2) as pool:
        for size in (1, 3, 16):
            with chunks_of(size):
                spread = (
                    source.map(done, workers=2, executor=pool).map(lambda pair: pair[1]).batch(6)
                )
                plain = source.map(done).map(lambda pair: pair[1]).batch(6)
                assert_same(list(spread), list(plain), f"chunks of {size}")


@given(st.lists(st.booleans(), max_size=6).map(lambda fates: [*fates[:2]]), st.integers(1, 9))
def test_workers_that_die_now_and_then_cost_the_loop_nothing(deaths: list[bool], size: int) -> None:
    expected = list(rs.range(40).shuffle(2))
    states = states_along(rs.range(40).shuffle(2).map(abs), 40)
    with Cluster(deaths=deaths) as pool, chunks_of(size):
        with iter(rs.range(40).shuffle(2).map(abs, workers=2, executor=pool)) as iterator:
            for position, item in enumerate(expected):
                assert rs.dumps(iterator.get_state()) == states[position]
                assert next(iterator) == item
        assert len(pool.died_of) == sum(deaths)


@given(st.sets(st.integers(0, 29), min_size=1, max_size=3), st.integers(1, 9), st.booleans())
def test_an_item_that_ends_its_workers_is_blamed_alone(
    poison: set[int], size: int, cut_short: bool
) -> None:
    expected = [item for item in range(30) if item not in poison]
    first = min(poison)
    with Cluster(poison) as pool, chunks_of(size, cut_short):
        options: Any = {"workers": 2, "executor": pool}
        got: list[int] = []
        with iter(rs.range(30).map(abs, **options)) as iterator:
            for _ in range(2):  # the next call tries the same item again
                with pytest.raises(rs.WorkerError, match=rf"item {first}, .* nothing else in work"):
                    got.extend(iterator)
                assert got == list(range(first))
                assert pool.died_of[-1] == [first]
            assert rs.dumps(iterator.get_state()) == states_along(rs.range(30).map(abs), 30)[first]
        told: list[int] = []
        dropping = rs.range(30).map(
            abs, on_error="skip", on_skip=lambda number, _: told.append(number), **options
        )
        with iter(dropping) as iterator:
            assert list(iterator) == expected
            assert sum(iterator.skipped.values()) == len(poison)
            assert iterator.get_state()["pipeline"]["dropped"] == len(poison)
        assert told == sorted(poison)


@pytest.mark.parametrize("kind", ["cluster", "processes", "own processes"])
def test_items_of_partitions_that_cannot_be_sent_are_an_error(kind: str) -> None:
    if kind == "own processes":
        pytest.importorskip("loky", reason="loky is not installed")
    with ProcessPoolExecutor(2) if kind == "processes" else Cluster() as pool:
        executor = "process" if kind == "own processes" else pool
        pipeline = rs.range(9).partition(3, locks, workers=2, executor=executor)
        with iter(pipeline) as iterator, pytest.raises(rs.InvalidType, match="must be picklable"):
            next(iterator)


def locks(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
    return part.map(UnpicklableAt(0))


clusters: list[Cluster] = []


def waits_for_two_deaths(item: int) -> int:
    """Is in work, with an item that is not the first one, when the first one may be tried alone."""
    if item > 1:
        wait_until(lambda: len(clusters[-1].died_of) >= 2)
        time.sleep(0.1)
    return item


def test_nothing_else_is_in_work_when_an_item_is_tried_alone() -> None:
    with Cluster({0}) as pool, chunks_of(2):
        clusters.append(pool)
        numbers = rs.range(30).map(waits_for_two_deaths, workers=1, executor=pool, on_error="skip")
        assert list(numbers) == list(range(1, 30))
        assert pool.died_of[2:] == [[0], [0]]


def test_a_call_that_the_executor_cancels_is_an_error_and_loses_nothing() -> None:
    class Cancelling(Cluster):
        submitted = 0

        def submit(self, *arguments: Any) -> Future[Any]:  # type: ignore[override]
            self.submitted += 1
            if self.submitted != 4:
                return super().submit(*arguments)
            future: Future[Any] = Future()
            future.cancel()
            return future

    with Cancelling() as pool, chunks_of(2):
        got: list[int] = []
        with iter(rs.range(30).map(abs, workers=2, executor=pool)) as iterator:
            with pytest.raises(rs.WorkerError, match=r"no more work, at item 6: CancelledError"):
                got.extend(iterator)
            assert got == list(range(6))
            assert list(iterator) == list(range(6, 30))


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
def test_partitions_lose_nothing_with_their_workers(fates: list[bool], buffer_size: int) -> None:
    # No two in a row: the second one might be blamed on a partition.
    deaths = [now and not before for before, now in zip([False, *fates], fates, strict=False)]

    def parts(**options: Any) -> rs.Pipeline[int]:
        return rs.range(40).partition(5, lambda part: part.shuffle(0, window=3).map(abs), **options)

    expected = list(parts())
    states = states_along(parts(), len(expected))
    with (
        Cluster(deaths=[fate for death in deaths for fate in (death, False, False)]) as pool,
        iter(parts(workers=2, executor=pool, buffer_size=buffer_size)) as iterator,
    ):
        for position, item in enumerate(expected):
            assert rs.dumps(iterator.get_state()) == states[position]
            assert next(iterator) == item
        assert list(iterator) == []


def test_a_pool_that_stays_broken_is_an_error_at_once() -> None:
    tried: list[int] = []

    class Broken(Executor):
        def submit(self, fn: Any, work: Any, /) -> Future[Any]:  # type: ignore[override]
            tried.extend(work.block)
            if len(tried) > 4:
                raise BrokenExecutor("for good")
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("a worker died"))
            return future

    with iter(rs.range(9).map(abs, workers=2, executor=Broken())) as iterator:
        with pytest.raises(
            rs.WorkerError, match=r"died while it worked on item 0 or another .*good"
        ):
            next(iterator)
        wait_until(lambda: len(tried) >= 5)
        assert len(tried) == 5, "four in the window, and one try"


class Silent(Executor):
    """Works at once, but for the work that ``hangs``; time passes only while that is waited for.

    Attributes:
      timeout: as `resumable_ray.RayExecutor` has it.
      seconds: what the clock shows.
    """

    def __init__(self, timeout: float | None, hangs: Any) -> None:
        self.timeout = timeout
        self.seconds = 0.0
        self._hangs = hangs
        self._late: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, chunk: Any, /) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        if any(map(self._hangs, block_items(chunk.block))):
            self._late.append((future, partial(fn, chunk)))
        else:
            future.set_result(fn(chunk))
        return future

    def clock(self) -> float:
        self.seconds += 20 * bool(self._late)
        if self.timeout is None and self.seconds > 200:
            self.answer()
        return self.seconds

    def answer(self) -> None:
        """Do what has waited, and hang no more."""
        self._hangs = lambda item: False
        late, self._late = self._late, []
        for future, work in late:
            future.set_result(work())


def silent_runs(pool: Silent) -> list[tuple[rs.Pipeline[int], str]]:
    """A map and partitions that work in ``pool``, and which work a message names."""
    options: Any = {"workers": 2, "executor": pool}
    parts = rs.range(20).partition(4, lambda part: part.map(abs), **options)
    mapped = rs.range(20).map(abs, **options)
    return [(mapped, "item 3, or one of the 2 after it"), (parts, "partition 1, after 0 of its")]


def hangs(work: Any) -> bool:
    return work.number == 1 if isinstance(work, PartitionTask) else bool(work == 5)


@pytest.fixture
def quick_heartbeat(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(foreign_executor, "HEARTBEAT", 0.01)
    return monkeypatch


@pytest.mark.parametrize("number", [0, 1])
def test_work_without_an_answer_in_time_is_named_and_submitted_again(
    number: int, quick_heartbeat: pytest.MonkeyPatch
) -> None:
    pool = Silent(300, hangs)
    pipeline, work = silent_runs(pool)[number]
    quick_heartbeat.setattr(foreign_executor, "monotonic", pool.clock)
    got: list[int] = []
    with chunks_of(3), iter(pipeline) as iterator:
        silent = rf"no answer for 300 s from the executor of .*, at {work}.*submits it again"
        with pytest.raises(rs.WorkerError, match=silent):
            got.extend(iterator)
        assert got == list(range(len(got))) != list(range(20))
        state = rs.loads(rs.dumps(iterator.get_state()))
        pool.answer()
        rest = list(iterator)
    assert got + rest == list(range(20))
    assert list(pipeline.resume(state)) == rest


@pytest.mark.parametrize("number", [0, 1])
def test_an_executor_that_is_silent_for_a_minute_is_warned_of_once(
    number: int, quick_heartbeat: pytest.MonkeyPatch
) -> None:
    pool = Silent(None, hangs)
    pipeline, work = silent_runs(pool)[number]
    quick_heartbeat.setattr(foreign_executor, "monotonic", pool.clock)
    silent = rf"no answer for 60 s from the executor of .*, at {work}.*executor.timeout"
    with chunks_of(3), pytest.warns(RuntimeWarning, match=silent) as warned:
        assert list(pipeline) == list(range(20))
    assert len(warned) == 1


def test_a_timeout_that_is_no_number_of_seconds_is_refused() -> None:
    with pytest.raises(
        rs.InvalidArgument, match=r"executor.timeout must be finite and above 0, got 0"
    ):
        next(iter(rs.range(3).map(abs, workers=1, executor=Silent(0, hangs))))


@pytest.mark.parametrize("kind", ["threads", "cluster", "processes"])
@pytest.mark.parametrize("cancel", [False, True])
def test_an_executor_that_is_shut_down_during_the_run_is_an_error(kind: str, cancel: bool) -> None:
    before = set(threading.enumerate())
    with ProcessPoolExecutor(2) if kind == "processes" else EXECUTORS[kind]() as pool:
        with chunks_of(3), iter(rs.range(10**5).map(abs, workers=2, executor=pool)) as iterator:
            got = list(itertools.islice(iterator, 10))
            pool.shutdown(wait=False, cancel_futures=cancel)
            with pytest.raises(
                rs.WorkerError, match=r"executor of .*Map.* takes no more work, at it"
            ):
                got.extend(iterator)
            assert got == list(range(len(got)))
            state = rs.loads(rs.dumps(iterator.get_state()))
        with rs.range(10**5).map(abs).resume(state) as iterator:
            assert next(iterator) == len(got)
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_closing_cancels_what_waits_and_leaves_no_thread() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def fn(item: int) -> int:
        begun.append(item)
        assert not item or go_on.wait(60)
        return item

    with ThreadPoolExecutor(1) as pool:
        pool.submit(abs, 0).result()
        before = set(threading.enumerate())
        iterator = iter(rs.range(100).map(fn, workers=3, executor=pool))
        assert next(iterator) == 0
        wait_until(lambda: begun == [0, 1])
        iterator.close()
        assert set(threading.enumerate()) <= before
        go_on.set()
        assert pool.submit(abs, -1).result() == 1
        assert begun == [0, 1], "what was queued is cancelled"


class Unsendable:
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


@pytest.mark.parametrize("kind", ["cluster", "processes", "own processes"])
@pytest.mark.parametrize("size", thinned([1, 4, 7], 2, "unsendable"))
def test_what_cannot_be_sent_fails_alone_and_after_the_items_before_it(
    kind: str, size: int
) -> None:
    if kind == "own processes":
        pytest.importorskip("loky", reason="loky is not installed")
    unsendable = rs.from_sequence([*range(9), Unsendable(), *range(10, 15)])
    for source, fn in ((unsendable, abs), (rs.range(15), UnpicklableAt(9))):
        with ProcessPoolExecutor(2) if kind == "processes" else Cluster() as pool, chunks_of(size):
            executor = "process" if kind == "own processes" else pool
            got: list[Any] = []
            with iter(source.map(fn, workers=2, executor=executor)) as iterator:
                for _ in range(2):
                    error = pickling_error(lambda: got.extend(iterator))  # noqa: B023
                    assert got == list(range(9))
                    notes = getattr(error, "__notes__", [""])
                    assert "item 9" in str(error) + notes[0]
                iterator.skip(1)
                assert list(iterator) == list(range(10, 15))


def pickling_error(call: Callable[[], None]) -> Exception:
    """What ``call`` raises, without its traceback.

    That leads to the thread in which the pool pickles, and so to what it has written to a `BytesIO`; the debugging mode of Python
    reports an error when it collects the two as one cycle.
    """
    try:
        call()
    except (TypeError, pickle.PicklingError) as error:
        return error.with_traceback(None)
    pytest.fail("it was pickled")


class UnpicklableAt:
    """Gives what cannot be pickled for one item."""

    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __call__(self, item: int) -> Any:
        return threading.Lock() if item == self.bad else item


class Raises:
    """Raises an error of a kind that an executor has too, for one item."""

    def __init__(self, error: Exception, bad: int) -> None:
        self.error = error
        self.bad = bad

    def __call__(self, item: int) -> int:
        if item == self.bad:
            raise self.error
        return item


@pytest.mark.parametrize("kind", ["thread", "threads", "cluster", "processes", "process"])
@pytest.mark.parametrize("error", [BrokenExecutor("mine"), RuntimeError("mine")])
@pytest.mark.parametrize("bad", [0, 6])
def test_an_error_of_the_function_is_never_taken_for_a_death(
    kind: str, error: Exception, bad: int
) -> None:
    if kind == "process":
        pytest.importorskip("loky", reason="loky is not installed")
    pools: dict[str, Callable[[], Executor]] = {
        **EXECUTORS,
        "processes": lambda: ProcessPoolExecutor(2),
    }
    with pools.get(kind, Cluster)() as pool, chunks_of(4):
        executor: Any = kind if kind in ("thread", "process") else pool
        got: list[int] = []
        with (
            iter(rs.range(9).map(Raises(error, bad), workers=2, executor=executor)) as iterator,
            pytest.raises(type(error)) as raised,
        ):
            got.extend(iterator)
        assert str(raised.value) == "mine"
        assert got == list(range(bad))


@pytest.mark.parametrize("kind", ["threads", "cluster"])
@pytest.mark.parametrize("which", ["sent", "made"])
def test_large_items_go_in_small_chunks(
    kind: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks: list[int] = []
    submit = ExecutorWorkers.submit

    def noting(self: ExecutorWorkers, block: Any) -> Any:
        chunks.append(len(block))
        return submit(self, block)

    monkeypatch.setattr(ExecutorWorkers, "submit", noting)
    monkeypatch.setattr(chunk_work, "LONGEST_SECONDS", math.inf)  # no chunk is cut short
    megabyte = np.zeros(1 << 20, np.uint8)
    sent: tuple[Any, Any] = rs.from_sequence([megabyte] * 60), len
    source, fn = sent if which == "sent" else (rs.range(60), MakesOf(1 << 20))
    with EXECUTORS[kind]() as pool:
        list(source.map(fn, workers=2, executor=pool))
    assert sum(chunks) == 60
    assert max(chunks) <= 8


class MakesOf:
    """Gives an array of so many bytes for every item."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, item: int) -> Any:
        return np.zeros(self.size, np.uint8)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_is_not_taken_for_its_parent() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert pool.submit(this_process).result() != this_process()
    assert pickle.loads(pickle.dumps(this_process())) == this_process()
