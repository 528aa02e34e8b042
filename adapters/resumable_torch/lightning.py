"""A callback for Lightning, for loaders that do not know their length."""

# Lightning saves and restores whatever loader has a `state_dict`. Of one without a length it fetches
# a batch ahead, to know which is the last, and that batch counts as received though no step has
# seen it. This callback corrects the state in the checkpoint.

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from .loader import ResumableDataLoader

__all__ = ["ResumeInput"]


class ResumeInput(Callback):
    """Saves of each `ResumableDataLoader` only the batches that training steps have seen.

    Needed where a loader has no length; harmless elsewhere.
    """

    def __init__(self) -> None:
        self._steps = 0  # since the loaders began their pass

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._steps = 0

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._steps += 1

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        loaders = trainer.train_dataloader
        flat = loaders if isinstance(loaders, (list, tuple)) else [loaders]
        stateful = [loader for loader in flat if hasattr(loader, "state_dict")]
        saved = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        for number, loader in enumerate(stateful[: len(saved)]):
            if isinstance(loader, ResumableDataLoader):
                held = max(loader.received - self._steps, 0)
                saved[number] = loader.state_dict(held=held)
