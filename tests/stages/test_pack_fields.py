"""Fields with lengths and capacities of their own: a row has a document only if all its fields fit."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream
from support.tiers import thinned

import resumable as rs
from resumable.groups.packing import best_fit
from resumable.testing import check_resumes_everywhere

CAPACITIES = {"a": 7, "b": 4}
LENGTHS = st.lists(st.tuples(st.integers(0, 16), st.integers(0, 9)), max_size=25)


def documents(lengths: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Documents whose tokens tell their number and their place: in ``a`` as integers, in ``b`` as pairs."""
    return [
        {
            "a": np.arange(count, dtype=np.int32) + 100 * number,
            "b": np.stack([np.full(other, number), np.arange(other)], axis=1).astype(np.float32),
            "c": "ignored",
        }
        for number, (count, other) in enumerate(lengths)
    ]


def source(lengths: list[tuple[int, int]]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(documents(lengths)))


def segments(row: dict[str, Any]) -> list[tuple[list[int], list[list[int]]]]:
    """The tokens of each segment of a row, after a check of what comes with them."""
    found = []
    count = max(int(row[f"{name}_segment_ids"].max(initial=0)) for name in CAPACITIES)
    for number in range(1, count + 1):
        parts = []
        for name in CAPACITIES:
            ids, places = row[f"{name}_segment_ids"], row[f"{name}_positions"]
            assert ids.shape == places.shape == row[name].shape[:1]
            assert ids.dtype == places.dtype == np.int32
            assert places[ids == number].tolist() == list(range(np.count_nonzero(ids == number)))
            assert not row[name][ids == 0].any()
            assert not places[ids == 0].any()
            parts.append(row[name][ids == number].tolist())
        assert parts[0] or parts[1]
        found.append((parts[0], parts[1]))
    for name in CAPACITIES:
        ids = row[f"{name}_segment_ids"]
        assert sorted(ids[ids > 0].tolist()) == ids[: np.count_nonzero(ids)].tolist()
    return found


@given(LENGTHS, st.integers(1, 9), st.sampled_from(["pad", "short"]))
def test_best_fit_puts_all_fields_of_a_document_into_one_row(
    lengths: list[tuple[int, int]], window: int, tail: str
) -> None:
    rows = list(source(lengths).pack(CAPACITIES, group=window, tail=tail))
    expected = []
    for text in documents(lengths):
        for part in range(3):
            piece = [text[name][part * most :][:most].tolist() for name, most in CAPACITIES.items()]
            if any(piece):
                expected.append(tuple(piece))
    assert sorted(segment for row in rows for segment in segments(row)) == sorted(expected)
    for row in rows:
        for name, most in CAPACITIES.items():
            ids = row[f"{name}_segment_ids"]
            assert len(ids) == (most if tail == "pad" else np.count_nonzero(ids))


@given(LENGTHS, st.integers(1, 9), st.sampled_from(["pad", "short", "drop"]))
def test_concatenated_rows_have_the_tokens_of_each_field_in_order(
    lengths: list[tuple[int, int]], window: int, tail: str
) -> None:
    pipeline = source(lengths).pack(CAPACITIES, group=window, tail=tail, how="concatenate")
    rows = list(pipeline)
    texts = documents(lengths)
    for place, name in enumerate(CAPACITIES):
        found = [token for row in rows for segment in segments(row) for token in segment[place]]
        expected = [token for text in texts for token in text[name].tolist()]
        assert found == expected[: len(found)]
        assert len(found) == len(expected) or tail == "drop"
    for row in rows[:-1]:
        # It ended because a field was full, or because what came next would have begun another row.
        full = [
            np.count_nonzero(row[f"{name}_segment_ids"]) == most
            for name, most in CAPACITIES.items()
        ]
        assert any(full)
    check_resumes_everywhere(pipeline)


@pytest.mark.parametrize(
    ("lengths", "how", "tail"),
    thinned(
        product(
            ([], [(0, 0)], [(0, 3), (5, 0)] * 3, [(30, 1), (1, 30), (0, 9)]),
            ("best_fit", "concatenate"),
            ("pad", "short"),
        ),
        8,
        "generations",
    ),
)
def test_a_resume_at_any_row_is_exact_over_three_generations(
    how: str, tail: str, lengths: list[tuple[int, int]]
) -> None:
    pipeline = source(lengths).pack(CAPACITIES, group=3, how=how, tail=tail).repeat(2)
    check_resumes_everywhere(pipeline)
    expected = [repr(row) for row in pipeline]
    for first in thinned(range(len(expected) + 1), 3, (how, tail, lengths)):
        iterator, got = iter(pipeline), []
        for count in (first, 1, 1):
            got += [repr(row) for row in islice(iterator, count)]
            data = rs.dumps(iterator.get_state())
            assert len(data) <= 300
            iterator.close()
            iterator = pipeline.resume(rs.loads(data))
        got += [repr(row) for row in iterator]
        assert got == expected


@given(LENGTHS, st.integers(1, 5), st.integers(1, 5))
def test_another_window_of_a_stream_of_fields_is_allowed_on_resume(
    lengths: list[tuple[int, int]], window: int, other: int
) -> None:
    def packed(size: int) -> rs.Pipeline[Any]:
        return source(lengths).pack(CAPACITIES, group=size, how="concatenate")

    expected = [repr(row) for row in packed(window)]
    iterator = iter(packed(window))
    for cut in range(len(expected) + 1):
        resumed = packed(other).resume(iterator.get_state())
        assert [repr(row) for row in resumed] == expected[cut:]
        next(iterator, None)


def test_a_resume_computes_one_group() -> None:
    read: list[int] = []

    def text(number: int) -> Any:
        read.append(number)
        return {"a": [number] * (number % 50 + 1), "b": [number] * (number % 7)}

    for how in ("best_fit", "concatenate"):
        pipeline = rs.range(2000).map(text).pack({"a": 128, "b": 16}, group=100, how=how)
        iterator = iter(pipeline)
        list(islice(iterator, 200))
        state = rs.dumps(iterator.get_state())
        expected = repr(next(iterator))
        read.clear()
        assert repr(next(pipeline.resume(rs.loads(state)))) == expected
        assert len(read) <= (100 if how == "best_fit" else 200)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)).filter(any), max_size=60))
def test_best_fit_over_several_capacities_is_one_that_no_two_rows_could_share(
    lengths: list[tuple[int, int]],
) -> None:
    capacities = np.array([20, 9])
    table = np.array(lengths, np.int64).reshape(-1, 2)
    rows = best_fit(table, capacities)
    filled = np.stack([np.bincount(rows, column) for column in table.T], axis=1)
    assert (filled <= capacities).all()
    assert filled.any(axis=1).all()
    firsts = [rows.tolist().index(row) for row in range(len(filled))]
    assert firsts == sorted(firsts)
    for row in range(len(filled)):
        assert ((filled[row] + filled[:row]) > capacities).any(axis=1).all()


def test_a_document_goes_to_the_row_whose_space_is_most_like_it() -> None:
    # The last document is long in b. The second row has space in b above all, the first in both alike.
    lengths = np.array([[6, 5], [7, 1], [1, 5]])
    assert best_fit(lengths, np.array([10, 10])).tolist() == [0, 1, 1]
    # Both rows have twice as much space in a as in b: the fuller one.
    lengths = np.array([[6, 8], [4, 7], [2, 1]])
    assert best_fit(lengths, np.array([10, 10])).tolist() == [0, 1, 0]


@given(st.lists(st.integers(1, 20), max_size=60), st.integers(0, 2))
def test_a_capacity_that_binds_where_another_does_changes_nothing(
    lengths: list[int], less: int
) -> None:
    table = np.array(lengths, np.int64)[:, None]
    beside = np.maximum(table - less, 0)
    alone = best_fit(table, np.array([20])).tolist()
    assert best_fit(np.hstack([table, table, beside]), np.array([20, 20, 20])).tolist() == alone
    assert best_fit(np.hstack([beside, table]), np.array([20, 20])).tolist() == alone


def test_a_capacity_may_be_larger_than_any_product_of_integers() -> None:
    table = np.array([[3, 1], [3, 1], [3, 1]])
    assert best_fit(table, np.array([8, 2**62 - 1])).tolist() == [0, 0, 1]
    rows = list(rs.from_sequence([[1, 2, 3]] * 3).pack(8, max_documents=2**62))
    assert [row["segment_ids"].max() for row in rows] == [2, 1]


def test_rows_of_two_capacities_have_less_padding_than_first_fit_leaves() -> None:
    capacities = np.array([1024, 256])
    drawn = np.random.default_rng(0).lognormal(np.log(capacities / 6), 0.9, (500, 2))
    lengths = np.clip(drawn.astype(np.int64), 1, capacities)
    spaces = list[Any]()
    for document in lengths:
        row = next((space for space in spaces if (document <= space).all()), None)
        if row is None:
            spaces.append(row := capacities.copy())
        row -= document
    assert int(best_fit(lengths, capacities).max()) + 1 < 0.97 * len(spaces)


def test_real_lengths_of_two_fields_fill_the_one_that_binds() -> None:
    rng = np.random.default_rng(0)
    inputs = np.clip(rng.lognormal(5.0, 0.8, 4096), 1, 1024).astype(int)
    targets = np.clip(inputs * rng.uniform(0.05, 0.4, 4096), 1, 256).astype(int)
    texts = [
        {"inputs": np.zeros(count, np.uint16), "targets": np.zeros(other, np.uint16)}
        for count, other in zip(inputs.tolist(), targets.tolist(), strict=True)
    ]
    rows = list(rs.from_sequence(texts).pack({"inputs": 1024, "targets": 256}))
    fewest = max(inputs.sum() / 1024, targets.sum() / 256)
    assert len(rows) <= 1.05 * fewest


def test_fields_without_tokens_have_the_dtype_of_the_others() -> None:
    texts: list[Any] = [
        {"a": [1], "b": []},
        {"a": [2], "b": np.array([3], np.uint8)},
        {"a": [4], "b": []},
    ]
    for how in ("best_fit", "concatenate"):
        for window in (1, 2, 3):
            rows = list(rs.from_sequence(texts).pack({"a": 2, "b": 2}, how=how, group=window))
            dtypes = {str(row["b"].dtype) for row in rows if row["b_segment_ids"].any()}
            assert dtypes == {"uint8"}
    (row,) = rs.from_sequence(texts[:1]).pack({"a": 2, "b": 2}, tail="short")
    assert (row["a"].tolist(), row["b"].tolist()) == ([1], [])


def test_documents_that_are_too_long_in_one_field_are_cut_dropped_or_refused() -> None:
    lengths = [(3, 1), (2, 5), (4, 4)]
    cut = [segment for row in source(lengths).pack(CAPACITIES) for segment in segments(row)]
    assert ([], [[1, 4]]) in cut
    dropped = [repr(row) for row in source(lengths).pack(CAPACITIES, too_long="drop")]
    assert not any("101" in row for row in dropped)
    assert len(dropped) == 2
    with pytest.raises(rs.MalformedItem, match=r"at most 4 tokens of 'b', got 5; too_long='cut'"):
        list(source(lengths).pack(CAPACITIES, too_long="error"))


def test_the_order_of_the_fields_does_not_matter() -> None:
    ab, ba = (
        source([(3, 2)] * 9).pack(dict(each))
        for each in (CAPACITIES.items(), reversed(CAPACITIES.items()))
    )
    assert ab.fingerprint == ba.fingerprint
    assert [repr(row) for row in ab] == [repr(row) for row in ba]
    with pytest.raises(rs.StateMismatch, match="length"):
        source([(3, 2)] * 9).pack({"a": 7, "b": 5}).resume(iter(ab).get_state())


@pytest.mark.parametrize("how", ["best_fit", "concatenate"])
@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([[1, 2]], r"dicts with the fields \['a', 'b'\], got \[1, 2\]"),
        ([{"a": [1]}], r"dicts with the fields \['a', 'b'\]"),
        (
            [{"a": [1], "b": 5}],
            "field 'b' of documents to pack must be arrays or lists of numbers, got 5",
        ),
        ([{"a": [1], "b": [[1]]}, {"a": [1], "b": [1]}], "one shape behind the first axis"),
    ],
)
def test_what_lacks_a_field_is_refused(how: str, items: list[Any], match: str) -> None:
    with pytest.raises(rs.MalformedItem, match=match):
        list(rs.from_sequence(items).pack({"a": 4, "b": 4}, how=how))


def test_kinds_of_fields_may_not_change_in_a_stream_of_documents() -> None:
    texts = [{"a": [1], "b": [1]}, {"a": [1], "b": []}, {"a": [1], "b": [0.5]}]
    with pytest.raises(
        rs.MalformedItem, match=r"'b': 'float64'} after {'a': 'int64', 'b': 'int64'}"
    ):
        list(rs.from_sequence(texts).pack({"a": 9, "b": 9}, group=1, how="concatenate"))


@pytest.mark.parametrize("how", ["best_fit", "concatenate"])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": {}}, "length must have one or more fields, got {}"),
        ({"length": {3: 4}}, "fields of length must be strings, got 3"),
        ({"length": {"a": 0}}, r"length\['a'\] must be at least 1, got 0"),
        ({"length": {"a": 2.5}}, r"length\['a'\] must be an integer, got 2.5"),
        (
            {"length": {"a": 3, "a_positions": 3}},
            r"length must not have names of what rows have already, got \['a_positions'\]",
        ),
        (
            {"length": {"a": 3}, "key": "a"},
            "key must be None where length names the fields, got key='a'",
        ),
        ({"length": "8"}, "length must be an integer, got '8'"),
    ],
)
def test_bad_lengths_are_refused(how: str, options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        stream(3).pack(how=how, **options)


def test_a_state_of_other_fields_is_refused() -> None:
    pipeline = source([(3, 2)] * 9).pack(CAPACITIES, how="concatenate")
    iterator = iter(pipeline)
    next(iterator)
    state: Any = iterator.get_state()
    assert state["pipeline"]["offset"] == [7, 4]
    for offset in (3, [3], [1, 2, 3], [1, -1], ["1", 2], [2**63 - 1, 0]):
        state["pipeline"]["offset"] = offset
        with pytest.raises(rs.StateMismatch, match="offset"):
            pipeline.resume(state)
    state["pipeline"]["offset"] = [2**62, 0]
    with pytest.raises(rs.StateMismatch, match="lies beyond the last"):
        list(pipeline.resume(state))
