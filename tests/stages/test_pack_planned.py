"""Rows that are planned from a column of lengths are those that are packed of the documents themselves."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream
from support.tiers import thinned

import resumable as rs
from resumable.testing import check_resumes_everywhere

LENGTHS = st.lists(st.integers(0, 20), max_size=25)


def shown(rows: Any) -> list[str]:
    return [repr(row) for row in rows]


@given(
    LENGTHS,
    st.integers(1, 9),
    st.sampled_from(["pad", "short"]),
    st.sampled_from(["cut", "drop"]),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(0, 3),
)
def test_the_rows_are_the_same_as_without_lengths(
    lengths: list[int], window: int, tail: str, too_long: str, most: int | None, seed: int | None
) -> None:
    texts = [
        {"tokens": list(range(100 * number, 100 * number + length)), "id": number}
        for number, length in enumerate(lengths)
    ]
    options: dict[str, Any] = {
        "group": window,
        "tail": tail,
        "too_long": too_long,
        "max_documents": most,
        "shuffle_rows": seed,
        "per_document": ["id"],
        "parts": True,
        "eos": -1,
        "align": 2,
    }
    documents = rs.from_sequence(texts).shuffle(3)
    column = rs.from_sequence(lengths).shuffle(3)
    plain = documents.pack(8, **options).repeat(2)
    planned = documents.pack(8, lengths=column, **options).repeat(2)
    assert shown(planned) == shown(plain)
    assert shown(planned.batch(3, collate=list)) == shown(plain.batch(3, collate=list))
    check_resumes_everywhere(planned)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), st.integers(1, 9))
def test_fields_of_their_own_lengths_are_planned_from_dicts(
    lengths: list[tuple[int, int]], window: int
) -> None:
    texts = [
        {"x": [number] * one, "y": np.full(other, number, np.uint8)}
        for number, (one, other) in enumerate(lengths)
    ]
    column = rs.from_sequence([{"x": one, "y": other, "z": None} for one, other in lengths])
    capacities = {"x": 6, "y": 5}
    plain = rs.from_sequence(texts).pack(capacities, group=window, tail="short")
    planned = rs.from_sequence(texts).pack(capacities, group=window, tail="short", lengths=column)
    assert [{name: value.tolist() for name, value in row.items()} for row in planned] == [
        {name: value.tolist() for name, value in row.items()} for row in plain
    ]
    # A row is the same whatever it is read with.
    assert shown(planned) == [
        repr(row) for batch in planned.batch(4, collate=list) for row in batch
    ]


def test_documents_are_made_when_their_row_is_asked_for_and_once() -> None:
    made: list[int] = []
    seen: list[int] = []

    def tokenise(number: int) -> Any:
        made.append(number)
        return np.full(number % 50 + 1, number, np.uint16)

    def length(number: int) -> int:
        seen.append(number)
        return number % 50 + 1

    numbers = rs.range(1000).shuffle(1)
    pipeline = numbers.map(tokenise).pack(64, lengths=numbers.map(length), group=500)
    iterator = iter(pipeline)
    row = next(iterator)
    assert sorted(made) == sorted(set(row["tokens"][row["segment_ids"] > 0].tolist()))
    assert len(seen) == 500
    list(iterator)
    assert sorted(made) == list(range(1000))
    assert len(seen) == 1000

    made.clear()
    seen.clear()
    iterator = iter(pipeline)
    iterator.skip(300)
    assert not made
    state = rs.dumps(iterator.get_state())
    assert len(state) <= 300
    expected = repr(next(iterator))
    made.clear()
    seen.clear()
    resumed = pipeline.resume(rs.loads(state))
    assert repr(next(resumed)) == expected
    assert len(made) <= 64
    assert len(seen) == 500


def test_three_generations_are_one_run() -> None:
    texts = [list(range(number * 7 % 13)) for number in range(40)]
    column = rs.from_arrays(np.array([len(text) for text in texts]))
    pipeline = rs.from_sequence(texts).pack(9, lengths=column, group=11, shuffle_rows=1).repeat(2)
    expected = shown(pipeline)
    for first in thinned(range(len(expected) + 1), 6, "generations"):
        iterator, got = iter(pipeline), []
        for count in (first, 1, 1):
            got += shown(islice(iterator, count))
            iterator = pipeline.resume(rs.loads(rs.dumps(iterator.get_state())))
        assert [*got, *shown(iterator)] == expected


def test_rows_are_columns_for_a_batch() -> None:
    texts = rs.from_arrays(np.arange(24).reshape(8, 3))
    (batch,) = texts.pack(6, lengths=rs.range(8).map(lambda _: 3)).batch(9)
    assert batch["tokens"].shape == (4, 6)


def test_a_document_of_another_length_is_refused() -> None:
    texts = rs.from_sequence([[1, 2], [3, 4]])
    with pytest.raises(
        rs.MalformedItem, match=r"as many tokens as lengths says, \[\[3\]\], got \[\[2\]\]"
    ):
        list(texts.pack(4, lengths=rs.from_sequence([2, 3])))
    with pytest.raises(rs.MalformedItem, match="as many tokens as lengths says"):
        list(rs.from_sequence([[1], []]).pack(4, lengths=rs.from_sequence([1, 1])))
    with pytest.raises(rs.MalformedItem, match="at most 4 tokens, got 5"):
        list(texts.pack(4, lengths=rs.from_sequence([2, 5]), too_long="error"))


@pytest.mark.parametrize(
    "lengths", [[1, -1], [1, 0.5], [1, None], [1, [2]], ["a", "b"], [{"x": 1}, 2]]
)
def test_what_are_no_lengths_is_refused(lengths: list[Any]) -> None:
    for length in (4, {"x": 4}):
        with pytest.raises(rs.MalformedItem, match="lengths must be integers of at least 0"):
            list(rs.from_sequence([{"x": [1]}] * 2).pack(length, lengths=rs.from_sequence(lengths)))


two: Any = rs.from_sequence([[1], [2]])


@pytest.mark.parametrize(
    ("documents", "options", "match"),
    [
        (
            two,
            {"lengths": rs.range(3)},
            "lengths must have one item for each of 2 documents, got 3",
        ),
        (two, {"lengths": stream(2)}, "lengths must have random access and an end"),
        (two, {"lengths": rs.range(2).repeat()}, "lengths must have random access and an end"),
        (stream(2), {"lengths": rs.range(2)}, "documents must have random access and an end"),
        (two, {"lengths": [1, 1]}, r"lengths must be a pipeline, got \[1, 1\]; wrap"),
        (
            two,
            {"lengths": rs.range(2), "how": "concatenate"},
            "lengths must be None for how='concatenate'",
        ),
        (
            two.map(list, workers=2),
            {"lengths": rs.range(2)},
            "Map before it would run without its threads",
        ),
    ],
)
def test_bad_lengths_are_refused(documents: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        documents.pack(4, **options)


def test_a_state_of_other_lengths_or_of_none_is_refused() -> None:
    texts = rs.from_sequence([[1, 2, 3]] * 9)
    planned = texts.pack(3, lengths=rs.from_sequence([3] * 9), group=4)
    with pytest.raises(rs.StateMismatch):
        texts.pack(3, group=4).resume(iter(planned).get_state())
    with pytest.raises(rs.StateMismatch):
        texts.pack(3, lengths=rs.range(9), group=4).resume(iter(planned).get_state())
    state: Any = iter(planned).get_state()
    for group, offset in ((0, 5), (3, 1), (4, 0), (2**63 - 1, 0)):
        state["pipeline"].update(group=group, offset=offset)
        with pytest.raises(rs.StateMismatch, match="lies beyond"):
            next(planned.resume(state))
