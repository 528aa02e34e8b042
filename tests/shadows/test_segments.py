"""The spans of a packed row lead to the tokens of its documents."""

from __future__ import annotations

from typing import Any

import pytest

import resumable as rs
from resumable.core.origin import PackedOrigin

DOCUMENTS: list[dict[str, Any]] = [
    {
        "a": [100 * number + place for place in range(1, 1 + number % 4)],
        "b": [-100 * number - place for place in range(1, 1 + number % 3)],
        "id": number,
    }
    for number in range(40)
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"group": 7, "shuffle_rows": 1},
        {"how": "concatenate"},
        {"how": "concatenate", "group": 7},
        {"max_documents": 2},
        {"too_long": "drop"},
        {"align": {"a": 2, "b": 1}},
    ],
    ids=str,
)
@pytest.mark.parametrize("lengths", [{"a": 4, "b": 5}, {"a": 2, "b": 9}], ids=str)
def test_spans_of_two_fields_hold_the_tokens_of_the_document(
    options: dict[str, Any], lengths: dict[str, int]
) -> None:
    packed = rs.from_sequence(DOCUMENTS).pack(lengths, per_document=("id",), **options)
    for row, origin in zip(packed, rs.origins(packed), strict=True):
        assert isinstance(origin, PackedOrigin)
        numbers = [one.record for segment in origin for one in segment.document.records()]
        assert numbers == list(row["id"])[: len(numbers)]
        spelled: dict[str, list[int]] = {"a": [], "b": []}
        for number, segment in zip(numbers, origin, strict=True):
            for field, (begin, end, place) in segment.spans.items():
                assert field is not None
                tokens = DOCUMENTS[number][field][begin:end]
                assert tokens
                assert row[field][place : place + end - begin].tolist() == tokens
                spelled[field] += tokens
        for field, tokens in spelled.items():
            assert sorted(tokens) == sorted(row[field][row[field] != 0].tolist())
