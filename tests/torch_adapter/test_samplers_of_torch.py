"""Samplers of torch, and those that Lightning and Fabric put in the place of ours."""

from __future__ import annotations

import json
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import (  # noqa: E402
    ResumableBatchSampler,
    ResumableDataLoader,
    ResumableDistributedSampler,
    ResumableSampler,
)
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import resumable as rs  # noqa: E402

ROWS: Any = torch.arange(100)
LAST: Any = range(50, 100)

WAYS: dict[str, Callable[[Any], Any]] = {
    "sampler": ResumableSampler,
    "batch sampler": lambda inner: ResumableBatchSampler(inner, 8),
    "loader": lambda inner: ResumableDataLoader(ROWS, 8, sampler=inner),
    "batches": lambda inner: ResumableDataLoader(ROWS, batch_sampler=BatchSampler(inner, 8, False)),
    "distributed": lambda inner: ResumableDistributedSampler(inner, 1, 0),
}


def indices(batches: Any) -> list[int]:
    return [int(index) for batch in batches for index in torch.as_tensor(batch).reshape(-1)]


@pytest.mark.parametrize("way", WAYS)
def test_a_sampler_of_torch_keeps_its_indices(way: str) -> None:
    made = WAYS[way](SubsetRandomSampler(LAST))
    first, second = indices(made), indices(made)
    assert first != second
    assert sorted(first) == sorted(second) == list(LAST)
    assert first == [LAST[index] for index in rs.range(50).shuffle(0)]
    assert sorted(indices(WAYS[way](RandomSampler(ROWS)))) == list(range(100))
    assert indices(WAYS[way](RandomSampler(ROWS))) != list(range(100))
    in_order = indices(WAYS[way](SequentialSampler(ROWS)))
    assert (in_order == list(range(100))) == (way != "distributed")  # which shuffles by default


@pytest.mark.parametrize("workers", [0, 2])
def test_other_indices_of_a_subset_are_another_order(workers: int) -> None:
    def make(indices: Any) -> Any:
        sampler = SubsetRandomSampler(indices)
        return ResumableDataLoader(ROWS, 8, sampler=sampler, num_workers=workers, seed=4)

    loader = make(torch.arange(50, 100))
    batches = iter(loader)
    before = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    again = make(list(LAST))
    again.load_state_dict(state)
    order = rs.range(50).shuffle(4)
    assert indices(before) + indices(again) == [LAST[index] for index in order]
    with pytest.raises(rs.StateMismatch, match="indices"):
        make(range(40, 90)).load_state_dict(state)


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_had_of_a_sampler_is_refused_with_what_to_write(way: str) -> None:
    for sampler, advice in (
        (WeightedRandomSampler([1.0] * 100, 10), r"write rs.range\(len\(weights\)\).sample\("),
        (DistributedSampler(ROWS, 2, 1), "write ResumableDistributedSampler"),
        (RandomSampler(ROWS, num_samples=10), r"shuffle\(seed\)\.repeat\(\)\.take\(k\)"),
        (RandomSampler(ROWS, replacement=True), r"with replacement rs\.range\(n\)\.sample"),
        (SubsetRandomSampler(LAST, torch.Generator()), "must have no generator, got .* seed="),
    ):
        with pytest.raises((rs.InvalidType, rs.InvalidArgument), match=advice):
            WAYS[way](sampler)


def test_indices_are_not_taken_for_a_data_set() -> None:
    for wrong in (LAST, [3, 1, 2], (5,)):
        with pytest.raises(rs.InvalidType, match=r"pass rs.from_sequence\(indices\)"):
            ResumableBatchSampler(wrong, 8)
    assert indices(ResumableBatchSampler(range(10), 8)) == list(range(10))
    assert len(ResumableBatchSampler(["a", "b"], 2)) == 1  # a data set
    rows: Any = [30, 10, 20]
    assert indices(ResumableDataLoader(rows, 2)) == rows


def check_fabric(found: list[dict[str, Any]]) -> None:
    """Compare what Fabric has made of the loaders of two ranks."""
    order = list(rs.range(100).shuffle(1))
    for rank, of_rank in enumerate(found):
        assert indices(of_rank["dealt"]) == indices(of_rank["dealt batches"]) == order[rank::2]
        for name in ("batch sampler", "shuffle"):
            assert "Fabric replaced the order" in of_rank[name]
            assert "sampler=ResumableDistributedSampler(dataset, seed=0)" in of_rank[name]


def test_fabric_leaves_the_parts_of_ranks_alone_and_may_not_replace_an_order() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("lightning.fabric", reason="lightning is not installed")
        from lightning.fabric import Fabric
        from torch_adapter.fabric_ranks import set_up

    class OfTwo(Fabric):
        """Believes that there is another rank."""

        def _requires_distributed_sampler(self, dataloader: Any) -> bool:
            return not isinstance(dataloader.sampler, DistributedSampler)

    found = []
    for rank in range(2):
        fabric = OfTwo(accelerator="cpu", devices=1)
        options = {"num_replicas": 2, "rank": rank}
        vars(fabric.strategy)["distributed_sampler_kwargs"] = options
        found.append(set_up(fabric, options))
    check_fabric(found)


@pytest.mark.deep
def test_fabric_does_so_on_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("lightning.fabric", reason="lightning is not installed")
    from torch_adapter.processes import torchrun

    assert torchrun(2, "torch_adapter.fabric_ranks", tmp_path) == 0
    check_fabric([json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)])


def test_lightning_may_not_replace_an_order(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
        from torch_adapter.test_lightning import Module, trainer

        class Predicts(Module):
            def predict_step(self, batch: Any) -> Any:
                return batch

        loader: Any = ResumableDataLoader(torch.ones(20, 3), 3, shuffle=True, seed=1)
        with pytest.raises(
            rs.InvalidArgument, match=r"Lightning replaced .* limit_train_batches=n"
        ):
            trainer(tmp_path, overfit_batches=2).fit(Module(), loader)
        with pytest.raises(rs.InvalidArgument, match=r"Lightning replaced .* a plain DataLoader"):
            trainer(tmp_path).predict(Predicts(), loader)


def test_ignite_may_not_replace_an_order() -> None:
    # As `ignite.engine.deterministic.update_dataloader` does, which is in no environment of the tests.
    ignite = types.ModuleType("ignite.engine.deterministic")
    code = "def update_dataloader(make, sampler):\n    return make(batch_sampler=sampler)"
    exec(code, vars(ignite))
    given = type("ReproducibleBatchSampler", (BatchSampler,), {})(SequentialSampler(ROWS), 2, False)
    with pytest.raises(rs.InvalidArgument, match=r"ignite replaced .* use Engine"):
        ignite.update_dataloader(lambda **options: ResumableDataLoader(ROWS, **options), given)
