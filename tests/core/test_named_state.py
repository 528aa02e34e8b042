"""An iterator's state as a dict: by its keys, ranks save together what any ranks go on from."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.behind_deals import CASES, DEALS, TAILS, joined, leaves
from support.graphs import SHARE_AN_OBJECT, catalogue
from support.tiers import thinned

import resumable as rs
from resumable.testing import pipelines

RANKS, OTHERS = 2, (1, 3)


def goes_on_as_the_state(pipeline: rs.Pipeline[Any], taken: int) -> None:
    """A new iterator goes on from `state_dict` as from `get_state`."""
    with iter(pipeline) as iterator, iter(pipeline) as named, iter(pipeline) as plain:
        for _ in islice(iterator, taken):
            pass
        state, saved = iterator.get_state(), iterator.state_dict()
        assert rs.dumps(iterator.get_state()) == rs.dumps(state)
        named.load_state_dict(pickle.loads(pickle.dumps(saved)))
        plain.set_state(rs.loads(rs.dumps(state)))
        assert rs.dumps(named.get_state()) == rs.dumps(plain.get_state())
        assert named.state_dict() == plain.state_dict()
        assert named.step == plain.step
        assert list(map(repr, islice(named, 9))) == list(map(repr, islice(plain, 9)))


@given(pipelines(), st.integers(0, 30))
def test_a_state_dict_of_random_pipelines_goes_on_as_their_state(
    pipeline: rs.Pipeline[Any], taken: int
) -> None:
    goes_on_as_the_state(pipeline, taken)


@pytest.mark.parametrize(
    "name",
    thinned([name for name in catalogue(Path()) if name not in SHARE_AN_OBJECT], 24, "named"),
)
def test_a_state_dict_of_every_stage_goes_on_as_its_state(name: str, catalogue_data: Path) -> None:
    goes_on_as_the_state(catalogue(catalogue_data)[name](), 7)


def resumed(pipeline: rs.Pipeline[Any], state: Any) -> Any:
    """The state of an iterator that was put there; None if that is refused."""
    with iter(pipeline) as iterator:
        try:
            iterator.set_state(state)
        except rs.StateMismatch:
            return None
        return iterator.get_state()


def asked_for(iterator: rs.PipelineIterator[Any], saved: Mapping[str, bytes]) -> dict[str, bytes]:
    """What `torch.distributed.checkpoint` loads: the keys that the iterator would save."""
    return {key: saved[key] for key in iterator.state_dict()}


@pytest.mark.parametrize(("deal", "tail"), CASES)
def test_what_ranks_save_together_any_ranks_go_on_from_or_refuse(deal: str, tail: str) -> None:
    def made(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return TAILS[tail](DEALS[deal](rank, ranks))

    for cut in thinned((5, 0, 30), 2, "cuts"):
        states: list[Any] = []
        saved: dict[str, bytes] = {}
        for rank in range(RANKS):
            with iter(made(rank, RANKS)) as iterator:
                for _ in islice(iterator, cut):
                    pass
                states.append(rs.loads(rs.dumps(iterator.get_state())))
                own = iterator.state_dict()
            # What another rank has under the same key, this one would have too.
            alike = [rs.loads(saved[key]) for key in own.keys() & saved.keys()]
            assert not alike or resumed(made(rank, RANKS), alike[0]) is not None
            saved |= own
        for rank in range(RANKS):
            with iter(made(rank, RANKS)) as iterator:
                for loaded in (asked_for(iterator, saved), saved):
                    iterator.load_state_dict(loaded)
                    if iterator.step == states[rank]["step"]:
                        assert iterator.get_state() == resumed(made(rank, RANKS), states[rank])
                    else:  # a rank that has ended has the step of the furthest one
                        assert not list(iterator)
        for ranks in OTHERS:
            for rank in range(ranks):
                expected = [resumed(made(rank, ranks), state) for state in joined(states)]
                with iter(made(rank, ranks)) as iterator:
                    before = iterator.get_state()
                    try:
                        iterator.load_state_dict(saved)
                    except rs.StateMismatch:
                        assert not any(expected)
                        assert iterator.get_state() == before
                        continue
                    found = iterator.get_state()
                    assert found in expected or not joined(states)
                    iterator.load_state_dict(asked_for(iterator, saved))
                    assert iterator.get_state() == found


def kept(number: int) -> bool:
    return number % 3 > 0


def numbers() -> rs.Pipeline[int]:
    return rs.range(60).shuffle(0)


def parts(rank: int, ranks: int) -> rs.Pipeline[int]:
    return numbers().partition(6, lambda part: part.filter(kept)).shard(rank, ranks)


def test_there_is_a_key_for_all_ranks_for_each_partition_or_for_this_rank() -> None:
    def keys(pipeline: rs.Pipeline[Any]) -> list[str]:
        with iter(pipeline) as iterator:
            return list(iterator.state_dict())

    assert keys(numbers().filter(kept)) == ["resumable"]
    assert keys(numbers().filter(kept).shard(1, 3)) == ["resumable"]
    assert keys(parts(1, 3)) == ["partition/00001", "partition/00004"]
    assert keys(numbers().shard(1, 3).filter(kept)) == ["rank/00001-of-00003"]
    assert keys(parts(1, 3).shuffle(0, window=4)) == ["rank/00001-of-00003"]
    assert keys(numbers().shard(0, 2).shard(1, 3).filter(kept)) == ["rank/00002-of-00006"]


def test_the_bytes_are_those_of_the_state() -> None:
    with iter(numbers()) as iterator:
        iterator.skip(5)
        assert iterator.state_dict() == {"resumable": rs.dumps(iterator.get_state())}
        saved = {"resumable": io.BytesIO(iterator.state_dict()["resumable"])}
        with iter(numbers()) as again:
            again.load_state_dict(saved)
            assert again.get_state() == iterator.get_state()


def failing_at(place: int) -> Any:
    calls = iter(range(10**6))

    def fail_once(number: int) -> int:
        if next(calls) == place:
            raise ValueError(number)
        return number

    return fail_once


@pytest.mark.usefixtures("states_kept_rarely")
def test_a_state_after_an_error_goes_on_with_its_partitions() -> None:
    def made(place: int, rank: int) -> rs.Pipeline[int]:
        return parts(rank, 2).map(failing_at(place))

    with iter(made(7, 1)) as iterator:
        with pytest.raises(ValueError, match=r"^\d+"):
            list(iterator)
        state, saved = iterator.get_state(), iterator.state_dict()
        rest = list(iterator)
    assert state["ahead"]
    assert len(saved) == 3
    with iter(made(-1, 1)) as again:
        again.load_state_dict(saved)
        assert again.get_state() == state
        assert list(again) == rest
        with iter(made(-1, 0)) as other, iter(parts(0, 1).map(failing_at(-1))) as alone:
            other.skip(state["step"])
            both = saved | other.state_dict()
            for one, expected in ((again, state), (other, other.get_state())):
                one.load_state_dict(both)
                assert one.get_state() == expected
            with pytest.raises(rs.StateMismatch, match="states of the ranks differ"):
                alone.load_state_dict(both)
        partly = dict(list(saved.items())[:2])
        with pytest.raises(rs.StateMismatch, match="which this rank needs"):
            again.load_state_dict(partly)


def split_at(steps: dict[int, int]) -> dict[str, bytes]:
    """The partitions of two ranks that have taken so many items."""
    saved: dict[str, bytes] = {}
    for rank, taken in steps.items():
        with iter(parts(rank, 2)) as iterator:
            iterator.skip(taken)
            saved |= iterator.state_dict()
    return saved


REFUSED: dict[str, tuple[Any, str]] = {
    "another pipeline": ({"resumable": rs.dumps(iter(rs.range(3)).get_state())}, "belongs to another pipeline"),
    "a missing partition": (dict(list(split_at({0: 5, 1: 5}).items())[1:]), "but not 0, which this rank needs"),
    "partitions of several steps": (split_at({0: 5, 1: 7}), "was saved at step 5, and another one at step 7"),
    "states of ranks": (iter(numbers().shard(0, 2).filter(kept)).state_dict(), "each rank resumes from its own state"),
    "two kinds": (split_at({0: 5}) | {"resumable": b""}, "must be a dict with the key 'resumable' alone"),
    "a state": (iter(parts(0, 1)).get_state(), "must be a dict with the key 'resumable' alone"),
    "nothing": ({}, "must be a dict with the key 'resumable' alone"),
    "no dict": ([b""], "must be a dict with the key 'resumable' alone"),
    "no bytes": ({"partition/00000": 3}, "the state must be bytes, got 3"),
    "another library's": ({"_snapshot": {}, "_steps_since_snapshot": 0}, "it looks like one of torchdata's StatefulDataLoader"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    state_dict, words = REFUSED[name]
    with iter(parts(0, 1)) as iterator:
        iterator.skip(3)
        before = iterator.get_state()
        with pytest.raises(rs.StateMismatch, match=words):
            iterator.load_state_dict(state_dict)
        assert iterator.get_state() == before
    with pytest.raises(rs.IteratorClosed):
        iterator.load_state_dict(iterator.state_dict())


def test_the_state_of_another_rank_is_refused_by_the_keys_that_are_there() -> None:
    def made(rank: int, ranks: int) -> rs.Pipeline[int]:
        return numbers().shard(rank, ranks).filter(kept)

    with iter(made(0, 2)) as iterator, iter(made(1, 2)) as other, iter(made(0, 3)) as more:
        for one in (other, more):
            with pytest.raises(
                rs.StateMismatch, match="has rank/00000-of-00002, and this pipeline needs rank/0000"
            ):
                one.load_state_dict(iterator.state_dict())
        both = iterator.state_dict() | other.state_dict()
        other.skip(2)
        other.load_state_dict(both)
        assert other.step == 0


def uneven(rank: int, ranks: int) -> rs.Pipeline[int]:
    def shorter(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
        return part.filter(lambda number: number // 4 <= 3 * (number % 4))

    return rs.range(60).partition(4, shorter).shard(rank, ranks)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_only_a_rank_that_has_ended_may_be_behind(size: int) -> None:
    def made(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return uneven(rank, ranks) if size == 1 else uneven(rank, ranks).batch(size)

    lengths = [len(list(made(rank, 2))) for rank in range(2)]
    assert lengths == [-(-8 // size), -(-14 // size)]
    for steps in (lengths, [lengths[0] - 1, lengths[1]], [lengths[0], lengths[0] + 1]):
        saved: dict[str, bytes] = {}
        for rank, taken in enumerate(steps):
            with iter(made(rank, 2)) as iterator:
                assert iterator.skip(taken) == taken
                saved |= iterator.state_dict()
        with iter(made(0, 1)) as iterator, iter(made(0, 2)) as behind:
            if steps[0] < lengths[0]:
                for one in (iterator, behind):
                    with pytest.raises(rs.StateMismatch, match=f"at step {steps[0]}, and another"):
                        one.load_state_dict(saved)
                continue
            iterator.load_state_dict(saved)
            rest = sum(1 for _ in leaves(iterator).elements())
            assert rest == 14 - min(steps[1] * size, 14)


def test_the_loop_of_a_checkpointer_has_the_state_of_its_batch() -> None:
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(3)) as checkpointer:
        loop = checkpointer.resume(numbers())
        for _ in islice(loop, 5):
            pass
        saved = loop.state_dict()
        assert rs.loads(saved["resumable"])["step"] == 5
        assert saved == loop.iterator.state_dict()
        loop.load_state_dict(saved)
        assert (loop.step, next(loop)) == (5, list(numbers())[5])
        with pytest.raises(rs.StateMismatch, match=r"is at step 5, and .* stands at step 6"):
            loop.load_state_dict(saved)
        with pytest.raises(rs.StateMismatch, match="another pipeline"):
            loop.load_state_dict({"resumable": rs.dumps(iter(rs.range(3)).get_state())})
        assert loop.step == 6


def asked_by(module: str, stateful: Any) -> Any:
    """What a module of this name gets by looking up ``state_dict``."""
    return eval("stateful.state_dict()", {"__name__": module, "stateful": stateful})


def test_savers_of_one_ranks_state_get_it_only_where_all_have_the_same() -> None:
    accelerate = "accelerate.checkpointing"
    for pipeline, words in (
        (parts(0, 2), "register_for_checkpointing.JoinedState.loader"),
        (numbers().shard(0, 2).filter(kept), "takes more items on one rank than on another"),
        (parts(0, 2).shuffle(0, window=4), "takes more items on one rank than on another"),
    ):
        with iter(pipeline) as iterator, rs.Checkpointer(rs.Memory(), rs.AtEnd()) as checkpointer:
            for stateful in (iterator, checkpointer.resume(pipeline)):
                with pytest.raises(rs.ExternalStateError, match=words):
                    asked_by(accelerate, stateful)
                assert asked_by("another", stateful) == iterator.state_dict()
    for pipeline in (parts(0, 1), numbers().shard(0, 2), numbers().shard(0, 1).filter(kept)):
        with iter(pipeline) as iterator:
            assert asked_by(accelerate, iterator) == iterator.state_dict()


def test_lightning_does_not_get_a_state_that_is_a_batch_ahead() -> None:
    with iter(numbers()) as iterator:
        for package in ("lightning.pytorch", "pytorch_lightning"):
            with pytest.raises(rs.ExternalStateError, match=r"with the callback ResumeInput\(\)"):
                asked_by(f"{package}.utilities.combined_loader", iterator)
