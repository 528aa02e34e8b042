"""A callback that corrects how Lightning saves and loads the states of loaders."""

# Lightning saves and restores every loader with a `state_dict`. If the loader has no length,
# Lightning fetches one batch ahead to recognise the last batch. The batch ahead then counts as
# received, though no step has used the batch. This callback corrects the state in the checkpoint.
#
# Lightning writes the state of rank 0 only. If ranks own partitions, the state of rank 0 is not
# enough. States of ranks that cannot be joined are refused before any training.
#
# `ModelCheckpoint` saves at the end of an epoch by default. From such a checkpoint, Lightning (2.6)
# does not load the states of loaders. Lightning passes the epoch to the samplers, so the order
# continues. But nothing refuses other data, and a loader without a length has delivered a batch by
# then.

from __future__ import annotations

from typing import Any, Final

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import CombinedLoader
from lightning.pytorch.utilities.combined_loader import _MaxSizeCycle

import resumable as rs
from resumable.core.ended import warn_of_ended_run
from resumable.core.savers import refuse_items_of_rank
from resumable.stages.partition import has_partitions

from .loader import ResumableDataLoader
from .rank_states import gathered

__all__ = ["ResumeInput"]

CYCLED: Final = "resumable_cycled_loaders"
"""The key of a checkpoint for the loaders that Lightning has begun again within its epoch."""


class ResumeInput(Callback):
    """Saves each `ResumableDataLoader` at the last batch used by a training step.

    The callback is needed for a loader without a length, and if ranks own partitions: their states
    are joined. For any other loader, a checkpoint of other data is refused, even at the end of an
    epoch, when Lightning loads no state. The loaders may be in a list, in a dict, or nested. If a
    finished fit is resumed, it trains nothing and a warning says so.

    Raises:
      StateMismatch: from ``fit``, if the checkpoint has the state of other data or of other
        loaders.
      ExternalStateError: from ``fit``, if the states of ranks differ and cannot be joined, as after
        ``shard(rank, ranks).filter(keep)``.
    """

    def __init__(self) -> None:
        self._is_resumed = self._has_trained = self._has_ended_epoch = False
        self._to_load: list[Any] = []
        self._cycled: list[bool] = []  # loaders begun again by Lightning within its epoch

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._to_load, self._cycled = [], []
        self._is_resumed = self._has_trained = self._has_ended_epoch = False

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._is_resumed = True
        self._to_load = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        self._cycled = checkpoint.get(CYCLED, [])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        states, self._to_load = self._to_load, []
        loaders = _stateful(trainer.train_dataloader)
        for loader in _own(trainer):
            refuse_items_of_rank("Lightning", loader.pipeline.stage)
            loader.has_callback = True
        if not states:
            return
        if len(states) != len(loaders):
            raise rs.StateMismatch(
                f"the checkpoint has {len(states)} states of loaders, and this fit has {len(loaders)} "
                "loaders with a state; pass the loaders with which it was saved"
            )
        fit_loop = trainer.fit_loop
        # Resumed after the last step of an epoch, Lightning starts the next epoch without another
        # hook.
        begins_epoch = not fit_loop.restarting or fit_loop.epoch_loop.batch_progress.is_last_batch
        for loader, state in zip(loaders, states, strict=True):
            if isinstance(loader, ResumableDataLoader):
                loader.load_state_dict(state)
                if begins_epoch:
                    loader.end_epoch()
            elif fit_loop._combined_loader_states_to_load:
                loader.load_state_dict(state)
        fit_loop._combined_loader_states_to_load = []
        fetcher = fit_loop._data_fetcher
        assert fetcher is not None  # made before this is called
        iter(fetcher)  # drops the fetched batches
        combined = fit_loop._combined_loader
        batches = None if combined is None else combined._iterator
        if self._cycled and not begins_epoch and isinstance(batches, _MaxSizeCycle):
            batches._consumed = [*map(any, zip(batches._consumed, self._cycled, strict=True))]

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._has_ended_epoch:
            for loader in _own(trainer):
                loader.end_epoch()  # the shorter of several loaders may be within an epoch

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._has_trained = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._has_ended_epoch = True

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._release(trainer)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._release(trainer)

    def _release(self, trainer: Trainer) -> None:
        """Let a fit without this callback be refused if the callback is needed."""
        for loader in _own(trainer):
            loader.has_callback = False

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._is_resumed and not self._has_trained and trainer.fit_loop.done:
            warn_of_ended_run(
                trainer.global_step, "fit without ckpt_path", go_on="raise max_epochs or max_steps"
            )

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.train_dataloader is None:  # nothing to train on yet
            return
        loaders, own = _stateful(trainer.train_dataloader), _own(trainer)
        saved = checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        if own and len(saved) != len(loaders):
            raise rs.ExternalStateError(
                f"Lightning saved {len(saved)} states of {len(loaders)} loaders with a state, so it "
                "cannot be told which is whose; pass one loader, over rs.zip or rs.mix of pipelines"
            )
        # Lightning fetches from all loaders together, so the number of held batches is equal.
        held = len(getattr(trainer.fit_loop._data_fetcher, "batches", ()))
        for number, loader in enumerate(loaders):
            if isinstance(loader, ResumableDataLoader):
                state = loader.state_dict(held=held)
                saved[number] = gathered(state) if has_partitions(loader.pipeline.stage) else state
        combined = trainer.fit_loop._combined_loader
        if own and combined is not None and isinstance(combined._iterator, _MaxSizeCycle):
            checkpoint[CYCLED] = list(combined._iterator._consumed)


def _stateful(loaders: Any) -> list[Any]:
    """The loaders with a state, in a dict, a list or nested, in the order saved by Lightning."""
    return [
        loader
        for loader in CombinedLoader(loaders).flattened
        if hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
    ]


def _own(trainer: Trainer) -> list[ResumableDataLoader[Any]]:
    """The loaders of the fit of type `ResumableDataLoader`."""
    loaders = trainer.train_dataloader
    found = [] if loaders is None else _stateful(loaders)
    return [loader for loader in found if isinstance(loader, ResumableDataLoader)]
