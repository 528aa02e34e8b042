"""What Grain's tests of its packers assert holds of `pack`, in its words: the same rows of the same documents."""

# Grain puts one document after another into a number of open rows. Here the documents of a group are all known,
# so the rows may be better ones; where they are the same, this is asserted.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.testing import check_resumes_everywhere

THREE = [
    {"inputs": [1, 2, 3], "targets": [10]},
    {"inputs": [4, 5], "targets": [20, 30, 40]},
    {"inputs": [6], "targets": [50, 60]},
]


def observations(count: int) -> list[list[int]]:
    """1, 2 2, 3 3 3 and so on up to seven 7, over again."""
    return [[number % 7 + 1] * (number % 7 + 1) for number in range(count)]


def rows_of(items: Sequence[Any], *arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows that are packed of ``items``, as lists, after a check of their states."""
    pipeline = rs.from_sequence(items).pack(*arguments, **options)
    check_resumes_everywhere(pipeline)
    return [
        {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in row.items()
        }
        for row in pipeline
    ]


def numbered(sizes: Sequence[int]) -> list[dict[str, list[int]]]:
    """Documents of these sizes, each of its own number, from 1."""
    return [{"features": [number] * size} for number, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "length", "expected"),
    [
        ([4, 8, 2], 10, [[1] * 4, [2] * 8 + [3] * 2]),
        ([10, 15, 4], 20, [[1] * 10, [2] * 15 + [3] * 4]),
        ([50, 70, 25, 40], 100, [[1] * 50 + [4] * 40, [2] * 70 + [3] * 25]),
        ([10, 15, 4, 10], 20, [[1] * 10 + [4] * 10, [2] * 15 + [3] * 4]),
    ],
)
def test_a_document_goes_to_the_row_with_the_tightest_fit(
    sizes: list[int], length: int, expected: list[list[int]]
) -> None:
    rows = rows_of(numbered(sizes), {"features": length}, tail="short")
    assert [row["features"] for row in rows] == expected
    for row in rows:
        numbers = row["features"]
        firsts = sorted(set(numbers), key=numbers.index)
        assert row["features_segment_ids"] == [firsts.index(number) + 1 for number in numbers]
        assert row["features_positions"] == [
            place - numbers.index(number) for place, number in enumerate(numbers)
        ]


@pytest.mark.parametrize(
    ("length", "inputs", "targets"),
    [
        (3, [[1, 2, 3], [4, 5, 0], [6, 0, 0]], [[10, 0, 0], [20, 30, 40], [50, 60, 0]]),
        (4, [[1, 2, 3, 6], [4, 5, 0, 0]], [[10, 50, 60, 0], [20, 30, 40, 0]]),
        (5, [[1, 2, 3, 4, 5], [6, 0, 0, 0, 0]], [[10, 20, 30, 40, 0], [50, 60, 0, 0, 0]]),
        (6, [[1, 2, 3, 4, 5, 6]], [[10, 20, 30, 40, 50, 60]]),
        (7, [[1, 2, 3, 4, 5, 6, 0]], [[10, 20, 30, 40, 50, 60, 0]]),
    ],
)
def test_both_fields_of_a_document_are_in_one_row(
    length: int, inputs: list[list[int]], targets: list[list[int]]
) -> None:
    rows = rows_of(THREE, {"inputs": length, "targets": length})
    assert [row["inputs"] for row in rows] == inputs
    assert [row["targets"] for row in rows] == targets
    owner = {token: item for item in THREE for tokens in item.values() for token in tokens}
    for row in rows:
        found: list[dict[int, Any]] = []
        for name in ("inputs", "targets"):
            ids = row[f"{name}_segment_ids"]
            assert [bool(number) for number in ids] == [bool(token) for token in row[name]]
            found.append(
                {
                    number: owner[token]
                    for number, token in zip(ids, row[name], strict=True)
                    if number
                }
            )
        assert found[0] == found[1]


def test_fields_may_have_rows_of_different_lengths() -> None:
    rows = rows_of(THREE, {"inputs": 3, "targets": 4})
    assert [row["inputs"] for row in rows] == [[1, 2, 3], [4, 5, 0], [6, 0, 0]]
    assert [row["targets"] for row in rows] == [[10, 0, 0, 0], [20, 30, 40, 0], [50, 60, 0, 0]]
    assert rows[1]["targets_positions"] == [0, 1, 2, 0]
    assert rows[2]["targets_segment_ids"] == [1, 1, 0, 0]


def test_vectors_have_a_capacity_of_their_own_too() -> None:
    items = [
        {"tokens": [1, 2, 3], "vectors": [[0, 1, 2], [1, 2, 3], [2, 3, 4]], "targets": [10]},
        {"tokens": [4, 5], "vectors": [[3, 4, 5], [4, 5, 6]], "targets": [20, 30, 40]},
        {"tokens": [6], "vectors": [[5, 6, 7]], "targets": [50, 60]},
    ]
    rows = rows_of(items, {"tokens": 5, "vectors": 3, "targets": 5})
    assert [row["tokens"] for row in rows] == [[1, 2, 3, 0, 0], [4, 5, 6, 0, 0]]
    assert rows[1]["vectors"] == [[3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert rows[1]["vectors_segment_ids"] == [1, 1, 2]
    assert rows[1]["targets"] == [20, 30, 40, 50, 60]
    assert rows[1]["targets_positions"] == [0, 1, 2, 0, 1]


def test_a_document_without_tokens_in_a_field_is_numbered_all_the_same() -> None:
    nothing = np.empty((0, 3), np.int64)
    items: list[dict[str, Any]] = [
        {"tokens": [8, 8], "vectors": nothing, "targets": np.array([], np.int64)},
        {"tokens": [1], "vectors": [[0, 1, 2], [1, 2, 3], [2, 3, 4]], "targets": [10]},
        {"tokens": [4, 5], "vectors": [[3, 4, 5], [4, 5, 6]], "targets": [20, 30, 40]},
        {"tokens": [6], "vectors": [[5, 6, 7]], "targets": [50, 60]},
        {"tokens": np.array([], np.int64), "vectors": nothing, "targets": np.array([], np.int64)},
    ]
    rows = rows_of(items, {"tokens": 5, "vectors": 3, "targets": 5})
    assert len(rows) == 2
    (row,) = (row for row in rows if 8 in row["tokens"])
    assert row["tokens"] == [8, 8, 4, 5, 6]
    assert row["tokens_segment_ids"] == [1, 1, 2, 2, 3]
    assert row["vectors_segment_ids"] == [2, 2, 3]
    assert row["targets_segment_ids"] == [2, 2, 2, 3, 3]


def test_weights_of_bfloat16_keep_their_dtype() -> None:
    dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    bfloat16 = np.dtype(dtypes.bfloat16)
    values = [np.arange(9).reshape(3, 1, 3).astype(bfloat16) + number for number in range(3)]
    rows = list(rs.from_sequence([{"soft": value} for value in values]).pack({"soft": 4}))
    for row, value in zip(rows, values, strict=True):
        assert row["soft"].dtype == bfloat16
        assert row["soft"].tolist() == [*value.tolist(), [[0, 0, 0]]]
        assert row["soft_positions"].tolist() == [0, 1, 2, 0]
    (row,) = rs.from_sequence([values[0]]).pack(4, pad=-0.5)
    assert row["tokens"][3].tolist() == [[-0.5, -0.5, -0.5]]


def test_a_field_without_a_length_is_left_out_and_one_that_a_document_lacks_is_named() -> None:
    (row,) = rows_of([{"a": [1, 2, 3], "b": [1, 2, 3]}], {"a": 3})
    assert row == {"a": [1, 2, 3], "a_segment_ids": [1, 1, 1], "a_positions": [0, 1, 2]}
    with pytest.raises(rs.MalformedItem, match=r"must be dicts with the fields \['a', 'b'\]"):
        list(rs.from_sequence([{"a": [1], "b": [1]}, {"a": [1]}]).pack({"a": 3, "b": 3}))


@pytest.mark.parametrize("align", [1, 4])
def test_documents_begin_at_multiples_and_fields_have_paddings(align: int) -> None:
    items = [
        {"inputs": [1, 2], "targets": [10]},
        {"inputs": [3, 4, 5], "targets": [20, 30]},
        {"inputs": [6], "targets": [40, 50, 60]},
    ]
    pad = {"inputs": 0, "targets": -1}
    rows = rows_of(items, {"inputs": 8, "targets": 8}, align=align, pad=pad)
    if align == 1:
        (row,) = rows
        assert row["inputs"] == [1, 2, 3, 4, 5, 6, 0, 0]
        assert row["targets"] == [10, 20, 30, 40, 50, 60, -1, -1]
        assert row["targets_segment_ids"] == [1, 2, 2, 3, 3, 3, 0, 0]
        assert row["inputs_positions"] == [0, 1, 0, 1, 2, 0, 0, 0]
    else:
        first, second = rows
        assert first["inputs"] == [1, 2, 0, 0, 3, 4, 5, 0]
        assert first["targets"] == [10, -1, -1, -1, 20, 30, -1, -1]
        assert first["inputs_segment_ids"] == [1, 1, 0, 0, 2, 2, 2, 0]
        assert first["targets_positions"] == [0, 0, 0, 0, 0, 1, 0, 0]
        assert second["inputs"] == [6, 0, 0, 0, 0, 0, 0, 0]
        assert second["targets"] == [40, 50, 60, -1, -1, -1, -1, -1]


def test_rows_have_at_most_so_many_documents() -> None:
    first, second = rows_of(THREE, {"inputs": 6, "targets": 6}, max_documents=2)
    assert first["inputs"] == [1, 2, 3, 4, 5, 0]
    assert first["targets"] == [10, 20, 30, 40, 0, 0]
    assert first["targets_segment_ids"] == [1, 2, 2, 2, 0, 0]
    assert second["inputs"] == [6, 0, 0, 0, 0, 0]
    assert second["targets"] == [50, 60, 0, 0, 0, 0]
    for most in (0, -1):
        with pytest.raises(
            rs.InvalidArgument, match=f"max_documents must be at least 1, got {most}"
        ):
            rs.from_sequence(THREE).pack({"inputs": 6, "targets": 6}, max_documents=most)


@pytest.mark.parametrize(
    "values",
    [
        [3, 7, 5],
        [3.5, 7.5, 5.5],
        [np.asarray(3, np.int32), np.asarray(7, np.int32), np.asarray(5, np.int32)],
    ],
)
def test_what_belongs_to_a_document_is_one_value_for_each(values: list[Any]) -> None:
    items = [{**item, "meta": value} for item, value in zip(THREE, values, strict=True)]
    options: dict[str, Any] = {"per_document": ["meta"], "max_documents": 3}
    pipeline = rs.from_sequence(items).pack({"inputs": 3, "targets": 4}, **options)
    assert [row["meta"].tolist() for row in pipeline] == [
        [value, 0, 0] for value in map(np.ndarray.item, map(np.asarray, values))
    ]
    assert {row["meta"].dtype for row in pipeline} == {np.asarray(values[0]).dtype}
    assert all("meta_segment_ids" not in row for row in pipeline)
    (row,) = rs.from_sequence(items).pack({"inputs": 6, "targets": 6}, **options)
    assert row["meta"].tolist() == values


@pytest.mark.parametrize("shapes", [[(2, 2, 3)] * 3, [(2, 1, 3), (1, 1, 3), (3, 1, 3)]])
def test_images_of_documents_come_as_a_list(shapes: list[tuple[int, ...]]) -> None:
    items: list[dict[str, Any]] = [
        {"inputs": [number], "targets": [10 * number], "image": np.full(shape, number)}
        for number, shape in enumerate(shapes, 1)
    ]
    (row,) = rs.from_sequence(items).pack({"inputs": 3, "targets": 3}, per_document=("image",))
    assert row["inputs_segment_ids"].tolist() == [1, 2, 3]
    for image, item in zip(row["image"], items, strict=True):
        assert np.array_equal(image, item["image"])


@pytest.mark.parametrize("most", [6, 2])
def test_a_document_that_is_cut_has_its_values_in_each_row(most: int) -> None:
    items = [
        {"observation": tokens, "index": number} for number, tokens in enumerate(observations(9), 1)
    ]
    rows = rows_of(
        items, {"observation": 6}, how="concatenate", per_document=["index"], max_documents=most
    )
    if most == 6:
        indices = [[1, 2, 3], [4, 5], [5, 6], [6, 7], [7, 8, 9], [9]]
        assert rows[4]["observation"] == [7, 7, 7, 7, 1, 2]
    else:
        # As in Grain, where there is space for two indices, but documents of a row's length are cut, too.
        indices = [[1, 2], [3, 4], [4, 5], [6, 0], [7, 0], [7, 8], [9, 0]]
        assert rows[2]["observation"] == [4, 5, 5, 5, 5, 5]
        assert rows[5]["observation"] == [7, 1, 0, 0, 0, 0]
    assert [row["index"] for row in rows] == [
        [*found, *[0] * (most - len(found))][:most] for found in indices
    ]


def test_each_part_of_a_document_begins_with_bos() -> None:
    rows = rows_of(observations(9), 6, how="concatenate", bos=1000)
    for row in rows:
        for number in set(row["segment_ids"]) - {0}:
            assert row["tokens"][row["segment_ids"].index(number)] == 1000
    # Grain puts it in the place of a token. Here all tokens stay.
    kept = [token for row in rows for token in row["tokens"] if token not in (0, 1000)]
    assert kept == [token for tokens in observations(9) for token in tokens]


def test_shuffled_rows_are_the_same_ones_wherever_a_run_is_cut() -> None:
    rng = np.random.default_rng(42)
    texts = [rng.integers(0, 10, size=size) for size in rng.integers(5, 30, size=100).tolist()]
    plain = rows_of(texts, 100, group=20)
    shuffled = rows_of(texts, 100, group=20, shuffle_rows=0)
    assert shuffled != plain
    assert sorted(map(repr, shuffled)) == sorted(map(repr, plain))
    seeds = {
        repr(rows_of(THREE, {"inputs": 3, "targets": 3}, shuffle_rows=seed)) for seed in range(20)
    }
    assert len(seeds) == 6


def test_a_stream_of_documents_is_cut_at_the_length_of_a_row() -> None:
    rows = rows_of(observations(9), 6, how="concatenate")
    assert [row["tokens"] for row in rows] == [
        [1, 2, 2, 3, 3, 3],
        [4, 4, 4, 4, 5, 5],
        [5, 5, 5, 6, 6, 6],
        [6, 6, 6, 7, 7, 7],
        [7, 7, 7, 7, 1, 2],
        [2, 0, 0, 0, 0, 0],
    ]
    assert [row["segment_ids"] for row in rows] == [
        [1, 2, 2, 3, 3, 3],
        [1, 1, 1, 1, 2, 2],
        [1, 1, 1, 2, 2, 2],
        [1, 1, 1, 2, 2, 2],
        [1, 1, 1, 1, 2, 3],
        [1, 0, 0, 0, 0, 0],
    ]
    assert [row["positions"] for row in rows] == [
        [0, 0, 1, 0, 1, 2],
        [0, 1, 2, 3, 0, 1],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 3, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize("count", range(12))
def test_a_stream_resumes_anywhere_and_after_its_end(count: int) -> None:
    pipeline = rs.from_sequence(observations(count)).pack(8, how="concatenate", group=3)
    check_resumes_everywhere(pipeline)
    iterator = iter(pipeline)
    assert bool(list(iterator)) == (count > 0)
    state = iterator.get_state()
    resumed = pipeline.resume(state)
    assert list(resumed) == []
    assert resumed.get_state() == state


def test_a_document_is_cut_several_times_and_small_ones_follow_an_exact_fit() -> None:
    rows = rows_of([list(range(7)), list(range(25))], 10, how="concatenate")
    assert [row["tokens"] for row in rows[:3]] == [
        [*range(7), 0, 1, 2],
        [*range(3, 13)],
        [*range(13, 23)],
    ]
    assert rows[3]["segment_ids"] == [1, 1, *[0] * 8]
    rows = rows_of([list(range(40)), list(range(5)), list(range(5))], 10, how="concatenate")
    assert [row["segment_ids"][-1] for row in rows] == [1, 1, 1, 1, 2]
    assert rows[4]["positions"] == [0, 1, 2, 3, 4] * 2
