"""Processes that call the function of a map: exact, whoever dies, and leaving nothing behind."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from support.command import script
from support.descendants import check_nothing_is_left, children, is_worker
from support.graphs import stream
from support.waiting import wait_until

import resumable as rs
from resumable.testing.comparing import assert_same
from resumable.testing.laws import states_along
from resumable.workers import chunk_work, executor_thread, worker_process
from resumable.workers import processes as process_workers
from resumable.workers.arena import Arena
from resumable.workers.chunk_work import Outcome
from resumable.workers.processes import ProcessWorkers
from resumable.workers.worker_process import ProcessSetup
from resumable.workers.workers import WorkerCall

pytest.importorskip("loky", reason="loky is not installed: pip install resumable-loader[parallel]")

ROOT = Path(__file__).parents[2]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def processes(pipeline: rs.Pipeline[Any], fn: Callable[[Any], Any], **options: Any) -> Any:
    return pipeline.map(fn, **{"workers": 2, "executor": "process", **options})


def by_value(fn: Any) -> Any:
    """``fn`` as if it were defined in a script, so that no worker needs to import it."""
    code, names = fn.__code__, fn.__globals__
    copied = FunctionType(code, names, fn.__name__, fn.__defaults__, fn.__closure__)
    copied.__module__ = "__main__"
    copied.__qualname__ = f"<locals>.{fn.__name__}"
    return copied


def test_order_and_states_are_those_of_the_map_without_workers() -> None:
    offset = 7

    def moved(item: int) -> tuple[int, int]:
        return item + offset, os.getpid()

    upstream = rs.range(3000).shuffle(1)
    with iter(upstream.map(lambda item: item + offset)) as iterator:
        states = [rs.dumps(iterator.get_state())]
        expected = []
        for item in iterator:
            expected.append(item)
            states.append(rs.dumps(iterator.get_state()))
    got, pids = [], set()
    with iter(processes(upstream, moved)) as iterator:
        for position, (item, pid) in enumerate(iterator, 1):
            got.append(item)
            pids.add(pid)
            assert rs.dumps(iterator.get_state()) == states[position]
        assert rs.dumps(iterator.get_state()) == states[-1]
        for position in (2990, 1234):
            iterator.set_state(rs.loads(states[position]))
            items = itertools.islice(iterator, 100)
            assert [item for item, _ in items] == expected[position : position + 100]
    assert got == expected
    assert os.getpid() not in pids
    with upstream.map(lambda item: item + offset).resume(rs.loads(states[777])) as iterator:
        assert list(iterator) == expected[777:]


@pytest.mark.parametrize(
    "make",
    [
        lambda square: processes(rs.range(300), square).batch(7).prefetch(2),
        lambda square: processes(stream(150), square).repeat(2),
        lambda square: processes(stream(300).shuffle(1, window=20).batch(4), lambda b: b * b),
        lambda square: processes(stream(150).repeat(2), square).filter(lambda item: item % 3),
    ],
    ids=["batch and prefetch", "epochs of its own", "columns", "epochs of upstream"],
)
def test_a_resume_is_exact_within_larger_pipelines(make: Callable[..., Any]) -> None:
    def square(item: int) -> int:
        return item * item

    pipeline = make(square)
    with iter(pipeline) as iterator:
        head = list(itertools.islice(iterator, 33))
        state = rs.dumps(iterator.get_state())
        rest = list(iterator)
    without = list(rs.from_iterable(lambda: itertools.chain(head, rest)))
    with pipeline.resume(rs.loads(state)) as iterator:
        again = list(iterator)
    assert [np.asarray(item).tolist() for item in again] == [
        np.asarray(item).tolist() for item in without[33:]
    ]
    assert len(without) > 40


def test_functions_and_classes_of_a_script_need_no_guard() -> None:
    done = script("""
        import resumable as rs

        class Point:
            def __init__(self, x):
                self.x = x

        class Odd(Exception):
            pass

        def point(item):
            if item == 30:
                raise Odd(f"no {item}")
            return Point(item)

        got = []
        with iter(rs.range(50).map(point, workers=2, executor="process")) as iterator:
            for _ in range(30):
                item = next(iterator)
                assert type(item) is Point
                got.append(item.x)
            for _ in range(2):
                try:
                    next(iterator)
                except Odd as error:
                    print(error)
        print(got == list(range(30)))
    """)
    assert (done.stdout, done.stderr) == ("no 30\nno 30\nTrue\n", "")


def _two_arguments() -> None:
    class Two(Exception):
        def __init__(self, left: int, right: int) -> None:
            super().__init__(f"{left} and {right}")

    raise Two(1, 2)


def _locked() -> None:
    error = OSError("kept")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


ERRORS: dict[str, tuple[Callable[[], Any], type[BaseException], str]] = {
    "built in": (lambda: {"a": 1}["missing"], KeyError, "missing"),
    "end": (lambda: next(iter(())), RuntimeError, "a user function raised StopIteration"),
    "exit": (lambda: sys.exit(4), SystemExit, "4"),
    "of two arguments": (
        _two_arguments,
        rs.WorkerError,
        r"Two: 1 and 2 \(this exception cannot be pickled",
    ),
    "with a lock": (
        _locked,
        rs.WorkerError,
        r"OSError: kept \(this exception cannot be pickled",
    ),
    "of the result": (
        lambda: threading.Lock(),
        rs.InvalidType,
        "results of fn must be picklable for processes, got <",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_comes_at_its_item_with_its_type_and_message(name: str) -> None:
    fails, kind, message = ERRORS[name]
    fails = by_value(fails)

    def fn(item: int) -> Any:
        return fails() if item == 60 else item

    with iter(processes(rs.range(80), fn)) as iterator:
        assert list(itertools.islice(iterator, 60)) == list(range(60))
        for _ in range(2):
            with pytest.raises(kind, match=message):
                next(iterator)
            assert iterator.get_state()["step"] == 60


def test_an_item_that_ends_its_worker_is_named_or_dropped() -> None:
    def tenths(item: int) -> float:
        if item == 40:
            os._exit(3)
        return 10 / (item % 10)

    good = [10 / (item % 10) for item in range(60) if item % 10]
    told: list[tuple[int, str]] = []

    def note(number: int, error: Exception) -> None:
        told.append((number, type(error).__name__))

    with iter(
        processes(rs.range(60), tenths, workers=1, on_error="skip", on_skip=note)
    ) as iterator:
        assert list(iterator) == good
        assert iterator.get_state()["pipeline"]["dropped"] == 6
    zeros = [(number, "ZeroDivisionError") for number in range(0, 60, 10)]
    assert told == [*zeros[:4], (40, "WorkerError"), *zeros[5:]]

    def fn(item: int) -> int:
        return os._exit(3) if item == 40 else item

    upstream = stream(60)
    with iter(processes(upstream, fn, workers=1)) as iterator:
        assert list(itertools.islice(iterator, 40)) == list(range(40))
        with pytest.raises(
            rs.WorkerError, match=r"worker of .*Map\(fn=.*fn.* died 3 times .*item 40"
        ):
            next(iterator)
        state = iterator.get_state()
    with processes(upstream, abs).resume(state) as iterator:
        assert list(iterator) == list(range(40, 60))


def test_processes_that_die_before_they_have_an_item_are_not_the_fault_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unborn:
        def __reduce__(self) -> Any:
            return os._exit, (1,)

    monkeypatch.setattr(process_workers, "pickled", lambda fn: Unborn())
    monkeypatch.setattr(process_workers, "MOST_STARTS", 2)
    with iter(processes(rs.range(60), abs, workers=1, on_error="skip")) as iterator:
        with pytest.raises(rs.WorkerError, match="processes died 2 times before they were given"):
            next(iterator)
        assert iterator.get_state()["pipeline"]["dropped"] == 0


class Unopened:
    """Can be pickled, but not loaded."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_result_that_cannot_be_loaded_is_an_error_of_its_item() -> None:
    def fn(item: int) -> Any:
        return Unopened() if item == 5 else item

    got: list[int] = []
    with (
        iter(processes(rs.range(40), fn)) as iterator,
        pytest.raises(ValueError, match="no number") as raised,
    ):
        got.extend(iterator)
    assert got == [0, 1, 2, 3, 4]
    assert "item 5" in "".join(raised.value.__dict__["__notes__"])


@linux_only
def test_large_results_outlive_the_processes_that_died_after_them(tmp_path: Path) -> None:
    died = tmp_path / "died"

    def large(item: int) -> Any:
        if item == 20 and not died.exists():
            died.touch()
            time.sleep(0.2)  # while other results wait to be opened
            os._exit(3)
        return np.full(20_000, item)

    got = []
    for array in processes(rs.range(60), large):
        got.append(int(array[0]))
        time.sleep(0.01)
    assert got == list(range(60))
    assert died.exists()


@linux_only
@pytest.mark.parametrize("kind", ["random access", "stream"])
def test_killed_workers_lose_and_repeat_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_thread, "LARGEST_CHUNK", 16)  # so that work is left to do

    def upstream() -> rs.Pipeline[int]:
        return rs.range(1500).shuffle(3) if kind == "random access" else stream(1500)

    expected = list(upstream().map(abs))
    states = states_along(upstream().map(abs), len(expected))
    got: list[int] = []
    errors: list[str] = []
    to_kill = [5, 300, 301, 1000]
    before = children()
    with iter(processes(upstream(), lambda item: item)) as iterator:
        while True:
            if to_kill and len(got) >= to_kill[0]:
                victims = children() - before
                # One that follows another which died is ended by the pool, perhaps just now.
                with suppress(ProcessLookupError):
                    if victims:
                        os.kill(min(victims), signal.SIGKILL)
                        to_kill.pop(0)
            try:
                got.append(next(iterator))
            except StopIteration:
                break
            except rs.WorkerError as error:
                errors.append(str(error))
            assert rs.dumps(iterator.get_state()) == states[len(got)]
    assert got == expected
    assert not to_kill
    assert not errors


def arrays_of(item: int) -> list[Any]:
    """One of each kind of array, of sizes that go either way."""
    import numpy as np

    def random(*shape: int) -> Any:
        return np.random.default_rng(item).standard_normal(shape)

    strange = np.array([np.nan, -0.0, np.inf, item])
    record = np.zeros(5, [("x", "f4"), ("y", "S3"), ("z", "i8", (2,))])
    record["z"] = item
    return [
        random(131072),  # 1 MiB
        random(3),
        random(300, 400)[::3, ::-2],
        np.asfortranarray(random(300, 100)),
        random(0, 7),
        np.array(item),
        np.arange(9).astype(">i4"),
        np.array(["2024-02-29", "NaT"], "datetime64[D]"),
        np.array([None, item, "x"], object),
        strange,
        record,
    ]


def test_arrays_come_bit_for_bit_and_in_memory_of_their_own() -> None:
    arrays = by_value(arrays_of)
    kept = []
    with iter(processes(rs.range(12), arrays)) as iterator:
        for item, got in enumerate(iterator):
            assert_same(got, arrays_of(item), f"item {item}")
            for array in got:
                assert array.flags.writeable
            assert got[3].flags.f_contiguous
            kept.append(got)
            if item % 2:
                got[0][:] = -1  # nobody else's
    for item, got in enumerate(kept):
        got[0] = arrays_of(item)[0] if item % 2 else got[0]
        assert_same(got, arrays_of(item), f"item {item}, afterwards")


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Arena]]:
    """Makes of this process a worker with a function, with slots of 1 MiB."""
    arena = Arena(2, 1 << 20)
    monkeypatch.setattr(worker_process, "SLOT_BYTES", 1 << 20)
    monkeypatch.setattr(chunk_work, "LONGEST_SECONDS", math.inf)  # no chunk is cut short

    def become(fn: Callable[[Any], Any], drop: bool = False, tell: bool = False) -> Arena:
        setup = ProcessSetup(pickle.dumps(abs), drop, tell, arena, os.getpid())
        monkeypatch.setattr(worker_process, "_setup", setup, raising=False)
        monkeypatch.setattr(worker_process, "_fn", fn)
        return arena

    yield become
    arena.close()


@pytest.mark.parametrize(
    ("numbers", "slot", "in_memory"),
    [
        (100, 1, False),
        (8192, 1, True),
        (100_000, 1, True),
        (200_000, 1, False),
        (8192, None, False),
    ],
)
def test_large_results_go_through_memory_and_others_through_the_pipe(
    at_work: Callable[..., Arena], numbers: int, slot: int | None, in_memory: bool
) -> None:
    arena = at_work(np.ones)
    reply = worker_process.work([numbers], slot)
    shared = None
    if in_memory:
        assert slot is not None
        assert reply.parts is None
        assert len(pickle.dumps(reply)) < 1000
        shared = arena.read(slot, reply.lengths)
    outcome = reply.open(shared)
    assert outcome.failed == {}
    assert outcome.size >= 8 * numbers
    assert_same(outcome.results, [np.ones(numbers)], "result")


def test_what_comes_before_an_unpicklable_result_is_delivered(
    at_work: Callable[..., Arena],
) -> None:
    def fn(item: int) -> Any:
        if item == 1:
            raise OSError
        return threading.Lock() if item == 5 else item

    def outcome(items: list[int]) -> Outcome:
        return worker_process.work(items, 0).open()

    at_work(fn, drop=True)
    before = outcome(list(range(10)))
    assert (before.results, before.failed, before.failure) == ([0, 2, 3, 4], {1: None}, None)
    before = outcome([1, 5])
    assert (before.results, before.failed, before.failure) == ([], {0: None}, None)
    stopped = outcome([5, 6])
    assert stopped.results == []
    assert stopped.failure is not None
    assert type(stopped.failure.error) is rs.InvalidType


def test_the_errors_of_dropped_items_travel_if_they_are_asked_for(
    at_work: Callable[..., Arena],
) -> None:
    def fn(item: int) -> Any:
        fails: dict[int, Any] = {1: lambda: [][0], 2: _two_arguments, 3: _locked}
        return fails[item]() if item in fails else item

    at_work(fn, drop=True, tell=True)
    outcome = worker_process.work([0, 1, 2, 3, 4], 0).open()
    assert outcome.results == [0, 4]
    assert [(number, type(error)) for number, error in outcome.failed.items()] == [
        (1, IndexError),
        (2, rs.WorkerError),
        (3, rs.WorkerError),
    ]
    assert "Two: 1 and 2 (this exception cannot be pickled" in str(outcome.failed[2])


def test_chunks_take_ten_milliseconds_and_some_megabytes() -> None:
    workers = ProcessWorkers(WorkerCall(abs, False, 1, "process"), 0)

    def adapt(count: int, seconds: float, size: int, item: Any = 0, handover: float = 0.001) -> int:
        outcome = Outcome([0] * count, {}, seconds=seconds, size=size)
        workers._adapt([item] * count, seconds + handover, outcome)
        return workers.chunk_size

    for _ in range(9):
        adapt(workers.chunk_size, 1e-6 * workers.chunk_size, 10 * workers.chunk_size)
    assert workers.chunk_size == 4096
    assert adapt(4096, 4096 * 1e-3, 4096) == 10
    assert adapt(10, 1e-3, 10 << 21) == 4
    assert adapt(4, 40.0, 4) == 1
    large = np.zeros(1 << 21, np.uint8)
    assert [adapt(1, 1e-3, 9, large), adapt(4, 1e-3, 9, {"x": large})] == [4, 4]
    assert [adapt(1, 1e-3, 9, large.tobytes()), adapt(4, 1e-3, 9, "text")] == [4, 16]
    workers.close()


def test_chunks_take_longer_where_the_way_to_a_worker_does() -> None:
    workers = ProcessWorkers(WorkerCall(abs, False, 1, "process"), 0)

    def adapt(handover: float) -> int:
        for _ in range(9):
            workers._adapt([0], 1e-3 + handover, Outcome([0], {}, seconds=1e-3, size=1))
        return workers.chunk_size

    assert adapt(10.0) == 75, "before it is cut short"
    assert adapt(0.005) == 40
    assert adapt(0.09) == 40, "it waited for a worker"
    assert adapt(0.0001) == 10
    workers.close()


@linux_only
def test_nothing_is_left_running_or_open() -> None:
    check_nothing_is_left(lambda: iter(processes(rs.range(500), lambda item: item)), workers=2)
    own = f"loky-{os.getpid()}-"  # other tests run beside this one
    wait_until(lambda: not [name for name in os.listdir("/dev/shm") if own in name])


def test_chunks_too_large_for_a_pipe_leave_no_thread_behind() -> None:
    def arrays() -> Iterator[Any]:
        for number in range(20):
            yield np.full(1 << 19, number)

    before = set(threading.enumerate())
    iterator = iter(processes(rs.from_iterable(arrays), len, workers=1))
    next(iterator)
    iterator.close()
    wait_until(lambda: set(threading.enumerate()) <= before)


@linux_only
@pytest.mark.parametrize("end", ["killed", "at its end"])
def test_no_worker_outlives_its_parent(tmp_path: Path, end: str) -> None:
    code = """
        import os, signal, sys
        import numpy as np
        import resumable as rs

        print(os.getpid(), flush=True)
        folder = sys.argv[1]
        def fn(item):
            open(os.path.join(folder, str(os.getpid())), "w").close()
            return np.ones(100_000)

        iterator = iter(rs.range(10**6).map(fn, workers=2, executor="process"))
        next(iterator)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = script(code, str(tmp_path), end)
    assert done.returncode == (-signal.SIGKILL if end == "killed" else 0), done.stderr
    assert done.stderr == ""
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert workers
    wait_until(lambda: not any(map(is_worker, workers)))
    own = f"loky-{done.stdout.strip()}-"  # other tests run beside this one
    wait_until(lambda: not [name for name in os.listdir("/dev/shm") if own in name])


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_the_exit_of_the_interpreter_waits_for_no_call_in_work(executor: str) -> None:
    code = """
        import sys, time
        import resumable as rs

        def fn(item):
            if item:
                time.sleep(1000)
            return item

        iterator = iter(rs.range(100).map(fn, workers=2, executor=sys.argv[1]))
        print(next(iterator))
    """
    done = script(code, executor)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_no_worker_process_is_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loky", None)  # it is not needed
    lock = threading.Lock()

    def locked(number: int) -> int:  # no process could be sent it
        with lock:
            return number

    def noisy(number: int, rng: np.random.Generator) -> int:
        return locked(number)

    for pipeline in (
        rs.range(9).map(locked, workers=0, executor="process"),
        rs.range(9).random_map(noisy, 0, workers=0, executor="process"),
        rs.range(9).map_batches(lambda batch: map(locked, batch), 3, workers=0, executor="process"),
        rs.range(9).partition(1, lambda part: part.map(locked), workers=0, executor="process"),
    ):
        assert list(pipeline) == list(range(9))


def test_bad_arguments_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    with pytest.raises(rs.InvalidType, match="executor must be 'thread', 'process' or a"):
        rs.range(3).map(abs, workers=2, executor="processes")
    with pytest.raises(rs.InvalidArgument, match="fn must be picklable for processes, got <func"):
        processes(rs.range(3), lambda item: lock)
    monkeypatch.setitem(sys.modules, "loky", None)
    with pytest.raises(rs.MissingDependency, match=r"pip install 'resumable-loader\[parallel\]'"):
        processes(rs.range(3), abs)
