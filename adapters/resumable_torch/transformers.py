"""A callback for the `Trainer` of Hugging Face's transformers."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState, TrainingArguments

import resumable as rs
from resumable.checkpoint.envelope import encode
from resumable.checkpoint.reading import read_checkpoint
from resumable.core.ended import warn_of_ended_run
from resumable.core.savers import length_of, refuse_items_of_rank
from resumable.stages.partition import has_partitions

from .cursor import KEY
from .loader import ResumableDataLoader
from .rank_states import gathered, of_all_ranks
from .trainer_epochs import TrainerStart, same_on_all_ranks

__all__ = ["ResumeInput"]


class ResumeInput(TrainerCallback):
    """Saves the state of a loader together with the model, and resumes from the state.

    The trainer must use this very loader, from its ``get_train_dataloader``, and have
    ``ignore_data_skip=True``, or the trainer would pass over the batches a second time. The state
    is a checkpoint file in the folder of the trainer, ``checkpoint-STEP/input-*.ckpt``, and is
    removed with the folder. The state covers all ranks, and the number of ranks may change.

    The trainer computes its epoch from its step. If the loader has a length, an optimizer step must
    therefore have as many items as in the saving run: ranks, ``per_device_train_batch_size`` and
    ``gradient_accumulation_steps`` may change together. Without a length, each number may change.

    Resuming a finished training trains nothing and warns. The trainer saves random states of
    the model for each rank; a missing random state gives a warning too.

    Args:
      loader: the loader of the training data.

    Raises:
      InvalidArgument: if the trainer uses another loader, or ranks have different numbers of
        batches. On a resume, if ``ignore_data_skip`` is off; if an epoch ends within the batches of
        an optimizer step, since the trainer would not take the step; or if the trainer would resume
        at another batch than the loader.
      ExternalStateError: if ranks hold separate items after `shard`.
      NoValidCheckpoint: on a resume, if the folder has no state of the loader.
    """

    def __init__(self, loader: ResumableDataLoader[Any]) -> None:
        self._loader = loader
        self._epochs_begun = 0
        # Missing part of the trainer's `epoch`: in the resumed epoch, and afterwards.
        self._missing = 0.0, 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any
    ) -> None:
        loader = self._loader
        if kwargs.get("train_dataloader", loader) is not loader:
            raise rs.InvalidArgument(
                "loader must be what get_train_dataloader returns, as it is: the trainer uses "
                f"{type(kwargs['train_dataloader']).__name__} instead"
            )
        refuse_items_of_rank("the trainer", loader.pipeline.stage)
        length = same_on_all_ranks(of_all_ranks(length_of(loader)))
        loader.count_epochs_from(0)  # as the trainer does, also in a second training
        self._epochs_begun, self._missing = 0, (0.0, 0.0)
        if state.global_step:
            self._resume(args, state, length)

    def on_epoch_begin(self, *_: Any, **kwargs: Any) -> None:
        self._epochs_begun += 1

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any
    ) -> None:
        if state.epoch is not None:
            state.epoch += self._missing[self._epochs_begun > 1]

    def _resume(self, args: TrainingArguments, state: TrainerState, length: int | None) -> None:
        loader, steps = self._loader, args.gradient_accumulation_steps
        if not args.ignore_data_skip:
            raise rs.InvalidArgument(
                "ignore_data_skip must be True in the TrainingArguments, got False: the loader "
                "continues at the next batch by itself"
            )
        if length is not None and length % steps:
            raise rs.InvalidArgument(
                f"an epoch must have a multiple of gradient_accumulation_steps={steps} batches to be "
                f"resumed, got {length}"
            )
        folder = _folder(args, state)
        if not folder.is_dir() or state.global_step not in rs.Directory(folder).steps():
            raise rs.NoValidCheckpoint(
                f"{folder} has no state of the input of step {state.global_step}; was it saved "
                "without this callback?"
            )
        checkpoint = read_checkpoint(rs.Directory(folder), state.global_step)
        loader.load_state_dict({KEY: rs.dumps(checkpoint.state)})
        if self._owns_partitions and not any(of_all_ranks(loader.batches_left(1))):
            loader.set_epoch(loader.epoch + 1)  # an epoch without a batch would end the training
        start = TrainerStart.at(state.global_step, length, steps, state.max_steps)
        saved = state.epoch or 0.0
        if length is None:
            ahead = loader.epoch - start.epoch
            trained = saved - loader.epoch
            self._missing = ahead + (trained if 0 <= trained < 1 else 0.0), ahead
        else:
            self._check_start(start, saved)
            self._missing = start.trained / length, 0.0
        loader.count_epochs_from(start.epoch)
        # With max_steps within an epoch the trainer takes a further step.
        if start.epoch >= state.num_train_epochs:
            warn_of_ended_run(
                state.global_step,
                "train without resume_from_checkpoint",
                go_on="raise num_train_epochs or max_steps",
            )
            return
        if not (folder / _random_state(args)).exists():
            warnings.warn(
                f"{folder} has no random state of rank {args.process_index} of {args.world_size}, so what "
                "the model draws, as for dropout, does not go on as it was; the input does",
                RuntimeWarning,
                stacklevel=2,
            )

    def _check_start(self, start: TrainerStart, saved: float) -> None:
        """Refuse a resume if the trainer would start at another batch than the loader."""
        loader, length = self._loader, start.length
        assert length is not None
        left = start.left
        # Over a stream counting the remaining batches takes long.
        is_cheap = self._owns_partitions or loader.pipeline.random_access
        if is_cheap or not math.isclose(saved, start.as_number):
            left = loader.batches_left(length) or length
        if (loader.epoch, left) != (start.epoch, start.left):
            raise rs.InvalidArgument(
                f"the trainer would go on with {start.left} batches of epoch {start.epoch}, and the input was "
                f"saved with {left} batches of epoch {loader.epoch} left: let ranks * "
                "per_device_train_batch_size * gradient_accumulation_steps be what it was, or train by "
                "max_steps with a pipeline that repeats without end"
            )

    @property
    def _owns_partitions(self) -> bool:
        return has_partitions(self._loader.pipeline.stage)

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any) -> None:
        own = self._loader.state_dict()
        whole = gathered(own) if self._owns_partitions else own
        if state.is_world_process_zero:
            saved = rs.loads(whole[KEY])
            checkpoint = rs.Checkpoint(step=state.global_step, time=time.time(), state=saved)
            directory = rs.Directory(_folder(args, state))
            if state.global_step in directory.steps():  # of a run resumed from an earlier step
                directory.set_aside(state.global_step, "superseded")
            directory.save(state.global_step, encode(checkpoint))


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"


def _random_state(args: TrainingArguments) -> str:
    """The name of the trainer's file with the random states of this rank."""
    return "rng_state.pth" if args.world_size <= 1 else f"rng_state_{args.process_index}.pth"
