"""TensorFlow's session hooks, savers, checkpoints and Keras callbacks, for a resumable pipeline."""

# For a TF1 graph: `dataset` makes the input, with a variable for the number of consumed items.
# `hooks` saves and restores all `inputs` of a graph with the model, by `following` the model's
# saver; where and when, a `task` says. `async_saver` also writes a `snapshot` of the model.
# `saveable` puts the input into the model's checkpoint. `foreign` names what TensorFlow's own hooks
# have left.
#
# For TF2: `checkpointable` is an object for a `tf.train.Checkpoint`. `resume_input` is a callback
# for Keras's ``fit``; `model_backup` is one that saves the model in `model_files`.
#
# `feed` has the state after any item. `checkpoints` keeps states by step; those of several inputs
# are its `parts`. If the number of `tasks` has changed, it joins what all of them have saved.
#
# Items cross into TensorFlow in `blocks`, whose arrays are `columns`. The data set of the graph is
# `numbered`; `between` looks at what tf.data does after it. `batches` is the data set of Keras.

from __future__ import annotations

from .async_saver import AsyncCheckpointSaverHook as AsyncCheckpointSaverHook
from .checkpointable import CheckpointableInput as CheckpointableInput
from .dataset import ResumableIterator as ResumableIterator
from .dataset import make_dataset as make_dataset
from .dataset import make_initializable_iterator as make_initializable_iterator
from .hooks import AsyncCheckpointInputPipelineHook as AsyncCheckpointInputPipelineHook
from .hooks import CheckpointInputPipelineHook as CheckpointInputPipelineHook
from .model_backup import ModelBackup as ModelBackup
from .resume_input import ResumeInput as ResumeInput
from .saveable import make_saveable_from_iterator as make_saveable_from_iterator

__all__ = [
    "AsyncCheckpointInputPipelineHook",
    "AsyncCheckpointSaverHook",
    "CheckpointInputPipelineHook",
    "CheckpointableInput",
    "ModelBackup",
    "ResumableIterator",
    "ResumeInput",
    "make_dataset",
    "make_initializable_iterator",
    "make_saveable_from_iterator",
]
