"""Workers that run whole partitions: exact, whoever fails or dies, and leaving nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import script
from support.descendants import check_nothing_is_left, children, is_worker
from support.waiting import wait_until

import resumable as rs
from resumable.testing.laws import states_along

HAS_LOKY = find_spec("loky") is not None
needs_loky = pytest.mark.skipif(
    not HAS_LOKY,
    reason="loky is not installed: pip install resumable-loader[parallel]",
)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

Fn = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]

KINDS: dict[str, Callable[[rs.Pipeline[Any], Callable[[Any], Any]], rs.Pipeline[Any]]] = {
    "map": lambda part, fn: part.map(fn),
    "filter": lambda part, fn: part.filter(lambda item: fn(item) is not None),
    "flat_map": lambda part, fn: part.flat_map(lambda item: [fn(item)] * 2),
    "batch": lambda part, fn: part.map(fn).batch(2, collate=list),
    "window": lambda part, fn: part.map(fn).shuffle(1, window=3),
    "pack": lambda part, fn: part.map(lambda item: [fn(item)]).pack(2, group=2).map(tokens_of),
}
RAISED = [ValueError, StopIteration, SystemExit, KeyboardInterrupt]


def tokens_of(row: Any) -> list[int]:
    tokens: list[int] = row["tokens"].tolist()
    return tokens


def double(item: int) -> int:
    return item * 2


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("resumable")]


def drawn(iterator: Iterator[Any], times: int) -> list[Any]:
    """Items up to the end, or up to an error, which is tried again some times; each error by its name."""
    found: list[Any] = []
    for _ in range(times):
        try:
            found.extend(iterator)
        except BaseException as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.sampled_from(RAISED),
    st.integers(1, 5),
    st.sets(st.integers(0, 20), max_size=2),
    st.integers(1, 3),
    st.none() | st.integers(1, 6),
)
def test_an_error_comes_at_its_item_and_the_next_call_tries_that_item_again(
    kind: str,
    error: type[BaseException],
    count: int,
    bad: set[int],
    workers: int,
    buffer_size: int | None,
) -> None:
    def fn(item: int) -> int:
        if item in bad:
            raise error(f"no {item}")
        return item

    def pipeline(**options: Any) -> rs.Pipeline[Any]:
        return rs.range(21).partition(count, lambda part: KINDS[kind](part, fn), **options)

    without = iter(pipeline())
    expected = drawn(without, 2)
    with iter(pipeline(workers=workers, buffer_size=buffer_size)) as iterator:
        assert drawn(iterator, 2) == expected
        state = iterator.get_state()
        assert state["step"] == len([one for one in expected if not isinstance(one, str)])
        bad.clear()
        rest = list(iterator)
    assert rest == list(without)
    with pipeline().resume(rs.loads(rs.dumps(state))) as resumed:
        assert list(resumed) == rest


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 60))
def test_no_partition_makes_more_items_ahead_than_its_buffer_holds(
    count: int, workers: int, buffer_size: int, taken: int
) -> None:
    made: Counter[int] = Counter()

    def note(item: int) -> int:
        made[item % count] += 1
        return item

    with ThreadPoolExecutor(workers) as executor:
        options: dict[str, Any] = {"workers": workers, "executor": executor}
        numbers = rs.range(400).partition(
            count, lambda part: part.map(note), buffer_size=buffer_size, **options
        )
        with iter(numbers) as iterator:
            had = Counter(item % count for item in islice(iterator, taken))
            wait_until(lambda: all(made[number] > had[number] for number in range(count)))
    assert max((made - had).values()) <= buffer_size


@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.none() | st.integers(1, 9),
    st.lists(st.integers(0, 9), max_size=9),
)
def test_items_states_counts_and_epochs_are_those_without_workers(
    count: int, workers: int, buffer_size: int | None, moves: list[int]
) -> None:
    def pipeline(**options: Any) -> rs.Pipeline[Any]:
        def fn(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
            return part.map(lambda item: 60 // (item % 3), on_error="skip").repeat(2)

        return rs.range(17).shuffle(0).partition(count, fn, **options)

    with (
        iter(pipeline()) as plain,
        iter(pipeline(workers=workers, buffer_size=buffer_size)) as iterator,
    ):
        for number, move in enumerate(moves):
            if number % 3 == 0:
                assert list(islice(iterator, move)) == list(islice(plain, move))
            elif number % 3 == 1:
                assert list(iterator.pull(move)) == list(plain.pull(move))
            else:
                assert iterator.skip(move) == plain.skip(move)
            assert rs.dumps(iterator.get_state()) == rs.dumps(plain.get_state())
            assert iterator.epoch == plain.epoch  # what is skipped is known as soon as workers tell
        assert list(iterator) == list(plain)
        assert iterator.skipped == plain.skipped


@pytest.mark.parametrize("workers", [0, 3])
def test_each_item_is_read_by_the_worker_of_its_partition_alone(workers: int) -> None:
    reads: Counter[int] = Counter()
    readers: dict[int, set[int]] = {}

    class Read:
        def __len__(self) -> int:
            return 48

        def __getitem__(self, index: int) -> int:
            reads[index] += 1
            readers.setdefault(index % 12, set()).add(threading.get_ident())
            return index

    whole = rs.from_sequence(Read()).partition(
        12, lambda part: part.filter(lambda item: item % 5).batch(2, collate=list), workers=workers
    )
    state = None
    for ranks, steps in ((2, 3), (4, 3), (3, 9)):
        states = []
        for rank in range(ranks):
            own = whole.shard(rank, ranks)
            with iter(own) if state is None else own.resume(state) as iterator:
                list(islice(iterator, steps))
                states.append(iterator.get_state())
        if ranks == 2 and not workers:
            assert reads.total() <= 2 * 3 * 3 + 6, "items of partitions that are not at their turn"
        state = rs.merge_states(states)
    assert reads.keys() == set(range(48))
    if not workers:
        assert max(reads.values()) == 1, "a partition read what belongs to another one, or twice"
    else:
        # What was computed ahead is read again after a resume; within a rank one thread does it.
        assert max(reads.values()) <= 3
        assert max(map(len, readers.values())) <= 3


@pytest.mark.parametrize("kind", ["threads", "processes", pytest.param("loky", marks=needs_loky)])
def test_any_executor_runs_partitions_and_lives_on(kind: str) -> None:
    numbers = rs.range(23)

    def fn(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        return part.map(double).batch(2, collate=list)

    expected = list(numbers.partition(5, fn))
    states = states_along(numbers.partition(5, fn), len(expected))
    with executor_of(kind) as executor:
        for _ in range(2):
            with iter(numbers.partition(5, fn, workers=2, executor=executor)) as iterator:
                head = list(islice(iterator, 4))
                assert rs.dumps(iterator.get_state()) == states[4]
                assert head + list(iterator) == expected
        assert executor.submit(abs, -3).result() == 3


def executor_of(kind: str) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(2)
    if kind == "processes":
        return ProcessPoolExecutor(2)
    import loky

    pool: Executor = loky.ProcessPoolExecutor(2)
    return pool


def test_what_cannot_be_pickled_is_said_to_be_in_the_partitions() -> None:
    def parts(executor: Any) -> rs.Pipeline[Any]:
        lock = threading.Lock()

        def fn(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
            return part.map(lambda item: (item, lock))

        return rs.range(5).partition(2, fn, workers=1, executor=executor)

    with ProcessPoolExecutor(1) as executor:
        for chosen in (executor, *(["process"] * HAS_LOKY)):
            with (
                iter(parts(chosen)) as iterator,
                pytest.raises(
                    rs.InvalidArgument, match=r"picklable .* the stages in the partitions"
                ),
            ):
                next(iterator)


def test_a_fork_says_that_it_has_no_workers() -> None:
    code = """
        import os, sys, warnings, resumable as rs
        warnings.simplefilter("ignore")
        iterator = iter(rs.range(99).partition(3, lambda part: part.map(abs), workers=2))
        assert [next(iterator), next(iterator)] == [0, 1]
        child = os.fork()
        if child == 0:
            try:
                for _ in iterator: pass
            except rs.WorkerError as error:
                os._exit(7 if "fork" in str(error) else 1)
            os._exit(2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert list(iterator) == [*range(2, 99)]
        sys.exit(status)
    """
    if hasattr(os, "fork"):
        assert script(code).returncode == 7


@pytest.mark.parametrize("end", ["close", "the end", "drop", "error"])
def test_threads_end_with_their_iterator(end: str) -> None:
    before = set(threads())

    def fn(item: int) -> int:
        return 1 // (item - 50)

    iterator = iter(rs.range(60).partition(7, lambda part: part.map(fn), workers=3))
    next(iterator)
    wait_until(lambda: len(set(threads()) - before) == 3)
    if end == "close":
        iterator.close()
    elif end == "the end":
        iterator.set_state({**iterator.get_state()})
        with suppress(ZeroDivisionError):
            list(iterator)
        iterator.close()
    elif end == "error":
        with pytest.raises(ZeroDivisionError):
            list(iterator)
    del iterator
    gc.collect()
    wait_until(lambda: set(threads()) <= before)


def test_workers_end_when_all_is_computed() -> None:
    before = set(threads())
    iterator = iter(rs.range(20).partition(4, lambda part: part.map(abs), workers=2))
    list(iterator)
    wait_until(lambda: set(threads()) <= before)
    assert iterator.get_state()["step"] == 20


# From here on with processes.


@needs_loky
@linux_only
@pytest.mark.deep
def test_killed_workers_lose_and_repeat_nothing() -> None:
    def parts(**options: Any) -> rs.Pipeline[Any]:
        def fn(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
            return part.filter(lambda item: item % 3).shuffle(1, window=9)

        return rs.range(400).shuffle(3).partition(6, fn, **options)

    expected = list(parts())
    states = states_along(parts(), len(expected))
    to_kill = [0, 5, 90, 91, 200]
    before = children()
    with iter(parts(workers=2, executor="process")) as iterator:
        got = [next(iterator)]
        for item in iterator:
            got.append(item)
            assert rs.dumps(iterator.get_state()) == states[len(got)]
            if to_kill and len(got) >= to_kill[0] and (victims := children() - before):
                with suppress(ProcessLookupError):
                    os.kill(min(victims), signal.SIGKILL)
                    to_kill.pop(0)
    assert got == expected
    assert not to_kill


@needs_loky
@linux_only
def test_a_killed_worker_is_replaced_where_it_stood() -> None:
    before = children()
    numbers = rs.range(80).partition(4, lambda part: part.map(abs), workers=2, executor="process")
    with iter(numbers) as iterator:
        assert next(iterator) == 0
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        assert list(iterator) == [*range(1, 80)]


@needs_loky
@linux_only
def test_an_item_that_ends_its_worker_is_named_after_the_items_before_it() -> None:
    def fn(item: int) -> int:
        return os._exit(3) if item == 14 else item

    def parts(mapped: Callable[[int], int], **options: Any) -> rs.Pipeline[int]:
        return rs.range(24).partition(4, lambda part: part.map(mapped), **options)

    with iter(parts(fn, workers=1, executor="process")) as iterator:
        assert list(islice(iterator, 14)) == [*range(14)]
        for _ in range(2):
            with pytest.raises(
                rs.WorkerError,
                match=r"worker of .*Partition\(.* died .* item 14 of Range, .* in partition 2, after",
            ):
                next(iterator)
        state = iterator.get_state()
        assert state["step"] == 14
    with parts(abs).resume(state) as iterator:
        assert list(iterator) == [*range(14, 24)]


@needs_loky
@linux_only
def test_nothing_is_left_running_or_open() -> None:
    def make() -> Any:
        numbers = rs.range(500)
        return iter(numbers.partition(6, lambda part: part.map(abs), workers=2, executor="process"))

    check_nothing_is_left(make, workers=2)


@pytest.mark.parametrize(
    "executor", ["thread", pytest.param("process", marks=[needs_loky, pytest.mark.deep])]
)
def test_the_exit_of_the_interpreter_waits_for_no_partition_in_work(executor: str) -> None:
    code = """
        import sys, time
        import resumable as rs

        def fn(item):
            if item > 2:
                time.sleep(1000)
            return item

        options = {"workers": 3, "executor": sys.argv[1], "buffer_size": 1}
        iterator = iter(rs.range(9).partition(3, lambda part: part.map(fn), **options))
        print(next(iterator), next(iterator), next(iterator))  # so all three workers have begun
    """
    done = script(code, executor)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 2\n", "")


@needs_loky
@linux_only
@pytest.mark.deep
def test_no_worker_outlives_its_parent(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        import resumable as rs

        folder = sys.argv[1]
        def fn(item):
            open(os.path.join(folder, str(os.getpid())), "w").close()
            return item
        numbers = rs.range(10**6).partition(4, lambda part: part.map(fn), workers=2, executor="process")
        iterator = iter(numbers)
        next(iterator)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert script(code, str(tmp_path)).returncode == -signal.SIGKILL
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert workers
    wait_until(lambda: not any(map(is_worker, workers)))
