"""Samplers and batch samplers of users, whose order is drawn again on a resume."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import ResumableDataLoader  # noqa: E402
from torch.utils.data import BatchSampler, Sampler  # noqa: E402

import resumable as rs  # noqa: E402

ROWS: Any = torch.arange(100)
LENGTHS = [index % 7 + 1 for index in range(100)]


class MaxTokens(Sampler[list[int]]):
    """Batches of up to 20 tokens, in another order in each epoch."""

    drawn = 0

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in random.Random(self.seed + self.epoch).sample(range(100), 100):
            if sum(LENGTHS[each] for each in [*batch, index]) > 20:
                self.drawn += 1
                yield batch
                batch = []
            batch.append(index)
        yield batch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": -1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise AssertionError(state)


class Balanced(Sampler[int]):
    """Even and odd indices in turn; with replacement."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        drawing = random.Random(100 * self.seed + self.epoch)
        for number in range(50):
            yield 2 * drawing.randrange(50) + number % 2

    def __len__(self) -> int:
        return 50


class Unseeded(Balanced):
    """Another order whenever it is iterated."""

    def __iter__(self) -> Iterator[int]:
        self.seed += random.randrange(1, 10**9)
        return super().__iter__()


MADE: dict[str, Callable[..., Any]] = {
    "tokens": lambda **options: ResumableDataLoader(ROWS, batch_sampler=MaxTokens(), **options),
    "balanced": lambda **options: ResumableDataLoader(ROWS, 8, sampler=Balanced(), **options),
    "nested": lambda **options: ResumableDataLoader(
        ROWS, batch_sampler=BatchSampler(Balanced(), 8, True), **options
    ),
    "single": lambda **options: ResumableDataLoader(ROWS, None, sampler=Balanced(), **options),
    "list": lambda **options: ResumableDataLoader(
        ROWS, batch_sampler=[[index, index + 50] for index in range(20)], **options
    ),
}


def plain(batches: Any) -> list[list[int]]:
    return [torch.as_tensor(batch).reshape(-1).tolist() for batch in batches]


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("workers", [0, 2])
def test_it_resumes_after_every_batch_of_two_epochs(kind: str, workers: int) -> None:
    whole = MADE[kind]()
    epochs = [plain(whole) for _ in range(3)]
    assert (epochs[0] == epochs[1]) == (kind == "list")
    loader = MADE[kind](num_workers=workers)
    for epoch in range(2):
        for number, batch in enumerate(loader):
            assert plain([batch]) == epochs[epoch][number : number + 1]
            state = loader.state_dict()
            assert len(state["resumable"]) < 250
            if number % (1 + 10 * (workers > 0)) == 0:
                again = MADE[kind]()
                again.load_state_dict(state)
                assert plain(again) == (epochs[epoch][number + 1 :] or epochs[epoch + 1])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_draws_nothing_again(workers: int) -> None:
    sampler = MaxTokens()
    loader: Any = ResumableDataLoader(ROWS, batch_sampler=sampler, num_workers=workers)
    for _ in loader:
        drawn = sampler.drawn
        loader.state_dict()
        loader.state_dict(held=1)
        assert sampler.drawn == drawn


@pytest.mark.parametrize("number", [1, 3, 17])
def test_another_order_is_refused_before_its_first_batch(number: int) -> None:
    make: Any
    for make in (
        lambda seed, **options: ResumableDataLoader(ROWS, batch_sampler=MaxTokens(seed), **options),
        lambda seed, **options: ResumableDataLoader(ROWS, 1, sampler=Unseeded(seed), **options),
    ):
        loader: Any = make(1)
        batches = iter(loader)
        for _ in range(number):
            next(batches)
        again: Any = make(2)
        again.load_state_dict(loader.state_dict())
        with pytest.raises(rs.StateMismatch, match="deliver the same order in every run"):
            next(iter(again))
        again = make(2, external_state_policy="warn")
        again.load_state_dict(loader.state_dict())
        with pytest.warns(RuntimeWarning, match="deliver the same order"):
            next(iter(again))


def test_the_batch_size_of_a_sampler_may_change_on_resume() -> None:
    loader = MADE["balanced"]()
    batches = iter(loader)
    next(batches)
    again: Any = ResumableDataLoader(ROWS, 3, sampler=Balanced(), drop_last=True)
    again.load_state_dict(loader.state_dict())
    assert [index for batch in plain(again) for index in batch] == list(Balanced())[8:]


def test_the_epoch_of_a_sampler_is_that_of_the_loader() -> None:
    sampler = MaxTokens()
    sampler.set_epoch(5)
    loader: Any = ResumableDataLoader(ROWS, batch_sampler=sampler)
    assert loader.epoch == 5
    for epoch in (5, 6):
        sampler.set_epoch(epoch)
        assert plain(loader) == plain(ROWS[batch] for batch in sampler)
    sampler.set_epoch(9)
    with pytest.raises(rs.ExternalStateError, match="call set_epoch of the loader"):
        list(loader)
    loader.set_epoch(9)
    assert len(plain(loader)) > 20
    for number in (12, 3):  # as Lightning does; it never leads back
        loader.sampler.set_epoch(number)
        assert loader.epoch == 12


def test_what_can_be_iterated_once_or_has_no_order_is_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="can be iterated again"):
        ResumableDataLoader(ROWS, batch_sampler=iter([[1]]))
    for wrong in ({1, 2}, 3):
        with pytest.raises(rs.InvalidType):
            ResumableDataLoader(ROWS, sampler=wrong)  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match="seed must be given to the sampler"):
        ResumableDataLoader(ROWS, sampler=Balanced(), seed=1)
