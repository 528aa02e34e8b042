"""The loops of the README and of the page on PyTorch that the tests of the pages do not run."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import ResumableDataLoader  # noqa: E402
from support.pages import DOCS, ROOT, blocks  # noqa: E402

import resumable as rs  # noqa: E402

PAGE = DOCS / "frameworks" / "pytorch.md"


def _check_ranks(recipe: str, names: dict[str, Any]) -> None:
    """It goes on behind the save of step 2, after a failure in step 4."""
    seen: list[Any] = []

    def failing(batch: Any) -> None:
        if len(seen) == 3:
            raise ZeroDivisionError
        seen.append(batch.tolist())

    with pytest.raises(ZeroDivisionError):
        exec(recipe, names | {"train": failing})
    del seen[2:]
    exec(recipe, names | {"train": lambda batch: seen.append(batch.tolist())})
    assert [len(batch) for batch in seen] == [64, 64, 64, 8]
    assert sorted(itertools.chain(*seen)) == list(range(200))


def test_a_pipeline_without_a_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/0.jsonl").write_text("".join(f"{number}\n" for number in range(200)))
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    names = {
        "epochs": 1,
        "model": torch.nn.Linear(1, 1),
        "os": os,
        "parse": int,
        "rs": rs,
        "torch": torch,
    }
    (ranks,) = (
        block.text for block in blocks(PAGE) if block.info == "py" and "get_rank" in block.text
    )
    try:
        _check_ranks(ranks.replace("100", "2"), names)
    finally:
        torch.distributed.destroy_process_group()


def test_the_loop_of_the_readme_resumes_with_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (loop,) = (
        block.text
        for block in blocks(ROOT / "README.md")
        if block.info == "py" and block.text.startswith("loader = ResumableDataLoader(")
    )
    rows: list[int] = []

    def run(fail_at: int | None = None) -> float:
        model = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(model.weight)

        def train(model: Any, optimizer: Any, inputs: Any, targets: Any) -> None:
            if len(rows) == fail_at:
                raise ZeroDivisionError
            rows.extend(inputs.tolist())
            model.weight.data += inputs.sum()

        names = {
            "ResumableDataLoader": ResumableDataLoader,
            "dataset": torch.utils.data.TensorDataset(torch.arange(640), torch.arange(640)),
            "model": model,
            "optimizer": torch.optim.Adam(model.parameters()),
            "os": os,
            "torch": torch,
            "train": train,
        }
        exec(loop.replace("num_workers=2", "num_workers=0").replace("100", "5"), names)
        weight: float = model.weight.item()
        return weight

    with pytest.raises(ZeroDivisionError):
        run(fail_at=64 * 18)  # in the second epoch, two steps after a save
    del rows[64 * 16 :]
    assert run() == 3 * sum(range(640))
    epochs = [sorted(rows[start : start + 640]) for start in (0, 640, 1280)]
    assert epochs == 3 * [[*range(640)]]
