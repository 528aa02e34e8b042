"""The `Trainer` of transformers, stopped in mid-epoch and resumed."""

from __future__ import annotations

import json
import warnings
from itertools import product
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
        save_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        **{
            "num_train_epochs": EPOCHS,
            "save_strategy": "steps",
            "ignore_data_skip": True,
            **options,
        },
    )
    return Trainer(Model(), arguments, callbacks=[ResumeInput(batches)])


def over(data: Any, batch_size: int, **options: Any) -> Any:
    return ResumableDataLoader(data, batch_size, collate_fn=collate, **options)


def loader(workers: int = 0) -> Any:
    return over(Rows(LENGTH), 4, shuffle=True, seed=1, num_workers=workers)


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


STREAMS = {
    "filtered": rs.range(20).filter(lambda number: number % 2).map(row),
    "partitions": rs.range(20).partition(2, lambda part: part.filter(lambda n: n % 3).map(row)),
    "endless": rs.range(20).shuffle(1).map(row).repeat(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_loader_without_length_goes_on_in_its_epoch(name: str, tmp_path: Path) -> None:
    def training() -> Any:
        return trainer(tmp_path, over(PipelineDataset(STREAMS[name]), 4), max_steps=9)

    whole = training()
    whole.train()
    epochs = {step: epoch_saved(tmp_path / f"checkpoint-{step}") for step in range(1, 10)}
    for step in range(1, 9):  # step 3 or 4 is the last one of an epoch
        resumed = training()
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert resumed.model.seen == whole.model.seen[step:]
        assert epoch_saved(tmp_path / "checkpoint-9") == pytest.approx(epochs[9])


def epoch_saved(folder: Path) -> float:
    """What the trainer calls its epoch."""
    return float(json.loads((folder / "trainer_state.json").read_text())["epoch"])


def test_the_epoch_of_a_resumed_training_is_that_of_one_in_one_piece(tmp_path: Path) -> None:
    trainer(tmp_path, loader(), max_steps=2).train()
    for step in (2, 3, 5):
        again = trainer(tmp_path, loader(), max_steps=step + 2)
        again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert epoch_saved(tmp_path / f"checkpoint-{step + 1}") == (step + 1) / 4
        assert again.state.epoch == (step + 2) / 4


def test_other_batches_than_the_trainer_counts_on_are_refused(tmp_path: Path) -> None:
    trainer(tmp_path, loader()).train()
    for step, batch_size in product((2, 4, 5, 6, 7), (2, 8)):
        again = trainer(tmp_path, over(Rows(LENGTH), batch_size, shuffle=True, seed=1))
        with pytest.raises(rs.InvalidArgument, match=r"let ranks \* per_device_train_batch_size"):
            again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert again.model.seen == []
    halves = over(Rows(LENGTH), 2, shuffle=True, seed=1)
    again = trainer(tmp_path, halves, gradient_accumulation_steps=2)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert len(again.model.seen) == 2 * 3


def test_a_checkpoint_of_0_2_after_a_resume_is_taken(tmp_path: Path) -> None:
    whole = trainer(tmp_path, loader())
    whole.train()
    state = tmp_path / "checkpoint-3" / "trainer_state.json"
    # It counted the batches since the resume.
    state.write_text(json.dumps({**json.loads(state.read_text()), "epoch": 0.25}))
    again = trainer(tmp_path, loader())
    again.train(resume_from_checkpoint=str(state.parent))
    assert again.model.seen == whole.model.seen[3:]


def test_what_ranks_cannot_share_is_refused_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = trainer(tmp_path, loader())
    training.add_callback(ResumeInput(loader()))
    with pytest.raises(rs.InvalidArgument, match="loader must be what get_train_dataloader"):
        training.train()
    filtered = rs.range(LENGTH).shard(0, 2).filter(bool).map(row)
    with pytest.raises(rs.ExternalStateError, match="the trainer keeps the state of rank 0 alone"):
        trainer(tmp_path, over(PipelineDataset(filtered), 4), max_steps=2).train()
    monkeypatch.setattr("resumable_torch.transformers.of_all_ranks", lambda value: [value, 5])
    with pytest.raises(
        rs.InvalidArgument, match=r"same number of batches in an epoch, got \[4, 5\]"
    ):
        trainer(tmp_path, loader()).train()


@pytest.mark.filterwarnings("default")
def test_a_rank_without_random_state_is_told(tmp_path: Path) -> None:
    trainer(tmp_path, loader()).train()
    last = tmp_path / "checkpoint-2"
    (last / "rng_state.pth").rename(last / "rng_state_0.pth")
    with pytest.warns(
        RuntimeWarning, match="no random state of rank 0 of 1, so what the model draws"
    ):
        trainer(tmp_path, loader()).train(resume_from_checkpoint=str(last))


def test_the_global_step_is_the_one_at_which_origins_are_found(tmp_path: Path) -> None:
    numbers = rs.range(LENGTH).shuffle(1)
    rows: Any = PipelineDataset(numbers.map(row))
    training = trainer(tmp_path, ResumableDataLoader(rows, 4, num_workers=0, collate_fn=collate))
    training.train()
    assert training.state.global_step == len(training.model.seen)
    batches = numbers.map(row).batch(4).repeat(EPOCHS)
    for step, seen in enumerate(training.model.seen, 1):
        (found,) = traced_step(rs.Memory(), lambda _: batches.stage, step)
        assert [one.record for one in found.origin.records()] == seen


def test_a_second_training_has_epochs_of_its_own_after_those_of_the_loader(tmp_path: Path) -> None:
    def train(batches: Any, epochs: int) -> list[Any]:
        training = trainer(tmp_path, batches, num_train_epochs=epochs, save_strategy="no")
        training.train()
        return list(training.model.seen)

    whole = train(loader(), 3)
    once = loader()
    assert train(once, 1) + train(once, 2) == whole
    stopped = loader()
    next(iter(stopped))
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    per_epoch = len(whole) // 3
    assert train(resumed, 2)[: 2 * per_epoch - 1] == whole[1 : 2 * per_epoch]
