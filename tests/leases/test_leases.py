"""The rules of leases, one test each, in the order of the docstrings."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.waiting import wait_until

import resumable as rs
from resumable.leases import leases as leases_module


def numbers() -> Iterator[int]:
    return iter(range(100))


def stream() -> rs.Pipeline[int]:
    return rs.from_iterable(numbers).map(abs)


def taken(leases: rs.Leases[Any], count: int) -> list[rs.Lease[Any]]:
    return [lease for _, lease in zip(range(count), leases.available(), strict=False)]


def rest_of(leases: rs.Leases[Any]) -> list[int]:
    """The numbers of all remaining leases, done one after another."""
    found = []
    for lease in leases:
        found.append(lease.number)
        lease.done()
    return found


def with_open(pipeline: rs.Pipeline[Any], count: int, *still_open: int) -> rs.State:
    """A state after ``count`` items, all done but ``still_open``."""
    with rs.Leases(pipeline) as leases:
        leases.done(*(one for one in taken(leases, count) if one.number not in still_open))
        return rs.loads(rs.dumps(leases.get_state()))


class Counting:
    """A sequence that notes which items are read."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_number_is_the_place_of_an_item_over_epochs_resumes_and_ranks(ranks: int) -> None:
    pipeline = rs.range(5).shuffle(seed=1).repeat(3)
    items, state = list(pipeline), None
    epochs = [number // 5 for number in range(15)]
    seen: dict[int, Any] = {}
    while len(seen) < len(items):
        states = []
        for rank in range(ranks):
            leases = rs.Leases(pipeline, rank=rank, ranks=ranks, state=state)
            for lease in taken(leases, 2):
                assert (lease.item, lease.epoch) == (items[lease.number], epochs[lease.number])
                seen[lease.number] = lease.item
                lease.done()
            states.append(leases.get_state())
        state = rs.merge_states(states)
    assert sorted(seen) == list(range(15))


@pytest.mark.parametrize("pipeline", [rs.range(20), stream()], ids=["random access", "stream"])
def test_released_items_come_first_then_open_ones_then_new_ones(
    pipeline: rs.Pipeline[int],
) -> None:
    leases = rs.Leases(pipeline, state=with_open(pipeline, 8, 3, 5, 7))
    first, second = taken(leases, 2)
    assert (first.number, second.number) == (3, 5)
    leases.release(second, first)
    again = taken(leases, 5)
    assert [lease.number for lease in again] == [3, 5, 7, 8, 9]
    assert [lease.attempt for lease in again] == [2, 2, 1, 1, 1]
    assert [lease.item for lease in again] == [3, 5, 7, 8, 9]


def test_take_waits_while_too_many_are_open() -> None:
    leases = rs.Leases(rs.range(9), max_open=2)
    first, _ = taken(leases, 2)
    with pytest.raises(TimeoutError, match=r"within 0 seconds: 2 leases are open, with max_open=2"):
        leases.take(timeout=0)
    got: list[Any] = []
    waiter = threading.Thread(target=lambda: got.append(leases.take(timeout=60)))
    waiter.start()
    wait_until(lambda: bool(leases._waiting))
    first.done()
    waiter.join()
    assert got[0].number == 2


def test_take_waits_while_the_next_number_is_too_far_ahead() -> None:
    leases = rs.Leases(rs.range(50), max_ahead=4)
    slow, *others = taken(leases, 9)
    assert [lease.number for lease in others] == [1, 2, 3]
    leases.done(*others)
    with pytest.raises(TimeoutError, match="max_ahead=4"):
        leases.take(timeout=0.01)
    slow.done()
    assert [lease.number for lease in taken(leases, 9)] == [4, 5, 6, 7]


def test_take_returns_none_only_when_nothing_is_open() -> None:
    leases = rs.Leases(rs.range(2))
    first, second = taken(leases, 5)
    with pytest.raises(TimeoutError, match="2 leases are open"):
        leases.take(timeout=0)
    first.done()
    assert not leases.finished
    second.release()
    assert leases.take(timeout=0).item == 1  # type: ignore[union-attr]
    leases.drop(1)
    assert leases.finished
    assert leases.take() is None
    for timeout in (-1, float("nan")):
        with pytest.raises(rs.InvalidArgument, match="timeout must be finite and above 0"):
            leases.take(timeout)


def test_available_never_waits() -> None:
    leases = rs.Leases(rs.range(5), max_open=3)
    assert [lease.number for lease in leases.available()] == [0, 1, 2]
    assert list(leases.available()) == []
    leases.done(0, 1, 2)
    assert [lease.number for lease in leases.available()] == [3, 4]
    leases.done(3, 4)
    assert leases.finished
    assert list(leases.available()) == []


@pytest.mark.parametrize("how", ["done", "drop", "release"])
def test_leases_end_together_or_not_at_all(how: str) -> None:
    leases = rs.Leases(rs.range(9))
    first, second, third = taken(leases, 3)
    third.done()
    before = leases.counts
    for wrong in ((first, 1, third), (first, 2), (0, 7), (0, 0), (first, 0)):
        with pytest.raises(rs.InvalidArgument):
            getattr(leases, how)(*wrong)
    with pytest.raises(rs.InvalidType, match="leases must be an integer"):
        getattr(leases, how)(first, "1")
    assert leases.open == (0, 1)
    assert leases.counts == before
    getattr(leases, how)(first, second.number)
    assert not leases.open
    assert sum(leases.counts) == 3
    second_life = rs.Leases(rs.range(9), state=leases.get_state())
    assert second_life.counts == leases.counts
    assert rest_of(second_life)[0] == (0 if how == "release" else 3)


def test_what_is_not_open_is_refused_with_the_reason() -> None:
    leases = rs.Leases(rs.range(9), state=with_open(rs.range(9), 3, 0, 1))
    first = leases.take()
    assert first is not None
    first.release()
    for number, reason in (
        (0, "it was given back, and not taken again"),
        (1, "it was open in the state, and has been neither taken nor claimed since"),
        (2, "it was done or dropped before"),
        (3, "it was never handed out here"),
    ):
        with pytest.raises(rs.InvalidArgument, match=f"item {number} is not open: {reason}"):
            leases.done(number)
    again = leases.take()
    assert again is not None
    with pytest.raises(rs.InvalidArgument, match="given back, and its item was taken again"):
        first.done()
    other = rs.Leases(rs.range(9)).take()
    assert other is not None
    with pytest.raises(rs.InvalidArgument, match="it belongs to other leases"):
        leases.done(other)
    leases.done(0)  # the number is open, whichever lease it has
    with pytest.raises(rs.InvalidArgument, match="done or dropped before"):
        again.drop()
    with pytest.raises(rs.InvalidType, match="cannot be pickled"):
        pickle.dumps(again)


def test_a_block_ends_its_lease_by_the_way_it_ends() -> None:
    leases = rs.Leases(rs.range(9))
    (one,) = taken(leases, 1)
    with pytest.raises(KeyError, match="mine"), one:
        raise KeyError("mine")
    assert leases.counts.released == 1
    for lease, _ in zip(leases, range(1), strict=False):
        with lease as same:
            assert same.number == 0
    assert leases.counts.done == 1
    (one,) = taken(leases, 1)
    with one:
        one.drop()
    assert leases.counts == (1, 1, 1)

    async def rollout() -> None:
        lease = await leases.take_async()
        assert lease is not None
        async with lease:
            await asyncio.sleep(0)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(rollout())
    assert leases.counts == (1, 1, 2)


def test_a_state_grows_with_open_items_alone() -> None:
    pipeline = rs.range(10**9).shuffle(seed=0)
    leases = rs.Leases(pipeline, max_ahead=10**6)
    first = leases.take()
    sizes = []
    for _ in range(6):
        for _, lease in zip(range(1000), leases, strict=False):
            lease.done()
        sizes.append(len(rs.dumps(leases.get_state())))
    assert max(sizes) < 400
    assert len(leases._reader._marks) < 20
    state = leases.get_state()
    assert state["leases"]["unfinished"] == [[0, 1, 1]]
    assert state["step"] == 6001
    assert first is not None
    first.done()
    state = leases.get_state()
    assert state["leases"]["unfinished"] == []
    assert state["ahead"] <= 16
    regular = taken(leases, 100)
    leases.done(*regular[::2])
    assert leases.get_state()["leases"]["unfinished"] == [[6002, 6101, 2]]


def test_get_state_with_done_is_the_state_after_they_are_done() -> None:
    leases = rs.Leases(rs.range(30))
    held = taken(leases, 8)
    state = leases.get_state(done=[held[5], 2])
    assert leases.open == tuple(range(8))
    assert leases.counts.done == 0
    leases.done(2, 5)
    assert rs.dumps(leases.get_state()) == rs.dumps(state)
    with pytest.raises(rs.InvalidArgument, match="item 5 is not open"):
        leases.get_state(done=[5])


def test_a_resume_reads_exactly_the_open_items_of_random_access() -> None:
    source = Counting(1000)
    pipeline = rs.from_sequence(source, identity="numbers").prefetch(8)
    state = with_open(pipeline, 300, 7, 60, 222)
    source.read.clear()
    leases = rs.Leases(pipeline, state=state)
    assert [lease.item for lease in taken(leases, 3)] == [7, 60, 222]
    assert source.read == [7, 60, 222]
    leases.done(7, 60, 222)
    assert rest_of(leases) == list(range(300, 1000))
    leases.close()
    assert sorted(source.read) == [7, 60, 222, *range(300, 1000)]


@pytest.mark.parametrize("slow", [0, 40, 95])
def test_a_resume_reads_a_stream_from_the_oldest_open_item(slow: int) -> None:
    read: list[int] = []

    def noted(number: int) -> int:
        read.append(number)
        return number

    pipeline = rs.from_iterable(numbers).filter(lambda n: noted(n) >= 0)
    state = with_open(pipeline, 96, slow, 95)
    read.clear()
    leases = rs.Leases(pipeline, state=state)
    assert [lease.item for lease in taken(leases, 3)] == [*sorted({slow, 95}), 96, 97][:3]
    assert slow - 16 < read[0] <= slow
    assert read == list(range(read[0], read[-1] + 1))


def test_an_open_item_of_the_state_can_be_claimed_without_reading_it() -> None:
    source = Counting(100)
    pipeline = rs.from_sequence(source, identity="numbers")
    state = with_open(pipeline, 50, 10, 20, 30)
    source.read.clear()
    leases = rs.Leases(pipeline, state=state)
    claimed = leases.claim(20)
    assert source.read == []
    leases.done(20)
    for number, reason in (
        (20, "done or dropped before"),
        (11, "done or dropped before"),
        (60, "it was never handed out here"),
    ):
        with pytest.raises(
            rs.InvalidArgument,
            match=f"{number} cannot be claimed: it .*{reason}|{number} cannot be claimed: {reason}",
        ):
            leases.claim(number)
    late = leases.claim(30)
    assert (late.item, late.epoch, claimed.number) == (30, 0, 20)
    late.release()
    assert rest_of(leases) == [30, 10, *range(50, 100)]
    over_stream = rs.Leases(stream(), state=with_open(stream(), 50, 10, 20))
    unread = over_stream.claim(20)
    with pytest.raises(rs.InvalidArgument, match="a stream cannot be read at a number"):
        print(unread.item)
    unread.release()
    assert rest_of(over_stream) == [20, 10, *range(50, 100)]


def test_the_state_of_an_iterator_is_accepted_and_not_the_other_way_round() -> None:
    pipeline = rs.range(20).shuffle(seed=4)
    iterator = iter(pipeline)
    before = [next(iterator) for _ in range(6)]
    leases = rs.Leases(pipeline, state=iterator.get_state())
    lease = leases.take()
    assert lease is not None
    assert (lease.number, lease.item) == (6, next(iterator))
    with pytest.raises(rs.StateMismatch, match=r"rs\.Leases\(pipeline, state=state\)"):
        pipeline.resume(leases.get_state())
    again = rs.Leases(pipeline, state=leases.get_state())
    assert before + [one.item for one in again.available()] == list(pipeline)


def batches(size: int = 4, *, drop_last: bool = False) -> rs.Pipeline[Any]:
    return rs.range(43).batch(size, drop_last=drop_last)


LISTED = rs.from_sequence(list(range(40)), identity="numbers")

REFUSED: dict[str, tuple[rs.Pipeline[Any], rs.Pipeline[Any]]] = {
    "batch_size": (batches(), batches(2)),
    "drop_last": (batches(), batches(drop_last=True)),
    "batch_size before an epoch ends": (batches().repeat(2), batches(8).repeat(2)),
    "a shorter take": (rs.range(40).take(20), rs.range(40).take(9)),
    "a shorter take of a stream": (stream().take(20), stream().take(9)),
    "a take in an earlier epoch": (rs.range(4).repeat(9), rs.range(3).repeat(9)),
    "a take that is repeated": (rs.range(40).take(6).repeat(9), rs.range(40).take(7).repeat(9)),
    "fewer epochs": (rs.range(4).repeat(9), rs.range(4).repeat(2)),
    "fewer epochs of a stream": (stream().take(4).repeat(9), stream().take(4).repeat(2)),
    "a window": (rs.range(40).window(3), rs.range(40).window(4)),
    "the seed": (rs.range(40).shuffle(seed=1), rs.range(40).shuffle(seed=2)),
    "an early exclusion": (LISTED.exclude([]), LISTED.exclude({0: [], 5: [3, 20]})),
    "an early weight": (
        rs.mix(rs.range(40), rs.range(40), weights=[1, 1], seed=0),
        rs.mix(rs.range(40), rs.range(40), weights={0: [1, 1], 5: [1, 3]}, seed=0),
    ),
    "a shorter last batch, handed out": (rs.range(38).take(38).batch(4), rs.range(40).batch(4)),
    "a shorter last batch of a stream": (stream().take(38).batch(4), stream().take(40).batch(4)),
}
ACCEPTED: dict[str, tuple[rs.Pipeline[Any], rs.Pipeline[Any]]] = {
    "more epochs": (rs.range(4).repeat(3), rs.range(4).repeat(9)),
    "more epochs of batches": (rs.range(8).repeat(3).batch(2), rs.range(8).repeat(9).batch(2)),
    "endless epochs": (rs.range(4).shuffle(1).repeat(3), rs.range(4).shuffle(1).repeat()),
    "more epochs of a stream": (stream().take(4).repeat(3), stream().take(4).repeat(9)),
    "a longer take": (rs.range(40).take(12), rs.range(40).take(20)),
    "a longer take of a stream": (stream().take(12), stream().take(20)),
    "a shorter take, not reached": (rs.range(40).take(30), rs.range(40).take(20)),
    "workers and prefetch": (rs.range(40).map(abs), rs.range(40).map(abs, workers=2).prefetch(3)),
    "a later exclusion": (LISTED.exclude([]), LISTED.exclude({0: [], 30: [3, 35]})),
}


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("still_open", [(), (3,)])
def test_a_change_of_what_a_number_means_is_refused(
    change: str, still_open: tuple[int, ...]
) -> None:
    before, after = REFUSED[change]
    with pytest.raises(rs.StateMismatch):
        rs.Leases(
            after, state=with_open(before, 12 if "last batch" not in change else 10, *still_open)
        )


def test_numbers_of_a_finished_run_keep_their_meaning_too() -> None:
    state = with_open(rs.range(64).batch(4), 99)
    assert state["step"] == 16
    assert rest_of(rs.Leases(rs.range(64).batch(4), state=state)) == []
    with pytest.raises(rs.StateMismatch, match="batch_size"):
        rs.Leases(rs.range(64).batch(2), state=state)


@pytest.mark.parametrize("change", ACCEPTED)
@pytest.mark.parametrize("still_open", [(), (3,)])
def test_a_change_of_later_items_is_accepted(change: str, still_open: tuple[int, ...]) -> None:
    before, after = ACCEPTED[change]
    leases = rs.Leases(after, state=with_open(before, 12, *still_open))
    expected = [str(item) for _, item in zip(range(15), after, strict=False)]
    new = range(12, len(expected))
    for lease, number in zip(leases, [*still_open, *new], strict=False):
        assert (lease.number, str(lease.item)) == (number, expected[number])
        lease.done()
    leases.close()


def test_leases_deal_the_items_out_themselves() -> None:
    with pytest.raises(rs.InvalidArgument, match=r"write rs\.Leases\(pipeline, rank=1, ranks=4\)"):
        rs.Leases(rs.range(9).shard(1, 4).batch(2))
    parts = rs.range(20).partition(4, lambda part: part.map(abs))
    with pytest.raises(rs.InvalidArgument, match="leases over partitions need ranks=1, got 2"):
        rs.Leases(parts, ranks=2)
    leases = rs.Leases(parts, state=with_open(parts, 7, 2))
    assert rest_of(leases) == [2, *range(7, 20)]
    with pytest.raises(rs.InvalidArgument, match="on_error='raise', got 'skip' in Map at pipeline"):
        rs.Leases(rs.range(9).map(abs, on_error="skip").batch(2))
    dealt = [rest_of(rs.Leases(rs.range(8), rank=rank, ranks=3)) for rank in range(3)]
    assert dealt == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_any_number_of_ranks_continues_from_the_states_of_all() -> None:
    pipeline = rs.range(40)
    lives = [rs.Leases(pipeline, rank=rank, ranks=3) for rank in range(3)]
    fast, slow = taken(lives[0], 6), taken(lives[1], 1)
    lives[0].done(*fast[1:])
    lives[1].drop(*slow)
    states = [leases.get_state() for leases in lives]
    with pytest.raises(rs.StateMismatch, match=r"all ranks of a run, got ranks \[0, 2\] of 3"):
        rs.merge_states([states[0], states[2]])
    with pytest.raises(rs.StateMismatch, match=r"got ranks \[0, 1, 1\] of 3"):
        rs.merge_states([*states[:2], states[1]])
    with pytest.raises(
        rs.StateMismatch, match="of rank 1 of 3, and these leases are of rank 0 of 2"
    ):
        rs.Leases(pipeline, ranks=2, state=states[1])
    whole = rs.merge_states(states)
    missed = [0, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17]
    assert rest_of(rs.Leases(pipeline, state=whole)) == [*missed, *range(18, 40)]
    two = [rs.Leases(pipeline, rank=rank, ranks=2, state=whole) for rank in range(2)]
    assert [len(leases._rest) for leases in two] == [6, 6]
    assert two[0].counts == (5, 1, 0)
    assert two[1].counts == (0, 0, 0)
    mixed = [two[0].get_state(), rs.Leases(pipeline, rank=1, ranks=2).get_state()]
    with pytest.raises(rs.StateMismatch, match="all ranks must have begun from one state"):
        rs.merge_states(mixed)
    again = rs.Leases(pipeline, rank=1, ranks=2, state=two[1].get_state())
    assert rest_of(again) == [*missed[1::2], *range(19, 40, 2)]


def test_an_error_of_the_pipeline_changes_nothing_and_the_item_is_tried_again() -> None:
    failing = {5, 8}

    def fails_once(number: int) -> int:
        if number in failing:
            failing.remove(number)
            raise OSError(f"{number} cannot be read")
        return number

    for pipeline in (rs.range(12).map(fails_once), rs.from_iterable(numbers).map(fails_once)):
        failing |= {5, 8}
        leases = (
            rs.Leases(pipeline, state=with_open(rs.range(12).map(fails_once), 3, 1))
            if pipeline.random_access
            else rs.Leases(pipeline)
        )
        got = []
        for _ in range(8):
            before = leases.get_state()
            try:
                lease = leases.take()
            except OSError:
                assert rs.dumps(leases.get_state()) == rs.dumps(before)
                continue
            assert lease is not None
            got.append(lease.number)
        assert got == ([1, 3, 4, 5, 6, 7] if pipeline.random_access else [0, 1, 2, 3, 4, 5, 6])


def test_all_methods_may_be_called_from_any_thread() -> None:
    leases = rs.Leases(rs.range(2000), max_open=6)
    seen: list[int] = []

    def work() -> None:
        for number, lease in enumerate(leases):
            if number % 5 == 1:
                lease.release()
                continue
            leases.get_state()
            seen.append(lease.item)
            lease.done()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(2000))
    assert leases.finished


def test_load_state_dict_comes_before_the_first_take() -> None:
    pipeline = rs.range(30)
    lives = [rs.Leases(pipeline, rank=rank, ranks=2) for rank in range(2)]
    for leases in lives:
        assert leases.take() is not None
    together = {key: value for leases in lives for key, value in leases.state_dict().items()}
    assert sorted(together) == ["rank/00000-of-00002", "rank/00001-of-00002"]
    same, other = rs.Leases(pipeline, rank=1, ranks=2), rs.Leases(pipeline)
    same.load_state_dict(together)
    other.load_state_dict(together)
    assert rest_of(same) == list(range(1, 30, 2))
    assert rest_of(other) == list(range(30))
    with pytest.raises(rs.InvalidArgument, match="before the first take"):
        other.load_state_dict(together)
    with pytest.raises(rs.StateMismatch):
        rs.Leases(rs.range(31)).load_state_dict(together)


def test_close_wakes_all_that_wait() -> None:
    leases = rs.Leases(rs.range(9), max_open=1)
    lease = leases.take()
    errors: list[BaseException] = []

    def work() -> None:
        with pytest.raises(rs.IteratorClosed) as caught:
            leases.take()
        errors.append(caught.value)

    async def work_async() -> None:
        waiting = asyncio.create_task(leases.take_async())
        await asyncio.sleep(0)
        leases.close()
        with pytest.raises(rs.IteratorClosed):
            await waiting

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(leases._waiting) == 3)
    asyncio.run(work_async())
    for thread in threads:
        thread.join()
    assert len(errors) == 3
    with pytest.raises(rs.IteratorClosed):
        leases.take()
    assert lease is not None
    lease.done()
    assert rest_of(rs.Leases(rs.range(9), state=leases.get_state())) == list(range(1, 9))


def test_take_async_waits_without_blocking_and_a_cancelled_one_takes_nothing() -> None:
    leases = rs.Leases(rs.range(4), max_open=1)

    async def main() -> list[int]:
        first = await leases.take_async()
        assert first is not None
        with pytest.raises(TimeoutError, match=r"within 0\.01 seconds"):
            await leases.take_async(timeout=0.01)
        cancelled = asyncio.create_task(leases.take_async())
        waiting = asyncio.create_task(leases.take_async())
        await asyncio.sleep(0)
        cancelled.cancel()
        first.done()
        second = await waiting
        assert second is not None
        found = [first.number, second.number]
        second.done()
        async for lease in leases:
            async with lease:
                found.append(lease.number)
        return found

    assert asyncio.run(main()) == [0, 1, 2, 3]
    assert leases._waiting == []


def test_an_interrupt_in_take_loses_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    for pipeline in (rs.range(30), stream().take(30)):
        leases = rs.Leases(pipeline)
        made: Callable[..., Any] = leases_module.Lease
        calls = iter([0, 1, 0, 1, 1, 0] * 9)

        def interrupted(*arguments: Any, made: Any = made, calls: Any = calls) -> Any:
            if next(calls, 0):
                raise KeyboardInterrupt
            return made(*arguments)

        monkeypatch.setattr(leases_module, "Lease", interrupted)
        got = []
        while not leases.finished:
            try:
                lease = leases.take()
            except KeyboardInterrupt:
                continue
            monkeypatch.undo()
            if lease is not None:
                got.append(lease.item)
                lease.done()
            monkeypatch.setattr(leases_module, "Lease", interrupted)
        monkeypatch.undo()
        assert got == list(range(30))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_open": 0}, "max_open must be at least 1, got 0"),
        ({"max_ahead": 0}, "max_ahead must be at least 1, got 0"),
        ({"rank": 2, "ranks": 2}, "rank must be below ranks=2, got 2"),
    ],
)
def test_wrong_limits_are_refused(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(rs.InvalidArgument, match=error):
        rs.Leases(rs.range(3), **arguments)
    with pytest.raises(rs.InvalidType, match="pipeline must be a pipeline"):
        rs.Leases([1, 2])  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match=r"Checkpointer\.leases"):
        rs.Leases(rs.range(3)).save()


@pytest.mark.parametrize(
    "damage",
    [
        {"unfinished": 3},
        {"unfinished": [[1, 2]]},
        {"unfinished": [[1, 2, 0]]},
        {"unfinished": [[1, 3, 1], [2, 3, 1]]},
        {"unfinished": [[0, 1 << 40, 1]]},
        {"rank": 1},
        {"deal": 3},
        {"done": -1},
        {"first": "2"},
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    state = with_open(rs.range(50), 40, 39)
    state["leases"] |= damage
    with pytest.raises(rs.StateMismatch):
        rs.Leases(rs.range(50), state=state)
    state = with_open(rs.range(50), 40, 39)
    state["leases"]["unfinished"] = [[2, 3, 1]]  # before the position
    with pytest.raises(rs.StateMismatch, match="lies before its position"):
        rs.Leases(rs.range(50), state=state)


def test_a_source_that_delivers_fewer_items_than_before_is_refused_by_take() -> None:
    def first(count: int) -> rs.Pipeline[int]:
        return rs.from_iterable(lambda: iter(range(count)))

    leases = rs.Leases(first(5))
    assert [lease.number for lease in leases.available()] == [0, 1, 2, 3, 4]
    for give_back in (False, True):
        shorter = rs.Leases(first(3), state=leases.get_state())
        if give_back:
            shorter.claim(4).release()
        else:
            assert [shorter.take(0).item for _ in range(3)] == [0, 1, 2]  # type: ignore[union-attr]
        with pytest.raises(rs.StateMismatch, match=r"the pipeline ends before item [34]"):
            shorter.take(0)
