"""Map with workers, by laws: however items are cut into chunks, it is the map without workers."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.graphs import stream
from support.map_traces import (
    AT_MOST,
    NAMES,
    Event,
    Fragile,
    assert_same_events,
    calls,
    keys,
    named,
    sizes,
    trace,
)

import resumable as rs
from resumable.core.block import Block, block_items, block_length, slice_block
from resumable.testing.comparing import assert_same
from resumable.testing.laws import resumes_at_every_position
from resumable.workers.answers import Answer, Job
from resumable.workers.chunk_work import Outcome, attempt
from resumable.workers.workers import WorkerCall, Workers, WorkersLost


class Inline(Workers):
    """Does what is submitted at once, in chunks of given sizes; dies, or does a part, now and then."""

    def __init__(
        self, fn: Callable[[Any], Any], drop: bool, sizes: Iterator[int], deaths: Iterator[str]
    ) -> None:
        self._fn = fn
        self._drop = drop
        self._sizes = sizes
        self._deaths = deaths
        self.closed = False

    @property
    def chunk_size(self) -> int:  # type: ignore[override]
        return next(self._sizes)

    def submit(self, block: Block) -> Job[Outcome]:
        assert not self.closed
        job = Job(partial(self._attempt, block, next(self._deaths)))
        job.run()
        return job

    def _attempt(self, block: Block, death: str) -> Outcome:
        if death == "dead":
            raise WorkersLost(BrokenProcessPool("killed"))
        done = block_length(block) // 2 or 1 if death == "half" else block_length(block)
        return attempt(self._fn, slice_block(block, 0, done), self._drop)

    def wait(self, answer: Answer[Any], at: Any) -> None:
        """Wait for nothing: what is in work when another chunk is waited for may be done later."""

    def stop(self) -> None:
        pass

    def close(self, seconds: float = 0) -> bool:
        self.closed = True
        return True


class Pending(Job[Outcome]):
    """The answer to a chunk that is in ``in_work`` until somebody has done it."""

    def __init__(self, in_work: dict[Job[Outcome], list[Any]]) -> None:
        super().__init__(lambda: Outcome([], {}))
        self._in_work = in_work

    def cancel(self) -> bool:
        self._in_work.pop(self, None)
        return super().cancel()


class Mortal(Inline):
    """A pool that dies, with all that is in work, of certain items and now and then of nothing.

    Attributes:
      poison: the items that it dies of.
      died_of: what was in work at each death.
    """

    die_together = True
    latest: ClassVar[Any] = None
    poison: ClassVar[set[int]] = set()
    died_of: ClassVar[list[list[Any]]] = []

    def submit(self, block: Block) -> Job[Outcome]:
        assert not self.closed
        Mortal.latest = self
        answer = Pending(self.in_work)
        self.in_work[answer] = list(block_items(block))
        return answer

    def outcome(self, answer: Job[Outcome], at: Any) -> Outcome:
        fate = next(self._deaths)
        if not answer.given:
            for other, items in list(self.in_work.items()):
                if fate == "others" and other is not answer and self.poison.isdisjoint(items):
                    self._do(other)
            if fate == "first":  # the chunk is done before another one ends the pool
                self._do(answer)
            elif fate == "dead" or self.poison.intersection(chain(*self.in_work.values())):
                self._die()
            else:
                self._do(answer)
        return super().outcome(answer, at)

    @cached_property
    def in_work(self) -> dict[Job[Outcome], list[Any]]:
        """The items of each chunk that nobody has done."""
        return {}

    def _do(self, answer: Job[Outcome]) -> None:
        if self.poison.intersection(self.in_work[answer]):
            self._die()
        else:
            answer.give(attempt(self._fn, self.in_work.pop(answer), self._drop))

    def _die(self) -> None:
        self.died_of.append(sorted(chain(*self.in_work.values())))
        for answer in self.in_work:
            answer.give(None, BrokenProcessPool("killed"))
        self.in_work.clear()


@contextmanager
def chunks_of(
    *sizes: int, deaths: list[str] | None = None, kind: type[Inline] = Inline
) -> Iterator[list[Inline]]:
    """Maps with workers take chunks of these sizes in turn; gives the workers they hire."""
    hired: list[Inline] = []
    endless, dying = itertools.cycle(sizes), itertools.chain(deaths or [], itertools.repeat(""))

    def hire(calls: WorkerCall, window: int) -> Inline:
        hired.append(kind(calls.fn, calls.drop, endless, dying))
        return hired[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resumable.workers.idle_workers.make_workers", hire)
        yield hired


BETWEEN: dict[str, Callable[[rs.Pipeline[Any], Fragile], rs.Pipeline[Any]]] = {
    "nothing": lambda upstream, fragile: upstream,
    "map": lambda upstream, fragile: upstream.map(fragile),
    "filter": lambda upstream, fragile: upstream.filter(lambda item: fragile(item) is not fragile),
    "flat_map": lambda upstream, fragile: upstream.flat_map(lambda item: [fragile(item)] * 2),
    "generator": lambda upstream, fragile: rs.from_iterable(
        lambda: map(fragile, itertools.islice(upstream, AT_MOST))
    ),
    "workers": lambda upstream, fragile: stream(AT_MOST).map(fragile, workers=1),
}


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["raise", "skip"]),
    sizes,
    keys,
    st.sampled_from(sorted(BETWEEN)),
    keys,
    calls,
)
@example("iterable function", "raise", [4], set(), "generator", {5}, ["next"])
@example("map", "raise", [4], set(), "map", {5, 6}, ["next"])
@example("range", "skip", [4], set(), "map", {0, 1, 2}, ["next"])
@example("map", "raise", [4], {1}, "map", {5, 6}, [5, "next"])
@example("window past snapshots", "raise", [1], set(), "map", {0}, [8, "next"])
def test_a_map_with_workers_is_the_map_without_them_in_any_chunks(
    catalogue_data: Path,
    name: str,
    on_error: str,
    sizes: list[int],
    failing: set[int],
    between: str,
    failing_before: set[int],
    calls: list[Any],
) -> None:
    if on_error == "raise" and failing | failing_before:  # without workers, `skip` calls nothing
        calls = [call if isinstance(call, str) else abs(call) for call in calls]

    def events(workers: int) -> list[Event]:
        before = Fragile(failing_before, lambda item: item)
        after = Fragile(failing, lambda item: ("done", item))

        class Both(set[int]):
            def clear(self) -> None:
                before.keys.clear()
                after.keys.clear()

        def make() -> rs.Pipeline[Any]:
            upstream = BETWEEN[between](named(name, catalogue_data), before)
            return upstream.map(after, workers=workers, on_error=on_error)

        return trace(make, calls, Both())

    with chunks_of(*sizes):
        assert_same_events(events(2), events(0))


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["raise", "skip"]),
    sizes,
    keys,
    st.lists(st.sampled_from(["", "", "", "dead"]), max_size=30),
)
def test_dying_workers_lose_and_repeat_nothing_in_any_chunks(
    catalogue_data: Path,
    name: str,
    on_error: str,
    sizes: list[int],
    failing: set[int],
    deaths: list[str],
) -> None:
    def make(workers: int) -> rs.Pipeline[Any]:
        fn = Fragile(failing if on_error == "skip" else set(), lambda item: ("done", item))
        upstream = named(name, catalogue_data)
        return upstream.map(fn, workers=workers, on_error=on_error)

    expected, states = [], []
    with iter(make(0)) as iterator:
        states.append(rs.dumps(iterator.get_state()))
        for item in iterator:
            expected.append(item)
            states.append(rs.dumps(iterator.get_state()))
        states.append(rs.dumps(iterator.get_state()))  # at the end: more may have been dropped
    got: list[Any] = []
    messages: list[str] = []
    with chunks_of(*sizes, deaths=deaths), iter(make(2)) as iterator:
        for _ in range(len(deaths) + len(expected) + 1):
            try:
                got.append(next(iterator))
            except StopIteration:
                assert rs.dumps(iterator.get_state()) == states[-1]
                break
            except rs.WorkerError as error:
                messages.append(str(error))
            assert rs.dumps(iterator.get_state()) == states[len(got)]
        assert_same(got, expected, "items across deaths")
        assert all(re.search(r"a worker of .*Map\w*\(fn=", message) for message in messages)


fates = st.lists(st.sampled_from(["", "", "first", "others", "dead"]), max_size=30)


@contextmanager
def poisoned(items: set[int], sizes: list[int], fates: list[str]) -> Iterator[list[list[Any]]]:
    """Workers die of ``items``; gives what was in work at each death."""
    Mortal.poison, Mortal.died_of = items, []
    with chunks_of(*sizes, deaths=fates, kind=Mortal):
        yield Mortal.died_of


numbers = st.sets(st.integers(0, 29), max_size=4)


@given(sizes, numbers, numbers, fates, st.booleans(), st.integers(1, 9))
def test_only_items_that_fail_or_end_their_worker_are_dropped(
    sizes: list[int],
    failing: set[int],
    poison: set[int],
    fates: list[str],
    indexed: bool,
    pulled: int,
) -> None:
    # Something outside that always strikes while an item is alone cannot be told from the item.
    fates = fates[: fates.index("dead") + 1] if "dead" in fates else fates
    upstream = rs.range(30) if indexed else stream(30)
    told: list[int] = []

    def fn(item: int) -> int:
        if item in failing:
            raise KeyError(item)
        return item

    def note(number: int, error: Exception) -> None:
        if isinstance(error, rs.WorkerError):
            assert f"item {number}, the last time with nothing else in work" in str(error)
        else:
            assert error.args == (number,)
        told.append(number)

    with poisoned(poison, sizes, fates) as died_of:
        pipeline = upstream.map(fn, workers=2, on_error="skip", on_skip=note)
        with iter(pipeline) as iterator:
            got = list(chain(*iter(lambda: block_items(iterator.pull(pulled)), [])))
    assert got == [item for item in range(30) if item not in poison | failing]
    assert told == sorted(poison | failing)
    assert len(died_of) <= 1 + 4 * len(poison)
    assert all(died_of.count([item]) >= 2 for item in poison)


@given(sizes, st.integers(0, 29), st.booleans())
def test_an_item_that_ends_its_worker_is_named_after_the_items_before_it(
    sizes: list[int], poison: int, indexed: bool
) -> None:
    upstream = rs.range(30) if indexed else stream(30)
    with poisoned({poison}, sizes, []) as died_of:
        with iter(upstream.map(abs, workers=2)) as iterator:
            assert list(itertools.islice(iterator, poison)) == list(range(poison))
            with pytest.raises(rs.WorkerError, match=f"item {poison}, the last time with nothing"):
                next(iterator)
            assert iterator.step == poison
        assert len(died_of) <= 3


def test_a_death_from_outside_costs_the_loop_nothing() -> None:
    for upstream in (rs.range(30), stream(30)):
        with poisoned(set(), [4], ["", "dead", "dead"]) as died_of:
            assert list(upstream.map(abs, workers=2)) == list(range(30))
        assert died_of == [list(range(4, 20))] * 2


@given(
    sizes,
    st.booleans(),
    st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=8),
)
def test_what_is_passed_over_is_not_waited_for(
    sizes: list[int], indexed: bool, moves: list[tuple[bool, int]]
) -> None:
    upstream = rs.range(30) if indexed else stream(30)
    plain = iter(upstream.map(abs))
    with poisoned(set(), sizes, []), iter(upstream.map(abs, workers=2)) as iterator:
        next(iterator), next(plain)
        for skips, count in moves:
            if skips:
                Mortal.poison = set(range(30))  # whoever waits for an item sees a death
                assert iterator.skip(count) == plain.skip(count)
                Mortal.poison = set()
            else:
                items = iterator.pull(count)
                assert list(block_items(items)) == list(block_items(plain.pull(count)))
            assert iterator.get_state() == plain.get_state()
        assert list(iterator) == list(plain)
        assert Mortal.died_of == []
        assert not Mortal.latest.in_work, "what was passed over is abandoned"


@pytest.mark.parametrize("upstream", ["random access", "stream"])
def test_an_error_of_upstream_comes_after_the_items_before_it(upstream: str) -> None:
    numbers = rs.range(20) if upstream == "random access" else rs.range(20).filter(lambda i: True)

    def fails_at_nine(item: int) -> int:
        if item == 9:
            raise OSError(f"no item {item}")
        return item

    with chunks_of(4), iter(numbers.map(fails_at_nine).map(abs, workers=2)) as iterator:
        for item in range(9):
            assert next(iterator) == item
            with iter(numbers.map(abs).map(abs)) as plain:
                list(itertools.islice(plain, item + 1))
                assert iterator.get_state() == plain.get_state()
        for _ in range(3):
            with pytest.raises(OSError, match="no item 9"):
                next(iterator)


def test_the_epoch_is_that_of_the_last_item_handed_out() -> None:
    with chunks_of(5), iter(stream(3).repeat(4).map(abs, workers=2)) as iterator:
        assert iterator.epoch == 0
        assert [iterator.epoch for _ in iterator] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_no_more_chunks_than_twice_the_workers_are_in_work() -> None:
    read: list[int] = []
    calls: Counter[int] = Counter()

    def source() -> Iterator[int]:
        for item in range(100):
            read.append(item)
            yield item

    def note(item: int) -> int:
        calls[item] += 1
        return item

    with chunks_of(3), iter(rs.from_iterable(source).map(note, workers=2)) as iterator:
        next(iterator)
        assert len(read) == 4 * 3
        assert list(itertools.islice(iterator, 5)) == [1, 2, 3, 4, 5]
        assert len(read) == 5 * 3
    assert set(calls.values()) == {1}


def test_the_workers_are_closed_at_the_end_and_when_the_iterator_is() -> None:
    with chunks_of(3) as hired:
        with iter(rs.range(10).map(abs, workers=1)) as iterator:
            list(iterator)
            assert [workers.closed for workers in hired] == [True]
            assert list(iterator) == []
        with iter(rs.range(10).map(abs, workers=1)) as iterator:
            next(iterator)
            assert [workers.closed for workers in hired] == [True, False]
        assert [workers.closed for workers in hired] == [True, True]


def test_an_attempt_stops_before_the_first_error_unless_errors_are_dropped() -> None:
    def inverse(item: int) -> float:
        return 1 / item

    stopped = attempt(inverse, [1, 2, 0, 4], drop=False)
    assert (stopped.results, stopped.failed) == ([1.0, 0.5], {})
    assert stopped.failure is not None
    assert type(stopped.failure.error) is ZeroDivisionError
    dropped = attempt(inverse, [0, 1, 0, 0], drop=True)
    assert (dropped.results, list(dropped.failed)) == ([1.0], [0, 2, 3])
    assert all(isinstance(error, ZeroDivisionError) for error in dropped.failed.values())
    stopped = attempt(inverse, [0, 1], drop=False)
    assert (stopped.results, stopped.failed) == ([], {})
    assert stopped.failure is not None
    assert type(stopped.failure.error) is ZeroDivisionError


@pytest.mark.parametrize("raised", [StopIteration, SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_comes_after_the_results_before_it(
    raised: type[BaseException],
) -> None:
    def ends(item: int) -> int:
        if item == 2:
            raise raised
        return item

    comes = RuntimeError if raised is StopIteration else raised
    stopped = attempt(ends, [0, 1, 2, 3], drop=False)
    assert (stopped.results, stopped.failed) == ([0, 1], {})
    assert stopped.failure is not None
    assert type(stopped.failure.error) is comes
    failure = attempt(ends, [2, 3], drop=False).failure
    assert failure is not None
    assert type(failure.error) is comes
    if raised is StopIteration:
        dropped = attempt(ends, [0, 2, 3], drop=True)
        assert (dropped.results, list(dropped.failed)) == ([0, 3], [1])
    else:
        stopped = attempt(ends, [0, 2, 3], drop=True)
        assert (stopped.results, stopped.failed) == ([0], {})
        assert stopped.failure is not None
        assert type(stopped.failure.error) is raised


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_chunk_that_is_done_in_part_goes_on_at_its_next_item(on_error: str) -> None:
    for source in (stream(23), rs.range(23)):
        pipeline = source.map(abs, workers=2, on_error=on_error)
        with chunks_of(7, deaths=["half"] * 1000):
            resumes_at_every_position(pipeline)


@given(
    sizes,
    st.lists(st.sampled_from(["", "first", "others"]), max_size=20),
    st.integers(1, 13),
    st.booleans(),
    st.lists(st.integers(1, 12), max_size=5),
)
def test_workers_who_stay_for_all_passes_may_die_in_any(
    sizes: list[int], fates: list[str], taken: int, indexed: bool, resumed_after: list[int]
) -> None:
    fates = [*fates, "dead", *fates, "dead"]

    def make(workers: int) -> rs.Pipeline[int]:
        upstream = rs.range(11) if indexed else stream(11)
        return upstream.map(abs, workers=workers).take(taken).repeat(3)

    expected = list(make(0))
    got: list[int] = []
    with pytest.MonkeyPatch.context() as patch, poisoned(set(), sizes, fates):
        patch.setattr("resumable.workers.parallel_map.REST_SECONDS", 0.0)
        with iter(make(2)) as iterator:
            for count in resumed_after:
                got += itertools.islice(iterator, count)
                with iter(make(0)) as plain:
                    plain.skip(len(got))
                    assert iterator.get_state() == plain.get_state()
                    iterator.set_state(plain.get_state())
            got += iterator
    assert got == expected


def test_item_by_item_a_map_makes_calls_for_chunks_and_not_for_items() -> None:
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals["__name__"].startswith("resumable.workers"):
            calls[frame.f_code.co_name] += 1

    with chunks_of(200), iter(rs.range(4000).map(abs, workers=2)) as iterator:
        got = list(itertools.islice(iterator, 150))
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            got += itertools.islice(iterator, 3000)
        finally:
            sys.setprofile(before)
        assert rs.dumps(iterator.get_state()) == rs.dumps(state_at(3150))
    assert got == list(range(3150))
    assert sum(calls.values()) < 3000 / 4, calls


def state_at(position: int) -> dict[str, Any]:
    with iter(rs.range(4000).map(abs)) as iterator:
        iterator.skip(position)
        return iterator.get_state()
