"""Lightning's `fit`, stopped in mid-epoch and resumed from its checkpoint."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader  # noqa: E402
from resumable_torch.lightning import ResumeInput  # noqa: E402
from tiers import thinned  # noqa: E402
from torch_adapter.data import LENGTH, Rows, row  # noqa: E402

import resumable as rs  # noqa: E402

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
        self.seen.append(batch[:, 0].tolist())
        return self.layer(batch.float() / 1000).sum()

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


def trainer(folder: Path) -> Any:
    return lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ResumeInput()],
    )


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
