"""A callback for Lightning, for loaders that do not know their length."""

# Lightning saves and restores every loader with a `state_dict`. If the loader has no length, Lightning
# fetches one batch ahead to know which is the last. That batch then counts as received, though no step
# has used it. This callback corrects the state in the checkpoint.

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from .loader import ResumableDataLoader

__all__ = ["ResumeInput"]


class ResumeInput(Callback):
    """Saves each `ResumableDataLoader` at the last batch that a training step has used.

    It is needed for a loader without a length, and harmless for any other.
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
