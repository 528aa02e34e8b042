"""Another data set of the same length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import (  # noqa: E402
    ResumableBatchSampler,
    ResumableDataLoader,
    ResumableDistributedSampler,
)
from torch.utils.data import ConcatDataset, Subset, random_split  # noqa: E402

import resumable as rs  # noqa: E402

ROWS: Any = torch.arange(100)


def split(seed: int) -> Any:
    return random_split(ROWS, [50, 50], torch.Generator().manual_seed(seed))[0]


def hugging_face(number: int) -> Any:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.Dataset.from_dict({"row": list(range(100))})
    return rows.select(range(number, number + 50)).with_format("torch")


DATA: dict[str, Callable[[int], Any]] = {
    "split": split,
    "subset of a subset": lambda number: Subset(split(number), list(range(50))),
    "subset of a tensor": lambda number: Subset(ROWS, torch.arange(number, number + 50)),
    "concatenated": lambda number: ConcatDataset([ROWS, split(number)]),
    "Hugging Face": hugging_face,
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("workers", [0, 2])
def test_other_rows_of_the_same_number_are_refused(kind: str, workers: int) -> None:
    def make(number: int, batch_size: int = 8) -> Any:
        return ResumableDataLoader(
            DATA[kind](number), batch_size, shuffle=True, num_workers=workers
        )

    loader = make(1)
    next(iter(loader))
    state = loader.state_dict()
    assert len(state["resumable"]) < 220
    again = make(1, batch_size=5)
    again.load_state_dict(state)
    assert len(list(again)) == len(DATA[kind](1)) // 5 - 1
    with pytest.raises(rs.StateMismatch, match=r"pass identity= .* has other content"):
        make(2).load_state_dict(state)
    free: Any = ResumableDataLoader(DATA[kind](2), 8, shuffle=True, identity="as before")
    free.load_state_dict(state)  # the user says so


def test_the_samplers_know_the_rows_too() -> None:
    for make in (
        lambda rows: ResumableBatchSampler(rows, 8),
        lambda rows: ResumableDistributedSampler(rows, 2, 1),
    ):
        sampler: Any = make(split(1))
        next(iter(sampler))
        with pytest.raises(rs.StateMismatch, match="other content"):
            make(split(2)).load_state_dict(sampler.state_dict())


def test_an_identity_is_compared_where_both_sides_have_one() -> None:
    def make(identity: Any = None) -> Any:
        return ResumableDataLoader(ROWS, 8, identity=identity)

    old, named = make(), make("v1")
    assert len(named.state_dict()["resumable"]) < 200
    for loader, state in (
        (old, named.state_dict()),
        (named, old.state_dict()),
        (named, make("v1").state_dict()),
    ):
        loader.load_state_dict(state)
    for other in ("v2", 1):
        with pytest.raises(rs.StateMismatch, match=f"with identity={other!r} has other content"):
            make(other).load_state_dict(named.state_dict())
    with pytest.raises(rs.InvalidType, match="identity must be a string or an integer"):
        make(1.5)
    for options in ({"sampler": rs.range(9)}, {"batch_sampler": ResumableBatchSampler(9, 3)}):
        with pytest.raises(rs.InvalidArgument, match="identity must not be given with"):
            ResumableDataLoader(ROWS, identity="v1", **options)


def test_a_data_set_that_has_grown_is_pointed_to_by_epoch() -> None:
    state = ResumableDataLoader([1.0] * 5, 2).state_dict()
    with pytest.raises(
        rs.StateMismatch, match=r"saved stop=5, .* by_epoch\(\{0: before, n: now\}\)"
    ):
        ResumableDataLoader([1.0] * 7, 2).load_state_dict(state)
    stages = rs.from_sequence([1.0] * 5), rs.from_sequence([1.0] * 7)
    with pytest.raises(rs.StateMismatch, match=r"did the data set grow .* by_epoch"):
        stages[1].resume(iter(stages[0]).get_state())
