"""Batches lie ahead on the devices, and the state is that of the batch which the loop has."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax_adapter.devices import divided, jax, mesh_of, plain
from resumable_jax import DevicePrefetch, device_prefetch, to_global
from support.graphs import RunningSum, catalogue, stream
from support.interrupting import interrupters, some_interrupters
from support.waiting import wait_until

import resumable as rs
from resumable import consumed

# What is raised in a finalizer goes no further.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

NAMES = sorted(catalogue(Path()))
MANY = 25
"""Items of a pipeline that may be endless."""

NUMBERS = rs.range(7).shuffle(1)
INTERRUPTED: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "batches": lambda: NUMBERS.map(abs).batch(2),
    "window": lambda: stream(7).shuffle(1, window=3).flat_map(lambda number: [number, -number]),
    "epochs": lambda: stream(3).repeat(2),
    "prefetch": lambda: NUMBERS.map(abs).prefetch(2),
    "partitions": lambda: NUMBERS.partition(2, lambda part: part.filter(lambda n: n % 4)),
    "with a state of its own": lambda: NUMBERS.map(RunningSum()),
}


@pytest.fixture(scope="module")
def pipelines(catalogue_data: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    return catalogue(catalogue_data)


@pytest.fixture(params=["marks as they come", "no marks"])
def marks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without marks; without, all states of a stream are found by reading again."""
    if request.param == "no marks":
        monkeypatch.setattr(consumed, "MARK_SHARE_BEHIND", 1 << 40)


def ahead(pipeline: rs.Pipeline[Any], size: int) -> DevicePrefetch:
    """Items of any kind, which stay where they are."""
    return DevicePrefetch(iter(pipeline), size, lambda batch: batch)


def bare_states(pipeline: rs.Pipeline[Any]) -> tuple[list[str], list[Any]]:
    """The items, then step, epoch and state from before the first of them on."""
    items, states = [], []
    with iter(pipeline) as iterator:
        states.append((iterator.step, iterator.epoch, state_of(iterator)))
        for item in islice(iterator, MANY):
            items.append(str(item))
            states.append((iterator.step, iterator.epoch, state_of(iterator)))
        return items, states


def state_of(iterator: Any) -> bytes | str:
    try:
        return rs.dumps(iterator.get_state())
    except rs.ResumableError as error:
        return str(error)


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("name", NAMES)
def test_items_steps_epochs_and_states_are_those_of_the_bare_iterator(
    name: str, pipelines: dict[str, Callable[[], rs.Pipeline[Any]]]
) -> None:
    make = pipelines[name]
    items, states = bare_states(make())
    for size in (1, 2, 5):
        with ahead(make(), size) as batches:
            for number in range(len(items) + 1):
                step, epoch, state = states[number]
                assert (batches.step, batches.epoch) == (step, epoch)
                found = state_of(batches)
                # Where the loop has the last item, the pipeline may have seen the end.
                assert found == state or (number == len(items) and is_over(make(), found, step))
                if number < len(items):
                    assert str(next(batches)) == items[number]
            for _ in range(2 if len(items) < MANY else 0):
                with pytest.raises(StopIteration):
                    next(batches)
                found = state_of(batches)
                assert found == state or is_over(make(), found, step)


def is_over(pipeline: rs.Pipeline[Any], data: Any, step: int) -> bool:
    """Whether nothing is left after ``step`` items."""
    with pipeline.resume(rs.loads(data)) as rest:
        return rest.step == step and not list(rest)


def rows(count: int) -> list[Any]:
    return [{"x": np.full(3, number, np.float32), "y": number} for number in range(count)]


def documents() -> Iterator[Any]:
    return (np.arange(number % 7 + 1, dtype=np.int32) for number in range(40))


PLACED: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "arrays": lambda: (
        rs.from_arrays({"x": np.arange(96.0).reshape(48, 2), "y": np.arange(48, dtype=np.uint8)})
        .shuffle(1)
        .batch(4)
    ),
    "epochs": lambda: rs.range(24).shuffle(2).batch(8, drop_last=True).repeat(3),
    "window": lambda: (
        rs.from_iterable(lambda: iter(rows(40)))
        .shuffle(3, window=9)
        .batch(4)
        .map(lambda batch: (batch["x"], [batch["y"]]))
    ),
    "packs": lambda: (
        rs.from_sequence(list(documents()))
        .partition(4, lambda part: part.filter(lambda tokens: len(tokens) > 2).pack(8))
        .batch(4, drop_last=True)
    ),
    "mix": lambda: (
        rs.mix({"a": rs.range(30), "b": rs.range(100, 130)}, weights=[2, 1])
        .batch(4, drop_last=True)
        .prefetch(2)
    ),
}
SHARDINGS: dict[str, Callable[[], Any]] = {
    "default": lambda: None,
    "one": lambda: jax.sharding.SingleDeviceSharding(jax.devices()[1]),
    "two": lambda: mesh_of(2),
    "four": lambda: divided(mesh_of(4), "data"),
}
EXPECTED: dict[str, list[Any]] = {}


def expected_of(name: str) -> list[Any]:
    if name not in EXPECTED:
        EXPECTED[name] = list(map(plain, PLACED[name]()))
    return EXPECTED[name]


@pytest.mark.parametrize("name", PLACED)
@given(
    runs=st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 5), st.sampled_from([*SHARDINGS])), max_size=4
    )
)
def test_any_runs_with_any_sizes_and_devices_join_into_one(
    name: str, runs: list[tuple[int, int, str]]
) -> None:
    pipeline, expected = PLACED[name](), expected_of(name)
    with iter(pipeline) as bare:
        seen: list[Any] = []
        data = rs.dumps(bare.get_state())
        for count, size, sharding in runs:
            with device_prefetch(
                pipeline.resume(rs.loads(data)), size, SHARDINGS[sharding]()
            ) as batches:
                for batch in islice(batches, count):
                    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(batch))
                    seen.append(plain(batch))
                data = rs.dumps(batches.get_state())
            if len(seen) < len(expected):
                list(islice(bare, len(seen) - bare.step))
                assert data == rs.dumps(bare.get_state())
        with pipeline.resume(rs.loads(data)) as rest:
            seen += map(plain, rest)
    assert seen == expected


def test_no_more_lies_ahead_than_is_asked_for() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    pipeline = rs.range(20).map(make)
    for size in (1, 2, 4):
        made.clear()
        with device_prefetch(iter(pipeline), size) as batches:
            assert made == []
            for number in range(3):
                assert next(batches) == number
                assert made == list(range(number + size))


def test_a_batch_that_is_donated_breaks_nothing() -> None:
    columns = np.arange(64, dtype=np.float32).reshape(32, 2)
    step = jax.jit(lambda batch: batch * 2, donate_argnums=0)
    for sharding in (None, mesh_of(2)):
        pipeline = rs.from_arrays(columns).batch(4)
        found = [np.asarray(step(batch)) for batch in device_prefetch(iter(pipeline), 3, sharding)]
        assert np.array_equal(np.concatenate(found), np.arange(64).reshape(32, 2) * 2)
    assert np.array_equal(columns, np.arange(64).reshape(32, 2))


def test_what_is_on_the_devices_already_stays_there() -> None:
    pipeline = rs.range(16).batch(4).map(to_global(mesh_of(4)))
    with device_prefetch(iter(pipeline)) as batches:
        assert {batch.sharding.num_devices for batch in batches} == {4}


# Errors


class Fails:
    """Fails at an item, as often as it is told."""

    def __init__(self, number: int, times: float) -> None:
        self.number, self.times = number, times

    def __call__(self, number: int) -> int:
        if number == self.number and self.times > 0:
            self.times -= 1
            raise KeyError(f"item {number}")
        return number


@pytest.mark.parametrize("source", [lambda: rs.range(9), lambda: stream(9).shuffle(0, window=1)])
@pytest.mark.parametrize("size", [1, 2, 4])
@given(number=st.integers(0, 8), times=st.integers(1, 3), asks=st.booleans())
def test_an_error_comes_once_behind_the_batches_before_it(
    source: Callable[[], rs.Pipeline[int]], size: int, number: int, times: int, asks: bool
) -> None:
    pipeline = source().map(abs).map(Fails(number, times))
    order = list(source())
    errors = 0
    seen: list[int] = []
    with device_prefetch(iter(pipeline), size) as batches:
        while True:
            if asks:
                state = batches.get_state()
                assert state["step"] == batches.step == len(seen)
                with source().map(abs).map(abs).resume(state) as rest:
                    assert list(rest) == order[len(seen) :]
            try:
                seen.append(int(next(batches)))
            except KeyError:
                errors += 1
                assert errors <= times
                assert len(seen) == order.index(number)
            except StopIteration:
                break
    assert seen == order
    assert errors == times


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_batch_that_jax_cannot_hold_comes_as_an_error_in_its_place(size: int) -> None:
    items: list[Any] = [np.arange(3), np.arange(3), np.array(["a text"]), np.arange(2)]
    pipeline = rs.from_sequence(items)
    with device_prefetch(iter(pipeline), size) as batches:
        next(batches)
        next(batches)
        for _ in range(3):
            with pytest.raises(
                rs.InvalidType, match=r"^batch, of dtype <U6 and shape \(1,\), must"
            ):
                next(batches)
            assert batches.step == batches.get_state()["step"] == 2


def test_items_that_are_dropped_are_counted_as_without_it() -> None:
    def third(number: int) -> int:
        return 10 // (number % 3)

    pipeline = rs.range(20).map(third, on_error="skip")
    with iter(pipeline) as bare, device_prefetch(iter(pipeline), 3) as batches:
        for batch in islice(batches, 12):
            assert batch == next(bare)
            assert batches.get_state() == bare.get_state()


def test_a_state_that_cannot_be_taken_is_an_error_only_where_it_is_asked_for() -> None:
    pipeline = rs.from_iterable(iter(range(5)))
    with device_prefetch(iter(pipeline), 2) as batches:
        assert next(batches) == 0
        with pytest.raises(rs.ExternalStateError, match="can only be read once"):
            batches.get_state()
        assert [int(batch) for batch in batches] == [1, 2, 3, 4]
    held = stream(9).map(lambda number: {number}).shuffle(1, window=3, carry=True).map(min)
    with device_prefetch(iter(held), 2) as batches:
        assert len(list(islice(batches, 4))) == 4
        with pytest.raises(rs.UnencodableState):
            batches.get_state()
        assert len(list(batches)) == 5


# Interrupts


@pytest.fixture(params=INTERRUPTED)
def interrupted_pipeline(request: pytest.FixtureRequest) -> Callable[[], rs.Pipeline[Any]]:
    return INTERRUPTED[request.param]


def take_all(items: Iterator[Any], seen: list[Any]) -> None:
    for item in items:
        seen.append(item)


def texts(items: list[Any]) -> list[str]:
    return list(map(str, items))


@pytest.mark.parametrize("size", [1, 3])
def test_wherever_a_loop_is_interrupted_no_batch_is_lost_or_repeated(
    interrupted_pipeline: Callable[[], rs.Pipeline[Any]],
    size: int,
    request: pytest.FixtureRequest,
) -> None:
    with iter(interrupted_pipeline()) as bare:
        expected = texts(list(bare))
    for interrupt in some_interrupters(request.node.name):
        with ahead(interrupted_pipeline(), size) as batches:
            seen: list[Any] = []
            interrupt(partial(take_all, batches, seen))
            assert batches.step == len(seen)
            state = batches.get_state()
            assert state["step"] == len(seen)
            take_all(batches, seen)
            assert texts(seen) == expected
            with pytest.raises(StopIteration):
                next(batches)
        with interrupted_pipeline().resume(state) as rest:
            assert texts(list(rest)) == expected[state["step"] :]


def test_an_interrupt_comes_at_once_although_batches_are_ready() -> None:
    pressed = [True]

    def interrupt(number: int) -> int:
        if number == 2 and pressed:
            pressed.pop()
            raise KeyboardInterrupt
        return number

    with ahead(rs.range(6).map(interrupt), 4) as batches:
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        assert batches.step == 0
        assert list(batches) == [0, 1, 2, 3, 4, 5]


def test_wherever_a_transfer_is_interrupted_no_batch_is_lost_or_repeated() -> None:
    pipeline = rs.range(6).batch(2)
    expected = list(map(plain, pipeline))
    for interrupt in some_interrupters("transfer"):
        with device_prefetch(iter(pipeline), 2, mesh_of(2)) as batches:
            seen: list[Any] = []
            interrupt(partial(take_all, batches, seen))
            assert batches.step == batches.get_state()["step"] == len(seen)
            take_all(batches, seen)
            assert list(map(plain, seen)) == expected


def test_wherever_what_is_read_once_is_interrupted_no_batch_is_lost_in_silence() -> None:
    reached = []
    for interrupt in interrupters():
        source = rs.from_iterable(iter(range(7)), external_state_policy="ignore")
        with ahead(source, 2) as batches:
            seen: list[Any] = []
            interrupt(partial(take_all, batches, seen))
            # An item may have been taken that had not come to the pipeline.
            with suppress(rs.ExternalStateError):
                take_all(batches, seen)
            assert seen == list(range(batches.step))
            reached.append(batches.step)
    assert max(reached) == 7


def test_wherever_a_state_is_asked_for_and_interrupted_the_next_one_is_right(
    interrupted_pipeline: Callable[[], rs.Pipeline[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumed, "MARK_SHARE_BEHIND", 1 << 40)
    with iter(interrupted_pipeline()) as bare:
        list(islice(bare, 3))
        expected, rest = bare.get_state(), texts(list(bare))
    for interrupt in some_interrupters(expected):
        with ahead(interrupted_pipeline(), 2) as batches:
            list(islice(batches, 3))
            interrupt(batches.get_state)
            assert batches.get_state() == expected
            assert texts(list(batches)) == rest


def test_wherever_a_restore_is_interrupted_it_is_at_one_of_both_places(
    interrupted_pipeline: Callable[[], rs.Pipeline[Any]],
) -> None:
    with iter(interrupted_pipeline()) as bare:
        expected = texts(list(bare))
    with iter(interrupted_pipeline()) as bare:
        next(bare)
        state = bare.get_state()
    for interrupt in some_interrupters(state):
        batches = ahead(interrupted_pipeline(), 2)
        take_all(islice(batches, 2), [])
        interrupted = interrupt(partial(batches.set_state, state))
        step = batches.step
        assert step in ((2, 1) if interrupted else (1,))
        assert batches.get_state()["step"] == step
        assert texts(list(batches)) == expected[step:]
        batches.close()


def test_wherever_a_close_is_interrupted_the_next_one_ends_all(
    interrupted_pipeline: Callable[[], rs.Pipeline[Any]],
) -> None:
    for interrupt in interrupters():
        batches = ahead(interrupted_pipeline(), 2)
        take_all(islice(batches, 2), [])
        interrupt(batches.close)
        batches.close()
        assert batches.get_state()["step"] == 2
    wait_until(lambda: not threads())


def test_wherever_a_started_pass_is_dropped_its_threads_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)
    pipeline = INTERRUPTED["prefetch"]()
    for interrupt in interrupters():
        interrupt(lambda: take_all(islice(ahead(pipeline, 2), 2), []))

    def are_gone() -> bool:
        gc.collect()
        return not threads()

    wait_until(are_gone)


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("resumable")]


# Other places


def test_a_restore_drops_what_lies_ahead_and_a_refused_one_changes_nothing() -> None:
    pipeline = rs.range(20).shuffle(4)
    expected = list(pipeline)
    with device_prefetch(iter(pipeline), 3) as batches:
        start = batches.get_state()
        assert [int(next(batches)) for _ in range(5)] == expected[:5]
        with iter(rs.range(21).shuffle(4)) as another:
            foreign = another.get_state()
        with pytest.raises(rs.StateMismatch):
            batches.set_state(foreign)
        assert (batches.step, int(next(batches))) == (5, expected[5])
        state = batches.get_state()
        batches.set_state(start)
        assert batches.step == 0
        assert [int(next(batches)) for _ in range(9)] == expected[:9]
        batches.set_state(state)
        assert [int(batch) for batch in batches] == expected[6:]


def test_a_state_is_a_value() -> None:
    with ahead(stream(9).map(RunningSum()), 2) as batches:
        list(islice(batches, 3))
        state = batches.get_state()
        data = rs.dumps(state)
        state["pipeline"].clear()
        assert rs.dumps(batches.get_state()) == data


def test_a_closed_one_delivers_nothing_and_keeps_its_state() -> None:
    pipeline = rs.range(9).prefetch(2)
    batches = device_prefetch(iter(pipeline), 3)
    assert int(next(batches)) == 0
    batches.close()
    assert repr(batches) == f"<closed device prefetch at step 1, 0 batches ahead, of {pipeline!r}>"
    for use in (partial(next, batches), partial(batches.set_state, batches.get_state())):
        with pytest.raises(rs.IteratorClosed, match="the device prefetch was closed"):
            use()
    with pipeline.resume(batches.get_state()) as rest:
        assert list(rest) == list(range(1, 9))


def test_what_was_opened_for_a_state_is_released_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumed, "MARK_SHARE_BEHIND", 1 << 40)
    opened: list[int] = []

    def numbers() -> Iterator[int]:
        opened.append(1)
        try:
            yield from range(9)
        finally:
            opened.pop()

    batches = ahead(rs.from_iterable(numbers), 3)
    assert list(islice(batches, 2)) == [0, 1]
    state = batches.get_state()
    assert len(opened) == 2  # the loop's, and another to read again for the state
    batches.set_state(state)
    assert opened == []
    assert list(islice(batches, 2)) == [2, 3]
    state = batches.get_state()
    assert len(opened) == 2
    batches.close()
    assert opened == []
    assert batches.get_state() == state
    assert opened == []


def test_it_cannot_be_pickled() -> None:
    with (
        device_prefetch(iter(rs.range(3))) as batches,
        pytest.raises(rs.InvalidType, match="use get_state"),
    ):
        pickle.dumps(batches)


@pytest.mark.parametrize("count", [1, 3])
def test_an_iterator_that_is_moved_elsewhere_is_noticed(count: int) -> None:
    iterator = iter(rs.range(9))
    with device_prefetch(iterator, 2) as batches:
        next(batches)
        iterator.skip(count)
        assert next(batches) == 1
        with pytest.raises(
            rs.InvalidArgument, match="must not be moved elsewhere, got one at step"
        ):
            next(batches)


# What it is given


def test_a_loop_of_a_checkpointer_is_refused_and_what_to_write_instead_works() -> None:
    pipeline = rs.range(16).batch(4)
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(1)) as checkpointer:
        loop = checkpointer.resume(pipeline)
        with pytest.raises(
            rs.InvalidType, match=r"^iterator must be .* write checkpointer\.resume\(pipeline\.map"
        ):
            device_prefetch(loop)  # type: ignore[arg-type]
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(1)) as checkpointer:
        mesh = mesh_of(2)
        for batch in checkpointer.resume(pipeline.map(to_global(mesh)).prefetch(2)):
            assert batch.sharding.num_devices == 2


@pytest.mark.parametrize(
    "value",
    [rs.range(4), [1, 2], iter("text"), None],
    ids=["pipeline", "list", "iterator", "nothing"],
)
def test_what_is_no_iterator_of_a_pipeline_is_refused(value: Any) -> None:
    with pytest.raises(
        rs.InvalidType, match=r"^iterator must be what iter\(pipeline\) or "
    ) as info:
        device_prefetch(value)
    assert str(info.value).endswith("; write iter(pipeline)") == isinstance(value, rs.Pipeline)


def test_other_arguments_are_checked_before_anything_runs() -> None:
    iterator = iter(rs.range(4))
    for size, kind in ((0, rs.InvalidArgument), (2.5, rs.InvalidType)):
        with pytest.raises(kind, match=r"^size must be "):
            device_prefetch(iterator, size)  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidType, match=r"^sharding must be "):
        device_prefetch(iterator, sharding="data")
    assert next(iterator) == 0
