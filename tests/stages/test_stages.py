"""What single stages promise beyond the laws, against plain Python or tf.data's documentation."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs
from resumable.core.block import block_items, slice_block, stack
from resumable.order.weights import integer_weights
from resumable.testing.comparing import assert_same


def pair(left: int, right: int) -> tuple[int, int]:
    return left, right


def test_batches_stack_and_keep_columns() -> None:
    batches = list(rs.range(5).batch(2))
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in rs.range(5).batch(2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(rs.range(5).batch(2, collate=tuple)) == [(0, 1), (2, 3), (4,)]
    (batch,) = rs.range(3).map(lambda i: {"i": i, "s": str(i)}).batch(3)
    assert batch["i"].tolist() == [0, 1, 2]
    assert batch["s"] == ["0", "1", "2"]


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 9), st.integers(0, 5))
def test_the_batch_size_may_change_on_resume(
    length: int, before: int, after: int, steps: int
) -> None:
    for make in (rs.range, stream):
        with iter(make(length).batch(before)) as iterator:
            head = [item for batch in itertools.islice(iterator, steps) for item in batch.tolist()]
            state = iterator.get_state()
        with make(length).batch(after).resume(state) as iterator:
            batches = [batch.tolist() for batch in iterator]
        assert head + list(itertools.chain.from_iterable(batches)) == list(range(length))
        assert all(len(batch) == after for batch in batches[:-1])


ROWS: dict[str, Any] = {
    "int64": np.arange(9),
    "bool": np.arange(9) > 4,
    "uint8 pairs": np.arange(18, dtype=np.uint8).reshape(9, 2),
    "float32": np.arange(9, dtype=np.float32) / 3,
    "complex": np.arange(9) * 1j,
    "other byte order": np.arange(9, dtype=">i4"),
    "text": np.array(["a", "bcd", "", "b", "cc", "d", "e", "f", "ghij"]),
    "objects": np.array([1, "a", None, 2.5, [1], 1, 2, 3, 4], object),
    "dates": np.arange(9).astype("M8[D]"),
    "masked": np.ma.arange(9),
    "lists": list("abcdefghi"),
    "dict": {"x": np.arange(9), "y": (np.arange(9.0), np.arange(9, dtype=np.int8))},
    "dict of a list": {"x": np.arange(9), "y": list("abcdefghi")},
}


@pytest.mark.parametrize("name", ROWS)
def test_batches_of_rows_are_those_of_the_rows_one_by_one(name: str) -> None:
    rows = ROWS[name]
    cuts = [(0, 4), (4, 4), (4, 9)]
    batches = [slice_block(rows, start, stop) for start, stop in cuts]
    if name == "masked":
        batches = [batch.filled() for batch in batches[:1]]
    items = list(rs.from_sequence(batches).unbatch())
    unbatched = rs.from_sequence(batches).unbatch()
    for size in (1, 3, 5, 9):
        expected = [stack(items[start : start + size]) for start in range(0, len(items), size)]
        assert_same(list(unbatched.batch(size)), expected, f"batches of {size}")
    # Items and blocks in turn, from every offset.
    for offset in range(len(items) + 1):
        with iter(unbatched) as iterator:
            taken = [next(iterator) for _ in range(offset)]
            taken += block_items(iterator.pull(2))
            taken += list(iterator)
        assert_same(taken, items, f"from {offset}")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_batch_of_rows_is_a_copy(size: int) -> None:
    rows = np.arange(12)
    for batch in rs.from_sequence([rows[:3], rows[3:9], rows[9:]]).unbatch().batch(size):
        batch[:] = -1
    assert rows.tolist() == list(range(12))


def test_unbatch_undoes_batch_for_every_structure() -> None:
    for items in ([1, 2, 3], [(1, "a"), (2, "b"), (3, "c")], [{"a": i} for i in range(3)]):
        assert list(rs.from_sequence(items).batch(2).unbatch()) == items
    with pytest.raises(rs.MalformedItem, match=r"unbatch needs batches.*got int"):
        list(rs.range(3).unbatch())
    with pytest.raises(rs.MalformedItem, match="one length"):
        list(rs.from_sequence([([1, 2], [1])]).unbatch())


def test_interleave_takes_turns_as_tf_data_documents_it() -> None:
    pipeline = rs.range(1, 6).interleave_map(lambda n: [n] * 6, cycle_length=2, block_length=4)
    # fmt: off
    assert list(pipeline) == [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4,
                              3, 3, 4, 4, 5, 5, 5, 5, 5, 5]
    # fmt: on


def test_interleaving_pipelines_leaves_out_what_has_ended() -> None:
    pipeline = rs.interleave(rs.range(2), rs.range(10, 15), rs.range(20, 23), block_length=2)
    assert list(pipeline) == [0, 1, 10, 11, 20, 21, 12, 13, 22, 14]


def test_interleave_reopens_a_pipeline_at_its_position() -> None:
    looked_up: list[int] = []

    class Source:
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, index: int) -> int:
            looked_up.append(index)
            return index

    source: Any = Source()
    pipeline = rs.range(3).interleave_map(lambda n: rs.from_sequence(source), cycle_length=3)
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, 900))
        state = iterator.get_state()
    looked_up.clear()
    with pipeline.resume(state) as iterator:
        list(itertools.islice(iterator, 3))
    assert looked_up == [300, 300, 300]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.none() | st.integers(0, 99),
    st.integers(1, 5),
)
def test_the_proportions_of_a_mix_are_exact_over_time(
    weights: list[int], seed: int | None, rounds: int
) -> None:
    tagged = [
        rs.zip(rs.range(1).repeat().map(partial(max, tag)), rs.range(10**6))
        for tag in range(len(weights))
    ]
    divisor = int(np.gcd.reduce(weights))
    turn = sum(weights) // divisor
    items = rs.mix(*tagged, weights=weights, seed=seed)[: turn * rounds]
    for tag, weight in enumerate(weights):
        mine = [item for number, item in items if number == tag]
        assert mine == list(range(weight // divisor * rounds)), "each in its own order"
        if seed is None:
            for place in range(len(items)):
                count = sum(number == tag for number, _ in items[:place])
                assert abs(count - place * weight / sum(weights)) <= len(weights) / 2 + 0.5


def test_decimal_weights_are_taken_as_written() -> None:
    parts = rs.mix(rs.range(9), rs.range(9), weights=[0.7, 0.3]).stage.parts  # type: ignore[attr-defined]
    assert parts == (7, 3)
    parts = rs.mix(rs.range(9), rs.range(9), weights=[1 / 7, 6 / 7]).stage.parts  # type: ignore[attr-defined]
    assert parts == (1, 6)
    with pytest.raises(rs.InvalidArgument, match="of which number 1 is less"):
        rs.mix(rs.range(9), rs.range(9), weights=[1.0, 1e-10])


def test_changed_weights_are_told_as_such_whatever_the_length_of_their_rounds() -> None:
    def mixed(*weights: float) -> rs.Pipeline[int]:
        return rs.mix(rs.range(9), rs.range(9), weights=weights)

    with iter(mixed(0.7, 0.3)) as iterator:
        next(iterator)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=r"saved weights=\(7, 3\).*\(17813, 7187\)|35626"):
        mixed(0.71252, 0.28748).resume(state)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=30))
def test_weights_of_any_digits_are_kept_to_less_than_a_turn(weights: list[float]) -> None:
    parts = integer_weights(weights, len(weights))
    total = sum(map(Fraction, weights))
    for weight, part in zip(weights, parts, strict=True):
        share = Fraction(part, sum(parts))
        assert abs(share - Fraction(weight) / total) <= share / 2**51 + Fraction(1, 2**62)
    assert sum(parts) <= 2**62 + len(parts)


@given(
    st.lists(st.integers(0, 15), min_size=1, max_size=4),
    st.none() | st.integers(0, 99),
    st.sampled_from(["first", "all"]),
    st.sampled_from([1, 10**4, 10**8]),
)
def test_a_mix_of_streams_agrees_with_the_mix_by_random_access(
    lengths: list[int], seed: int | None, stop: str, weight: int
) -> None:
    weights = [1 + weight * number for number in range(len(lengths))]
    indexed, streamed = (
        rs.mix(
            *(make(length).map(partial(pair, tag)) for tag, length in enumerate(lengths)),
            weights=weights, seed=seed, stop=stop,
        )
        for make in (rs.range, stream)
    )  # fmt: skip
    items = list(indexed)
    assert items == list(streamed)
    assert len(items) == len(indexed)
    if stop == "all":
        assert len(items) == sum(lengths)


def test_a_mix_with_an_endless_input() -> None:
    endless = rs.range(3).repeat()
    assert len(rs.mix(endless, rs.range(4), weights=[1, 2])) == 6
    everything = rs.mix(endless, rs.range(4), stop="all")
    assert everything.length == float("inf")
    assert everything[1000:1002] == [endless[996], endless[997]]


@given(st.integers(0, 9), st.integers(0, 4), st.integers(0, 3))
def test_nested_repeats_count_on(length: int, inner: int, outer: int) -> None:
    epochs = list(rs.range(length).shuffle(3).repeat(inner * outer))
    assert list(rs.range(length).shuffle(3).repeat(inner).repeat(outer)) == epochs


def test_an_endless_repeat_that_is_repeated_may_be_skipped_and_retried() -> None:
    endless = rs.range(3).repeat().repeat(2)
    with iter(endless) as iterator:
        assert iterator.skip(2) == 2
        assert next(iterator) == 2
    failed: list[int] = []

    def fail_once(item: int) -> int:
        if item == 1 and not failed:
            failed.append(item)
            raise OSError("once")
        return item

    with iter(endless.map(fail_once)) as iterator:
        assert next(iterator) == 0
        with pytest.raises(OSError, match="once"):
            next(iterator)
        assert [next(iterator) for _ in range(4)] == [1, 2, 0, 1]


def test_an_endless_repeat_cut_short_has_new_orders_each_time() -> None:
    items = list(rs.range(4).shuffle(1).repeat().take(8).repeat(4))
    passes = [tuple(items[start : start + 8]) for start in range(0, 32, 8)]
    assert len(set(passes)) == 4


def test_a_repeat_is_random_access_over_epochs() -> None:
    pipeline = rs.range(10).shuffle(0).repeat()
    expected = list(itertools.islice(pipeline, 100))
    assert pipeline[0:100] == expected
    indices = np.random.default_rng(0).permutation(100)
    assert pipeline.gather(indices).tolist() == [expected[index] for index in indices]


def test_an_endless_repeat_of_nothing_ends() -> None:
    assert list(rs.range(0).repeat()) == []
    assert list(stream(5).filter(lambda item: False).repeat()) == []


@given(st.integers(0, 20), st.integers(0, 25), st.integers(0, 25))
def test_take_and_skip_are_slices(length: int, skipped: int, taken: int) -> None:
    expected = list(range(length))[skipped:][:taken]
    for make in (rs.range, stream):
        assert list(make(length).skip(skipped).take(taken)) == expected


def test_take_may_be_raised_on_resume_and_not_put_below_what_was_taken() -> None:
    with iter(rs.range(100).take(5)) as iterator:
        list(iterator)
        state = iterator.get_state()
    assert list(rs.range(100).take(8).resume(state)) == [5, 6, 7]
    with pytest.raises(rs.StateMismatch, match=r"position=5 lies beyond the end, length=3"):
        rs.range(100).take(3).resume(state)


def test_skipping_far_reads_nothing() -> None:
    assert list(rs.range(10**12).skip(10**12 - 2)) == [10**12 - 2, 10**12 - 1]


def test_random_map_gives_an_item_its_randomness_everywhere() -> None:
    def draw(item: int, rng: np.random.Generator) -> tuple[int, float]:
        return item, float(rng.random())

    pipeline = rs.range(20).random_map(draw, seed=4)
    values = dict(pipeline)
    assert len(set(values.values())) == 20
    assert dict(rs.range(20).random_map(draw, 4).shuffle(1)) == values
    assert dict(rs.range(20).random_map(draw, 4).shard(0, 2)).items() <= values.items()
    assert dict(rs.range(20).random_map(draw, 5)) != values
    assert dict(pipeline.start(1)) != values


def test_scan_carries_and_begins_anew_each_epoch() -> None:
    pipeline = rs.range(4).scan(lambda carry, item: (carry + item, carry), 10).repeat(2)
    assert list(pipeline) == [10, 10, 11, 13] * 2


def test_the_initial_carry_is_copied() -> None:
    initial: list[int] = []

    def note(carry: list[int], item: int) -> tuple[list[int], int]:
        carry.append(item)
        return carry, len(carry)

    pipeline = rs.range(3).scan(note, initial)
    assert list(pipeline) == list(pipeline) == [1, 2, 3]
    assert initial == []


def test_enumerate_zip_and_concatenate_agree_with_python() -> None:
    letters = rs.from_sequence("abc")
    assert list(letters.enumerate()) == list(enumerate("abc"))
    assert list(rs.zip(letters, stream(5))) == list(zip("abc", range(5), strict=False))
    assert list(rs.concatenate(letters, stream(2))) == ["a", "b", "c", 0, 1]


def test_flat_map_refuses_what_is_no_iterable() -> None:
    with pytest.raises(
        rs.InvalidType, match="FlatMap must return an iterable or a pipeline, got 0"
    ):
        list(rs.range(3).flat_map(lambda item: item))  # type: ignore[arg-type,return-value]


def test_an_open_expansion_is_closed_with_the_iterator() -> None:
    closed = []

    def generate(item: int) -> Any:
        try:
            yield from range(9)
        finally:
            closed.append(item)

    for pipeline in (rs.range(3).flat_map(generate), rs.range(3).interleave_map(generate, 2)):
        closed.clear()
        with iter(pipeline) as iterator:
            list(itertools.islice(iterator, 3))
            assert closed == []
        assert closed


def test_an_interleave_notices_that_its_source_shrank() -> None:
    pipeline = rs.range(6).filter(lambda item: True).interleave_map(lambda n: [n] * 5, 3)
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, 4))
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="no longer has the item"):
        next(
            rs.range(6)
            .filter(lambda item: False)
            .interleave_map(lambda n: [n] * 5, 3)
            .resume(state)
        )


def test_a_function_that_returns_fewer_items_than_before_is_noticed() -> None:
    with iter(rs.range(3).flat_map(lambda item: range(5))) as iterator:
        list(itertools.islice(iterator, 3))
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="offset=3 lies beyond the 1 items"):
        next(rs.range(3).flat_map(lambda item: range(1)).resume(state))


class EndsOnce:
    """Numbers, and an error for whoever asks again after the end."""

    def __init__(self) -> None:
        self.numbers = iter((1, 4))
        self.ended = False

    def __iter__(self) -> EndsOnce:
        return self

    def __next__(self) -> int:
        assert not self.ended, "asked again after the end"
        for number in self.numbers:
            return number
        self.ended = True
        raise StopIteration


def test_an_interleave_asks_its_source_once_for_the_end() -> None:
    pipeline = rs.from_iterable(EndsOnce).interleave_map(lambda n: [n] * n, cycle_length=3)
    assert list(pipeline) == [1, 4, 4, 4, 4]
