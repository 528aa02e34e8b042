"""Packed rows hold every token of every document once, wherever a run is cut."""

from __future__ import annotations

from collections.abc import Iterator
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

try:
    # A dtype that NumPy knows as little about as those of ml_dtypes.
    from numpy._core._rational_tests import rational  # type: ignore[import-not-found]
except ImportError:  # NumPy 1
    from numpy.core._rational_tests import rational  # type: ignore[import-not-found]

WAYS = ("best_fit", "concatenate")


def documents(lengths: list[int]) -> list[list[int]]:
    """Documents of numbers that no two of them share."""
    ends = np.cumsum(lengths).tolist()
    return [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]


def source(texts: list[list[int]]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(texts))


def segments(rows: list[Any]) -> list[list[int]]:
    """The segments of ``rows``, in their order, after a check of what comes with them."""
    found = []
    for row in rows:
        ids = row["segment_ids"]
        assert row["tokens"].shape == ids.shape == row["positions"].shape
        count = int(ids.max(initial=0))
        assert not ids[np.count_nonzero(ids) :].any(), "padding stands at the end"
        assert not row["positions"][ids == 0].any()
        for number in range(1, count + 1):
            mine = ids == number
            assert row["positions"][mine].tolist() == list(range(np.count_nonzero(mine)))
            found.append(row["tokens"][mine].tolist())
    return found


LENGTHS = st.lists(st.sampled_from([0, 1, 2, 5, 6, 7, 8, 9, 16, 17, 40]), max_size=30)


@given(LENGTHS, st.integers(1, 9), st.integers(1, 12), st.sampled_from(["pad", "short"]))
def test_best_fit_keeps_documents_whole_and_cuts_those_that_are_longer_than_a_row(
    lengths: list[int], length: int, window: int, tail: str
) -> None:
    texts = documents(lengths)
    rows = list(source(texts).pack(length, group=window, tail=tail, pad=-1))
    pieces = [text[at : at + length] for text in texts for at in range(0, len(text), length)]
    assert sorted(segments(rows)) == sorted(pieces)
    for row in rows:
        assert len(row["tokens"]) == (
            length if tail == "pad" else np.count_nonzero(row["segment_ids"])
        )
        assert (row["tokens"][row["segment_ids"] == 0] == -1).all()


@given(LENGTHS, st.integers(1, 9), st.integers(1, 12), st.sampled_from(["pad", "short", "drop"]))
def test_concatenated_rows_are_the_stream_of_tokens(
    lengths: list[int], length: int, window: int, tail: str
) -> None:
    texts = documents(lengths)
    rows = list(source(texts).pack(length, group=window, how="concatenate", tail=tail, pad=-1))
    tokens = [token for row in rows for token in row["tokens"][row["segment_ids"] > 0].tolist()]
    total = sum(lengths)
    assert tokens == list(range(total - total % length if tail == "drop" else total))
    assert all(len(row["tokens"]) == length for row in rows[:-1])
    starts = {text[0] for text in texts if text}
    for row in rows:
        cut = row["tokens"].tolist()
        begins = [place for place, token in enumerate(cut) if token in starts or place == 0]
        found = (np.flatnonzero(np.diff(row["segment_ids"], prepend=0) > 0)).tolist()
        assert found == [place for place in begins if row["segment_ids"][place]]
        segments([row])


@pytest.mark.parametrize(
    ("lengths", "how", "tail"),
    thinned(
        product(([], [0], [0, 0, 5], [1] * 9, [8, 8, 8], [30, 1, 0, 9, 7]), WAYS, ("pad", "short")),
        10,
        "generations",
    ),
)
def test_a_resume_at_any_row_is_exact_over_three_generations(
    how: str, tail: str, lengths: list[int]
) -> None:
    pipeline = source(documents(lengths)).pack(8, group=3, how=how, tail=tail).repeat(2)
    check_resumes_everywhere(pipeline)
    expected = [row["tokens"].tolist() for row in pipeline]
    for first in thinned(range(len(expected) + 1), 3, (how, tail, lengths)):
        iterator, got = iter(pipeline), []
        for count in (first, 1, 1):
            got += [row["tokens"].tolist() for row in islice(iterator, count)]
            data = rs.dumps(iterator.get_state())
            iterator.close()
            iterator = pipeline.resume(rs.loads(data))
        got += [row["tokens"].tolist() for row in iterator]
        assert got == expected


@given(st.lists(st.integers(1, 50), max_size=80), st.integers(50, 70))
def test_best_fit_needs_few_rows(lengths: list[int], capacity: int) -> None:
    rows = best_fit(np.array(lengths, np.int64).reshape(-1, 1), np.array([capacity]))
    filled = np.bincount(rows, lengths)
    assert (filled <= capacity).all()
    assert (filled > 0).all()
    fewest = -(-sum(lengths) // capacity)
    assert len(filled) <= 11 / 9 * max(fewest, 1) + 1 or len(filled) <= 2 * fewest
    # Any two rows together hold more than one.
    assert sum(sorted(filled.tolist())[:2]) > capacity or len(filled) < 2
    firsts = [rows.tolist().index(row) for row in range(len(filled))]
    assert firsts == sorted(firsts)


def test_real_lengths_fill_rows_to_more_than_99_percent() -> None:
    rng = np.random.default_rng(0)
    texts = [np.zeros(int(size), np.uint16) for size in rng.lognormal(5.5, 1.0, 3000)]
    rows = list(rs.from_sequence(texts).pack(1024))
    assert sum(map(len, texts)) / (1024 * len(rows)) > 0.99


@pytest.mark.parametrize("how", WAYS)
def test_fields_of_dicts_are_packed_alike(how: str) -> None:
    texts = [{"ids": np.arange(n, dtype=np.uint16), "labels": [-n] * n} for n in (3, 5, 2, 6)]
    pipeline = rs.from_sequence(texts).pack(7, how=how, pad={"ids": 9, "labels": -100})
    for row in pipeline:
        assert set(row) == {"ids", "labels", "segment_ids", "positions"}
        assert (row["ids"].dtype, row["labels"].dtype) == (np.uint16, np.int64)
        padding = row["segment_ids"] == 0
        assert (row["ids"][padding] == 9).all()
        assert (row["labels"][padding] == -100).all()
    only = rs.from_sequence([{**text, "name": "x"} for text in texts]).pack(7, how=how, key="ids")
    assert {name for row in only for name in row} == {"ids", "segment_ids", "positions"}


def test_rows_are_columns_for_a_batch() -> None:
    (batch,) = rs.from_arrays(np.arange(24).reshape(8, 3)).pack(6).batch(9)
    assert batch["tokens"].shape == (4, 6)
    assert batch["segment_ids"].dtype == batch["positions"].dtype == np.int32


def test_documents_that_are_too_long_are_cut_dropped_or_refused() -> None:
    texts = documents([3, 9, 2])
    assert len(segments(list(source(texts).pack(4)))) == 5
    assert segments(list(source(texts).pack(4, too_long="drop"))) == [[0, 1, 2], [12, 13]]
    with pytest.raises(rs.MalformedItem, match=r"at most 4 tokens, got 9; too_long='cut'"):
        list(source(texts).pack(4, too_long="error"))


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([3], "must be arrays or lists of numbers, got 3"),
        (["text"], "must be arrays or lists of numbers"),
        ([["text"]], "must be arrays or lists of numbers"),
        ([np.array([None])], "must be arrays or lists of numbers"),
        ([np.ma.masked_array([1, 2], [False, True])], "must be arrays or lists of numbers"),
        ([[1, 2], [0.5]], "of one dtype, got float64 and int64"),
        ([[[1], [2, 3]]], "must be arrays or lists of numbers"),
        ([[[1]], [2]], r"one shape behind the first axis, got \(\) and \(1,\)"),
        ([np.zeros(3, np.uint8), [1]], "of one dtype, got int64 and uint8"),
        ([{"a": [1]}, {"b": [1]}], r"dicts with the fields \['a'\]"),
        ([{"a": [1], "b": [1, 2]}], "one length, got 1 for 'a' and 2 for 'b'"),
        ([{"a": [1], "positions": [1]}], "other than segment_ids and positions"),
        (
            [{"a": [1], "id": "x"}],
            "field 'id' of documents to pack must be arrays or lists of numbers, got 'x'",
        ),
        ([{"a": [1], "id": 5}], "field 'id' of documents to pack must be arrays or lists"),
        ([{"a": [1], "id": [None]}], "field 'id' of documents to pack must be arrays or lists"),
        (
            [{"a": [1], "b": np.array([None])}],
            "field 'b' of documents to pack must be arrays or lists",
        ),
        (
            [{"a": [1], "b": [1]}, {"a": [1], "b": [0.5]}],
            "field 'b' of documents to pack must be of one dtype",
        ),
        (
            [{"a": [1], "b": [[1]]}, {"a": [1], "b": [1]}],
            "field 'b' of documents to pack must have one shape",
        ),
    ],
)
@pytest.mark.parametrize("how", WAYS)
def test_what_is_no_document_is_refused(how: str, items: list[Any], match: str) -> None:
    with pytest.raises(rs.MalformedItem, match=match):
        list(rs.from_sequence(items).pack(4, how=how))


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("empty", [[], np.array([]), np.array([], np.int8)], ids=repr)
def test_a_document_without_tokens_may_have_any_dtype(how: str, empty: Any) -> None:
    texts = [empty, np.ones(3, np.uint8), empty]
    (row,) = rs.from_sequence(texts).pack(3, how=how, group=3)
    assert (row["tokens"].dtype, row["tokens"].tolist()) == (np.uint8, [1, 1, 1])
    assert list(rs.from_sequence([empty, empty]).pack(3, how=how)) == []


def exotic(kind: str, length: int, start: int) -> Any:
    """An array of ``length`` values that tell their places."""
    numbers = np.arange(start, start + length)
    if kind == "bool":
        return numbers % 3 == 0
    if kind == "embedding":
        return np.stack([numbers, -numbers], axis=1).astype(np.float16)
    if kind == "images":
        return np.ones((length, 2, 0), np.uint8)
    if kind == "record":
        return np.array([(n, n / 2) for n in numbers], [("a", ">i2"), ("b", "f8")])
    if kind == "of another package":
        return numbers.astype(rational)
    return numbers.astype(kind)


@pytest.mark.parametrize(("how", "tail"), thinned(product(WAYS, ["pad", "short"]), 2, "tokens"))
@pytest.mark.parametrize(
    "kind",
    [
        "bool",
        "float32",
        "complex64",
        ">i4",
        "M8[s]",
        "S3",
        "record",
        "embedding",
        "images",
        "of another package",
    ],
)
def test_tokens_may_have_any_dtype_and_shape(how: str, tail: str, kind: str) -> None:
    lengths = [3, 5, 0, 2, 9, 1]
    texts = [
        {"ids": [length] * length, "value": exotic(kind, length, 7 * number + 1)}
        for number, length in enumerate(lengths)
    ]
    pipeline = rs.from_sequence(texts).pack(
        6, how=how, tail=tail, group=4, pad={"ids": 0, "value": 0}
    )
    dtype = exotic(kind, 1, 0).dtype.newbyteorder("=")
    found = []
    for row in pipeline:
        column, ids = row["value"], row["segment_ids"]
        assert column.dtype == dtype
        assert column.shape == (len(ids), *exotic(kind, 1, 0).shape[1:])
        assert (column[ids == 0] == np.zeros((), dtype)).all()
        found += [
            (int(token), repr(value))
            for token, value in zip(row["ids"][ids > 0], column[ids > 0], strict=True)
        ]
    expected = [
        (length, repr(value))
        for length, text in zip(lengths, texts, strict=True)
        for value in text["value"].astype(dtype)
    ]
    assert sorted(found) == sorted(expected)
    check_resumes_everywhere(pipeline.map(lambda row: repr(row)))


@pytest.mark.parametrize(
    ("dtype", "pad"),
    [
        ("bool", True),
        ("float32", 0.1),
        ("float16", float("-inf")),
        ("complex64", -1),
        ("rational", 2),
    ],
)
@pytest.mark.parametrize("how", WAYS)
def test_padding_is_any_number_that_the_dtype_holds(how: str, dtype: str, pad: float) -> None:
    kind = np.dtype(rational if dtype == "rational" else dtype)
    (row,) = rs.from_sequence([np.zeros(2, kind)]).pack(4, how=how, pad=pad)
    assert row["tokens"].tolist() == np.array([0, 0, pad, pad]).astype(kind).tolist()


@pytest.mark.parametrize(
    ("dtype", "pad"), [("bool", 2), ("float16", 1e9), ("S3", 1), ("M8[s]", 3), ("rational", 0.5)]
)
def test_padding_that_a_dtype_cannot_hold_is_refused(dtype: str, pad: float) -> None:
    kind = np.dtype(rational if dtype == "rational" else dtype)
    with pytest.raises(rs.InvalidArgument, match="pad must fit the tokens of 'tokens', which are"):
        list(rs.from_sequence([np.zeros(2, kind)]).pack(4, pad=pad))


def test_kinds_of_documents_may_not_change_in_a_stream_of_tokens() -> None:
    texts = [np.zeros(3, np.uint8), np.zeros(3, np.int32)]
    with pytest.raises(rs.MalformedItem, match=r"'int32'} after {'tokens': 'uint8'}"):
        list(rs.from_sequence(texts).pack(4, group=1, how="concatenate"))
    shapes = [np.zeros((3, 2), np.uint8), np.zeros((3, 1), np.uint8)]
    with pytest.raises(rs.MalformedItem, match=r"'uint8\(1,\)'} after {'tokens': 'uint8\(2,\)'}"):
        list(rs.from_sequence(shapes).pack(4, group=1, how="concatenate"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"length": 2**31}, "length must be at most 2147483647, got 2147483648"),
        ({"group": 0}, "group must be at least 1, got 0"),
        ({"how": "first_fit"}, "how must be one of 'best_fit', 'concatenate'"),
        ({"tail": "drop"}, "tail must be one of 'pad', 'short', got 'drop'"),
        ({"too_long": "cut off"}, "too_long must be one of"),
        ({"how": "concatenate", "too_long": "drop"}, "too_long must be one of 'cut'"),
        ({"key": 3}, "key must be a string or None, got 3"),
        ({"pad": "0"}, "pad must be an integer, got '0'"),
        (
            {"pad": float("nan")},
            "pad must be a number, got nan",
        ),
        ({"pad": {"a": "b"}}, r"pad\['a'\] must be an integer"),
        ({"pad": 2**64}, "pad must be at most 18446744073709551615, got 18446744073709551616"),
        ({"how": "concatenate", "pad": {"a": -(10**5000)}}, r"pad\['a'\] must be at least"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        stream(3).pack(**{"length": 8, **options})


@pytest.mark.parametrize("pad", [-1, 256, 0.5, float("inf")])
def test_padding_that_is_no_token_is_refused(pad: int) -> None:
    with pytest.raises(
        rs.InvalidArgument, match="pad must fit the tokens of 'tokens', which are uint8"
    ):
        list(rs.from_sequence([np.zeros(3, np.uint8)]).pack(4, pad=pad))
    with pytest.raises(rs.InvalidArgument, match="pad must have a value for each field"):
        list(rs.from_sequence([[1]]).pack(4, pad={"other": 1}))


@pytest.mark.parametrize("tail", ["short", "drop"])
def test_padding_that_is_never_put_in_may_be_anything(tail: str) -> None:
    pipeline = rs.from_sequence([[1, 2, 3]]).pack(2, how="concatenate", tail=tail, pad={"other": 1})
    assert next(iter(pipeline))["tokens"].tolist() == [1, 2]


@pytest.mark.parametrize("how", WAYS)
def test_the_state_does_not_grow_with_the_window_and_a_resume_reads_one_group(how: str) -> None:
    read: list[int] = []

    def text(number: int) -> Any:
        read.append(number)
        return np.full(number % 50, 7, np.uint16)

    pipeline = rs.range(10_000).shuffle(1).map(text).pack(256, how=how, group=1000).batch(4)
    iterator = iter(pipeline)
    expected = [row["tokens"].tolist() for row in islice(iterator, 150)]
    assert len(rs.dumps(iterator.get_state())) <= 300
    expected = [row["tokens"].tolist() for row in islice(iterator, 3)]
    resumed = iter(pipeline)
    list(islice(resumed, 150))
    read.clear()
    resumed = pipeline.resume(rs.loads(rs.dumps(resumed.get_state())))
    assert [row["tokens"].tolist() for row in islice(resumed, 3)] == expected
    assert len(read) <= 2000


def test_another_window_of_a_stream_of_tokens_is_allowed_on_resume() -> None:
    texts = documents([5, 9, 2, 30, 1, 1, 4, 8])
    expected = [row["tokens"].tolist() for row in source(texts).pack(6, how="concatenate")]
    for cut in range(len(expected)):
        iterator = iter(source(texts).pack(6, how="concatenate", group=4))
        list(islice(iterator, cut))
        state = iterator.get_state()
        for window in (1, 3, 100):
            other = source(texts).pack(6, how="concatenate", group=window)
            assert [row["tokens"].tolist() for row in other.resume(state)] == expected[cut:]
        with pytest.raises(rs.StateMismatch, match="group"):
            source(texts).pack(6).resume(iter(source(texts).pack(6, group=3)).get_state())


def test_data_that_shrank_under_a_state_is_refused() -> None:
    texts = documents([5, 9])
    iterator = iter(source(texts).pack(6, how="concatenate"))
    next(iterator)
    next(iterator)
    state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=r"offset=12 lies beyond the last 5 tokens"):
        next(source(texts[:1]).pack(6, how="concatenate").resume(state))
    with pytest.raises(rs.StateMismatch, match=r"offset=12 lies beyond the last 0 tokens"):
        next(source([[], []]).pack(6, how="concatenate").resume(state))


def test_what_waits_for_the_next_row_does_not_change_with_the_array_it_came_in() -> None:
    buffer = np.zeros(3, np.int64)

    def numbers() -> Iterator[Any]:
        for number in range(4):
            buffer[:] = number
            yield buffer

    rows = list(rs.from_iterable(numbers).pack(2, how="concatenate", group=1))
    assert [row["tokens"].tolist() for row in rows] == [
        [0, 0],
        [0, 1],
        [1, 1],
        [2, 2],
        [2, 3],
        [3, 3],
    ]


@pytest.mark.parametrize(
    ("name", "arguments"), [("pack", {"length": 4}), ("bucket", {"length": len, "batch_size": 2})]
)
def test_the_group_has_its_name_of_0_3_with_a_warning(name: str, arguments: dict[str, Any]) -> None:
    make = getattr(rs.from_sequence([[1, 2], [3], [4, 5, 6], [7]] * 9), name)
    with pytest.warns(DeprecationWarning, match=f"window= of {name} .* write group=") as warned:
        old = make(**arguments, window=3)
    assert warned[0].filename == __file__
    new = make(**arguments, group=3)
    assert old.fingerprint == new.fingerprint
    assert "window" in new.fingerprint  # as in states of 0.3
    assert repr(list(old)) == repr(list(new))
    with pytest.raises(rs.StateMismatch, match="group"):
        make(**arguments, group=4).resume(iter(old).get_state())
    for call in ({"group": 0}, {"window": 3, "group": 3}, {"windows": 3}):
        with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=r"group|no argument"):
            make(**arguments, **call)
