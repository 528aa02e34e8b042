"""The `Trainer` of transformers on ranks: killed, and resumed with another number of ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from torch_adapter.processes import run_ranks  # noqa: E402
from torch_adapter.trainer_ranks import PARTITIONS, PIPELINES  # noqa: E402

KILLED = -9


class Generation(NamedTuple):
    """So many ranks, with batches of one size, and so many of them in an optimizer step."""

    ranks: int
    batch_size: int
    accumulation: int
    until: int

    @property
    def items(self) -> int:
        """Those of an optimizer step."""
        return self.ranks * self.batch_size * self.accumulation


def run(folder: Path, kind: str, generation: Generation, steps: int = 0) -> list[int]:
    """The exit status of each rank of a generation."""
    arguments = (str(folder), kind, *generation[:3], steps, generation.until)
    with (folder / "output").open("a+b") as output:
        codes = run_ranks(
            generation.ranks, "torch_adapter.trainer_ranks", f"train{arguments}", output
        )
        output.seek(0)
        print(output.read().decode(errors="replace"))
    return codes


def steps_of(folder: Path, generations: list[Generation]) -> dict[int, dict[str, Any]]:
    """The items of all ranks and the epoch, by optimizer step; the last attempt at each of them."""
    steps: dict[int, dict[str, Any]] = {}
    for generation in generations:
        found: dict[int, dict[str, Any]] = {}
        for log in folder.glob(f"log-{generation.ranks}-*.jsonl"):
            for line in map(json.loads, log.read_text().splitlines()):
                step = found.setdefault(line["step"], {"items": [], "epoch": line["epoch"]})
                step["items"] += line["items"]
                assert step["epoch"] == line["epoch"]
        steps |= found
    assert sorted(steps) == list(range(1, len(steps) + 1))
    return steps


def in_order(kind: str) -> Iterator[int]:
    """What one rank delivers in a run in one piece."""
    for epoch in count():
        yield from PIPELINES[kind](0, 1).start(epoch)


def check_items(steps: dict[int, dict[str, Any]], kind: str, sizes: list[int]) -> None:
    """Each optimizer step has the items that it has in a run in one piece."""
    expected = in_order(kind)
    for step, size in enumerate(sizes, start=1):
        assert sorted(steps[step]["items"]) == sorted(islice(expected, size)), f"step {step}"
    assert len(steps) == len(sizes)


def ended(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ended-0.json").read_text())
    return found


@pytest.mark.parametrize("kind", ["sharded", "owned"])
def test_epochs_go_on_with_other_ranks_after_kills(kind: str, tmp_path: Path) -> None:
    # An epoch has four steps. So one resume is at its end, and one within it.
    generations = [Generation(2, 6, 1, 5), Generation(3, 2, 2, 7), Generation(1, 12, 1, 0)]
    *killed, last = generations
    for generation in killed:
        assert run(tmp_path, kind, generation) == [KILLED] * generation.ranks
    assert run(tmp_path, kind, last) == [0]
    steps = steps_of(tmp_path, generations)
    check_items(steps, kind, [12] * 12)
    assert [step["epoch"] for _, step in sorted(steps.items())] == [n / 4 for n in range(1, 13)]
    (tmp_path / "whole").mkdir()
    assert run(tmp_path / "whole", kind, last) == [0]
    assert ended(tmp_path)["steps"] == ended(tmp_path / "whole")["steps"] == 12
    for ours, whole in zip(
        ended(tmp_path)["weights"], ended(tmp_path / "whole")["weights"], strict=True
    ):
        assert ours == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("kind", ["repeated", "endless"])
def test_steps_go_on_with_other_ranks_and_batches(kind: str, tmp_path: Path) -> None:
    generations = [Generation(2, 6, 1, 5), Generation(3, 2, 2, 7), Generation(1, 5, 1, 0)]
    assert all(PARTITIONS % generation.ranks == 0 for generation in generations)
    *killed, last = generations
    for generation in killed:
        assert run(tmp_path, kind, generation, 12) == [KILLED] * generation.ranks
    assert run(tmp_path, kind, last, 12) == [0]
    check_items(steps_of(tmp_path, generations), kind, [12] * 6 + [5] * 6)
    assert ended(tmp_path)["steps"] == 12
