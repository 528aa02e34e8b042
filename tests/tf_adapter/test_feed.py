"""Items cross into TensorFlow in blocks, and each of them keeps its number."""

from __future__ import annotations

import random
import re
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import blocks as blocks_module
from resumable_tf import make_dataset, make_initializable_iterator
from resumable_tf.blocks import NumberedBlocks
from resumable_tf.columns import Columns
from resumable_tf.feed import Feed
from support.clocks import Clock
from support.graphs import RunningSum
from tf_adapter.sessions import SCALAR, as_plain

import resumable as rs
from resumable.core.iterator import PipelineIterator

Pair = namedtuple("Pair", "left right")


def numbers() -> Iterator[int]:
    return iter(range(400))


PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "columns": lambda: rs.range(400).shuffle(3),
    "items by index": lambda: rs.range(400).shuffle(3).map(int),
    "stream": lambda: rs.from_iterable(numbers).shuffle(1, window=6).prefetch(2),
    "empty": lambda: rs.range(0),
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(blocks_module, "perf_counter", clock)
    return clock


def blocks_of(pipeline: rs.Pipeline[Any], signature: Any = SCALAR) -> Any:
    return Feed(pipeline).blocks(Columns(signature))


def taken_apart(blocks: Any) -> Iterator[tuple[int, int]]:
    for numbers, column in blocks:
        yield from zip(numbers.tolist(), column.tolist(), strict=True)


@pytest.mark.parametrize("kind", PIPELINES)
def test_blocks_have_all_items_with_their_numbers(kind: str) -> None:
    expected = list(enumerate(PIPELINES[kind](), 1))
    assert list(taken_apart(blocks_of(PIPELINES[kind]()))) == expected


@given(consumed=st.integers(0, 400), kind=st.sampled_from([*PIPELINES][:3]))
def test_the_state_after_an_item_within_a_block_is_exact(consumed: int, kind: str) -> None:
    pipeline = PIPELINES[kind]()
    feed = Feed(pipeline)
    produced = feed.blocks(Columns(SCALAR))
    number = 0
    while number < consumed:
        number = int(next(produced)[0][-1])
    state = feed.state_after(consumed)
    assert list(pipeline.resume(state)) == list(pipeline)[consumed:]
    feed.move_to(state)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore" if consumed == 400 else "error"
        )  # a run that has ended says so
        rest = list(taken_apart(feed.blocks(Columns(SCALAR))))
    assert rest == list(enumerate(pipeline, 1))[consumed:]


class Reader:
    """An iterator that knows its place."""

    def __init__(self) -> None:
        self.numbers = numbers()
        self.place = 0

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> int:
        number = next(self.numbers)
        self.place += 1
        return number

    def get_state(self) -> int:
        return self.place

    def set_state(self, place: int) -> None:
        self.numbers, self.place = iter(range(place, 400)), place


OF_THEIR_OWN: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "function": lambda: rs.range(400).map(RunningSum()),
    "iterator": lambda: rs.from_iterable(Reader()).map(abs),
}


@pytest.mark.parametrize("kind", OF_THEIR_OWN)
def test_a_state_leaves_alone_what_has_a_state_of_its_own(kind: str, clock: Clock) -> None:
    expected = list(OF_THEIR_OWN[kind]())
    feed = Feed(OF_THEIR_OWN[kind]())
    got: list[int] = []
    for block, column in feed.blocks(Columns(SCALAR)):
        got += column.tolist()
        consumed = int(block[0])
        state = feed.state_after(consumed)
        with OF_THEIR_OWN[kind]().resume(state) as resumed:
            assert list(resumed) == expected[consumed:]
    assert got == expected


def test_blocks_grow_while_items_come_fast_and_are_single_where_they_do_not(clock: Clock) -> None:
    slow = {"now": False}

    def work(number: int) -> int:
        clock.now += 0.05 if slow["now"] else 1e-6
        return number

    blocks = blocks_of(rs.range(10**9).map(work))
    taken = 0
    for _ in range(200):
        numbers, _ = next(blocks)
        assert len(numbers) <= max(1, taken // 8)
        taken += len(numbers)
    assert len(numbers) > 500
    slow["now"] = True
    # The first item that takes its time ends the block.
    assert [len(next(blocks)[0]) for _ in range(5)] == [1] * 5


def test_columns_that_take_their_time_come_in_small_blocks(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = PipelineIterator.pull_as_moved

    def slowly(self: Any, count: int) -> Any:
        clock.now += 0.0005 * count
        return pull(self, count)

    monkeypatch.setattr(PipelineIterator, "pull_as_moved", slowly)
    blocks = blocks_of(rs.range(10**9))
    assert {len(next(blocks)[0]) for _ in range(200)} == {1, 2, 3, 4}


def test_blocks_are_bounded_in_bytes(clock: Clock) -> None:
    signature = tf.TensorSpec((1 << 17,), tf.int8)
    rows = rs.range(200).map(lambda number: np.full(1 << 17, number % 9, np.int8))
    assert max(len(numbers) for numbers, _ in blocks_of(rows, signature)) == 8


class Fails(Exception):
    pass


@pytest.mark.parametrize("kind", ["columns", "items by index", "stream"])
@pytest.mark.parametrize("at", [1, 2, 40, 300, 399])
def test_items_before_an_error_come_first_and_a_retry_gives_the_same_item(
    kind: str, at: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(PIPELINES[kind]())
    failing = {"left": 2}

    def fail(number: int) -> int:
        if number == expected[at] and failing["left"]:
            failing["left"] -= 1
            raise Fails("on purpose")
        return number

    pull, step = PipelineIterator.pull_as_moved, PipelineIterator.__next__

    def failing_pull(self: Any, count: int) -> Any:
        if self.step <= at < self.step + count and (count > 1 or failing["left"]):
            failing["left"] -= count == 1
            raise Fails("on purpose")
        return pull(self, count)

    def failing_next(self: Any) -> Any:
        if self.step == at and failing["left"]:
            failing["left"] -= 1
            raise Fails("on purpose")
        return step(self)

    pipeline = PIPELINES[kind]()
    if kind == "columns":
        monkeypatch.setattr(PipelineIterator, "pull_as_moved", failing_pull)
        monkeypatch.setattr(PipelineIterator, "__next__", failing_next)
    else:
        pipeline = pipeline.map(fail)
    blocks = taken_apart_and_retried(blocks_of(pipeline))
    before = list(enumerate(expected, 1))
    assert blocks == before[:at] + [f"item {at + 1} of the input failed"] * 2 + before[at:]


def taken_apart_and_retried(blocks: Any) -> list[Any]:
    got: list[Any] = []
    while True:
        try:
            numbers, column = next(blocks)
        except StopIteration:
            return got
        except RuntimeError as error:
            got.append(re.sub("(failed)( in .*)?: Fails: on purpose", r"\1", str(error)))
        else:
            got += zip(numbers.tolist(), column.tolist(), strict=True)


def test_a_source_that_is_read_once_loses_nothing_to_an_error(clock: Clock) -> None:
    def fail(number: int) -> int:
        if number == 300:
            raise Fails("on purpose")
        return number

    got: list[Any] = []
    blocks = blocks_of(rs.from_iterable(numbers(), external_state_policy="ignore").map(fail))
    pairs = taken_apart(blocks)
    with pytest.raises(RuntimeError, match="item 301"):
        got += iter(lambda: next(pairs), None)
    assert got == [(number + 1, number) for number in range(300)]


def named_error() -> Any:
    def halve(number: int) -> float:
        return 1 / (number - 3)

    return rs.range(9).map(halve).filter(bool)


def test_an_error_names_the_item_the_stage_and_the_reason_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = blocks_of(named_error(), tf.TensorSpec((), tf.float64))
    reason = (
        "item 4 of the input failed in Map at pipeline.upstream: ZeroDivisionError: division by"
    )
    for _ in range(3):
        next(blocks)
    logged: list[str] = []
    monkeypatch.setattr(tf.get_logger(), "error", logged.append)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=reason):
            next(blocks)
    assert [message[: len(reason)] for message in logged] == [reason]


def test_an_error_in_a_source_names_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    blocks = blocks_of(rs.from_iterable(broken).map(abs).prefetch(2))
    next(blocks)
    with pytest.raises(RuntimeError, match=r"item 2 of the input failed.*OSError: gone"):
        next(blocks)


def test_an_error_in_a_session_begins_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with the stack of an operation of the graph that is named as one of the input's."""
    monkeypatch.setattr(tf.get_logger(), "error", lambda message: None)
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = make_initializable_iterator(
            make_dataset(named_error(), tf.TensorSpec((), tf.float64))
        )
        item = tf.numpy_function(abs, [iterator.get_next()], tf.float64)
        session.run(iterator.initializer)
        for _ in range(3):
            session.run(item)
        with pytest.raises(tf.errors.OpError) as raised:
            session.run(item)
    begin = (
        "RuntimeError: item 4 of the input failed in Map at pipeline.upstream: ZeroDivisionError"
    )
    assert raised.value.message.removeprefix("Graph execution error:\n\n").startswith(begin)
    assert "Original stack trace" not in str(raised.value)


def test_what_tensorflow_calls_is_not_converted_by_autograph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It warned once a process that it could not transform them."""
    converted: list[str] = []
    monkeypatch.setattr(tf.get_logger(), "warning", lambda *args: converted.append(str(args)))
    made: list[Any] = []
    from_generator = tf.data.Dataset.from_generator

    def noting(generator: Any, **options: Any) -> Any:
        made.append(generator)
        return from_generator(generator, **options)

    monkeypatch.setattr(tf.data.Dataset, "from_generator", noting)
    with tf.Graph().as_default():
        for signature in (SCALAR, tf.RaggedTensorSpec((None,), tf.int64)):
            make_dataset(rs.range(3), signature)

    @tf.function  # type: ignore[untyped-decorator]
    def call(generator: Any) -> Any:
        generator()

    for generator in made:
        call(generator)
    assert len(made) == 2
    assert not converted


SPEC = tf.TensorSpec((None,), tf.float32)
STRUCTURES: dict[str, tuple[Any, Any]] = {
    "arrays of one shape": (lambda n: np.full(3, n, np.float32), SPEC),
    "arrays without elements": (lambda n: np.ones((2, 0)), tf.TensorSpec((2, 0), tf.float64)),
    "arrays of many shapes": (lambda n: np.full(n % 3, n, np.float32), SPEC),
    "matrices of many shapes": (
        lambda n: np.full((n % 3, 1 + n % 2), n, np.float32),
        tf.TensorSpec((None, None), tf.float32),
    ),
    "strings and numbers of many shapes": (
        lambda n: {"words": ["é" * (n % 3)] * (n % 4), "number": n},
        {"words": tf.TensorSpec((None,), tf.string), "number": SCALAR},
    ),
    "lists": (lambda n: [n, n], SPEC),
    "another dtype": (lambda n: np.full(3, n), SPEC),
    "strings": (lambda n: "é" * (n % 3), tf.TensorSpec((), tf.string)),
    "bytes": (lambda n: b"a\0" * (n % 3), tf.TensorSpec((), tf.string)),
    "arrays of strings": (
        lambda n: np.array([str(n), "ab"]),
        tf.TensorSpec((2,), tf.string),
    ),
    "unknown rank": (lambda n: np.ones((n % 2 + 1,) * (n % 2 + 1)), tf.TensorSpec(None)),
    "numbers of NumPy": (np.float32, tf.TensorSpec((), tf.float32)),
    "booleans": (lambda n: n % 2 == 0, tf.TensorSpec((), tf.bool)),
    "dict": (lambda n: {"b": n, "a": (n, str(n))}, None),
    "named tuple": (lambda n: Pair(n, -n), Pair(SCALAR, SCALAR)),
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_items_of_any_structure_come_as_one_by_one(kind: str) -> None:
    make, signature = STRUCTURES[kind]
    if signature is None:
        signature = {"b": SCALAR, "a": (SCALAR, tf.TensorSpec((), tf.string))}
    pipeline = rs.range(60).map(make)
    with tf.Graph().as_default(), tf1.Session() as session:
        bare = tf.data.Dataset.from_generator(lambda: iter(pipeline), output_signature=signature)
        dataset = make_dataset(pipeline, signature)
        assert dataset.element_spec == bare.element_spec
        iterators = [tf1.data.make_initializable_iterator(bare)]
        iterators.append(make_initializable_iterator(dataset))
        items = [iterator.get_next() for iterator in iterators]
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        session.run([iterator.initializer for iterator in iterators])
        for _ in range(60):
            expected, got = session.run(items)
            assert type(got) is type(expected)
            same = [tf.nest.map_structure(as_plain, each) for each in (got, expected)]
            assert same[0] == same[1]
        for item in items:
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(item)


def test_items_of_many_shapes_need_no_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = list[int]()
    next_block = NumberedBlocks.__next__

    def counted(self: NumberedBlocks[Any]) -> Any:
        block = next_block(self)
        lengths.append(len(block[0]))
        return block

    monkeypatch.setattr(NumberedBlocks, "__next__", counted)
    monkeypatch.setattr(blocks_module, "perf_counter", Clock())  # items come fast on any machine
    make, signature = STRUCTURES["arrays of many shapes"]
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = make_initializable_iterator(make_dataset(rs.range(600).map(make), signature))
        item = iterator.get_next()
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        for number in range(600):
            assert len(session.run(item)) == number % 3
    assert sum(lengths) == 600
    assert max(lengths) > 30


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_ragged_and_sparse_tensors_come_one_by_one(kind: str) -> None:
    def ragged(number: int) -> Any:
        return tf.ragged.constant([[number], [number] * 2])

    def sparse(number: int) -> Any:
        return tf.sparse.from_dense([number, 0, number])

    signatures = {
        "ragged": tf.RaggedTensorSpec((2, None), tf.int32),
        "sparse": tf.SparseTensorSpec((3,), tf.int32),
    }
    pipeline = rs.range(1, 5).map({"ragged": ragged, "sparse": sparse}[kind])
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = make_initializable_iterator(make_dataset(pipeline, signatures[kind]))
        total = tf.reduce_sum(iterator.get_next().values)
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        factor = {"ragged": 3, "sparse": 2}[kind]
        assert [session.run(total) for _ in range(4)] == [factor * n for n in range(1, 5)]
        assert session.run(iterator.consumed) == 4


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_items_batched_by_tf_data_are_counted(size: int, drop: bool) -> None:
    pipeline = rs.range(400).shuffle(3)
    expected = [batch.tolist() for batch in pipeline.batch(size, drop_last=drop)]
    with tf.Graph().as_default(), tf1.Session() as session:
        batched = make_dataset(pipeline, SCALAR).batch(size, drop_remainder=drop)
        iterator = make_initializable_iterator(batched)
        batch = iterator.get_next()
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        consumed = 0
        for each in expected:
            assert session.run(batch).tolist() == each
            consumed += len(each)
            assert session.run(iterator.consumed) == consumed
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(batch)


BETWEEN: dict[str, tuple[bool, Callable[[Any], Any]]] = {
    "nothing": (True, lambda d: d),
    "a map": (True, lambda d: d.map(lambda n, item: (n, item + 1)).prefetch(2)),
    "a map that names it": (True, lambda d: d.map(lambda n, item: (tf.identity(n), item))),
    "a parallel map": (True, lambda d: d.map(lambda n, item: (n, item), 4).batch(2)),
    "an unordered map": (
        False,
        lambda d: d.map(lambda n, item: (n, item), 4, deterministic=False).batch(2),
    ),
    "a map of numbers": (False, lambda d: d.map(lambda n, item: (n + 0, item))),
    "a filter": (False, lambda d: d.filter(lambda n, item: item > 3).batch(2)),
    "an option": (False, lambda d: unordered(d.map(lambda n, item: (n, item), 4))),
}


def unordered(dataset: Any) -> Any:
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


@pytest.mark.parametrize("kind", BETWEEN)
def test_the_order_is_checked_where_it_is_not_certain(kind: str) -> None:
    keeps, prepare = BETWEEN[kind]
    with tf.Graph().as_default() as graph:
        source = make_dataset(rs.range(9), SCALAR)
        make_initializable_iterator(prepare(source))
        kinds = {operation.type for operation in graph.get_operations()}
    assert ("ScanDataset" not in kinds) is keeps


FOUR = tf.TensorSpec((4,), tf.float64)


@pytest.mark.parametrize(
    ("signature", "good", "item", "match"),
    [
        (SCALAR, 7, (1, 2), "has shape"),
        (SCALAR, 7, "one", "the output_signature has TensorSpec.*got 'one': invalid literal"),
        ((SCALAR,), (7,), (1, 2), "has the structure"),
        ({"b": SCALAR}, {"b": 7}, {"a": 1}, "has the structure"),
        (FOUR, np.ones(4), np.ones(3), "has shape"),
    ],
)
def test_an_item_that_is_not_as_the_signature_says_is_named(
    signature: Any, good: Any, item: Any, match: str, clock: Clock
) -> None:
    """The items before it, which stack, come first; a retry does not pass over it."""
    blocks = blocks_of(rs.range(99).map(lambda n: item if n == 50 else good), signature)
    taken: list[int] = []
    for _ in range(2):
        with pytest.raises((ValueError, TypeError), match=f"item 51 of the input failed.*{match}"):
            taken.extend(len(numbers) for numbers, _ in blocks)
    assert sum(taken) == 50


def test_columns_are_not_copied_and_stacked_rows_are_aligned() -> None:
    columns = Columns((SCALAR, SPEC))
    block = np.arange(5), np.ones((5, 2), np.float32)
    for ours, theirs in zip(columns.of(block), block, strict=True):
        assert np.shares_memory(ours, theirs)
    (single,) = tf.nest.flatten(Columns(SPEC).of([block[1][0]]))
    assert np.shares_memory(single, block[1])
    rows = [np.full(random.Random(0).randint(1, 9), n, np.float32) for n in range(5)]
    stacked = Columns(SPEC).of(rows)
    assert stacked.ctypes.data % 64 == 0
    assert stacked.tolist() == [row.tolist() for row in rows]
