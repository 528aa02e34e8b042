"""The outermost iterator: errors change nothing, and restoring is atomic."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.graphs import document, stream

import resumable as rs
from resumable.core.block import block_items
from resumable.testing.comparing import assert_same
from resumable.testing.laws import first_items, through_bytes, wreck


class Flaky:
    """A function that raises at its calls with the given numbers, and counts calls."""

    def __init__(self, fn: Callable[..., Any], failures: set[int], error: type[BaseException]):
        self.fn, self.failures, self.error = fn, failures, error
        self.calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls in self.failures:
            raise self.error(f"call {self.calls}")
        return self.fn(*arguments)


def no_change(*arguments: Any) -> Any:
    return arguments[0]


USES: dict[str, Callable[[Callable[..., Any]], rs.Pipeline[Any]]] = {
    "map": lambda fn: rs.range(40).map(fn),
    "map beneath batch": lambda fn: rs.range(40).shuffle(1).map(fn).batch(4),
    "map over stream": lambda fn: stream(40).map(fn).repeat(2),
    "map with workers": lambda fn: stream(40).map(fn, workers=2),
    "map in prefetch": lambda fn: rs.range(40).map(fn).batch(3).prefetch(3),
    "map above window": lambda fn: stream(40).shuffle(1, window=6).map(fn).batch(3),
    "map beneath window": lambda fn: stream(40).map(fn).shuffle(1, window=6).batch(3),
    "map beneath carried window": lambda fn: stream(40).map(fn).shuffle(1, window=6, carry=True),
    "map beneath shuffle": lambda fn: rs.range(40).map(fn).shuffle(1).batch(3),
    "map in mix": lambda fn: rs.mix(stream(20).map(fn), rs.range(20), stop="all").batch(3),
    "map in zip": lambda fn: rs.zip(rs.range(40), stream(40).map(fn)).batch(3),
    "map in interleave": lambda fn: rs.interleave(rs.range(20), stream(20).map(fn), rs.range(9)),
    "map in concatenate": lambda fn: rs.concatenate(rs.range(20), stream(20).map(fn)).batch(3),
    "map in shard": lambda fn: stream(80).map(fn).shard(1, 3, uneven="pad").batch(2),
    "filter": lambda fn: rs.range(40).filter(lambda item: fn(item) % 2),
    "filter beneath batch": lambda fn: stream(40).filter(lambda item: fn(item) % 2).batch(3),
    "flat_map": lambda fn: rs.range(20).flat_map(lambda item: range(fn(item) % 4)).batch(3),
    "flat_map inside": lambda fn: rs.range(10).flat_map(
        lambda item: (fn(part) for part in range(item))
    ),
    "scan": lambda fn: rs.range(40).scan(lambda carry, item: (carry + item, fn(carry)), 0).batch(3),
    "random_map": lambda fn: rs.range(40).random_map(lambda item, rng: (fn(item), rng.random()), 1),
    "collate": lambda fn: rs.range(60).batch(3, collate=fn),
    "interleave": lambda fn: rs.range(20).interleave_map(
        lambda item: range(fn(item)), cycle_length=3, block_length=2
    ),
    "source": lambda fn: rs.from_iterable(lambda: map(fn, range(40))).batch(3),
    "sequence": lambda fn: rs.from_sequence(Indexed(fn)).shuffle(3).batch(2),
}


class Indexed(list[Any]):
    """A list whose items are looked up through a function."""

    def __init__(self, fn: Callable[[int], Any]) -> None:
        super().__init__(range(40))
        self.fn = fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(super().__getitem__(index))


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("failures", [{1}, {2, 3, 4}, {7, 12, 13, 17}])
def test_an_error_in_a_user_function_changes_nothing(
    name: str, error: type[BaseException], failures: set[int]
) -> None:
    expected = first_items(USES[name](no_change))
    flaky = Flaky(no_change, failures, error)
    got: list[Any] = []
    with iter(USES[name](flaky)) as iterator:
        before = through_bytes(iterator)
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            except error:
                assert through_bytes(iterator) == before
                assert iterator.step == len(got)
            else:
                got.append(item)
                before = through_bytes(iterator)
    assert_same(got, expected, f"after failures {failures}")
    assert flaky.calls > max(failures)


@pytest.mark.parametrize("name", USES)
def test_an_error_during_pull_changes_nothing(name: str) -> None:
    expected = first_items(USES[name](no_change))
    flaky = Flaky(no_change, {2, 9, 10}, OSError)
    got: list[Any] = []
    with iter(USES[name](flaky)) as iterator:
        while True:
            try:
                items = block_items(iterator.pull(3))
            except OSError:
                assert iterator.step == len(got)
                continue
            got += items
            if len(items) < 3:
                break
    assert_same(got, expected, "pull after errors")


@pytest.mark.parametrize("name", [name for name in USES if name != "source"])
def test_stop_iteration_out_of_a_user_function_is_an_error_and_loses_nothing(name: str) -> None:
    if name == "flat_map inside":
        return  # a generator turns it into a RuntimeError of its own
    expected = first_items(USES[name](no_change))
    flaky = Flaky(no_change, {1, 6, 11}, StopIteration)
    got: list[Any] = []
    errors = 0
    with iter(USES[name](flaky)) as iterator:
        while True:
            try:
                got.append(next(iterator))
            except StopIteration:
                break
            except RuntimeError:  # and no other error
                errors += 1
    assert errors == 3
    assert_same(got, expected, "after StopIteration")


MAKERS: dict[str, Callable[[], rs.Pipeline[int]]] = {
    "stream": lambda: stream(10),
    "stream repeated": lambda: stream(5).repeat(2),
    "take": lambda: rs.range(10).take(10),
    "prefetch": lambda: stream(10).prefetch(2),
    "batches": lambda: stream(10).batch(1, collate=sum),
    "batches by index": lambda: rs.range(10).batch(1, collate=sum),
}


@pytest.mark.parametrize("name", MAKERS)
def test_stop_iteration_over_any_upstream_is_an_error(name: str) -> None:
    expected = list(MAKERS[name]())
    for use in ("map", "filter", "prefetched map"):
        flaky = Flaky(lambda item: item + 1, {4, 14}, StopIteration)
        pipeline = MAKERS[name]().filter(flaky) if use == "filter" else MAKERS[name]().map(flaky)
        got: list[int] = []
        with iter(pipeline.prefetch(2) if use == "prefetched map" else pipeline) as iterator:
            while True:
                try:
                    got.append(next(iterator))
                except StopIteration:
                    break
                except RuntimeError:
                    flaky.failures -= {4}
        assert flaky.calls > 10
        assert got == (expected if use == "filter" else [item + 1 for item in expected])


@pytest.mark.usefixtures("states_kept_rarely")
def test_a_state_taken_after_an_error_is_refused_where_its_count_means_something_else() -> None:
    def pipeline(flaky: Any, size: int, rank: tuple[int, int]) -> rs.Pipeline[Any]:
        return rs.range(10**5).shard(*rank).map(flaky).batch(size, collate=list)

    with iter(pipeline(Flaky(no_change, {10_000}, ValueError), 1, (0, 2))) as iterator:
        with pytest.raises(ValueError, match="call 10000"):
            for _ in iterator:
                pass
        state = rs.loads(rs.dumps(iterator.get_state()))
    assert state["ahead"] > 0
    for other in (pipeline(no_change, 3, (0, 2)), pipeline(no_change, 1, (0, 3))):
        with pytest.raises(rs.StateMismatch, match=r"saved (batch_size|count)="):
            other.resume(state)
    assert next(pipeline(no_change, 1, (0, 2)).resume(state)) == [2 * 9_999]


def test_stop_iteration_at_the_very_last_item_is_an_error_too() -> None:
    flaky = Flaky(no_change, {5}, StopIteration)
    with iter(rs.range(5).map(flaky)) as iterator:
        assert list(itertools.islice(iterator, 4)) == [0, 1, 2, 3]
        with pytest.raises(RuntimeError, match="StopIteration"):
            next(iterator)
        assert list(iterator) == [4]


def test_a_state_changed_by_its_owner_does_not_spoil_the_way_back_from_an_error() -> None:
    flaky = Flaky(no_change, {7}, ValueError)
    with iter(rs.range(9).map(flaky)) as iterator:
        list(itertools.islice(iterator, 6))
        state = iterator.get_state()
        state["pipeline"]["upstream"]["position"] = 0
        state["pipeline"].clear()
        with pytest.raises(ValueError, match="call 7"):
            next(iterator)
        assert list(iterator) == [6, 7, 8]


def test_an_error_costs_little_to_undo() -> None:
    flaky = Flaky(no_change, {50_000}, ValueError)
    with iter(rs.range(60_000).map(flaky)) as iterator:
        with pytest.raises(ValueError, match="call 50000"):
            for _ in iterator:
                pass
        next(iterator)
    assert flaky.calls < 60_000 + 2000, "it went back too far"


def test_a_one_shot_iterator_says_that_it_cannot_go_back() -> None:
    flaky = Flaky(no_change, {3}, ValueError)
    with iter(rs.from_iterable(iter(range(9))).map(flaky)) as iterator:
        next(iterator)
        next(iterator)
        with pytest.raises(ValueError, match="call 3"):
            next(iterator)
        with pytest.raises(rs.ExternalStateError, match="cannot go back"):
            next(iterator)


def test_step_and_epoch_tell_where_it_is() -> None:
    pipeline = rs.range(4).shuffle(0).repeat(3).batch(2).prefetch(2)
    seen = []
    with iter(pipeline) as iterator:
        for _ in iterator:
            seen.append((iterator.step, iterator.epoch))
        state = iterator.get_state()
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert [epoch for _, epoch in seen] == [0, 0, 1, 1, 2, 2]
    with pipeline.resume(state) as iterator:
        assert (iterator.step, iterator.epoch) == (6, 2)


REGROUPED: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "flat_map": lambda numbers: numbers.flat_map(lambda item: [item] * 3),
    "unbatch": lambda numbers: numbers.batch(7).unbatch(),
    "rebatch": lambda numbers: numbers.batch(5).rebatch(2),
    "map_batches": lambda numbers: numbers.map_batches(list, 4),
    "bucket": lambda numbers: numbers.map(document).bucket(len, batch_size=2, group=7),
    "pack": lambda numbers: numbers.map(document).pack(16, group=7),
    "pack concatenated": lambda numbers: numbers.map(document).pack(16, how="concatenate", group=7),
    "window": lambda numbers: numbers.window(3, shift=2),
    "shuffle in a window": lambda numbers: numbers.shuffle(0, window=3),
    "interleave": lambda numbers: numbers.interleave_map(lambda item: [item] * 3, cycle_length=2),
    "prefetch": lambda numbers: numbers.map_batches(list, 4).prefetch(2),
    "map behind it": lambda numbers: numbers.map_batches(list, 4).map(abs),
}


@pytest.mark.parametrize("name", REGROUPED)
@pytest.mark.parametrize("numbers", [rs.range(7), stream(7), stream(1)], ids=repr)
def test_the_epoch_after_a_resume_is_that_of_the_save(name: str, numbers: rs.Pipeline[Any]) -> None:
    pipeline = REGROUPED[name](numbers.repeat(5))
    with iter(pipeline) as iterator:
        for _ in itertools.chain([None], iterator):
            state, epoch = through_bytes(iterator), iterator.epoch
            with pipeline.resume(rs.loads(state)) as resumed:
                assert resumed.epoch == epoch
                assert through_bytes(resumed) == state
    without = {**rs.loads(state)}
    assert (name in ("interleave",)) == (without.pop("epoch_reached", None) is None)
    with pipeline.resume(without) as resumed:  # as earlier versions saved it
        assert next(resumed, None) is None


def test_the_epoch_after_an_error_is_that_before_it() -> None:
    fails = {7}

    def fail_once(number: int) -> int:
        if number == 0 and iterator.step >= min(fails, default=99):
            fails.clear()
            raise OSError("once")
        return number

    pipeline = rs.range(7).repeat(2).map(fail_once).flat_map(lambda number: [number])
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, 7))
        before = through_bytes(iterator)
        with pytest.raises(OSError, match="once"):
            next(iterator)
        assert through_bytes(iterator) == before
        assert iterator.epoch == 0
        assert next(iterator) == 0
        assert iterator.epoch == 1


def test_start_at_a_later_epoch_gives_that_epochs_order_and_resumes_in_it() -> None:
    pipeline = rs.range(20).shuffle(3)
    epochs = list(pipeline.repeat(3))
    with pipeline.start(2) as iterator:
        got = [next(iterator) for _ in range(5)]
        state = iterator.get_state()
    assert got == epochs[40:45]
    with pipeline.resume(state) as iterator:
        assert iterator.epoch == 2
        assert list(iterator) == epochs[45:]


def test_a_closed_iterator_says_so_and_keeps_its_state() -> None:
    iterator = iter(rs.range(9).prefetch(2))
    next(iterator)
    state = through_bytes(iterator)
    iterator.close()
    iterator.close()
    assert through_bytes(iterator) == state
    for use in (lambda: next(iterator), lambda: iterator.pull(1), lambda: iterator.set_state({})):
        for _ in range(2):
            with pytest.raises(rs.IteratorClosed):
                use()
    assert through_bytes(iterator) == state
    assert "closed" in repr(iterator)


def test_a_running_iterator_cannot_be_pickled_or_copied() -> None:
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(rs.InvalidType, match=r"use get_state\(\)"):
            use(iter(rs.range(3)))


def test_a_refused_state_leaves_running_threads_running() -> None:
    with iter(stream(50).prefetch(3)) as iterator:
        first = [next(iterator) for _ in range(5)]
        for _ in range(3):
            with pytest.raises(rs.StateMismatch):
                iterator.set_state({**iterator.get_state(), "pipeline": {"position": -1}})
        assert first + list(iterator) == list(range(50))


def test_a_mismatch_names_the_stage_by_its_path() -> None:
    pipeline = rs.range(9).shuffle(0).batch(2)
    state = iter(pipeline).get_state()
    state["pipeline"]["upstream"]["position"] = 10
    with pytest.raises(rs.StateMismatch, match=r"Shuffle at pipeline\.upstream: .*position=10.*9"):
        pipeline.resume(state)


def test_values_that_python_cannot_write_are_refused_like_others() -> None:
    huge = 10**5000
    pipeline = stream(9).shuffle(0, window=2).skip(1).repeat(2)
    with iter(pipeline) as iterator:
        next(iterator)
        before = through_bytes(iterator)
        state = iterator.get_state()
        spoilt: list[dict[str, Any]] = [
            {**state, key: wrong}
            for key in ("step", "epoch", "ahead", "fingerprint")
            for wrong in (huge, -huge, np.zeros(3), '["Repeat@' + "9" * 5000 + '"]')
        ]
        for path in (["pass"], ["delivered"], ["upstream", "skipped"]):
            for wrong in (huge, np.zeros(3)):
                changed = rs.loads(before)
                inner = changed["pipeline"]
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = wrong
                spoilt.append(changed)
        for wrong in (huge, np.zeros(3)):
            changed = rs.loads(before)
            changed["pipeline"]["upstream"]["upstream"]["start"] = wrong
            spoilt.append(changed)
        for candidate in spoilt:
            with pytest.raises(rs.StateMismatch):
                iterator.set_state(candidate)
            assert through_bytes(iterator) == before


def test_pull_checks_its_count() -> None:
    with iter(rs.range(9)) as iterator:
        for count, error in (
            (-1, rs.InvalidArgument),
            (1.5, rs.InvalidType),
            (True, rs.InvalidType),
        ):
            with pytest.raises(error, match="count must be"):
                iterator.pull(count)  # type: ignore[arg-type]
        assert list(iterator.pull(np.int64(3))) == [0, 1, 2]


def test_an_iterator_that_is_dropped_in_a_loop_leaves_nothing() -> None:
    # The fixture of every test looks for threads left behind.
    def consume(iterator: Iterator[Any]) -> Any:
        return next(iterator)

    for _ in range(5):
        assert consume(iter(stream(1000).map(abs, workers=2).prefetch(4))) == 0


def test_iterators_of_one_pipeline_are_independent() -> None:
    pipeline = stream(30).shuffle(0, window=5).batch(2)
    with iter(pipeline) as left, iter(pipeline) as right:
        pairs = list(zip(left, right, strict=True))
    assert all((one == other).all() for one, other in pairs)


def test_what_was_iterated_before_set_state_is_closed_at_once() -> None:
    closed: list[int] = []

    class Closing(rs.TransformIterator[int]):
        def pull(self, count: int) -> Any:
            return self._upstream.pull(count)

        def close(self) -> None:
            closed.append(1)
            super().close()

    class Closes(rs.Transform[int]):
        def start(self, epoch: int = 0) -> rs.StageIterator[int]:
            return Closing(self, epoch)

    iterator = iter(rs.range(5).apply(Closes))
    state = iterator.get_state()
    next(iterator)
    iterator.set_state(state)
    assert closed == [1]
    assert list(iterator) == [0, 1, 2, 3, 4]
    iterator.close()
    assert closed == [1, 1]


def test_what_somebody_does_to_a_state_does_not_change_where_an_error_leads_back_to() -> None:
    flaky = Flaky(no_change, {4}, ValueError)
    iterator = iter(rs.from_iterable(lambda: iter(range(6))).map(flaky))
    first = list(itertools.islice(iterator, 3))
    wreck(iterator.get_state())
    with pytest.raises(ValueError, match="call 4"):
        next(iterator)
    assert first + list(iterator) == [0, 1, 2, 3, 4, 5]


def test_counts_of_numpy_leave_a_state_of_plain_numbers() -> None:
    for pipeline in (rs.range(8).filter(bool).repeat(3), rs.range(8).shuffle(0).repeat(3)):
        with iter(pipeline) as iterator:
            iterator.skip(np.int64(3))
            states = [iterator.get_state()]
            iterator.pull(np.int32(2))
            states.append(iterator.get_state())
            found = iterator.state_after(np.int64(2))
            states += [] if found is None else [found[0]]
        for state in states:
            numbers = [value for value in leaves(state) if not isinstance(value, str)]
            assert {type(number) for number in numbers} <= {int, bool, type(None)}


def leaves(state: Any) -> Iterator[Any]:
    """What a state holds, without the dicts and lists."""
    if isinstance(state, (dict, list)):
        for part in state.values() if isinstance(state, dict) else state:
            yield from leaves(part)
    else:
        yield state


def told(make: Callable[[], Any]) -> rs.Pipeline[Any]:
    return rs.from_iterable(make)


DIGESTED: dict[str, Callable[[Callable[[], Any]], rs.Pipeline[Any]]] = {
    "source": told,
    "filter and batch": lambda make: told(make).filter(lambda item: item % 3).batch(2),
    "window": lambda make: told(make).map(str).shuffle(1, window=9),
    "two windows": lambda make: told(make).shuffle(1, window=9).shuffle(2, window=5),
    "carried": lambda make: told(make).shuffle(1, window=9, carry=True),
    "repeat": lambda make: told(make).shuffle(1, window=9).repeat(3),
    "mix": lambda make: rs.mix(told(make), told(make).shuffle(4, window=7), seed=3),
}


@pytest.mark.parametrize("name", DIGESTED)
def test_what_the_sources_delivered_is_told_by_the_step_alone(name: str) -> None:
    def numbers() -> Iterator[int]:
        return iter(range(60))

    def backwards() -> Iterator[int]:
        return iter(range(60, 0, -1))

    pipeline, other = DIGESTED[name](numbers), DIGESTED[name](backwards)
    for cut in (0, 1, 15):
        with pipeline.start() as iterator:
            iterator.pull(cut)
            state = rs.loads(through_bytes(iterator))
        for step in (1, 5, 9):
            found = []
            for skipped in (0, step // 2, step):
                with pipeline.resume(state) as resumed:
                    resumed.skip(skipped)
                    resumed.pull(step - skipped)
                    found.append(resumed.digests)
            assert found[0] == found[1] == found[2]
    with pipeline.start() as iterator, other.start() as reversed_iterator:
        iterator.pull(9)
        reversed_iterator.pull(9)
        told_apart = zip(iterator.digests, reversed_iterator.digests, strict=True)
        assert all(one and one != two for one, two in told_apart)


def test_what_cannot_be_told_of_a_source_is_0() -> None:
    for pipeline in (
        rs.range(9),
        rs.from_iterable(lambda: iter("abc"), external_state_policy="warn"),
    ):
        with pipeline.start() as iterator:
            next(iterator)
            assert not any(iterator.digests)
