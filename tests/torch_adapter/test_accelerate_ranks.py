"""Accelerate on ranks: saved, and loaded on another number of ranks."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from torch_adapter.accelerate_ranks import partitioned, sharded
from torch_adapter.processes import run_ranks

DEALS: dict[str, Any] = {"sharded": sharded, "partitioned": partitioned}


def run(folder: Path, deal: str, ranks: int, steps: int) -> list[dict[str, Any]]:
    """What each rank found."""
    with (folder / "output").open("a+b") as output:
        call = f"train({str(folder)!r}, {deal}, {ranks}, {steps})"
        codes = run_ranks(ranks, "torch_adapter.accelerate_ranks", call, output)
        output.seek(0)
        print(output.read().decode(errors="replace"))
    assert codes == [0] * ranks
    return [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("deal", DEALS)
def test_another_number_of_ranks_goes_on(deal: str, tmp_path: Path) -> None:
    generations = [run(tmp_path, deal, *plan) for plan in ((2, 7), (3, 4), (1, -1))]
    two, three, one = ([found["taken"] for found in ranks] for ranks in generations)
    delivered = [*chain(*zip(*two, strict=True)), *chain(*zip(*three, strict=True)), *one[0]]
    expected = list(DEALS[deal](0, 1))
    if deal == "sharded":
        assert delivered == expected
        return
    # The order of a step is that of the ranks, which need not be that of the turns.
    for begin, end in ((0, 14), (14, 26), (26, len(expected))):
        assert sorted(delivered[begin:end]) == sorted(expected[begin:end])
    for found in generations[0]:
        *of_partitions, of_batches, of_their_iterator = found["refused"]
        assert of_batches == of_their_iterator
        assert all(
            "register_for_checkpointing(JoinedState(loader))" in one for one in of_partitions
        )
        assert "put shard behind that" in of_batches
    assert generations[-1][0]["refused"] == [""] * 6
