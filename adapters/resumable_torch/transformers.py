"""A callback for the `Trainer` of Hugging Face's transformers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import resumable as rs
from resumable.checkpoint.envelope import encode
from resumable.checkpoint.reading import read_checkpoint
from resumable.core.ended import warn_of_ended_run
from resumable.stages.partition import has_partitions

from .cursor import KEY
from .loader import ResumableDataLoader
from .rank_states import gathered

__all__ = ["ResumeInput"]


class ResumeInput(TrainerCallback):
    """Saves the state of a loader together with the model, and resumes from it.

    The trainer must use this very loader, from its ``get_train_dataloader``, and have
    ``ignore_data_skip=True``, or it would pass over the batches a second time. The state is a checkpoint
    file in the folder of the trainer, ``checkpoint-STEP/input-*.ckpt``, and is removed with that folder.
    If a training that has ended is resumed, it trains nothing and a warning says so.

    Args:
      loader: the loader of the training data.

    Raises:
      InvalidArgument: on a resume, if ``ignore_data_skip`` is off, or if an epoch ends within the
        batches of an optimizer step, since the trainer would not take that step.
      NoValidCheckpoint: on a resume, if the folder has no state of the loader.
    """

    def __init__(self, loader: ResumableDataLoader[Any]) -> None:
        self._loader = loader

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if not state.global_step:
            return
        if not args.ignore_data_skip:
            raise rs.InvalidArgument(
                "ignore_data_skip must be True in the TrainingArguments, got False: the loader "
                "continues at the next batch by itself"
            )
        steps = args.gradient_accumulation_steps
        if steps > 1 and len(self._loader) % steps:
            raise rs.InvalidArgument(
                f"an epoch must have a multiple of gradient_accumulation_steps={steps} batches to be "
                f"resumed, got {len(self._loader)}"
            )
        folder = _folder(args, state)
        if not folder.is_dir() or state.global_step not in rs.Directory(folder).steps():
            raise rs.NoValidCheckpoint(
                f"{folder} has no state of the input of step {state.global_step}; was it saved "
                "without this callback?"
            )
        checkpoint = read_checkpoint(rs.Directory(folder), state.global_step)
        self._loader.load_state_dict({KEY: rs.dumps(checkpoint.state)})
        # With max_steps within an epoch the trainer takes a further step.
        if state.epoch is not None and state.epoch >= state.num_train_epochs:
            warn_of_ended_run(
                state.global_step,
                "train without resume_from_checkpoint",
                go_on="raise num_train_epochs or max_steps",
            )

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        own = self._loader.state_dict()
        whole = gathered(own) if has_partitions(self._loader.cursor.pipeline.stage) else own
        if state.is_world_process_zero:
            saved = rs.loads(whole[KEY])
            checkpoint = rs.Checkpoint(step=state.global_step, time=time.time(), state=saved)
            directory = rs.Directory(_folder(args, state))
            if state.global_step in directory.steps():  # of a run resumed from an earlier step
                directory.set_aside(state.global_step, "superseded")
            directory.save(state.global_step, encode(checkpoint))


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
