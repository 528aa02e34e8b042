"""The `Trainer` of transformers, stopped in mid-epoch and resumed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from resumable_torch.transformers import ResumeInput  # noqa: E402
from torch_adapter.data import Rows, row  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.checkpoint.tracing import traced_step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCHS = 2
LENGTH = 16


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[Any] = []

    def forward(self, rows: Any) -> Any:
        self.seen.append(rows[:, 0].tolist())
        return {"loss": self.layer(rows.float() / 1000).sum()}


def collate(rows: list[Any]) -> dict[str, Any]:
    return {"rows": torch.stack(rows)}


def trainer(folder: Path, batches: Any, **options: Any) -> Any:
    class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            return batches

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        save_strategy="steps",
        save_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        **{"ignore_data_skip": True, **options},
    )
    return Trainer(Model(), arguments, callbacks=[ResumeInput(batches)])


def loader(workers: int = 0) -> Any:
    return ResumableDataLoader(
        Rows(LENGTH), 4, shuffle=True, seed=1, num_workers=workers, collate_fn=collate
    )


@pytest.mark.parametrize("accumulation", [1, 2])
def test_training_resumes_after_every_step(accumulation: int, tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": accumulation}
    whole = trainer(tmp_path, loader(), **options)
    whole.train()
    assert len(whole.model.seen) == EPOCHS * LENGTH // 4
    for step in range(1, len(whole.model.seen) // accumulation):
        folder = tmp_path / f"checkpoint-{step}"
        assert rs.Directory(folder).steps() == [step]
        resumed = trainer(tmp_path, loader(workers=2), **options)
        resumed.train(resume_from_checkpoint=str(folder))
        assert resumed.model.seen == whole.model.seen[step * accumulation :]
        for name, value in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], value)


@pytest.mark.filterwarnings("default")
def test_a_training_that_has_ended_says_so(tmp_path: Path) -> None:
    trainer(tmp_path, loader()).train()
    last = str(tmp_path / "checkpoint-8")
    again = trainer(tmp_path, loader())
    with pytest.warns(
        RuntimeWarning, match="end at step 8, .* raise num_train_epochs or max_steps"
    ):
        again.train(resume_from_checkpoint=last)
    assert again.model.seen == []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "this run had come to its end")
        further = trainer(tmp_path, loader(), max_steps=9)
        further.train(resume_from_checkpoint=last)
    assert len(further.model.seen) == 1


def test_what_would_not_be_exact_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, loader(), max_steps=2).train()
    last = str(tmp_path / "checkpoint-2")
    with pytest.raises(rs.InvalidArgument, match=r"ignore_data_skip must be True"):
        trainer(tmp_path, loader(), ignore_data_skip=False).train(resume_from_checkpoint=last)
    with pytest.raises(rs.InvalidArgument, match=r"a multiple of gradient_accumulation_steps=3"):
        trainer(tmp_path, loader(), gradient_accumulation_steps=3).train(
            resume_from_checkpoint=last
        )
    for file in Path(last).glob("input-*"):
        file.unlink()
    with pytest.raises(rs.NoValidCheckpoint, match=r"no state of the input of step 2"):
        trainer(tmp_path, loader()).train(resume_from_checkpoint=last)


def test_the_global_step_is_the_one_at_which_origins_are_found(tmp_path: Path) -> None:
    numbers = rs.range(LENGTH).shuffle(1)
    rows: Any = PipelineDataset(numbers.map(row))
    training = trainer(tmp_path, ResumableDataLoader(rows, 4, num_workers=0, collate_fn=collate))
    training.train()
    assert training.state.global_step == len(training.model.seen)
    batches = numbers.map(row).batch(4).repeat(EPOCHS)
    for step, seen in enumerate(training.model.seen, 1):
        (found,) = traced_step(rs.Memory(), batches.stage, step)
        assert [one.record for one in found.origin.records()] == seen
