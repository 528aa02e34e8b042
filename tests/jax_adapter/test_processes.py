"""A training of two processes goes on from every one of its steps, with two, one and four processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jax_adapter.processes import run

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

from jax_adapter.runs import GLOBAL_BATCH, KINDS, pipeline

TRAINED_BY, DEVICES = 2, 2


class Trained(NamedTuple):
    """A training that has ended.

    Attributes:
      folder: with the checkpoints.
      by_process: what each process wrote down, by kind.
    """

    folder: Path
    by_process: dict[str, list[Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    run("jax_adapter.runs", "train", folder, processes=TRAINED_BY, devices=DEVICES)
    return Trained(folder, {kind: written(folder, kind, TRAINED_BY) for kind in KINDS})


def written(folder: Path, kind: str, processes: int) -> list[Any]:
    """What each process wrote down."""
    return [
        json.loads((folder / f"{kind}-{number}.json").read_text()) for number in range(processes)
    ]


def dealt(by_process: Sequence[Sequence[Any]]) -> list[Any]:
    """What was dealt out to processes, in the order of all."""
    rounds = zip_longest(*by_process)
    return [one for each in rounds for one in each if one is not None]


def batches(steps_of_processes: Sequence[Sequence[list[int]]]) -> list[list[int]]:
    """The batches of all processes, in any order."""
    return sorted(batch for steps in steps_of_processes for batch in steps if batch)


@pytest.mark.parametrize(("processes", "devices"), [(2, 2), (1, 1), (1, 4), (4, 1)])
def test_every_step_goes_on_exactly(
    trained: Trained, processes: int, devices: int, tmp_path: Path
) -> None:
    same = (processes, devices) == (TRAINED_BY, DEVICES)
    again = ["again"] if same else []
    run(
        "jax_adapter.runs",
        "restore",
        trained.folder,
        tmp_path,
        *again,
        processes=processes,
        devices=devices,
    )
    for kind in KINDS:
        before = trained.by_process[kind]
        found = written(tmp_path, kind, processes)
        steps = len(before[0]["seen"])
        assert [*map(int, found[0])] == [*range(1, steps + 1)]
        for step in range(1, steps + 1):
            seen = [one["seen"][:step] for one in before]
            rest = [one[str(step)]["rest"] for one in found]
            check_items(kind, seen, rest)
            for number, one in enumerate(found):
                weights = before[number % TRAINED_BY]["weights"]
                assert one[str(step)]["loaded"] == weights[step]
                if same:
                    assert rest[number] == before[number]["seen"][step:]
                    assert one[str(step)]["ended"] == weights[-1]


def check_items(kind: str, seen: list[list[list[int]]], rest: list[list[list[int]]]) -> None:
    """Each item of three epochs once; those of shards in the order of all, too."""
    alone = [batch.records.tolist() for batch in pipeline(kind, 0, 1)]
    if kind != "partition":
        first = dealt([[*chain(*steps)] for steps in seen])
        assert len(first) == GLOBAL_BATCH * len(seen[0])
        assert first + dealt([[*chain(*steps)] for steps in rest]) == [*chain(*alone)]
    else:
        assert batches([*seen, *rest]) == batches([alone])


def test_an_input_is_saved_once_or_by_each_process(trained: Trained) -> None:
    for kind, files in (("shard", 1), ("ahead", 1), ("partition", TRAINED_BY)):
        for step in trained.folder.glob(f"{kind}/[0-9]*"):
            assert len([*(step / "input").glob("input-*.ckpt")]) == files


def test_each_process_may_have_a_storage_of_its_own(tmp_path: Path) -> None:
    run("jax_adapter.local_storage", tmp_path, processes=2)
    for number in range(2):
        found = json.loads((tmp_path / str(number) / "found.json").read_text())
        for kind in ("shard", "partition"):
            assert found[kind]["rest"]
            assert found[kind]["v1"] == found[kind]["v0"] == found[kind]["rest"]


def test_nothing_is_committed_before_all_processes_have_written(tmp_path: Path) -> None:
    run("jax_adapter.late_writer", tmp_path, processes=2)
    for number in range(2):
        assert json.loads((tmp_path / f"{number}.json").read_text()) == []
    for folder in ("v1/input", "v1/other", "v0/input"):
        assert len([*(tmp_path / folder).glob("input-*.ckpt")]) == 2
