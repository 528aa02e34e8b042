"""A pipeline as the data loader of torchtitan: what its own tests assert of its loaders, and more ranks."""

# torchtitan 0.3.0 tests its loaders in `test_dataloader.py` and `test_dataset_checkpointing.py`. Their scenarios
# are here by what they assert, but two: a state that lacks the rank begins anew there, with a warning, and is refused
# here; another data-parallel degree is refused there, and goes on here.

from __future__ import annotations

import ast
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
torchtitan = pytest.importorskip("torchtitan", reason="torchtitan is not installed")

from resumable_torch.torchtitan import PipelineDataLoader  # noqa: E402
from torch.distributed.checkpoint.stateful import Stateful  # noqa: E402
from torch_adapter.processes import gloo  # noqa: E402
from torch_adapter.titan import BOS, EOS, Characters, TextLoader  # noqa: E402
from torchtitan.components.dataloader import (  # noqa: E402
    BaseDataLoader,
    DataloaderExhaustedError,
)

import resumable as rs  # noqa: E402

SEQ_LEN = 64
MODULE = "torch_adapter.titan"


class Numbers(PipelineDataLoader):
    """Numbers, each with itself as its label."""

    @dataclass(kw_only=True, slots=True)
    class Config(PipelineDataLoader.Config):
        """Nothing more."""

    def build_pipeline(
        self, config: Config, *, dp_rank: int, dp_world_size: int, local_batch_size: int, **_: Any
    ) -> Any:
        pairs = rs.range(100).map(lambda number: ({"input": number}, number))
        return DEALS[config.dataset or "batches"](
            pairs.batch(local_batch_size), dp_rank, dp_world_size
        )


DEALS: dict[str, Callable[[rs.Pipeline[Any], int, int], Any]] = {
    "batches": lambda batches, rank, ranks: batches.shard(rank, ranks),
    "own": lambda batches, rank, ranks: batches.shard(rank, ranks).filter(lambda batch: True),
    "undealt": lambda batches, rank, ranks: batches,
    "another rank": lambda batches, rank, ranks: batches.shard(0, ranks),
    "more ranks": lambda batches, rank, ranks: batches.shard(rank, ranks + 1),
    "no pipeline": lambda batches, rank, ranks: None,
}


def numbers(rank: int = 0, ranks: int = 1, size: int = 4, deal: str = "", **options: Any) -> Any:
    config = Numbers.Config(dataset=deal, **options)
    return config.build(
        dp_world_size=ranks, dp_rank=rank, tokenizer=None, seq_len=1, local_batch_size=size
    )


def labels_of(batches: Any) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files of documents of different lengths, some longer than a row."""
    folder, rng = tmp_path_factory.mktemp("documents"), random.Random(0)
    paths = [folder / f"{name}.txt" for name in ("first", "second")]
    for path in paths:
        lines = [f"{path.stem} {number} " * rng.choice([1, 2, 3, 20]) for number in range(120)]
        path.write_text("\n".join(lines) + "\n")
    return list(map(str, paths))


def texts(sources: list[str], rank: int = 0, ranks: int = 1, size: int = 2, **options: Any) -> Any:
    weights = dict(zip(sources, (1.0, 2.0), strict=False))
    return TextLoader.Config(sources=weights, **options).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=Characters(),
        seq_len=SEQ_LEN,
        local_batch_size=size,
        snapshot_every_n_steps=10,
    )


def assert_alike(one: Any, other: Any) -> None:
    for (inputs, labels), (expected, expected_labels) in zip(one, other, strict=True):
        assert inputs.keys() == expected.keys()
        assert all(torch.equal(inputs[name], expected[name]) for name in inputs)
        assert torch.equal(labels, expected_labels)


def test_it_is_a_loader_of_torchtitan_and_is_built_by_its_configuration() -> None:
    loader = numbers(size=8, num_workers=2, prefetch_factor=3, persistent_workers=True)
    assert all(isinstance(loader, kind) for kind in (BaseDataLoader, Stateful))
    assert (loader.batch_size, loader.num_workers, loader.loader.prefetch_factor) == (8, 2, 3)
    assert (loader.dp_rank, loader.dp_world_size) == (0, 1)
    assert numbers(prefetch_factor=3, persistent_workers=True).num_workers == 0
    assert Numbers.Config(num_workers=3).to_dict()["num_workers"] == 3
    with pytest.raises(TypeError, match="invalid_arg"):
        Numbers.Config().build(
            dp_world_size=1, dp_rank=0, seq_len=1, local_batch_size=4, invalid_arg=42
        )


@pytest.mark.parametrize("workers", [0, 2])
def test_it_yields_correct_batches(workers: int) -> None:
    batches = list(numbers(num_workers=workers))
    assert len(batches) == 25
    assert all(isinstance(batch, tuple) for batch in batches)
    for number, (inputs, labels) in enumerate(batches):
        expected = list(range(4 * number, 4 * number + 4))
        assert inputs["input"].tolist() == expected
        assert labels.tolist() == expected


def test_a_state_that_lacks_this_rank_is_refused_where_theirs_begins_anew() -> None:
    loader = numbers(deal="own")
    for state in ({"dp_rank_1": b"", "world_size": 1}, {}, {"rank/00001-of-00002": rs.dumps({})}):
        with pytest.raises(rs.StateMismatch):
            loader.load_state_dict(state)
    assert len(list(loader)) == 25


@pytest.mark.parametrize("deal", ["undealt", "another rank", "more ranks", "no pipeline"])
def test_a_pipeline_that_is_not_dealt_to_the_ranks_is_refused(deal: str) -> None:
    error, words = (
        (rs.InvalidType, "build_pipeline must return a pipeline, got None")
        if deal == "no pipeline"
        else (rs.InvalidArgument, "must be dealt to rank 1 of 3 data-parallel ranks, .* got one of")
    )
    with pytest.raises(error, match=words):
        numbers(1, 3, deal=deal)
    if deal == "undealt":
        assert len(list(numbers(deal=deal))) == 25


@pytest.mark.parametrize("several", [False, True])
def test_positions_are_those_within_the_documents_of_a_row(several: bool, files: list[str]) -> None:
    for inputs, labels in islice(texts(files[: 1 + several]), 40):
        assert inputs.keys() == {"input", "positions"}
        assert inputs["input"].shape == inputs["positions"].shape == labels.shape == (2, SEQ_LEN)
        assert torch.equal(inputs["input"][:, 1:], labels[:, :-1])
        for tokens, positions in zip(inputs["input"], inputs["positions"], strict=True):
            assert positions[0] == 0
            for place in range(1, SEQ_LEN):
                begins = tokens[place] == BOS or tokens[place - 1] == EOS
                assert positions[place] == (0 if begins else positions[place - 1] + 1)


# Theirs are map-style, streaming and interleaved.
@pytest.mark.parametrize(
    ("kind", "world_size"),
    [("partitions", 2), ("partitions", 4), ("stream", 2), ("several", 4), ("workers", 2)],
)
def test_a_loader_that_is_resumed_goes_on_past_the_end_of_an_epoch(
    kind: str, world_size: int, files: list[str]
) -> None:
    def made(rank: int, **options: Any) -> Any:
        sources = files if kind == "several" else files[:1]
        return texts(sources, rank, world_size, partitioned=kind != "stream", **options)

    workers = 2 * (kind == "workers")
    for rank in {0, world_size - 1}:
        epoch = sum(1 for _ in made(rank, infinite=False))
        loader = made(rank, num_workers=workers)
        batches = iter(loader)
        assert len(list(islice(batches, epoch + 5))) == epoch + 5
        resumed = made(rank, num_workers=workers)
        resumed.load_state_dict(loader.state_dict())
        assert_alike(islice(resumed, 20), islice(batches, 20))
        del batches, loader  # which ends the workers


def test_the_order_of_another_epoch_is_another_one(files: list[str]) -> None:
    once = texts(files[:1], infinite=False, size=1)
    length = len(list(once))
    twice = [labels.tolist() for _, labels in islice(texts(files[:1], size=1), 2 * length)]
    assert twice[:length] != twice[length:]


@pytest.mark.parametrize("kind", ["partitions", "stream", "several"])
def test_another_data_parallel_degree_goes_on_in_the_same_order(
    kind: str, files: list[str]
) -> None:
    sources = files if kind == "several" else files[:1]

    def ranks_of(ranks: int) -> list[Any]:
        size = 12 // ranks
        partitioned = kind != "stream"
        return [texts(sources, rank, ranks, size, partitioned=partitioned) for rank in range(ranks)]

    expected = islice(texts(sources, size=12, partitioned=kind != "stream"), 12)
    rows = [sorted(labels.tolist()) for _, labels in expected]
    found: list[Any] = []
    saved: dict[str, bytes] = {}
    for ranks in (2, 3, 1):
        loaders = ranks_of(ranks)
        if saved:
            for loader in loaders:
                loader.load_state_dict({key: saved[key] for key in loader.state_dict()})
        steps = zip(*map(iter, loaders), strict=True)
        found += [
            sorted(row for _, labels in step for row in labels.tolist())
            for step in islice(steps, 4)
        ]
        saved = {key: value for loader in loaders for key, value in loader.state_dict().items()}
    assert found == rows


def test_a_state_of_this_rank_alone_is_refused_to_another_degree() -> None:
    first = numbers(0, 2, deal="own")
    next(iter(first))
    again = numbers(0, 2, deal="own")
    again.load_state_dict(first.state_dict())
    assert labels_of(again)[0] == [8, 9, 10, 11]
    with pytest.raises(rs.StateMismatch, match="needs rank/00000-of-00003"):
        numbers(0, 3, deal="own").load_state_dict(first.state_dict())


def batch_generator() -> Any:
    """That of torchtitan's trainer, by its source: its module imports Triton, which not every machine has."""
    (folder,) = torchtitan.__path__
    tree = ast.parse((Path(folder) / "trainer.py").read_text(encoding="utf-8"))
    (trainer,) = (node for node in tree.body if getattr(node, "name", "") == "Trainer")
    assert isinstance(trainer, ast.ClassDef)
    (found,) = (node for node in trainer.body if getattr(node, "name", "") == "batch_generator")
    names: dict[str, Any] = {
        "Iterable": Iterator,
        "Iterator": Iterator,
        "DataloaderExhaustedError": DataloaderExhaustedError,
        "time": time,
        "torch": torch,
    }
    exec(compile(ast.Module([found], []), "trainer.py", "exec"), names)
    metrics = SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
    return partial(names["batch_generator"], SimpleNamespace(metrics_processor=metrics))


def test_torchtitans_trainer_is_told_that_the_data_are_exhausted() -> None:
    loader = numbers(size=40)
    batches = batch_generator()(loader)
    assert [len(labels) for _, labels in islice(batches, 3)] == [40, 40, 20]
    with pytest.raises(DataloaderExhaustedError):
        next(batches)


def losses(folder: Path) -> dict[int, list[float]]:
    """The losses of each step, those of its last time."""
    lines = [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()]
    found: dict[int, list[float]] = {}
    for line in lines:
        found.setdefault(line["step"], []).append(line["loss"])
    return found


def train(folder: Path, ranks: int, steps: int, async_mode: str = "disabled") -> None:
    folder.mkdir(exist_ok=True)
    code = f"import {MODULE} as program; program.train(200, {steps}, {async_mode!r})"
    gloo(ranks, code, folder, preloaded=(MODULE, "torch._dynamo"))


def test_torchtitans_checkpoints_go_on_on_as_many_ranks_and_on_others(tmp_path: Path) -> None:
    train(tmp_path / "whole", 2, 10)
    by_rank = losses(tmp_path / "whole")
    assert [len(set(of_ranks)) for of_ranks in by_rank.values()] == [1] * 10
    expected = {step: of_ranks[0] for step, of_ranks in by_rank.items()}

    train(tmp_path / "half", 2, 5)
    shutil.copytree(tmp_path / "half", tmp_path / "others")
    train(tmp_path / "half", 2, 10, "async")
    assert losses(tmp_path / "half") == by_rank

    others = tmp_path / "others"
    train(others, 3, 8)
    train(others, 1, 10)
    found = losses(others)
    assert [len(found[step]) for step in range(1, 11)] == [2] * 5 + [3] * 3 + [1] * 2
    for step, of_ranks in found.items():
        assert of_ranks == pytest.approx([expected[step]] * len(of_ranks), rel=1e-4)
