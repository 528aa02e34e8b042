"""Several ranks save one checkpoint: a step counts once it is whole, and any number of ranks resumes from it."""

from __future__ import annotations

import itertools
import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from checkpoint.interleaving import Life
from checkpoint.saving_loops import files_in
from checkpoint.wrapped import Wrapped
from hypothesis import given
from hypothesis import strategies as st
from support import graphs

import resumable as rs
from resumable.checkpoint.names import CheckpointNames, parse_file_name
from resumable.checkpoint.ranks.part import WHOLE, RankPart
from resumable.checkpoint.ranks.parts import WholeSteps
from resumable.checkpoint.ranks.run import part_of

NUMBERS = rs.range(10**6).shuffle(0)


def remote(folder: Path) -> rs.Remote:
    pytest.importorskip(
        "fsspec", reason="fsspec is not installed: pip install resumable-loader[remote]"
    )
    return rs.Remote(f"memory://{uuid.uuid4()}/run")


STORES: dict[str, Callable[[Path], Any]] = {
    "directory": lambda folder: folder,
    "memory": lambda folder: rs.Memory(),
    "remote": remote,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return STORES[request.param](tmp_path)


@contextmanager
def resumed(
    store: Any, ranks: int, pipeline: rs.Pipeline[Any] = NUMBERS, **options: Any
) -> Iterator[list[Any]]:
    """The loops of all ranks, which are killed at the end."""
    with ExitStack() as stack:
        loops = []
        for rank in range(ranks):
            checkpointer = rs.Checkpointer(
                store, rs.EverySteps(2), rank=rank, ranks=ranks, **options
            )
            stack.callback(checkpointer.close)
            loops.append(checkpointer.resume(pipeline.shard(rank, ranks)))
        yield loops


def train(store: Any, ranks: int, steps: int, **options: Any) -> tuple[set[int], list[int]]:
    """So many steps of all ranks; returns where they began, and their items."""
    with resumed(store, ranks, **options) as loops:
        begun_at = {loop.step for loop in loops}
        return begun_at, [next(loop) for _ in range(steps) for loop in loops]


def is_even(number: int) -> bool:
    return number % 2 == 0


def is_odd(number: int) -> bool:
    return number % 2 == 1


def over_thirds(number: int) -> bool:
    return number % 3 > 0


def add(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


def whole_steps(store: Any) -> list[int]:
    return rs.Checkpointer(store, rs.AtEnd()).steps()


numbers_of_ranks = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 5]), st.integers(1, 9)), min_size=1, max_size=6
)


@given(numbers_of_ranks, st.none() | st.builds(rs.Retention, st.integers(1, 3)), st.booleans())
def test_however_the_number_of_ranks_changes_no_item_is_lost_or_repeated(
    eras: list[tuple[int, int]], retention: rs.Retention | None, asynchronous: bool
) -> None:
    store, kept = rs.Memory(), list[int]()
    saved, at_save = 0, 0
    for ranks, steps in eras:
        begun_at, items = train(store, ranks, steps, retention=retention, asynchronous=asynchronous)
        assert begun_at == {saved}
        kept = kept[:at_save] + items
        newest = max(whole_steps(store), default=0)
        # The loop came back for the step after: so the last one of an era is not saved.
        assert newest == max(saved, (saved + steps - 1) // 2 * 2)
        at_save += (newest - saved) * ranks
        saved = newest
    assert kept == NUMBERS[: len(kept)]


@given(numbers_of_ranks, st.sampled_from([5, 6, 10]))
def test_partitions_go_on_in_any_number_of_ranks_without_loss(
    eras: list[tuple[int, int]], partitions: int
) -> None:
    numbers = rs.range(700).shuffle(0).partition(partitions, lambda part: part.filter(is_even))
    store, kept, saved = rs.Memory(), list[int](), 0
    for ranks, steps in eras:
        taken = []
        with resumed(store, ranks, numbers) as loops:
            assert {loop.step for loop in loops} == {saved}
            for _ in range(steps):
                taken.append([next(loop) for loop in loops])
        newest = max(whole_steps(store), default=0)
        kept += [item for items in taken[: newest - saved] for item in items]
        saved = newest
    latest = rs.Checkpointer(store, rs.AtEnd()).latest()
    rest = list(numbers.resume(latest.state) if latest else numbers)
    assert sorted(kept + rest) == list(range(0, 700, 2))


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_rank_takes_its_part_of_step_0_back_as_that_of_any_other(
    store: Any, by_hand: bool
) -> None:
    def live(rank: int) -> list[int]:
        with rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=2) as checkpointer:
            loop = checkpointer.resume(rs.range(1).shard(rank, 2, uneven="keep"))
            if by_hand:
                checkpointer.save()
            return list(loop)

    assert [live(1) for _ in range(3)] == [[]] * 3
    assert live(0) == [0]


def test_a_step_counts_once_all_parts_are_there(store: Any) -> None:
    with resumed(store, 3) as loops:
        for loop in loops[:2]:
            assert len([next(loop) for _ in range(7)]) == 7
        assert whole_steps(store) == []
        assert len([next(loops[2]) for _ in range(6)]) == 6
        assert whole_steps(store) == [2, 4]
    begun_at, _ = train(store, 3, 9)
    assert begun_at == {4}
    assert whole_steps(store) == [2, 4, 6, 8, 10, 12]


def test_unparted_checkpoints_have_the_names_and_bytes_of_before(tmp_path: Path) -> None:
    train(tmp_path / "with", 1, 3, wall_clock=lambda: 1.0)
    with rs.Checkpointer(
        tmp_path / "without", rs.EverySteps(2), wall_clock=lambda: 1.0
    ) as checkpointer:
        for _ in checkpointer.resume(NUMBERS.shard(0, 1)):
            if checkpointer.step == 2:
                break
    names = [sorted(os.listdir(tmp_path / folder)) for folder in ("with", "without")]
    assert names == [[".lock-input", "input-000000000002.ckpt"]] * 2
    with_it, without = ((tmp_path / f / names[0][1]).read_bytes() for f in ("with", "without"))
    assert with_it == without


def test_a_checkpoint_has_the_parts_merged(store: Any) -> None:
    train(store, 3, 3, wall_clock=lambda: 5.0)
    checkpointer = rs.Checkpointer(store, rs.AtEnd())
    checkpoint = checkpointer.load(2)
    assert checkpointer.latest() == checkpoint
    assert (checkpoint.step, checkpoint.time, checkpoint.part) == (2, 5.0, WHOLE)
    assert next(NUMBERS.shard(0, 7).resume(checkpoint.state)) == NUMBERS[6]


class TestParts:
    """Those of one run, step and number of ranks make a whole, and no others."""

    @given(
        st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)), max_size=12)
    )
    def test_a_step_is_whole_if_all_of_one_run_are_there(
        self, saved: list[tuple[int, int, int]]
    ) -> None:
        store = rs.Memory()
        for ranks, rank, run in saved:
            if rank < ranks:
                part = RankPart(rank, ranks, f"{run:012x}") if ranks > 1 else WHOLE
                store.part(part).save(7, b"")
        there = {
            (ranks, run if ranks > 1 else 0): {
                rank for ranks_, rank, run_ in saved if (ranks_, run_) == (ranks, run)
                or ranks == ranks_ == 1
            }
            for ranks, _, run in saved
        }  # fmt: skip
        whole = any(set(range(ranks)) <= found for (ranks, _), found in there.items())
        assert WholeSteps(store).steps() == [7] * whole

    def test_what_another_number_of_ranks_left_is_no_part_of_a_later_whole(
        self, store: Any
    ) -> None:
        train(store, 2, 3)
        with resumed(store, 2) as loops:  # rank 0 alone comes to steps 4 to 8
            assert len([next(loops[0]) for _ in range(7)]) == 7
        assert train(store, 3, 3)[0] == {2}
        assert whole_steps(store) == [2, 4]
        # And now rank 1, from a step of three ranks on, when the parts of rank 0 are still there.
        checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=1, ranks=2)
        loop = checkpointer.resume(NUMBERS.shard(1, 2))
        assert loop.step == 4
        assert len([next(loop) for _ in range(7)]) == 7
        checkpointer.close()
        assert whole_steps(store) == [2, 4]

    def test_what_was_left_before_a_batch_of_another_size_is_no_part_of_a_later_whole(
        self, store: Any
    ) -> None:
        with resumed(store, 2, NUMBERS.batch(2)) as loops:
            assert len([next(loops[0]) for _ in range(3)]) == 3
        checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=1, ranks=2)
        loop = checkpointer.resume(NUMBERS.batch(5).shard(1, 2))
        assert len([next(loop) for _ in range(3)]) == 3
        checkpointer.close()
        assert whole_steps(store) == []

    def test_a_rank_that_begins_late_and_finds_its_old_part_goes_on_in_the_same_run(
        self, store: Any
    ) -> None:
        with resumed(store, 2) as loops:
            late = [next(loops[1]) for _ in range(3)]
        first = rs.Checkpointer(store, rs.EverySteps(2), rank=0, ranks=2)
        early = first.resume(NUMBERS.shard(0, 2))
        done = [next(early) for _ in range(5)]
        second = rs.Checkpointer(store, rs.EverySteps(2), rank=1, ranks=2)
        loop = second.resume(NUMBERS.shard(1, 2))
        assert loop.step == 2
        late = late[:2] + [next(loop) for _ in range(3)]
        assert whole_steps(store) == [2, 4]
        first.close()
        second.close()
        assert sorted(done + late) == sorted(NUMBERS[:10])

    @pytest.mark.parametrize(
        "text",
        [
            "input-000000000002.0123456789ab-00002-of-00002.ckpt",
            "input-000000000002.0123456789ab-00000-of-00001.ckpt",
            "input-000000000002.0123456789ab-00000-of-00000.ckpt",
            "input-000000000002.0123456789ab-000000-of-00002.ckpt",
            "input-000000000002.0123456789AB-00000-of-00002.ckpt",
            "input-000000000002.0123456789-00000-of-00002.ckpt",
            "input-000000000002.00000-of-00002.ckpt",
            f"input-000000000002.0123456789ab-00000-of-{10**30}.ckpt",
        ],
    )
    def test_other_names_are_no_parts(self, text: str) -> None:
        assert parse_file_name(text) is None

    @given(st.integers(2, 10**7), st.data(), st.integers(0, 10**15))
    def test_a_file_name_tells_the_part(self, ranks: int, data: st.DataObject, step: int) -> None:
        part = RankPart(data.draw(st.integers(0, ranks - 1)), ranks, "0123456789ab")
        names = CheckpointNames("input", part)
        for text in (names.of(step), names.aside(step, "damaged", 3)):
            found = parse_file_name(text)
            assert found is not None
            assert (found.name, found.step, found.part) == ("input", step, part)
        assert names.steps_among([names.of(step), CheckpointNames("input").of(3)]) == [step]

    def test_all_ranks_give_their_run_the_same_name(self, tmp_path: Path) -> None:
        graphs.write_data(tmp_path)
        for make in graphs.catalogue(tmp_path).values():
            with suppress(
                rs.InvalidArgument
            ):  # some are only to be dealt out before their last stage
                stages = [make().shard(rank, 3).stage for rank in range(3)]
                runs = {part_of(rank, 3, stages[rank], None, "").run for rank in range(3)}
                assert len(runs) == 1


class TestRetention:
    """Rank 0 decides, and each rank removes its own."""

    def test_what_expired_goes_with_all_its_parts(self, tmp_path: Path) -> None:
        train(tmp_path, 3, 40, retention=rs.Retention(2, every_steps=12))
        steps = whole_steps(tmp_path)
        assert [step for step in steps if step < 30] == [12, 24]
        # As one that is not known to be settled may not push others out.
        assert steps[-2:] == [36, 38]
        assert len(steps) <= 7
        assert len(list(tmp_path.glob("*.ckpt"))) <= 3 * len(steps) + 3

    def test_what_this_run_saved_is_not_read_and_the_rest_is_read_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[tuple[int, int]] = []
        load = WholeSteps._read

        def noted(steps: WholeSteps, step: int, part: RankPart) -> Any:
            read.append((step, part.rank))
            return load(steps, step, part)

        monkeypatch.setattr(WholeSteps, "_read", noted)
        retention = rs.Retention(2, every_hours=1000)
        train(tmp_path, 3, 21, retention=retention)
        assert not read
        before = whole_steps(tmp_path)
        assert len(before) < 9
        with resumed(tmp_path, 3, retention=retention) as loops:
            read.clear()
            for _ in range(21):
                for loop in loops:
                    next(loop)
        assert sorted(read) == [(step, rank) for step in before for rank in range(3)]

    def test_what_is_there_is_listed_twice_a_save(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = rs.Memory()
        with resumed(store, 3, retention=rs.Retention(2)) as loops:
            for _ in range(5):  # until a step is whole, what others save is looked at too
                for loop in loops:
                    next(loop)
            listed: list[str] = []
            parts = rs.Memory.parts

            def noted(store: rs.Memory) -> Any:
                listed.append(repr(store))
                return parts(store)

            monkeypatch.setattr(rs.Memory, "parts", noted)
            for _ in range(8):
                for loop in loops:
                    next(loop)
            assert len(listed) == 4 * 3 * 2

    def test_a_part_that_is_discarded_late_leaves_what_the_rank_resumed_from(self) -> None:
        store = rs.Memory()

        def life(rank: int) -> Life:
            def work(gated: rs.Store) -> None:
                checkpointer = rs.Checkpointer(
                    gated, rs.EverySteps(2), rank=rank, ranks=2, retention=rs.Retention(1)
                )
                for _ in checkpointer.resume(NUMBERS.shard(rank, 2)):
                    pass

            return Life(work, store)

        slow, fast = life(0), life(1)
        try:
            while len(whole_steps(store)) < 1:
                slow.turn()
                fast.turn()
            fast.turn(60)  # it is some steps ahead
            fast.kill()
            fast = life(1)
            fast.turn_until("remove")  # it has chosen where to begin
            assert whole_steps(store) == [2]
            slow.turn(60)
            assert len(whole_steps(store)) > 3
            fast.turn(6)
            assert whole_steps(store)[0] == 2
        finally:
            slow.kill()
            fast.kill()
        assert slow.error is fast.error is None

    @pytest.mark.parametrize("then", [1, 2, 5])
    def test_what_other_numbers_of_ranks_left_is_removed_too(
        self, tmp_path: Path, then: int
    ) -> None:
        train(tmp_path, 3, 9)
        with resumed(tmp_path, 3) as loops:  # parts without a whole
            assert len([next(loops[1]) for _ in range(5)]) == 5
        train(tmp_path, then, 25, retention=rs.Retention(1))
        train(tmp_path, then, 1, retention=rs.Retention(1))
        left = [found for found in map(parse_file_name, files_in(tmp_path)) if found is not None]
        assert {found.part.ranks for found in left} == {then}


class TestDamage:
    """A step with a damaged part is damaged."""

    @pytest.mark.parametrize("rank", [0, 1, 2])
    @pytest.mark.parametrize("other", ["junk", "of another step", "of another rank"])
    def test_the_step_before_is_taken_and_all_parts_are_set_aside(
        self, tmp_path: Path, rank: int, other: str
    ) -> None:
        train(tmp_path, 3, 5)
        parts = sorted(tmp_path.glob("input-000000000004.*"))
        of_another_step = sorted(tmp_path.glob("input-000000000002.*"))[rank].read_bytes()
        content = {
            "junk": b"junk",
            "of another step": of_another_step,
            "of another rank": parts[rank - 1].read_bytes(),
        }
        parts[rank].write_bytes(content[other])
        with pytest.warns(
            RuntimeWarning, match=f"step 4 is damaged: the part of rank {rank} of 3: "
        ):
            begun_at, _ = train(tmp_path, 3, 3)
        assert begun_at == {2}
        assert len(list(tmp_path.glob("*.ckpt.damaged"))) == 3
        assert whole_steps(tmp_path) == [2, 4]

    def test_all_damaged_is_an_error_for_each_rank(self, store: Any) -> None:
        train(store, 2, 3)
        raw = store if isinstance(store, rs.Store) else rs.Directory(store)
        for step, part in raw.parts():
            raw.part(part).remove(step)
            raw.part(part).save(step, b"junk")
        for rank in range(2):
            checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                with pytest.raises(rs.NoValidCheckpoint, match="every checkpoint of"):
                    checkpointer.resume(NUMBERS.shard(rank, 2))

    def test_a_part_under_the_name_of_a_whole_is_no_checkpoint(self, tmp_path: Path) -> None:
        train(tmp_path, 2, 3)
        part = min(tmp_path.glob("input-000000000002.*"))
        part.rename(tmp_path / "input-000000000002.ckpt")
        with pytest.raises(rs.NoValidCheckpoint, match="it holds the part of rank 0 of 2"):
            rs.Checkpointer(tmp_path, rs.AtEnd()).load(2)

    def test_states_that_do_not_fit_together_are_refused(self, store: Any) -> None:
        for rank in range(2):  # each takes other items, and does not say so
            checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=2)
            loop = checkpointer.resume(rs.range(1000).filter([is_even, is_odd][rank]))
            assert len([next(loop) for _ in range(3)]) == 3
            checkpointer.close()
        words = (
            r"step 2 of 2 ranks: .*pipeline\.upstream\.position is 3 in state 0 and 4 in state 1"
        )
        with pytest.raises(rs.StateMismatch, match=words):
            rs.Checkpointer(store, rs.AtEnd()).latest()

    def test_states_that_cannot_be_joined_are_resumed_by_as_many_ranks(self, store: Any) -> None:
        def summed(rank: int, ranks: int) -> rs.Pipeline[int]:
            return rs.range(1000).shard(rank, ranks).scan(add, 0)

        def life(rank: int, steps: int) -> list[int]:
            checkpointer = rs.Checkpointer(
                store, rs.EverySteps(2), rank=rank, ranks=2, retention=rs.Retention(1)
            )
            loop = checkpointer.resume(summed(rank, 2))
            items = [next(loop) for _ in range(steps)]
            checkpointer.close()
            return items

        first = [life(rank, 3)[:2] for rank in range(2)]
        with pytest.warns(RuntimeWarning, match="step 2 can be resumed by 2 ranks only") as told:
            rest = [life(rank, 5) for rank in range(2)]
        assert Path(told[0].filename) == Path(__file__)
        for rank in range(2):
            assert first[rank] + rest[rank] == list(summed(rank, 2))[:7]
        assert whole_steps(store)[-1] == 6
        other = rs.Checkpointer(store, rs.EverySteps(2), rank=0, ranks=3)
        with pytest.raises(
            rs.StateMismatch, match="step 6 of 2 ranks: the states of the ranks differ"
        ):
            other.resume(summed(0, 3))


class TestAStep:
    """`resume(step=...)` concerns all ranks."""

    def test_later_steps_are_superseded_with_all_parts(self, tmp_path: Path) -> None:
        train(tmp_path, 3, 9)
        for rank in range(2):
            checkpointer = rs.Checkpointer(tmp_path, rs.EverySteps(2), rank=rank, ranks=2)
            assert checkpointer.resume(NUMBERS.shard(rank, 2), step=4).step == 4
            checkpointer.close()
        assert whole_steps(tmp_path) == [2, 4]
        assert len(list(tmp_path.glob("*.superseded"))) == 6
        assert train(tmp_path, 2, 3)[0] == {4}

    def test_the_start_is_one(self, store: Any) -> None:
        train(store, 2, 9)
        checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=1, ranks=2)
        assert checkpointer.resume(NUMBERS.shard(1, 2), step=0).step == 0
        checkpointer.close()
        assert train(store, 2, 9)[0] == {0}


class TestLocks:
    """One writer for each rank, and one number of ranks."""

    @pytest.mark.parametrize(("ours", "theirs"), [(2, 3), (3, 1), (1, 2)])
    def test_another_number_of_ranks_is_refused(
        self, tmp_path: Path, ours: int, theirs: int
    ) -> None:
        train(tmp_path, theirs, 3)
        with resumed(tmp_path, ours) as loops:
            before = files_in(tmp_path)
            for rank in range(theirs):
                late = rs.Checkpointer(tmp_path, rs.EverySteps(2), rank=rank, ranks=theirs)
                with pytest.raises(rs.NameInUse, match=f"this process, {os.getpid()} on") as told:
                    late.resume(NUMBERS.shard(rank, theirs))
                assert told.value.process == os.getpid()
                assert "another number of ranks" in str(told.value)
            assert files_in(tmp_path) == before
            for loop in loops:
                assert len([next(loop) for _ in range(3)]) == 3
        train(tmp_path, theirs, 1)

    def test_a_second_writer_of_a_rank_is_refused_and_the_others_are_not(
        self, tmp_path: Path
    ) -> None:
        with resumed(tmp_path, 3):
            again = rs.Checkpointer(tmp_path, rs.EverySteps(2), rank=1, ranks=3)
            with pytest.raises(
                rs.NameInUse, match="as rank 1 of 3, is being written by this process"
            ):
                again.resume(NUMBERS.shard(1, 3))
        with resumed(tmp_path, 3):
            pass

    def test_what_a_rank_left_unfinished_goes_once_its_lock_is_held(self, tmp_path: Path) -> None:
        left = [".tmp-input-00001-of-00003-0123456789abcdef", ".tmp-input-0123456789abcdef"]
        left += [f".tmp-input-0000{rank}-of-00005-0123456789abcdef" for rank in (0, 4)]
        for name in [*left, ".tmp-other-00001-of-00003-0123456789abcdef"]:
            (tmp_path / name).write_bytes(b"unfinished")
        with rs.Checkpointer(tmp_path, rs.AtEnd(), rank=1, ranks=3) as checkpointer:
            checkpointer.resume(NUMBERS.shard(1, 3))
            assert [name for name in left if (tmp_path / name).exists()] == [left[1], left[2]]
        with rs.Checkpointer(tmp_path, rs.AtEnd()) as checkpointer:
            checkpointer.resume(NUMBERS)
        assert files_in(tmp_path) == [".tmp-other-00001-of-00003-0123456789abcdef"]


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"ranks": 0}, ValueError, "ranks must be at least 1, got 0"),
    ({"ranks": 2.0}, TypeError, "ranks must be an integer"),
    ({"rank": -1, "ranks": 2}, ValueError, "rank must be at least 0, got -1"),
    ({"rank": 2, "ranks": 2}, ValueError, "rank must be below ranks=2, got 2"),
    ({"rank": 1}, ValueError, "rank must be below ranks=1, got 1"),
    (
        {"ranks": 2, "trigger": rs.EverySteps(5) | rs.EverySeconds(5)},
        ValueError,
        "trigger must be due at the same steps on all 2 ranks, .* use EverySteps instead",
    ),
    (
        {"ranks": 2, "asynchronous": True, "when_busy": "skip"},
        ValueError,
        "when_busy='skip' needs ranks=1, got 2",
    ),
    ({"ranks": 2, "store": Wrapped()}, ValueError, "ranks must be 1, as .* keeps no parts"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_arguments_are_refused(number: int) -> None:
    options, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        rs.Checkpointer(**{"store": rs.Memory(), "trigger": rs.EverySteps(5)} | options)


TIED: list[Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = [
    lambda items: items.filter(over_thirds),
    lambda items: items.batch(2).flat_map(list),
    lambda items: items.map(hex, on_error="skip").prefetch(1),
    lambda items: rs.zip(items, items.filter(over_thirds)),
    lambda items: items.scan(add, 0),
    lambda items: items.shuffle(1, window=5).batch(2),
    lambda items: items.window(3).unbatch(),
    lambda items: rs.mix(items, rs.range(50), seed=1, stop="all"),
]
DEALT: list[Callable[[int, int], rs.Pipeline[int]]] = [
    lambda rank, ranks: rs.range(90).shard(rank, ranks),
    lambda rank, ranks: (
        rs.range(120).partition(4, lambda part: part.filter(over_thirds)).shard(rank, ranks)
    ),
]


@pytest.mark.filterwarnings("ignore:step . can be resumed by 2 ranks only")
@pytest.mark.parametrize("tied", TIED)
@pytest.mark.parametrize("dealt", DEALT)
def test_ranks_whose_states_cannot_be_joined_go_on_each_from_its_own(
    dealt: Callable[[int, int], rs.Pipeline[int]],
    tied: Callable[[rs.Pipeline[int]], rs.Pipeline[Any]],
    store: Any,
) -> None:
    def life(rank: int, steps: int) -> tuple[int, list[Any]]:
        with rs.Checkpointer(
            store, rs.EverySteps(2), rank=rank, ranks=2, save_at_end=False
        ) as saving:
            loop = saving.resume(tied(dealt(rank, 2)))
            return loop.step, [repr(item) for item in islice(loop, steps)]

    first = [life(rank, 5)[1][:4] for rank in range(2)]
    for rank in range(2):
        step, rest = life(rank, 3)
        assert step == 4
        assert first[rank] + rest == [repr(item) for item in islice(tied(dealt(rank, 2)), 7)]


def test_a_save_right_after_an_error_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Time passes with each look at the clock alone: snapshots are taken at the steps 0 and 2.
    monkeypatch.setattr("resumable.core.iterator.perf_counter", itertools.count().__next__)
    failing = iter([False, False, False, True])

    def fails_once(number: int) -> int:
        assert not next(failing, False)
        return number

    numbers = NUMBERS.shard(0, 2).map(fails_once)
    with rs.Checkpointer(rs.Memory(), rs.AtEnd(), rank=0, ranks=2) as checkpointer:
        loop = checkpointer.resume(numbers)
        assert len([next(loop) for _ in range(3)]) == 3
        with pytest.raises(AssertionError):
            next(loop)
        with pytest.raises(
            rs.UnencodableState, match="step 3 cannot be saved by rank 0 of 2 right"
        ):
            checkpointer.save()
        next(loop)
        assert checkpointer.save() is not None


@pytest.mark.parametrize("pipeline", [NUMBERS, NUMBERS.partition(4, lambda part: part.map(abs))])
@pytest.mark.parametrize(("rank", "ranks"), [(0, 2), (0, 3), (1, 4)])
def test_the_pipeline_of_another_rank_is_refused(
    pipeline: rs.Pipeline[Any], rank: int, ranks: int
) -> None:
    with (
        rs.Checkpointer(rs.Memory(), rs.EverySteps(2), rank=1, ranks=2) as checkpointer,
        pytest.raises(
            rs.InvalidArgument, match=rf"shard\({rank}, {ranks}\), got rank=1 and ranks=2"
        ),
    ):
        checkpointer.resume(pipeline.shard(rank, ranks))


def test_a_store_of_one_rank_alone_is_reported(tmp_path: Path) -> None:
    def life(rank: int, steps: int) -> int:
        """A rank with a folder of its own; the step at which it began."""
        folder = tmp_path / str(rank)
        with rs.Checkpointer(folder, rs.EverySteps(1), rank=rank, ranks=2) as checkpointer:
            loop = checkpointer.resume(NUMBERS.shard(rank, 2))
            began = checkpointer.step
            for _ in islice(loop, steps):
                pass
        return began

    assert life(1, 9) == 0
    assert life(1, 12) == 0  # ranks that begin one after the other have so many by themselves
    with pytest.warns(RuntimeWarning, match="parts of 12 steps, all of rank 1 of 2; do the ranks"):
        assert life(1, 1) == 0
