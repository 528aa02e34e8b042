"""Rows with aligned documents, tokens where these begin and end, a bound on their number, and an order of their own."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs
from resumable.testing import check_resumes_everywhere

WAYS = ("best_fit", "concatenate")
BOS, EOS, PAD = -7, -8, -9
LENGTHS = st.lists(st.integers(0, 30), max_size=20)
OPTIONS = st.fixed_dictionaries(
    {
        "align": st.sampled_from([1, 2, 4]),
        "bos": st.sampled_from([None, BOS]),
        "eos": st.sampled_from([None, EOS]),
        "max_documents": st.sampled_from([None, 1, 2, 3]),
        "tail": st.sampled_from(["pad", "short"]),
        "group": st.integers(1, 9),
    }
)


def documents(lengths: list[int]) -> list[list[int]]:
    """Documents of numbers that no two of them share."""
    ends = np.cumsum(lengths).tolist()
    return [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]


def source(texts: list[Any]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(texts))


def contents(row: dict[str, Any], options: dict[str, Any]) -> list[list[int]]:
    """The tokens of each document of a row, after a check of where they stand and what stands around them."""
    tokens, ids, positions = (row[name].tolist() for name in ("tokens", "segment_ids", "positions"))
    numbers = sorted(set(ids) - {0})
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) <= (options["max_documents"] or len(numbers))
    found, free = [], 0
    for number in numbers:
        begin, count = ids.index(number), ids.count(number)
        assert ids[begin : begin + count] == [number] * count
        assert begin == -(-free // options["align"]) * options["align"]
        free = begin + count
        assert positions[begin:free] == list(range(count))
        content = tokens[begin:free]
        if options["bos"] is not None:
            assert content.pop(0) == BOS
        if options["eos"] is not None:
            assert content.pop() == EOS
        assert content
        found.append(content)
    assert all(token == PAD for token, number in zip(tokens, ids, strict=True) if not number)
    assert not any(place for place, number in zip(positions, ids, strict=True) if not number)
    assert options["tail"] == "pad" or ids[-1]
    return found


@given(LENGTHS, OPTIONS, st.sampled_from([4, 8, 12]))
def test_best_fit_keeps_documents_whole_between_their_ends(
    lengths: list[int], options: dict[str, Any], length: int
) -> None:
    most = length - sum(options[name] is not None for name in ("bos", "eos"))
    texts = documents(lengths)
    pipeline = source(texts).pack(length, pad=PAD, **options)
    found = [content for row in pipeline for content in contents(row, options)]
    pieces = [text[at : at + most] for text in texts for at in range(0, len(text), most)]
    assert sorted(found) == sorted(pieces)
    check_resumes_everywhere(pipeline)


@given(LENGTHS, OPTIONS, st.sampled_from([4, 8, 12]), st.integers(1, 9))
def test_a_stream_is_cut_where_no_further_token_fits(
    lengths: list[int], options: dict[str, Any], length: int, other: int
) -> None:
    added = sum(options[name] is not None for name in ("bos", "eos"))
    texts = documents(lengths)
    pipeline = source(texts).pack(length, how="concatenate", pad=PAD, **options)
    rows = list(pipeline)
    found = [contents(row, options) for row in rows]
    assert [token for row in found for content in row for token in content] == list(
        range(sum(lengths))
    )
    starts = {text[0] for text in texts if text}
    for row, following in pairwise(found):
        places = [
            -(-(len(content) + added) // options["align"]) * options["align"] for content in row
        ]
        cut = following[0][0] not in starts
        assert sum(places) + added + 1 > length or len(row) == options["max_documents"]
        assert not cut or sum(places[:-1]) + len(row[-1]) + added == length
        for content in row:
            assert not starts.intersection(content[1:]), "a segment is of one document"
    iterator = iter(pipeline)
    for cut_at in range(len(rows) + 1):
        state = rs.loads(rs.dumps(iterator.get_state()))
        resumed = source(texts).pack(
            length, how="concatenate", pad=PAD, **{**options, "group": other}
        )
        assert repr(list(resumed.resume(state))) == repr(rows[cut_at:])
        next(iterator, None)


def test_dropping_the_tail_leaves_out_the_last_row_only() -> None:
    options: dict[str, Any] = {"how": "concatenate", "bos": BOS, "max_documents": 2, "pad": PAD}
    texts = documents([3, 9, 2, 2, 2])
    padded = [repr(row) for row in source(texts).pack(6, **options)]
    assert [repr(row) for row in source(texts).pack(6, tail="drop", **options)] == padded[:-1]
    for lengths in ([3, 9, 2, 2, 2, 1], [5, 5]):  # the last row is full
        full = [repr(row) for row in source(documents(lengths)).pack(6, **options)]
        found = source(documents(lengths)).pack(6, tail="drop", **options)
        assert [repr(row) for row in found] == full


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("tail", ["pad", "short"])
def test_each_field_has_its_own_alignment_and_ends(how: str, tail: str) -> None:
    texts = [{"x": [1, 2, 3], "y": []}, {"x": [4], "y": [5, 6]}, {"x": [], "y": [7]}]
    pipeline = source(texts).pack(
        {"x": 12, "y": 8},
        how=how,
        tail=tail,
        align={"x": 4},
        bos={"x": 99},
        eos={"x": 88, "y": 77},
        pad={"x": -1, "y": -2},
    )
    check_resumes_everywhere(pipeline)
    (row,) = pipeline
    x = [99, 1, 2, 3, 88, -1, -1, -1, 99, 4, 88]
    ids = [1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2]
    y, more = [5, 6, 77, 7, 77], [2, 2, 2, 3, 3]
    pad = tail == "pad"
    assert row["x"].tolist() == x + [-1] * pad
    assert row["x_segment_ids"].tolist() == ids + [0] * pad
    assert row["x_positions"].tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2] + [0] * pad
    assert row["y"].tolist() == y + [-2] * 3 * pad
    assert row["y_segment_ids"].tolist() == more + [0] * 3 * pad


@pytest.mark.parametrize("how", WAYS)
def test_fields_of_one_length_have_ends_of_their_own(how: str) -> None:
    texts = [{"ids": [1, 2], "labels": [-100, 2]}, {"ids": [3], "labels": [3]}]
    ends: dict[str, Any] = {"bos": {"ids": 7, "labels": -100}, "eos": {"ids": 8, "labels": 8}}
    (row,) = source(texts).pack(8, how=how, **ends)
    assert row["ids"].tolist() == [7, 1, 2, 8, 7, 3, 8, 0]
    assert row["labels"].tolist() == [-100, -100, 2, 8, -100, 3, 8, 0]
    with pytest.raises(
        rs.InvalidArgument, match="eos must have a value for each field, got none for 'labels'"
    ):
        list(source(texts).pack(8, how=how, eos={"ids": 8}))


@pytest.mark.parametrize("how", WAYS)
def test_ends_of_vectors_fill_them(how: str) -> None:
    (row,) = source([np.ones((2, 3), np.float32)]).pack(4, how=how, bos=0.5, eos=-1)
    assert row["tokens"].tolist() == [[0.5] * 3, [1] * 3, [1] * 3, [-1] * 3]


def test_a_row_has_as_many_documents_as_it_may() -> None:
    rows = list(source([[1]] * 7).pack(8, max_documents=3))
    assert [int(row["segment_ids"].max()) for row in rows] == [3, 3, 1]
    rows = list(source([[1]] * 7).pack(8, max_documents=3, how="concatenate"))
    assert [int(row["segment_ids"].max()) for row in rows] == [3, 3, 1]


def test_rows_are_shuffled_within_a_group_and_in_another_order_in_each_epoch() -> None:
    texts = documents([4] * 24)
    plain = [row["tokens"].tolist() for row in source(texts).pack(4, group=8)]
    pipeline = source(texts).pack(4, group=8, shuffle_rows=3).repeat(2)
    rows = [row["tokens"].tolist() for row in pipeline]
    for start in range(0, 24, 8):
        group = rows[start : start + 8]
        assert group != plain[start : start + 8]
        assert sorted(group) == plain[start : start + 8]
        assert group != rows[24 + start : 32 + start]
        # Groups are shuffled differently, too.
        assert group != [[token + 32 for token in row] for row in rows[start - 8 : start]]
    assert sorted(rows[24:]) == plain
    other = source(texts).pack(4, group=8, shuffle_rows=4)
    assert [row["tokens"].tolist() for row in other] != rows[:24]
    check_resumes_everywhere(pipeline)
    with pytest.raises(rs.StateMismatch, match=r"shuffle_rows.*is the seed taken from the clock"):
        other.repeat(2).resume(iter(pipeline).get_state())


def test_states_stay_small_and_a_resume_reads_two_groups_at_most() -> None:
    read: list[int] = []

    def text(number: int) -> Any:
        read.append(number)
        return np.full(number % 50, 7, np.uint16)

    for how in WAYS:
        pipeline = (
            rs.range(3000)
            .map(text)
            .pack(256, how=how, group=100, align=8, bos=1, eos=2, max_documents=12)
        )
        iterator = iter(pipeline)
        list(islice(iterator, 200))
        state = rs.dumps(iterator.get_state())
        assert len(state) <= 300
        expected = repr(next(iterator))
        read.clear()
        assert repr(next(pipeline.resume(rs.loads(state)))) == expected
        assert len(read) <= (100 if how == "best_fit" else 200)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"align": 0}, "align must be at least 1, got 0"),
        ({"align": 3}, "length must be a multiple of align=3, got 8"),
        ({"align": {"x": 2}}, r"align must be an integer where length is one, got \{'x': 2\}"),
        ({"align": 2.0}, "align must be an integer, got 2.0"),
        (
            {"length": {"x": 8}, "align": {"x": 3}},
            r"length\['x'\] must be a multiple of align=3, got 8",
        ),
        (
            {"length": {"x": 8}, "align": {"y": 3}},
            r"align must name fields of length, which are \['x'\], got \['y'\]",
        ),
        ({"length": {"x": 8}, "bos": {"y": 3}}, "bos must name fields of length"),
        (
            {"length": 2, "bos": 1, "eos": 1},
            "length must have space for a token between bos and eos, got 2",
        ),
        ({"length": {"x": 1}, "eos": 1}, r"length\['x'\] must have space for a token between"),
        ({"bos": "<s>"}, "bos must be an integer, got '<s>'"),
        ({"eos": {"x": 2**64}}, r"eos\['x'\] must be at most"),
        ({"max_documents": 0}, "max_documents must be at least 1, got 0"),
        ({"max_documents": -1}, "max_documents must be at least 1, got -1"),
        ({"shuffle_rows": -1}, "shuffle_rows must be at least 0, got -1"),
        (
            {"shuffle_rows": 1, "how": "concatenate"},
            "shuffle_rows must be None for how='concatenate'.*, got 1",
        ),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        stream(3).pack(**{"length": 8, **options})


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", ["bos", "eos"])
def test_an_end_that_is_no_token_is_refused(how: str, name: str) -> None:
    options: dict[str, Any] = {name: 256}
    with pytest.raises(
        rs.InvalidArgument,
        match=f"{name} must fit the tokens of 'tokens', which are uint8, got 256",
    ):
        list(source([np.zeros(3, np.uint8)]).pack(8, how=how, **options))


@pytest.mark.parametrize("field", ["align", "bos", "eos", "max_documents"])
@pytest.mark.parametrize("how", WAYS)
def test_a_state_with_another_option_is_refused(how: str, field: str) -> None:
    texts = documents([3] * 9)
    plain = source(texts).pack(8, how=how)
    options: dict[str, Any] = {field: 2}
    other = source(texts).pack(8, how=how, **options)
    with pytest.raises(rs.StateMismatch, match=f"{field}="):
        other.resume(iter(plain).get_state())
    given: dict[str, Any] = {field: 1 if field == "align" else None}
    source(texts).pack(8, how=how, **given).resume(iter(plain).get_state())
