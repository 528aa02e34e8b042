"""Parts that can never make a whole are an error with the reason, and stay; leftovers of a changed run are none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from checkpoint.parts_of_0_2 import BROKEN, PIPELINES, write_parts
from checkpoint.saving_loops import files_in
from checkpoint.wrapped import WrappedParts
from hypothesis import given
from hypothesis import strategies as st
from support.command import call_command

import resumable as rs
from resumable.checkpoint.ranks.part import RankPart
from resumable.checkpoint.ranks.run import part_of

OTHER_PIPELINES: dict[str, tuple[Callable[[int, int], rs.Pipeline[Any]], str]] = {
    "seed of the rank": (
        lambda rank, ranks: rs.range(240).shuffle(rank).shard(rank, ranks),
        r"Shuffle at pipeline\.upstream: seed is 0 in rank 0 and 1 in rank 1",
    ),
    "files of the rank": (
        lambda rank, ranks: rs.range(1000 + rank).filter(bool).batch(2),
        r"Range at pipeline\.upstream\.upstream: stop is 1000 in rank 0 and 1001 in rank 1",
    ),
    "a stage on one rank": (
        lambda rank, ranks: rs.range(240).shard(rank, ranks).take(99) if rank else rs.range(240),
        r"pipeline is Range in rank 0 and Take in rank 1",
    ),
    "batches of the rank": (
        lambda rank, ranks: rs.range(240).shard(rank, ranks).batch(2 + rank),
        "their steps differ in what they take, such as the size of a batch",
    ),
}


def life(
    store: Any, pipeline: rs.Pipeline[Any], rank: int, ranks: int, steps: int, **options: Any
) -> int:
    """So many steps of a rank, which is killed then; returns where it began."""
    checkpointer = rs.Checkpointer(
        store, rs.EverySteps(2), rank=rank, ranks=ranks, save_at_end=False
    )
    try:
        loop = checkpointer.resume(pipeline, **options)
        began = loop.step
        for _ in islice(loop, steps):
            pass
    finally:
        checkpointer.close()
    return began


@pytest.mark.parametrize("name", OTHER_PIPELINES)
def test_ranks_with_different_pipelines_are_told_at_their_next_resume(
    name: str, tmp_path: Path
) -> None:
    make, reason = OTHER_PIPELINES[name]
    for rank in range(2):
        assert life(tmp_path, make(rank, 2), rank, 2, 7) == 0
    before = files_in(tmp_path)
    for rank, ranks in ((0, 2), (1, 2), (0, 3), (0, 1)):
        pipeline = rs.range(240).shard(rank, ranks) if ranks != 2 else make(rank, 2)
        with pytest.raises(
            rs.StateMismatch, match=f"step 2 in .* can never become whole: .*{reason}"
        ):
            life(tmp_path, pipeline, rank, ranks, 1)
    assert [name for name in files_in(tmp_path) if "lock" not in name] == [
        name for name in before if "lock" not in name
    ]
    done = call_command(tmp_path, "inspect", ".")
    assert done.returncode == 1
    assert done.stdout.count("it has 1 of 2 parts, and lacks that of rank") == 6
    assert done.stdout.count("and never becomes whole") == 6
    for rank in range(2):  # what they saved is given up
        assert life(tmp_path, rs.range(240).shard(rank, 2), rank, 2, 5, step=0) == 0
    assert rs.Checkpointer(tmp_path, rs.AtEnd()).steps() == [2, 4]


@pytest.mark.parametrize("name", OTHER_PIPELINES)
def test_ranks_with_different_pipelines_are_told_at_their_first_save(name: str) -> None:
    make, reason = OTHER_PIPELINES[name]
    store = rs.Memory()
    savers = [rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=2) for rank in range(2)]
    loops = [saver.resume(make(rank, 2)) for rank, saver in enumerate(savers)]
    for _ in range(2):
        for loop in loops:
            next(loop)
    next(loops[0])
    with pytest.raises(rs.SaveError, match=f"step 2 could not be saved: .*{reason}"):
        next(loops[1])
    for saver in savers:
        saver.close()


class Throttled(WrappedParts):
    """A store that refuses some listings."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[str] = []

    def parts(self) -> list[tuple[int, RankPart]]:
        if self.refusals:
            raise OSError(self.refusals.pop())
        return super().parts()


@pytest.mark.parametrize("name", OTHER_PIPELINES)
def test_a_part_that_is_kept_is_saved_and_compared_once_the_store_can_be_listed(name: str) -> None:
    make, reason = OTHER_PIPELINES[name]
    store = Throttled()
    savers = [rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=2) for rank in range(2)]
    loops = [saver.resume(make(rank, 2)) for rank, saver in enumerate(savers)]
    assert len(list(islice(loops[0], 5))) == 5
    store.refusals.append("slow down")
    assert len(list(islice(loops[1], 3))) == 3
    assert store.refusals == []
    with pytest.raises(rs.SaveError, match=f"step 4 could not be saved: step 2 .*{reason}"):
        next(islice(loops[1], 1, None))
    for saver in savers:
        saver.close()


def test_ranks_that_resumed_from_different_steps_are_told_at_a_save() -> None:
    store = rs.Memory()
    numbers = rs.range(1000)
    for step in (4, 8):
        with rs.Checkpointer(store, rs.AtEnd()) as alone:
            for _ in alone.resume(numbers):
                if alone.step == step:
                    break
    savers = [rs.Checkpointer(store, rs.EverySteps(5), rank=rank, ranks=2) for rank in range(2)]
    for saver, step in zip(savers, (8, 4), strict=True):
        loop = saver.resume(numbers, step=step)
        assert len(list(islice(loop, 12 - step))) == 12 - step
    assert savers[1].save() is not None
    with pytest.raises(rs.SaveError, match="they resumed from different steps"):
        savers[0].save()
    for saver in savers:
        saver.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([2, 3, 5]),
            st.permutations(range(3)),
            st.lists(st.integers(0, 2), max_size=5),
        ),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_ranks_that_start_again_one_by_one_after_a_change_are_let_be(
    eras: list[tuple[int, list[int], list[int]]], data: st.DataObject
) -> None:
    store = rs.Memory()
    for batch_size, first, then in eras:  # whoever begins comes once before any comes twice
        for rank in (*first, *then):
            pipeline = rs.range(10**6).shard(rank, 3).batch(batch_size)
            life(store, pipeline, rank, 3, data.draw(st.integers(0, 9)))


class TestPartsOf02:
    """What version 0.2.0 saved is found, or is said to be of no use."""

    @pytest.mark.parametrize("name", PIPELINES)
    def test_a_run_has_the_name_that_it_had(self, name: str, tmp_path: Path) -> None:
        write_parts(name, tmp_path)
        runs = {part.run for _, part in rs.Directory(tmp_path).parts()}
        ours = {part_of(rank, 2, PIPELINES[name](rank, 2).stage, None, "").run for rank in range(2)}
        assert len(ours) == 1
        assert (runs == ours) == (name not in BROKEN)

    @pytest.mark.parametrize("name", [name for name in PIPELINES if name not in BROKEN])
    def test_what_was_whole_goes_on(self, name: str, tmp_path: Path) -> None:
        write_parts(name, tmp_path)
        for rank in range(2):
            pipeline = PIPELINES[name](rank, 2)
            checkpointer = rs.Checkpointer(tmp_path, rs.EverySteps(2), rank=rank, ranks=2)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "step . can be resumed by 2 ranks only")
                loop = checkpointer.resume(pipeline)
            assert loop.step == 4
            assert [repr(next(loop)) for _ in range(3)] == [
                repr(item) for item in islice(pipeline, 4, 7)
            ]
            checkpointer.close()
        assert rs.Checkpointer(tmp_path, rs.AtEnd()).steps() == [2, 4, 6]

    @pytest.mark.parametrize("name", BROKEN)
    def test_what_never_made_a_whole_is_said_to_be_such(self, name: str, tmp_path: Path) -> None:
        write_parts(name, tmp_path)
        before = sorted(tmp_path.glob("*.ckpt"))
        for rank in range(2):
            with pytest.raises(
                rs.StateMismatch, match=r"step . in .* version 0\.2 .*Nothing was deleted"
            ):
                life(tmp_path, PIPELINES[name](rank, 2), rank, 2, 1)
        assert sorted(tmp_path.glob("*.ckpt")) == before
        done = call_command(tmp_path, "inspect", ".")
        assert done.returncode == 1
        assert "never becomes whole: rank 0 of 2 and rank 1 of 2" in done.stdout
        assert "version 0.2" in done.stdout
        for rank in range(2):
            assert life(tmp_path, PIPELINES[name](rank, 2), rank, 2, 5, step=0) == 0
        assert rs.Checkpointer(tmp_path, rs.AtEnd()).steps() == [2, 4]

    def test_a_rank_alone_is_told_too(self, tmp_path: Path) -> None:
        write_parts(BROKEN[0], tmp_path)
        for path in tmp_path.glob("*-00000-of-00002.ckpt"):
            path.unlink()
        with pytest.raises(
            rs.StateMismatch, match=r"version 0\.2 saved rank 1 of 2 in a run of its own"
        ):
            life(tmp_path, PIPELINES[BROKEN[0]](1, 2), 1, 2, 1)
