"""Lightning's `fit`, stopped in mid-epoch and resumed from its checkpoint."""

from __future__ import annotations

import json
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from resumable_torch.lightning import ResumeInput  # noqa: E402
from support.tiers import thinned  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch_adapter.data import LENGTH, Rows, row  # noqa: E402
from torch_adapter.partitioned_ranks import endless  # noqa: E402
from torch_adapter.processes import torchrun  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.checkpoint.tracing import traced_step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCHS = 3
BATCHES = 5 * EPOCHS


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Records what each step sees, and saves after the step ``stop``."""

    def __init__(self, stop: int = -1, path: Path | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[Any] = []
        self.stop = stop
        self.path = path

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        batches = tree_leaves(batch)
        self.seen.append([rows[:, 0].tolist() for rows in batches])
        return sum(self.layer(rows.float() / 1000).sum() for rows in batches)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if len(self.seen) == self.stop:
            self.trainer.save_checkpoint(self.path)
            self.trainer.should_stop = True
            raise KeyboardInterrupt

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(kind: str, workers: int) -> Any:
    if kind == "map":
        return ResumableDataLoader(Rows(), 3, shuffle=True, seed=1, num_workers=workers)
    pipeline = rs.range(LENGTH).shuffle(1).map(row)
    if kind == "no length":
        pipeline = pipeline.filter(lambda item: True)
    return ResumableDataLoader(PipelineDataset(pipeline), 3, num_workers=workers)


def trainer(folder: Path, epochs: int = EPOCHS, **options: Any) -> Any:
    options = {"callbacks": [ResumeInput()], "enable_checkpointing": False, **options}
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def fit_saving_epochs(
    folder: Path, batches: Any, epochs: int, path: Path | None = None, with_input: bool = True
) -> list[Any]:
    """The batches of a `fit` that saves at the end of each epoch, as Lightning does by default."""
    saving = ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
    callbacks = [saving, ResumeInput()] if with_input else [saving]
    module = Module()
    trainer(folder, epochs, callbacks=callbacks, enable_checkpointing=True).fit(
        module, batches, ckpt_path=path, weights_only=True
    )
    return module.seen


def test_a_checkpoint_of_ranks_that_own_partitions_has_all_of_them(tmp_path: Path) -> None:
    # Lightning looks up the rank as it is imported.
    for ranks, steps in ((2, 5), (3, 4)):
        module = "torch_adapter.lightning_ranks"
        assert torchrun(ranks, module, tmp_path, steps, preloaded=("torch",)) == 0
    with ExitStack() as stack:
        two = [stack.enter_context(iter(endless(rank, 2))) for rank in range(2)]
        before = [[next(rank) for _ in range(5)] for rank in two]
        whole = rs.merge_states([rank.get_state() for rank in two])
        three = [stack.enter_context(endless(rank, 3).resume(whole)) for rank in range(3)]
        after = [[next(rank) for _ in range(4)] for rank in three]
    for expected in (before, after):
        for rank, items in enumerate(expected):
            seen = (tmp_path / f"{len(expected)}-{rank}.json").read_text()
            assert json.loads(seen) == items


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["map", "pipeline", "no length"])
def test_fit_resumes_after_every_step(kind: str, workers: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole = Module()
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    trainer(tmp_path).fit(whole, loader(kind, workers))
    assert len(whole.seen) == BATCHES
    stops = range(1, BATCHES)
    # Of each stop one of the two runs has workers. The ends of the epochs are always tried.
    for stop in sorted({*thinned(stops, 5, (kind, workers)), *stops[4::5]}):
        path = tmp_path / f"{stop}.ckpt"
        stopped = Module(stop, path)
        stopped.load_state_dict(start)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            trainer(tmp_path).fit(stopped, loader(kind, workers))
        resumed = Module()
        trainer(tmp_path).fit(resumed, loader(kind, 2 - workers), ckpt_path=path, weights_only=True)
        assert stopped.seen + resumed.seen == whole.seen, stop
        for name, value in whole.state_dict().items():
            assert torch.equal(resumed.state_dict()[name], value)


# Lightning does not load the states of loaders from a checkpoint at the end of a finished epoch.
@pytest.mark.parametrize(
    ("kind", "workers", "with_input"),
    [
        ("map", 0, True),
        ("map", 2, False),
        ("pipeline", 0, False),
        ("pipeline", 2, True),
        ("no length", 2, True),
        ("no length", 0, True),
    ],
)
def test_fit_goes_on_behind_a_finished_epoch(
    kind: str, workers: int, with_input: bool, tmp_path: Path
) -> None:
    def fit(name: str, epochs: int, after: str | None = None) -> list[Any]:
        path = tmp_path / after if after else None
        return fit_saving_epochs(tmp_path / name, loader(kind, workers), epochs, path, with_input)

    whole = fit("whole", 3)
    assert fit("whole again", 3, "whole/epoch=0.ckpt") == whole[5:]
    assert fit("short", 1) == whole[:5]
    assert fit("longer", 2, "short/epoch=0.ckpt") == whole[5:10]
    assert fit("longest", 3, "longer/epoch=1.ckpt")[-5:] == whole[10:]


@pytest.mark.parametrize("kind", ["map", "pipeline", "no length"])
def test_other_data_are_refused_behind_a_finished_epoch(kind: str, tmp_path: Path) -> None:
    fit_saving_epochs(tmp_path, loader(kind, 0), 1)
    other: Any = ResumableDataLoader(PipelineDataset(rs.range(9).map(row)), 3)
    with pytest.raises(rs.StateMismatch, match="belongs to another pipeline"):
        fit_saving_epochs(tmp_path / "other", other, 2, tmp_path / "epoch=0.ckpt")


def test_a_fit_from_the_start_has_nothing_of_the_fit_before(tmp_path: Path) -> None:
    fit_saving_epochs(tmp_path, loader("map", 0), 1)
    module, fitting = Module(), trainer(tmp_path, 2)
    fitting.fit(module, loader("map", 0), ckpt_path=tmp_path / "epoch=0.ckpt", weights_only=True)
    first = trainer(tmp_path, 1)
    first.callbacks = fitting.callbacks
    other = Module()
    first.fit(other, loader("pipeline", 0))
    assert len(module.seen) == len(other.seen) == 5


def collection(shape: str) -> Any:
    """Loaders as Lightning takes them; a shorter one is begun anew when it ends."""
    if shape == "dict":
        return {"rows": loader("no length", 0)}
    short = PipelineDataset(rs.range(6).map(row))
    return {"short": [ResumableDataLoader(short, 3)], "long": (loader("no length", 0),)}


@pytest.mark.parametrize("shape", ["dict", "nested"])
def test_loaders_may_be_in_a_dict_or_nested(shape: str, tmp_path: Path) -> None:
    whole = Module()
    trainer(tmp_path).fit(whole, collection(shape))
    for stop in (1, 2, 3):  # before and after the shorter loader begins anew
        stopped = Module(stop, tmp_path / f"{stop}.ckpt")
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            trainer(tmp_path).fit(stopped, collection(shape))
        resumed = Module()
        trainer(tmp_path).fit(resumed, collection(shape), ckpt_path=stopped.path, weights_only=True)
        assert resumed.seen[: 5 - stop] == whole.seen[stop:5], stop


def test_states_that_lightning_does_not_save_are_missed(tmp_path: Path) -> None:
    module = Module(stop=1, path=tmp_path / "1.ckpt")
    training = trainer(tmp_path)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        training.fit(module, collection("nested"))
    loops: dict[str, Any] = {"fit_loop": {"state_dict": {"combined_loader": [{}]}}}
    with pytest.raises(rs.ExternalStateError, match="1 states of 2 loaders"):
        ResumeInput().on_save_checkpoint(training, module, {"loops": loops})


def test_an_iterator_is_not_saved_since_lightning_is_a_batch_ahead_of_the_step(
    tmp_path: Path,
) -> None:
    module = Module(stop=2, path=tmp_path / "2.ckpt")
    with (
        iter(rs.range(LENGTH).map(row).batch(3, collate=torch.stack)) as iterator,
        pytest.raises(rs.ExternalStateError, match="pass ResumableDataLoader"),
    ):
        trainer(tmp_path, callbacks=[]).fit(module, iterator)
    assert (len(module.seen), iterator.step) == (2, 3)


def test_items_of_a_rank_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    own = rs.range(LENGTH).shard(0, 2).filter(lambda number: number % 7 > 0).map(row)
    batches: Any = ResumableDataLoader(PipelineDataset(own), 3)
    module = Module()
    with pytest.raises(rs.ExternalStateError, match="Lightning keeps the state of rank 0 alone"):
        trainer(tmp_path).fit(module, {"rows": batches})
    assert module.seen == []


@pytest.mark.filterwarnings("default")
def test_a_fit_that_has_ended_says_so(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    first = trainer(tmp_path, epochs=1)
    first.fit(Module(), loader("map", 0))
    first.save_checkpoint(path)
    module = Module()
    with pytest.warns(RuntimeWarning, match="had come to its end at step 5, .* raise max_epochs"):
        trainer(tmp_path, epochs=1).fit(module, loader("map", 0), ckpt_path=path, weights_only=True)
    assert module.seen == []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "this run had come to its end")
        trainer(tmp_path, epochs=2).fit(module, loader("map", 0), ckpt_path=path, weights_only=True)
    assert len(module.seen) == 5


def test_the_global_step_is_the_one_at_which_origins_are_found(tmp_path: Path) -> None:
    numbers = rs.range(LENGTH).shuffle(1)
    module = Module()
    loop = trainer(tmp_path)
    loop.fit(module, ResumableDataLoader(PipelineDataset(numbers.map(row)), 3, num_workers=0))
    assert loop.global_step == len(module.seen)
    batches = numbers.map(row).batch(3).repeat(EPOCHS)
    for step, (seen,) in enumerate(module.seen, 1):
        (found,) = traced_step(rs.Memory(), lambda _: batches.stage, step)
        assert [one.record for one in found.origin.records()] == seen
