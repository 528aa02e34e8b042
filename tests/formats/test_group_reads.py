"""What is read for groups of rows: which bytes, and when a group is no longer decoded."""

from __future__ import annotations

import numpy as np
import pytest

from resumable.formats.tables.group_reads import GroupReads, read_again


def test_ranges_of_a_group_that_are_near_are_read_as_one() -> None:
    numbers, starts = np.array([1, 0, 0, 1, 0]), np.array([50_000, 40, 10, 90_000, 20_000])
    reads = GroupReads(np.arange(3), np.zeros(3, np.int64), numbers, starts, starts + 10)
    assert reads.of_one(0) == [(10, 50), (20_000, 20_010)]
    assert reads.of_one(1) == [(50_000, 50_010), (90_000, 90_010)]
    assert reads.of_one(2) == []
    places, begins, ends = reads.ranges_of(np.array([2, 1, 0, 1]))
    assert places.tolist() == [1, 1, 2, 2, 3, 3]
    assert begins.tolist() == [50_000, 90_000, 10, 20_000, 50_000, 90_000]
    assert (ends - begins).tolist() == [10, 10, 40, 10, 10, 10]


@pytest.mark.parametrize("kind", ["in order", "blocks", "all"])
def test_groups_are_read_again_about_when_they_are_no_longer_decoded(kind: str) -> None:
    generator, groups, each, room = np.random.default_rng(0), 40, 50, 10
    order = np.repeat(np.arange(groups), each)
    if kind == "blocks":
        order = np.concatenate([generator.permutation(part) for part in np.split(order, 8)])
    elif kind == "all":
        order = generator.permutation(order)
    order = np.tile(order, 2)
    sizes = np.full(len(order), 100)
    kept: list[int] = [3]
    expected = []
    for group in order.tolist():
        expected.append(group not in kept)
        kept = [*[one for one in kept if one != group], group][-room:]
    found = read_again(order, sizes, order == 3, 100 * room)
    if kind == "all":
        assert 0.9 * sum(expected) <= found.sum() <= 1.1 * sum(expected)
    else:
        assert found.tolist() == expected
    assert read_again(order, sizes, order < 0, 100 * groups).sum() == groups
