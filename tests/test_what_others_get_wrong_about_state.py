"""One test for each fault that was found in the state of other loaders."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Counter, stream

import resumable as rs
from resumable.testing.laws import (
    first_items,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    resumes_for_generations,
    state_is_a_value,
)


def state_after(pipeline: rs.Pipeline[Any], steps: int) -> dict[str, Any]:
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, steps))
        return rs.loads(rs.dumps(iterator.get_state()))


OTHERS: dict[str, tuple[Callable[[], rs.Pipeline[Any]], Callable[[], rs.Pipeline[Any]], str]] = {
    "seed": (
        lambda: rs.range(50).shuffle(0),
        lambda: rs.range(50).shuffle(1),
        "Shuffle at pipeline: saved seed=0, this pipeline has seed=1",
    ),
    "window seed": (
        lambda: stream(50).shuffle(0, window=4),
        lambda: stream(50).shuffle(1, window=4),
        "saved seed=0, this pipeline has seed=1",
    ),
    "length": (
        lambda: rs.range(50).shuffle(0).batch(2),
        lambda: rs.range(40).shuffle(0).batch(2),
        "Range at pipeline.upstream.upstream: saved stop=50, this pipeline has stop=40",
    ),
    "length of a sequence": (
        lambda: rs.from_sequence([1] * 50),
        lambda: rs.from_sequence([1] * 40),
        "saved len\\(sequence\\)=50, this pipeline has len\\(sequence\\)=40; did the data set grow or shrink",
    ),
    "batch size beneath a shuffle": (
        lambda: rs.range(50).batch(4).shuffle(0),
        lambda: rs.range(50).batch(5).shuffle(0),
        "Batch at pipeline.upstream: saved batch_size=4, this pipeline has batch_size=5",
    ),
    "batch size beneath a window": (
        lambda: stream(50).batch(4).shuffle(0, window=3),
        lambda: stream(50).batch(5).shuffle(0, window=3),
        "saved batch_size=4, this pipeline has batch_size=5",
    ),
    "shard count beneath a shuffle": (
        lambda: rs.range(50).shard(0, 2).shuffle(0),
        lambda: rs.range(50).shard(0, 5).shuffle(0),
        "Shard at pipeline.upstream: saved count=2, this pipeline has count=5",
    ),
    "epochs beneath a shuffle": (
        lambda: rs.range(10).repeat(2).shuffle(0),
        lambda: rs.range(10).repeat(3).shuffle(0),
        "Repeat at pipeline.upstream: saved epochs=2, this pipeline has epochs=3",
    ),
    "epochs beneath epochs": (
        lambda: rs.range(10).shuffle(0).repeat(2).repeat(2),
        lambda: rs.range(10).shuffle(0).repeat(5).repeat(2),
        "saved epochs=2, this pipeline has epochs=5",
    ),
    "shard count beneath a filter": (
        lambda: rs.range(50).shard(0, 2).filter(bool),
        lambda: rs.range(50).shard(0, 3).filter(bool),
        "Shard at pipeline.upstream: saved count=2, this pipeline has count=3",
    ),
    "another rank beneath a filter": (
        lambda: rs.range(50).shard(0, 2).filter(bool),
        lambda: rs.range(50).shard(1, 2).filter(bool),
        "Shard at pipeline.upstream: saved index=0, this pipeline has index=1",
    ),
    "initial carry": (
        lambda: rs.range(50).scan(lambda carry, item: (carry, item), 0),
        lambda: rs.range(50).scan(lambda carry, item: (carry, item), 1),
        "Scan at pipeline: saved digest of initial=",
    ),
    "finish of a scan": (
        lambda: rs.range(50).scan(lambda carry, item: (carry, item), 0),
        lambda: rs.range(50).scan(lambda carry, item: (carry, item), 0, lambda carry: []),
        "Scan at pipeline: saved a finish=False, this pipeline has a finish=True",
    ),
    "stage": (
        lambda: rs.range(50).shuffle(0),
        lambda: rs.range(50).map(str),
        "the saved pipeline has Shuffle here, this one has Map",
    ),
    "inputs": (
        lambda: rs.concatenate(rs.range(5), rs.range(6), rs.range(7)),
        lambda: rs.concatenate(rs.range(5), rs.range(6)),
        "saved with 3 upstreams, this pipeline has 2",
    ),
    "order of inputs": (
        lambda: rs.concatenate(rs.range(5), rs.range(6)),
        lambda: rs.concatenate(rs.range(6), rs.range(5)),
        r"Range at pipeline.upstreams\[0\]: saved stop=5, this pipeline has stop=6",
    ),
    "weights": (
        lambda: rs.mix(rs.range(5), rs.range(6), weights=[1, 2]),
        lambda: rs.mix(rs.range(5), rs.range(6), weights=[2, 1]),
        r"saved weights=\(1, 2\), this pipeline has weights=\(2, 1\)",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_state_of_another_pipeline_is_refused_with_both_values(name: str) -> None:
    saved, other, message = OTHERS[name]
    state = state_after(saved(), 3)
    with iter(other()) as iterator:
        next(iterator)
        before = rs.dumps(iterator.get_state())
        with pytest.raises(rs.StateMismatch, match=message):
            iterator.set_state(state)
        assert rs.dumps(iterator.get_state()) == before


def test_state_of_another_file_order_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n" * 5)
    state = state_after(rs.lines([tmp_path / "a", tmp_path / "b"]), 3)
    with pytest.raises(rs.StateMismatch, match=r"saved files of paths=.*listed in another order\?"):
        rs.lines([tmp_path / "b", tmp_path / "a"]).resume(state)


def test_a_failed_set_state_leaves_no_bad_state_installed() -> None:
    refused_states_leave_no_trace(
        rs.range(50).shuffle(0).batch(3).repeat(2).prefetch(2), 4, theirs=()
    )


def test_state_does_not_alias_live_objects() -> None:
    state_is_a_value(stream(60).shuffle(1, window=5, carry=True), 9)
    state_is_a_value(rs.range(5).interleave_map(lambda n: [n] * 5, 2).repeat(3), 9)


def test_later_use_of_an_item_does_not_change_the_state() -> None:
    items = [[number] for number in range(20)]
    pipeline: rs.Pipeline[list[Any]] = (
        rs.from_sequence(items).map(list).shuffle(3, window=4, carry=True)
    )
    expected = first_items(pipeline)
    with iter(pipeline) as iterator:
        item = next(iterator)
        state = rs.dumps(iterator.get_state())
        kept = iterator.get_state()
        for rest in iterator:
            rest.append("changed")
        item.append("changed")
        assert rs.dumps(kept) == state
    with pipeline.resume(rs.loads(state)) as iterator:
        assert list(iterator) == expected[1:]


def test_a_second_resume_from_a_resumed_run_is_exact() -> None:
    pipeline = rs.range(9).interleave_map(lambda n: stream(n), 3, 2).repeat(4).shuffle(2, window=5)
    resumes_for_generations(pipeline, [3, 7, 20, 1, 30])


def test_state_survives_serialisation() -> None:
    state = {
        "tuple": (1, (2, "three")),
        "large": 2**127 - 1,
        "numpy": np.int64(7),
        "float": np.float32(0.1),
        "array": np.arange(6, dtype=">i2").reshape(2, 3),
        "bytes": b"\x00\xff",
        "none": None,
        "nan": float("inf"),
    }
    loaded = rs.loads(rs.dumps(state))
    assert loaded["tuple"] == (1, (2, "three"))
    assert type(loaded["tuple"]) is tuple
    assert loaded["large"] == 2**127 - 1
    assert type(loaded["numpy"]) is np.int64
    assert loaded["float"].dtype == np.float32
    assert loaded["array"].dtype == np.dtype(">i2")
    assert (loaded["array"] == state["array"]).all()
    keyed = {"inner": {1: 2, -(2**63): 3, 2**64 - 1: 4, "1": 5}}
    assert rs.loads(rs.dumps(keyed)) == keyed
    for key in (2**64, True, 1.0, None, (1,), np.int64(1)):
        with pytest.raises(rs.UnencodableState, match="keys of a state must be strings or 64-bit"):
            rs.dumps({"inner": {key: 2}})


@pytest.mark.parametrize("drop_last", [True, False])
def test_the_state_at_the_end_of_an_epoch_neither_freezes_nor_skips_nor_yields_a_phantom(
    drop_last: bool,
) -> None:
    one_epoch = rs.range(10).shuffle(0).batch(4, drop_last=drop_last)
    pipeline = one_epoch.repeat(3)
    expected = first_items(pipeline)
    batches = len(list(one_epoch))
    for epochs in (1, 2, 3):
        state = state_after(pipeline, epochs * batches)
        with pipeline.resume(state) as iterator:
            rest = list(iterator)
        assert [part.tolist() for part in rest] == [
            part.tolist() for part in expected[epochs * batches :]
        ]
        assert all(len(batch) for batch in rest)


def test_none_as_an_item_is_an_item() -> None:
    items = [None, 1, None, None, 2, None]
    for pipeline in (
        rs.from_sequence(items).prefetch(2),
        rs.from_iterable(lambda: iter(items)).shuffle(1, window=3),
        rs.from_iterable(lambda: iter(items)).shuffle(1, window=3, carry=True),
        rs.from_sequence(items).map(lambda item: item, workers=2),
        rs.interleave(rs.from_sequence(items), rs.from_sequence(items)),
        rs.from_sequence(items).interleave_map(lambda item: [item, None], 2),
        rs.mix(rs.from_sequence(items).filter(lambda item: True), rs.from_sequence(items)),
    ):
        got = first_items(pipeline.repeat(2))
        assert got.count(None) >= 8
        resumes_at_every_position(pipeline.repeat(2))


def test_get_state_before_set_state_does_not_make_the_load_a_no_op() -> None:
    pipeline = rs.from_iterable(Counter(20)).map(str).prefetch(2)
    state = state_after(pipeline, 7)
    with iter(pipeline) as iterator:
        iterator.get_state()
        iterator.set_state(state)
        assert next(iterator) == "80"


def test_get_state_creates_no_iterators_and_starts_no_threads() -> None:
    opened = []

    def open_source() -> Any:
        opened.append(1)
        return iter(range(5))

    pipeline = (
        rs.range(500)
        .interleave_map(lambda n: rs.from_iterable(open_source), cycle_length=256)
        .map(str, workers=2)
        .prefetch(4)
    )
    before = threading.active_count()
    with iter(pipeline) as iterator:
        iterator.get_state()
        assert opened == []
        assert threading.active_count() == before


@pytest.mark.parametrize("depth", [1, 16])
def test_no_buffer_is_written_into_the_state(depth: int) -> None:
    sizes = []
    for window in (10, 1000, 100_000):
        pipeline = stream(300_000).map(str).shuffle(0, window=window).prefetch(depth)
        with iter(pipeline) as iterator:
            next(iterator)
            sizes.append(len(rs.dumps(iterator.get_state())))
    assert max(sizes) <= 256
    assert max(sizes) - min(sizes) <= 8


def test_the_shuffle_buffer_is_not_lost_on_resume() -> None:
    resumes_at_every_position(stream(120).shuffle(5, window=30))


def test_resuming_does_not_replay() -> None:
    calls = []

    class Source:
        def __len__(self) -> int:
            return 10**9

        def __getitem__(self, index: int) -> int:
            calls.append(index)
            return index

    source: Any = Source()
    pipeline = rs.from_sequence(source).shuffle(3).map(lambda item: item).batch(10)
    with iter(pipeline) as iterator:
        state = iterator.get_state()
    state["pipeline"]["upstream"]["upstream"]["position"] = 5 * 10**8
    with pipeline.resume(state) as iterator:
        assert calls == []
        next(iterator)
    assert len(calls) == 10


def test_the_worker_count_is_not_baked_into_the_state() -> None:
    def pipeline(workers: int, depth: int) -> rs.Pipeline[int]:
        return rs.range(40).shuffle(1).map(abs, workers=workers).prefetch(depth)

    expected = first_items(pipeline(0, 0))
    for saved, resumed in itertools.product([(0, 0), (1, 1), (3, 4)], repeat=2):
        state = state_after(pipeline(*saved), 11)
        with pipeline(*resumed).resume(state) as iterator:
            assert list(iterator) == expected[11:]


def test_the_number_of_ranks_may_change_on_resume() -> None:
    def rank(index: int, count: int) -> rs.Pipeline[int]:
        return rs.range(60).shuffle(4).shard(index, count)

    order = first_items(rs.range(60).shuffle(4))
    got: list[int] = []
    state = state_after(rank(0, 4), 0)
    for count, steps in ((4, 5), (3, 4), (1, 2), (2, 3), (5, 4)):
        states, parts = set(), []
        for index in range(count):
            with rank(index, count).resume(state) as iterator:
                parts.append(list(itertools.islice(iterator, steps)))
                states.add(rs.dumps({**iterator.get_state(), "step": 0}))
        assert len(states) == 1, "ranks saved different states"
        got += [item for turn in zip(*parts, strict=True) for item in turn]
        state = rs.loads(states.pop())
    assert got == order[:60]


def test_a_resume_does_not_make_again_what_has_left_the_window() -> None:
    made: list[int] = []

    def make(item: int) -> int:
        made.append(item)
        return item

    pipeline = stream(2_000).map(make).shuffle(5, window=100)
    with iter(pipeline) as iterator:
        given = list(itertools.islice(iterator, 1_500))
        state = iterator.get_state()
    made.clear()
    with pipeline.resume(state) as iterator:
        next(iterator)
    assert len(made) <= 110
    assert len(set(made) - set(given)) == 100
    assert made == sorted(made)


def pack(open_pack: list[int], item: int) -> tuple[list[int], list[list[int]]]:
    """Items of up to 10 in all in a pack, which is delivered when the next item does not fit."""
    if sum(open_pack) + item > 10:
        return [item], [open_pack]
    return [*open_pack, item], []


def packed(lengths: list[int], epochs: int = 1) -> rs.Pipeline[list[int]]:
    source = rs.from_iterable(lengths)
    return source.scan(pack, [], lambda rest: [[rest]] if rest else []).repeat(epochs).unbatch()


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 2))
def test_a_packer_loses_no_tail(lengths: list[int], epochs: int) -> None:
    assert list(itertools.chain.from_iterable(packed(lengths, epochs))) == lengths * epochs
    resumes_at_every_position(packed(lengths, epochs))


def test_a_tail_is_exact_although_it_is_taken_out_of_the_carry() -> None:
    def emptied(carry: list[int]) -> Iterator[int]:
        while carry:
            yield carry.pop()

    pipeline = stream(6).scan(lambda carry, item: ([*carry, item], item), [], emptied)
    assert list(pipeline) == [*range(6), *reversed(range(6))]
    resumes_at_every_position(pipeline)
    for position in (5, 6, 7, 12):
        state_is_a_value(pipeline, position)
        refused_states_leave_no_trace(pipeline, position, theirs=("carry", "object"))


def test_a_tail_that_changed_is_noticed() -> None:
    def made(rest: list[int]) -> rs.Pipeline[int]:
        return rs.range(2).scan(lambda carry, item: (carry, item), 0, lambda carry: rest)

    with pytest.raises(
        rs.StateMismatch, match="offset=2 lies beyond the 1 items that finish gives"
    ):
        next(made([7]).resume(state_after(made([7, 8, 9]), 4)))
    with pytest.raises(rs.InvalidType, match="finish of Scan must return an iterable, got 7"):
        list(made(7))  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [None, 5, (1,), (1, 2, 3), "ab", {"carry": 0, "output": 1}])
def test_a_scan_whose_function_gives_no_pair_is_told_what_it_gave(made: Any) -> None:
    with iter(stream(3).scan(lambda carry, item: made, 0)) as iterator:
        before = iterator.get_state()
        with pytest.raises(rs.InvalidType, match=r"pair of the next carry and an output, got .+"):
            next(iterator)
        assert iterator.get_state()["step"] == before["step"] == 0


def test_a_carry_that_cannot_be_saved_is_named_by_the_first_state_and_runs_without() -> None:
    pipeline = stream(3).scan(lambda carry, item: ({item}, item), 0, lambda carry: carry)
    assert list(pipeline) == [0, 1, 2, 2]
    with iter(pipeline) as iterator:
        for _ in iterator:
            with pytest.raises(rs.UnencodableState, match=r"Scan.*: carry holds a builtins.set"):
                iterator.get_state()


class ForeignDataSet:
    """As one of Hugging Face: its state says how far it has read, and nothing of what it holds back."""

    def __init__(self, ex_iterable: Any, held: int = 0) -> None:
        self._ex_iterable = ex_iterable
        self._held = held
        self._read = self._first = 0

    def __iter__(self) -> Iterator[int]:
        buffer: list[int] = []
        self._read = self._first
        for number in range(self._first, 40):
            self._read = number + 1
            buffer.append(number)
            if len(buffer) > self._held:
                yield buffer.pop(number % len(buffer))
        yield from buffer

    def state_dict(self) -> dict[str, int]:
        return {"read": self._read}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._read = self._first = state["read"]


class ForeignPart:
    """Something that a foreign data set reads, under the names of Hugging Face's attributes."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


class BufferShuffledExamplesIterable(ForeignPart):
    __module__ = "datasets.iterable_dataset"


SHUFFLED = BufferShuffledExamplesIterable(ex_iterable=ForeignPart(), buffer_size=7)
HOLDERS: dict[str, Any] = {
    "shuffle": SHUFFLED,
    "shuffle and map": ForeignPart(ex_iterable=ForeignPart(ex_iterable=SHUFFLED)),
    "concatenate": ForeignPart(ex_iterables=[ForeignPart(), ForeignPart(ex_iterable=SHUFFLED)]),
    "a loader of it": ForeignPart(dataset=ForeignPart(_ex_iterable=SHUFFLED)),
}


def foreign(part: Any, policy: str = "fail") -> rs.Pipeline[int]:
    return rs.from_iterable(ForeignDataSet(part, held=6), external_state_policy=policy)


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_shuffle_buffer_that_a_foreign_state_leaves_out_is_refused(holder: str) -> None:
    iterator = iter(foreign(HOLDERS[holder]).batch(2))
    next(iterator)
    with pytest.raises(
        rs.ExternalStateError,
        match=r"FromIterable at pipeline\.upstream: .* use rs\.from_iterable\(dataset\)\."
        r"shuffle\(seed, window=n\), which is exact, or an external_state_policy",
    ):
        iterator.get_state()
    assert len(list(iterator)) == 19, "refusing lost nothing"


def test_a_foreign_state_that_loses_items_is_used_where_the_policy_says_so() -> None:
    with iter(foreign(SHUFFLED, "ignore")) as iterator:
        first = list(itertools.islice(iterator, 10))
        state = rs.loads(rs.dumps(iterator.get_state()))
    rest = list(foreign(SHUFFLED, "ignore").resume(state))
    assert len({*first, *rest}) == 40 - 6
    with iter(foreign(SHUFFLED, "warn")) as iterator:
        next(iterator)
        with pytest.warns(RuntimeWarning, match="leaves out the items in the buffer"):
            iterator.get_state()
    with pytest.warns(RuntimeWarning, match="leaves out the items in the buffer"):
        assert list(foreign(SHUFFLED, "warn").resume(state)) == rest
    refusing = foreign(SHUFFLED).resume(state)
    with pytest.raises(rs.ExternalStateError, match="leaves out the items in the buffer"):
        next(refusing)


def test_an_error_does_not_lose_a_foreign_shuffle_buffer_in_silence() -> None:
    failing = [20]

    def fail_once(number: int) -> int:
        if number in failing:
            failing.clear()
            raise OSError(number)
        return number

    seen: list[int] = []
    with iter(foreign(SHUFFLED).map(fail_once)) as iterator:
        with pytest.raises(OSError, match="20"):
            seen.extend(iter(iterator.__next__, None))
        # It goes back to the start, which is exact, or to a later state, which is refused.
        try:
            seen.extend(iterator)
        except rs.ExternalStateError:
            return
    assert sorted(seen) == list(range(40))


def test_a_foreign_shuffle_that_holds_nothing_back_is_exact() -> None:
    part = BufferShuffledExamplesIterable(ex_iterable=None, buffer_size=1)
    vars(part)["ex_iterable"] = part  # a circle ends
    resumes_at_every_position(rs.from_iterable(ForeignDataSet(part)))
    unshuffled = rs.from_iterable(ForeignDataSet(ForeignPart()))
    resumes_at_every_position(unshuffled.shuffle(1, window=7))
