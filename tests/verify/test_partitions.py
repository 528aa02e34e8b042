"""What `resumable verify` does with partitions: it deals them to other numbers of ranks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.forks import verify_by_forks

import resumable as rs
from resumable.testing.digest import DIGEST_BYTES
from resumable.verify.deals import joined_state, keep_sequences, rank_counts, unlike_sequences
from resumable.verify.runs import Digests
from resumable.verify.verifier import verify


def ignore(count: int) -> None:
    """Watch nothing."""


def told(
    pipeline: rs.Pipeline[Any], ranks: int, folder: Path, damage: int | None = None
) -> str | None:
    """What is wrong with two ranks that ``ranks`` continue, all in this process."""
    stage: Any = pipeline.stage
    known = [Digests(str(folder / str(number))) for number in range(stage.count)]
    keep_sequences(stage, ignore, known=known, limit=None)
    if damage is not None:
        os.truncate(known[damage].path, (len(known[damage]) - 1) * DIGEST_BYTES)
    state = joined_state(stage, ignore, ranks=2, steps=11)
    seen = unlike_sequences(stage, ignore, state=state, ranks=ranks, known=known, position=None)
    return seen and seen.details


class Hidden:
    """A function that remembers what it met."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, number: int) -> tuple[int, int]:
        self.seen += 1
        return number, self.seen


def test_the_items_of_each_partition_are_compared_with_a_run_of_it_alone(tmp_path: Path) -> None:
    def fn(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        return part.filter(lambda number: number % 5).shuffle(1, window=3)

    for uneven in (None, "pad"):
        numbers = rs.range(41).shuffle(0)
        exact = numbers.partition(5, fn if uneven is None else lambda part: part.map(abs))
        for ranks in (1, 3):
            assert told(exact.shard(0, 2, uneven=uneven), ranks, tmp_path) is None
            assert "of partition 3" in str(told(exact.shard(0, 2), ranks, tmp_path, damage=3))
    hidden = rs.range(41).partition(5, lambda part: part.map(Hidden()))
    assert "Item 4 of partition 0 is another one than in a run by itself" in str(
        told(hidden, 3, tmp_path)
    )


@pytest.mark.parametrize(
    ("count", "ranks", "tried"), [(8, 4, [4, 1, 5]), (2, 1, [2, 1]), (1, 1, [1])]
)
def test_one_rank_and_one_more_are_tried(count: int, ranks: int, tried: list[int]) -> None:
    stage: Any = rs.range(9).partition(count, lambda part: part).shard(0, ranks).stage
    assert rank_counts(stage) == tried


@pytest.mark.deep
def test_a_stage_that_holds_items_of_a_rank_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_by_forks(monkeypatch)
    (tmp_path / "parts.py").write_text(
        "import resumable as rs\n"
        "free = rs.range(60).partition(4, lambda part: part.filter(bool)).shard(0, 2).batch(3)\n"
        "held = rs.range(60).partition(4, lambda part: part.map(abs)).shard(0, 2).shuffle(1, window=5)\n"
    )
    report = verify(f"{tmp_path / 'parts.py'}:free", positions=2)
    assert report.finding is None
    assert "Partition(count=4, ranks=2) with 1 and 3 ranks after 2" in report.resumed
    assert not report.notes
    report = verify(f"{tmp_path / 'parts.py'}:held", positions=2)
    assert report.finding is None
    (note,) = report.notes
    assert "the ranks of Partition(count=4, ranks=2) must stay the same" in note
    assert "WindowShuffle holds items of its rank" in note


@pytest.mark.parametrize("uneven", ["drop", "pad", "keep"])
@pytest.mark.parametrize(("ranks", "wrong"), [(1, 29), (3, 20), (3, 33), (4, 37)])
def test_the_items_of_ranks_are_compared_with_the_global_order(
    ranks: int, wrong: int, uneven: str, tmp_path: Path
) -> None:
    stage: Any = rs.range(41).shuffle(0).shard(1, 3, uneven=uneven).stage
    order = Digests(str(tmp_path / "order"))
    keep_sequences(stage, ignore, known=[order], limit=None)
    state = joined_state(stage, ignore, ranks=None, steps=6)
    work = partial(unlike_sequences, state=state, ranks=ranks, known=[order], position=18)
    assert work(stage, ignore) is None
    digests = bytearray(order.read())
    for number in (wrong, 0, 40):  # the first was delivered before
        digests[number * DIGEST_BYTES] ^= 1
    Path(order.path).write_bytes(digests)
    seen = work(stage, ignore)
    assert seen is not None
    assert (seen.position, seen.item) == (18, wrong)
