"""The state of a stream comes out of the worker with the batch; nothing is read again for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from resumable_torch.batch_states import BYTES_A_BATCH, BatchState, BatchWithState  # noqa: E402
from support.graphs import RunningSum  # noqa: E402
from torch.utils.data._utils.pin_memory import pin_memory  # noqa: E402
from torch_adapter.data import LENGTH, listed, plain, row  # noqa: E402

import resumable as rs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

MAIN = os.getpid()
EPOCHS = 2
BATCHES = 5
WORKERS = [
    {"num_workers": 0},
    {"num_workers": 1},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 3, "prefetch_factor": 4},
]


class Numbers:
    """Counts what is read of it in the process of the tests."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> Iterator[int]:
        for number in range(LENGTH):
            self.reads += os.getpid() == MAIN
            yield number


def loader(source: Any, **options: Any) -> Any:
    stream = rs.from_iterable(source).shuffle(2, window=4).map(row)
    return ResumableDataLoader(PipelineDataset(stream), 3, **options)


@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_a_state_of_a_stream_reads_nothing_again(workers: dict[str, Any]) -> None:
    source = Numbers()
    batches = loader(source, **workers)
    rows, states = [], [batches.state_dict()]
    for _ in range(EPOCHS):
        for number, batch in enumerate(batches):
            rows.append(plain(batch))
            before = source.reads
            states.append(batches.state_dict())
            held = [batches.state_dict(held=held) for held in range(min(number, 4) + 1)]
            assert source.reads == before
            assert held == states[-1 : -len(held) - 1 : -1]
    assert len(rows) == BATCHES * EPOCHS
    other = WORKERS[(WORKERS.index(workers) + 2) % len(WORKERS)]
    for stop in (1, 4, 5, 8):
        again = loader(Numbers(), **other)
        again.load_state_dict(states[stop])
        epochs = range(states_epoch(states[stop]), EPOCHS)
        assert [plain(batch) for _ in epochs for batch in again][: BATCHES * EPOCHS - stop] == (
            rows[stop:]
        )


def states_epoch(state: dict[str, bytes]) -> int:
    """The first epoch that has something left."""
    saved = rs.loads(state["resumable"])
    return int(saved["epoch"] + (saved["step"] == (saved["epoch"] + 1) * LENGTH))


def test_the_workers_own_state_is_that_of_the_global_order() -> None:
    expected = [loader(Numbers(), num_workers=workers) for workers in (0, 3)]
    for batches in zip(*expected, strict=True):
        assert plain(batches[0]) == plain(batches[1])
        assert expected[0].state_dict() == expected[1].state_dict()


def test_batches_of_the_pipeline_have_their_states_too() -> None:
    source = Numbers()
    stream = rs.from_iterable(source).batch(3)
    batches: Any = ResumableDataLoader(PipelineDataset(stream), None, num_workers=2)
    for number, _ in enumerate(batches):
        state = rs.loads(batches.state_dict()["resumable"])
        assert state["step"] == number + 1
    assert source.reads == 0


def test_what_is_looked_up_by_index_comes_without_a_state() -> None:
    dataset = PipelineDataset(rs.range(LENGTH).shuffle(1).map(row))
    batches: Any = ResumableDataLoader(dataset, 3, num_workers=1, collate_fn=listed)
    assert batches.dataset.marks is None
    assert dataset.for_loader().marks is None


def test_the_loader_keeps_the_function_it_was_given() -> None:
    batches = loader(Numbers(), collate_fn=listed)
    assert all(type(batch) is list for batch in batches)
    assert batches.collate_fn is listed


class Pinned:
    """A batch of a type of one's own, as torch's documentation shows it."""

    pinned = False

    def pin_memory(self) -> Pinned:
        self.pinned = True
        return self


def test_the_batch_is_pinned_and_its_state_is_not() -> None:
    pin: Any = pin_memory
    batch = pin(BatchWithState({"rows": Pinned()}, b"state", ([1], [2])))
    assert type(batch) is BatchWithState
    assert (batch.state, batch.digests) == (b"state", ([1], [2]))
    assert batch.batch["rows"].pinned


def test_a_large_state_comes_with_one_batch_of_many() -> None:
    def grow(seen: np.ndarray[Any, Any], number: int) -> tuple[Any, int]:
        return seen + number, number

    size = 3 * BYTES_A_BATCH
    stream = rs.from_iterable(Numbers()).scan(grow, np.zeros(size, np.uint8))
    marks, found = BatchState(), []
    with iter(stream) as iterator:
        for _ in iterator:
            marks.record(iterator)
            found.append(marks.take()[0] is not None)
            assert marks.take() == (None, None)
    assert [place for place, there in enumerate(found) if there] == [0, 4, 8, 12]
    marks = BatchState()
    with iter(stream) as iterator:
        for _ in range(2):
            next(iterator)
            marks.record(iterator)
    assert marks.take()[0] is None  # the first is not that of the second batch
    batches: Any = ResumableDataLoader(PipelineDataset(stream), 1, num_workers=2, collate_fn=listed)
    running = iter(batches)
    for _ in range(7):
        next(running)
    state = batches.state_dict()
    rest = list(running)
    batches.load_state_dict(state)
    assert list(batches) == rest == [[number] for number in range(7, LENGTH)]


SUM = sum(range(LENGTH))
SUMS: dict[str, Any] = {
    "all are kept": lambda: rs.range(LENGTH).map(RunningSum()),
    # The last item of each epoch is one of them.
    "some are dropped": lambda: (
        rs.range(LENGTH).map(RunningSum()).filter(lambda total: total % SUM)
    ),
}
BATCHED: list[dict[str, Any]] = [
    {"batch_size": None},
    {"batch_size": 3, "drop_last": True, "collate_fn": listed},
]


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("batched", BATCHED, ids=["single", "batches"])
@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_each_epoch_goes_on_with_the_functions_as_they_are_after_the_one_before(
    kind: str, batched: dict[str, Any], workers: dict[str, Any]
) -> None:
    def made(**options: Any) -> ResumableDataLoader[Any]:
        return ResumableDataLoader(PipelineDataset(SUMS[kind]()), **batched, **options)

    epochs = 3
    alone, loaded = made(), made(**workers)
    expected = [batch for _ in range(epochs) for batch in alone]
    states, found = [(0, loaded.state_dict())], list[Any]()
    for _ in range(epochs):
        for batch in loaded:
            found.append(batch)
            states.append((len(found), loaded.state_dict()))
        states.append((len(found), loaded.state_dict()))  # of the next epoch
    assert found == expected
    other = WORKERS[(WORKERS.index(workers) + 2) % len(WORKERS)]
    of_one = len(expected) // epochs
    chosen = [states[of_one // 2], states[of_one], states[of_one + 1], states[of_one + 3]]
    for (cut, state), options in zip(chosen, [workers, other, other, workers], strict=True):
        again = made(**options)
        again.load_state_dict(state)
        assert [batch for _ in range(again.epoch, epochs) for batch in again] == expected[cut:]


@pytest.mark.parametrize("workers", WORKERS[1:], ids=str)
def test_after_a_break_too_the_functions_are_as_without_workers(workers: dict[str, Any]) -> None:
    rests = []
    for options in ({}, workers):
        dataset = PipelineDataset(SUMS["all are kept"]())
        batches: Any = ResumableDataLoader(dataset, None, **options)
        for number, _ in enumerate(batches):
            if number == 4:
                break
        batches.set_epoch(3)
        rests.append(list(batches))
    assert rests[0] == rests[1]
    assert rests[0][0] == sum(range(5))


class Turning(RunningSum):
    """From some sum on, its state cannot be saved."""

    def get_state(self) -> Any:
        return object() if self.total > 20 else super().get_state()


def test_an_epoch_after_functions_of_which_nothing_is_known_is_refused() -> None:
    dataset = PipelineDataset(rs.range(LENGTH).map(Turning()))
    batches: Any = ResumableDataLoader(dataset, None, num_workers=1)
    first = batches.state_dict()
    assert len(list(batches)) == LENGTH  # an epoch alone needs nothing of it
    for refused in (batches.state_dict, lambda: next(iter(batches))):
        with pytest.raises(rs.ExternalStateError, match=r"(?s)epoch 1 would go on.* is not known"):
            refused()
    batches.load_state_dict(first)
    assert len(list(batches)) == LENGTH


class Unencodable:
    """Its state is nothing that can be saved."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(LENGTH))

    def get_state(self) -> Any:
        return object()

    def set_state(self, state: Any) -> None:
        raise AssertionError


def test_what_cannot_be_saved_can_still_be_iterated() -> None:
    batches: Any = ResumableDataLoader(
        PipelineDataset(rs.from_iterable(Unencodable())), 3, num_workers=2, collate_fn=listed
    )
    running = iter(batches)
    assert next(running) == [0, 1, 2]
    with pytest.raises(rs.UnencodableState, match="holds a builtins"):
        batches.state_dict()
    assert len(list(running)) == 4


def shuffled_anew(length: int) -> Any:
    def numbers() -> Iterator[int]:
        return iter(np.random.default_rng().permutation(length).tolist())

    return numbers


@pytest.mark.parametrize("batch_size", [2, 30])
def test_a_source_of_another_order_in_each_worker_is_refused(batch_size: int) -> None:
    for made in (
        rs.from_iterable(shuffled_anew(300)),
        rs.from_iterable(shuffled_anew(300)).map(str).shuffle(1, window=9),
    ):
        batches: Any = ResumableDataLoader(
            PipelineDataset(made), batch_size, num_workers=2, collate_fn=listed
        )
        running = iter(batches)
        next(running)
        with pytest.raises(rs.ExternalStateError, match="another order in each worker"):
            next(running)
    allowed = rs.from_iterable(shuffled_anew(300), external_state_policy="ignore")
    loaded: Any = ResumableDataLoader(PipelineDataset(allowed), batch_size, num_workers=2)
    assert sum(len(batch) for batch in loaded) == 300


def test_each_pass_of_workers_that_live_on_is_compared() -> None:
    once = [True]

    def numbers() -> Iterator[int]:
        first, once[:] = once == [True], [False]
        return iter(range(40)) if first else shuffled_anew(40)()

    batches: Any = ResumableDataLoader(
        PipelineDataset(rs.from_iterable(numbers)), 4, num_workers=3, persistent_workers=True
    )
    assert len(list(batches)) == 10
    with pytest.raises(rs.ExternalStateError, match="another order in each worker"):
        list(batches)


class Drawn:
    """A stream with a state that draws from a global generator, from some item on."""

    def __init__(self, length: int, same: int = 0) -> None:
        self.length, self.same, self.place = length, same, 0

    def __iter__(self) -> Iterator[int]:
        start, self.place = self.place, 0
        for number in range(start, self.length):
            self.place = number + 1
            yield number if number < self.same else int(torch.randint(1 << 30, ()))

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


@pytest.mark.parametrize("same", [0, 64])
def test_a_stateful_source_of_another_order_in_each_worker_is_refused(same: int) -> None:
    def loaded(workers: int, **options: Any) -> Any:
        stream = rs.from_iterable(Drawn(same + 48, same), **options)
        dataset = PipelineDataset(stream)
        return ResumableDataLoader(dataset, 16, num_workers=workers, collate_fn=listed)

    running = iter(loaded(2))
    alike = [number for _ in range(same // 16) for number in next(running)]
    assert alike == [*range(same)]
    with pytest.raises(rs.ExternalStateError, match="another order in each worker"):
        list(running)
    for allowed in (loaded(1), loaded(2, external_state_policy="ignore")):
        assert len(list(allowed)) == 3 + same // 16


def test_an_order_that_begins_to_differ_later_is_refused() -> None:
    def numbers() -> Iterator[int]:
        yield from range(64)
        yield from (int(number) for number in torch.randperm(1 << 10))

    batches: Any = ResumableDataLoader(
        PipelineDataset(rs.from_iterable(numbers)), 16, num_workers=2, collate_fn=listed
    )
    running = iter(batches)
    assert [number for _ in range(4) for number in next(running)] == [*range(64)]
    with pytest.raises(rs.ExternalStateError, match="another order in each worker"):
        list(running)
