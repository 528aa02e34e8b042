"""TensorFlow's session hooks, savers, checkpoints and Keras callbacks, for a resumable pipeline."""

# `sessions` is for a TF1 graph: `dataset` makes the input, with a variable for the number of
# consumed items, and `between` checks the later operations of tf.data. `hooks` saves and restores
# all `inputs` of a graph with the model, by `following` the model's saver; the `settings` of a task
# say where and when. `async_saver` also writes a `snapshot` of the model. `saveable` puts the input
# into the model's checkpoint. `model_folder` also knows the files of TensorFlow's own hooks.
#
# `eager` is for TF2: `checkpointable` is an object for a `tf.train.Checkpoint`. `resume_input` is a
# callback for Keras's ``fit`` with `batches`; `model_backup` is a callback that saves the model in
# `model_files`.
#
# Both use a `feed`, which has the state after any item, and `checkpoints`, which keeps states by
# step; the stores of several inputs are in `input_stores`. If the number of `tasks` has changed,
# the saved states of all tasks are joined. Items cross into TensorFlow in `blocks`, with arrays
# from `columns`, and make data sets that are `numbered`.

from __future__ import annotations

from .eager.checkpointable import CheckpointableInput as CheckpointableInput
from .eager.model_backup import ModelBackup as ModelBackup
from .eager.resume_input import ResumeInput as ResumeInput
from .sessions.async_saver import AsyncCheckpointSaverHook as AsyncCheckpointSaverHook
from .sessions.dataset import ResumableIterator as ResumableIterator
from .sessions.dataset import make_dataset as make_dataset
from .sessions.dataset import make_initializable_iterator as make_initializable_iterator
from .sessions.hooks import AsyncCheckpointInputPipelineHook as AsyncCheckpointInputPipelineHook
from .sessions.hooks import CheckpointInputPipelineHook as CheckpointInputPipelineHook
from .sessions.saveable import make_saveable_from_iterator as make_saveable_from_iterator
