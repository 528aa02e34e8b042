"""TRL's `SFTTrainer` on packed documents: killed, and resumed with the losses of a run in one piece."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("trl", reason="trl is not installed")

from torch_adapter.processes import run_ranks  # noqa: E402
from torch_adapter.sft_ranks import STEPS, model, rows  # noqa: E402


def run(folder: Path, ranks: int, until: int) -> list[int]:
    """The exit status of each rank."""
    folder.mkdir(exist_ok=True)
    with (folder / "output").open("a+b") as output:
        call = f"train({str(folder)!r}, {ranks}, {until})"
        codes = run_ranks(ranks, "torch_adapter.sft_ranks", call, output)
        output.seek(0)
        print(output.read().decode(errors="replace"))
    return codes


def losses(folder: Path) -> list[float]:
    """Of each step."""
    found: list[float] = json.loads((folder / "losses-1-0.json").read_text())
    assert len(found) == STEPS
    return found


def test_a_killed_training_has_the_losses_of_one_in_one_piece(tmp_path: Path) -> None:
    whole, same, fewer = (tmp_path / name for name in ("whole", "same", "fewer"))
    assert run(whole, 1, 0) == [0]
    for folder, ranks in ((same, 1), (fewer, 2)):
        assert run(folder, ranks, 5) == [-9] * ranks
        assert run(folder, 1, 0) == [0]
    assert losses(same) == losses(whole)
    assert losses(fewer) == pytest.approx(losses(whole), rel=1e-4)


def test_the_documents_of_a_row_do_not_see_each_other() -> None:
    (row,) = rows(0, 1).take(1)
    llama = model().eval()
    with torch.no_grad():
        batch = {name: row[name][None] for name in ("input_ids", "position_ids")}
        logits = llama(**batch, use_cache=False).logits[0]  # as the trainer calls it
        begins = [*(row["position_ids"] == 0).nonzero()[:, 0].tolist(), len(logits)]
        for begin, end in pairwise(begins):
            alone = llama(row["input_ids"][None, begin:end]).logits[0]
            assert torch.allclose(logits[begin:end], alone, atol=1e-5)
    assert len(begins) > 3
