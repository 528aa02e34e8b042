"""What belongs to a document comes with it, and a part of one says which it is of and where it begins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs
from resumable.testing import check_resumes_everywhere

WAYS = ("best_fit", "concatenate")
LENGTHS = st.lists(st.integers(0, 20), max_size=20)


def documents(lengths: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "tokens": np.arange(length) + 100 * number,
            "id": number,
            "name": f"document {number}",
            "image": np.full((2, 3), number / 2, np.float32),
            "scores": [number] * (number % 3),
        }
        for number, length in enumerate(lengths)
    ]


def source(lengths: list[int]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(documents(lengths)))


NAMES = ("id", "name", "image", "scores")


@given(
    LENGTHS,
    st.sampled_from(WAYS),
    st.integers(1, 9),
    st.none() | st.integers(1, 4),
    st.sampled_from(["pad", "short"]),
)
def test_every_row_has_the_values_of_its_documents_in_their_order(
    lengths: list[int], how: str, window: int, most: int | None, tail: str
) -> None:
    pipeline = source(lengths).pack(
        8, how=how, group=window, per_document=NAMES, max_documents=most, parts=True, tail=tail
    )
    given = documents(lengths)
    tokens = []
    for row in pipeline:
        ids = row["segment_ids"]
        count = int(ids.max())
        numbers = row["document_numbers"]
        assert [len(row[name]) for name in (*NAMES, "document_numbers", "offsets")] == [
            most or count
        ] * 6
        for place in range(count):
            mine = row["tokens"][ids == place + 1].tolist()
            number, offset = int(numbers[place]), int(row["offsets"][place])
            text = given[number]
            assert mine == text["tokens"].tolist()[offset : offset + len(mine)]
            assert row["id"][place] == number
            assert row["name"][place] == text["name"]
            assert np.array_equal(row["image"][place], text["image"])
            assert row["scores"][place] == text["scores"]
            tokens += mine
        for place in range(count, most or count):
            assert (row["id"][place], row["name"][place], row["scores"][place]) == (0, None, None)
            assert not row["image"][place].any()
            assert (numbers[place], row["offsets"][place]) == (-1, -1)
    assert sorted(tokens) == [token for text in given for token in text["tokens"].tolist()]
    check_resumes_everywhere(pipeline.map(repr))


@pytest.mark.parametrize("how", WAYS)
def test_numbers_and_offsets_go_on_over_groups_and_resumes_and_begin_anew_in_each_epoch(
    how: str,
) -> None:
    lengths = [3, 0, 20, 1, 1, 17, 0, 2]
    pipeline = source(lengths).pack(4, how=how, group=3, key="tokens", parts=True).repeat(2)
    rows = list(pipeline)
    found = [list(zip(row["document_numbers"], row["offsets"], strict=True)) for row in rows]
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert {number for row in found for number, _ in row} == {0, 2, 3, 4, 5, 7}
    of_two = sorted(offset for row in found[:half] for number, offset in row if number == 2)
    assert of_two == ([0, 4, 8, 12, 16] if how == "best_fit" else [0, 1, 5, 9, 13, 17])
    iterator = iter(pipeline)
    for cut in range(len(rows)):
        state = rs.dumps(iterator.get_state())
        assert len(state) <= 300
        resumed = pipeline.resume(rs.loads(state))
        assert repr(list(islice(resumed, 3))) == repr(rows[cut : cut + 3])
        next(iterator)


@pytest.mark.parametrize("how", WAYS)
def test_each_field_of_its_own_length_has_offsets(how: str) -> None:
    texts = [{"x": [1, 2, 3, 4, 5], "y": [6], "id": "a"}, {"x": [7], "y": [8, 9, 10], "id": "b"}]
    rows = list(
        rs.from_sequence(texts).pack({"x": 4, "y": 2}, how=how, per_document=["id"], parts=True)
    )
    found = sorted(
        (number, name, x, y)
        for row in rows
        for number, name, x, y in zip(
            row["document_numbers"], row["id"], row["x_offsets"], row["y_offsets"], strict=True
        )
    )
    assert found == [(0, "a", 0, 0), (0, "a", 4, 1), (1, "b", 0, 0), (1, "b", 1, 2)]


@pytest.mark.parametrize("how", WAYS)
def test_all_fields_but_those_of_documents_are_packed(how: str) -> None:
    texts = [{"ids": [1, 2], "labels": [3, 4], "id": 5}]
    (row,) = rs.from_sequence(texts).pack(3, how=how, per_document=["id"])
    assert list(row) == ["ids", "labels", "segment_ids", "positions", "id"]
    assert row["id"] == [5]
    (row,) = rs.from_sequence(texts).pack(3, how=how, key="labels", per_document=["ids"])
    assert list(row) == ["labels", "segment_ids", "positions", "ids"]


def test_batches_of_padded_rows_are_arrays() -> None:
    names = ["id", "name", "image"]
    pipeline = source([3, 5, 1, 2]).pack(
        8, key="tokens", per_document=names, max_documents=3, parts=True
    )
    (batch,) = pipeline.batch(4)
    assert batch["id"].shape == batch["document_numbers"].shape == batch["offsets"].shape == (2, 3)
    assert batch["image"].shape == (2, 3, 2, 3)
    assert batch["image"].dtype == np.float32
    assert batch["name"][0][:2] == ["document 0", "document 1"]


def test_values_are_padded_with_the_number_of_their_field_or_stay_a_list() -> None:
    texts = [{"tokens": [1], "id": 4, "image": np.zeros((2, number + 1))} for number in range(2)]
    options: dict[str, Any] = {"per_document": ["id", "image"], "max_documents": 3}
    (row,) = rs.from_sequence(texts).pack(3, pad={"tokens": 0, "id": -1, "image": None}, **options)
    assert row["id"].tolist() == [4, 4, -1]
    assert [getattr(image, "shape", None) for image in row["image"]] == [(2, 1), (2, 2), None]
    with pytest.raises(
        rs.MalformedItem,
        match=r"'image' must have one shape .* got \(2, 1\) and \(2, 2\); pad=\{'image': None\}",
    ):
        list(rs.from_sequence(texts).pack(3, **options))
    with pytest.raises(
        rs.InvalidArgument, match=r"pad must fit the tokens of 'id', which are int64, got 0\.5"
    ):
        list(
            rs.from_sequence(texts).pack(3, pad={"tokens": 0, "id": 0.5, "image": None}, **options)
        )


def test_values_that_wait_for_the_next_row_do_not_change_with_the_array_they_came_in() -> None:
    buffer = np.zeros(2, np.int64)

    def numbers() -> Iterator[Any]:
        for number in range(3):
            buffer[:] = number
            yield {"tokens": [number] * 3, "at": buffer}

    rows = rs.from_iterable(numbers).pack(2, how="concatenate", group=1, per_document=["at"])
    assert [row["at"][0].tolist()[0] for row in rows] == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"per_document": "id"}, "per_document must be a list of names, got 'id'"),
        ({"per_document": 3}, "per_document must be a list of names, got 3"),
        ({"per_document": [3]}, "per_document must have strings, got 3"),
        (
            {"per_document": ["id", "id"]},
            r"per_document must have each name once, got \['id', 'id'\]",
        ),
        ({"per_document": ["id"], "key": "id"}, "per_document must not have the key, got 'id'"),
        (
            {"per_document": ["positions"]},
            r"per_document must not have names of what rows have already, got \['positions'\]",
        ),
        ({"per_document": ["x"], "length": {"x": 3}}, r"rows have already, got \['x'\]"),
        (
            {"per_document": ["x_offsets"], "length": {"x": 3}, "parts": True},
            r"got \['x_offsets'\]",
        ),
        ({"parts": 1}, "parts must be True or False, got 1"),
        ({"pad": {"x": None}, "per_document": ["id"]}, r"pad\['x'\] must be an integer, got None"),
        ({"pad": None}, "pad must be an integer, got None"),
    ],
)
def test_bad_arguments_are_refused(how: str, options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        stream(3).pack(**{"length": 8, "how": how, **options})


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("item", "options", "match"),
    [
        ([1, 2], {"per_document": ["id"]}, r"must be dicts with the fields \['id'\], got \[1, 2\]"),
        ({"tokens": [1]}, {"per_document": ["id"]}, r"must be dicts with the fields \['id'\]"),
        (
            {"id": [1]},
            {"per_document": ["id"]},
            "must have fields other than segment_ids and positions",
        ),
        ({"offsets": [1]}, {"parts": True}, "must have fields other than document_numbers"),
    ],
)
def test_documents_without_a_value_are_refused(
    how: str, item: Any, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(rs.MalformedItem, match=match):
        list(rs.from_sequence([item]).pack(4, how=how, **options))


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("field", "value"), [("per_document", ["id"]), ("parts", True)])
def test_a_state_with_another_choice_is_refused(how: str, field: str, value: Any) -> None:
    plain = source([3] * 9).pack(8, how=how, key="tokens")
    options: dict[str, Any] = {field: value}
    with pytest.raises(rs.StateMismatch, match=f"{field}="):
        source([3] * 9).pack(8, how=how, key="tokens", **options).resume(iter(plain).get_state())
