"""Report the state of an input with the checkpoints of Ray Train, and resume from checkpoints."""

# A worker puts the state into the folder of the checkpoint after Ray has copied the user's files,
# and before reporting completion to Ray. Ray commits the checkpoint when all workers have reported.
# So every committed checkpoint has the whole state.
#
# One file is enough where the state is equal on all workers. Rank 0 writes the file: Ray never
# commits a checkpoint without rank 0, even if `relax_collectives_on_preemption` lets Ray continue
# without other ranks.

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import ray.train

import resumable as rs
from resumable.checkpoint.input_folder import InputFile, input_file
from resumable.checkpoint.opening import check_pipeline, start_with
from resumable.checkpoint.saveable_input import Input, as_saveable
from resumable.core.ended import warn_of_ended_run
from resumable.core.own_partitions import has_more
from resumable.stages.global_order import rank_share_of

from .checkpoint_folder import folder_of, read_state, remove_unfinished, write_file

try:
    from ray.train import Checkpoint, CheckpointUploadMode
except ImportError as error:
    raise rs.MissingDependency(
        "report and resume need version 2 of Ray Train's interface: Ray 2.51 or later, without "
        "RAY_TRAIN_V2_ENABLED=0"
    ) from error

if TYPE_CHECKING:
    from ray.train import TrainContext, ValidationTaskConfig

__all__ = ["report", "resume"]

T = TypeVar("T")
UploadFn = Callable[[Checkpoint, str], Checkpoint]

_has_reported = False
"""Whether this process has reported; each worker of each attempt is a separate process."""


def report(
    metrics: dict[str, Any],
    loop: Input,
    checkpoint: Checkpoint | None = None,
    *,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: UploadFn | None = None,
    validation: bool | ValidationTaskConfig = False,
) -> None:
    """Report metrics and a checkpoint with the state of ``loop``, like ``ray.train.report``.

    The state is that after the batch handed out last, and is taken before the call returns. So in
    the body of the loop the current batch counts as done. All workers call this, at the same step.
    A worker without own files passes no checkpoint.

    State: one file of some 300 bytes in the folder ``input`` of the checkpoint, written by rank 0,
    if the state is equal on all workers, as after `shard`; otherwise one file for each worker, such
    as with partitions. Any number of workers reads and joins the files.

    Args:
      metrics: as for ``ray.train.report``.
      loop: the result of `resume`, ``iter(pipeline)``, or the loop of a `Checkpointer`.
      checkpoint: with the model, as for ``ray.train.report``; by default the checkpoint has the input only.
      checkpoint_dir_name: as for ``ray.train.report``; a new name for each checkpoint. Files of an
        input left there by an attempt that died before the commit are removed.
      checkpoint_upload_mode: as for ``ray.train.report``.
      delete_local_checkpoint_after_upload: as for ``ray.train.report``.
      checkpoint_upload_fn: as for ``ray.train.report``; the state goes into the checkpoint that the
        function returns.
      validation: as for ``ray.train.report``.

    Raises:
      InvalidType: if ``loop`` has no state that can be saved.
      InvalidArgument: if ``checkpoint_dir_name`` names the newest checkpoint; if nothing is to be
        uploaded, and this worker has a part to write but no checkpoint; or if there is no
        checkpoint to validate.
      UnencodableState, ExternalStateError: if the state cannot be saved exactly, or was taken right
        after an error and serves other workers too.
      StateMismatch: if the folder has files of another checkpoint, or workers with one rank are not at the same
        batch. With ``ASYNC``, Ray raises it later.
      RuntimeError: of Ray, outside of a training function.
    """
    global _has_reported
    saveable = as_saveable("loop", loop)
    if validation and checkpoint is None:
        raise rs.InvalidArgument("validation needs a checkpoint with a model, got checkpoint=None")
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    file = input_file(saveable.iterator, saveable.get_state, saveable.step, rank, workers)
    options: dict[str, Any] = {
        "checkpoint_dir_name": checkpoint_dir_name,
        "checkpoint_upload_mode": checkpoint_upload_mode,
        "delete_local_checkpoint_after_upload": delete_local_checkpoint_after_upload,
        "checkpoint_upload_fn": checkpoint_upload_fn,
    }
    if validation:  # earlier versions of Ray have no `validation`
        options["validation"] = validation
    storage = _storage_of(context)
    if storage is None:
        warnings.warn(
            "Ray Train keeps no checkpoints with ScalingConfig(num_workers=0), so the state of the input is "
            "not saved",
            RuntimeWarning,
            stacklevel=2,
        )
    else:
        _has_reported = True
        uploads = checkpoint_upload_mode != CheckpointUploadMode.NO_UPLOAD
        if uploads and rank == 0 and checkpoint_dir_name is not None:
            _make_way(storage, checkpoint_dir_name)
        if file.is_shared and rank > 0:
            pass
        elif uploads:
            upload = _with_input(file, storage, checkpoint, checkpoint_upload_fn)
            options["checkpoint_upload_fn"] = upload
            if checkpoint is None:
                # Ray calls the function only with a checkpoint. The function ignores this
                # checkpoint.
                checkpoint = Checkpoint(storage.experiment_fs_path, storage.storage_filesystem)
                options["delete_local_checkpoint_after_upload"] = False
        elif checkpoint is None:
            raise rs.InvalidArgument(
                f"checkpoint must be given by rank {rank}, which has a part of the input's state to put there, "
                "since nothing is uploaded: pass the one that the other workers pass"
            )
        else:
            write_file(checkpoint, file)
    ray.train.report(metrics, checkpoint, **options)


def resume(
    pipeline: rs.Pipeline[T], checkpoint: Checkpoint | None = None
) -> rs.PipelineIterator[T]:
    """The items of ``pipeline`` from the newest checkpoint on, or from the start if Ray has none.

    Call it once, at the beginning of the training function. After a failure, a change of the number
    of workers or a new ``fit`` with the same ``RunConfig(name, storage_path)``, Ray calls the
    function again, with the newest checkpoint that all workers had reported.

    Args:
      pipeline: this worker's pipeline, the same as at the report. After ``shard`` or ``partition``
        with the rank and the number of workers from ``ray.train.get_context()``, any number of
        workers can resume.
      checkpoint: to begin at; by default the result of ``ray.train.get_checkpoint()``.

    Raises:
      NoValidCheckpoint: if a checkpoint has no state of an input, or lacks the part of a rank, with
        the rank's number.
      CorruptCheckpoint: if a file is damaged, with the file's name.
      NewerFormat: if a later version of the library wrote it.
      StateMismatch: if the state belongs to another pipeline.
      ExternalStateError: if the pipeline has a source that cannot be saved exactly.
      InvalidArgument: if ``pipeline`` is dealt out to more ranks than workers, so that some items
        would reach no worker; or if this worker has reported before, and no ``checkpoint`` is
        given.
      InvalidType: if ``pipeline`` is no pipeline.
      RuntimeError: of Ray, outside of a training function.

    Warns:
      RuntimeWarning: if the run is finished, as far as visible without reading items.
    """
    stage = check_pipeline(pipeline).stage
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    ranks = rank_share_of(stage).ranks
    if ranks > workers:
        raise rs.InvalidArgument(
            f"pipeline must be dealt out to as many ranks as there are workers, {workers}, got {ranks} ranks: "
            "some items would reach no worker; use ray.train.get_context().get_world_size()"
        )
    if checkpoint is None:
        if _has_reported:
            raise rs.InvalidArgument(
                "resume() must come before the first report, since afterwards Ray's newest checkpoint may lack "
                "what other workers have not uploaded: go on with the loop, give the pipeline a repeat() "
                "for more epochs, or pass a checkpoint"
            )
        checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return start_with(None, pipeline)
    state = read_state(checkpoint, stage, rank, workers)
    iterator = start_with(state, pipeline, f"the state in {folder_of(checkpoint)}")
    if rank == 0 and _has_ended(pipeline, iterator):
        warn_of_ended_run(iterator.step, "use another RunConfig(name)")
    return iterator


def _has_ended(pipeline: rs.Pipeline[Any], iterator: rs.PipelineIterator[Any]) -> bool:
    """Whether no item is left for rank 0, which has the most items of any rank after `shard`."""
    return pipeline.random_access and not has_more(pipeline.stage, iterator.get_state())


def _storage_of(context: TrainContext) -> Any:
    """Where Ray keeps the checkpoints of the run; None without storage."""
    try:
        return context.get_storage()
    except NotImplementedError:
        return None


def _checkpoint_in(storage: Any, checkpoint_dir_name: str) -> Checkpoint:
    path = storage.build_checkpoint_path_from_name(checkpoint_dir_name)
    return Checkpoint(path, storage.storage_filesystem)


def _make_way(storage: Any, checkpoint_dir_name: str) -> None:
    """Remove old files under this name; no worker writes before rank 0 calls Ray's ``report``."""
    place = _checkpoint_in(storage, checkpoint_dir_name)
    newest = ray.train.get_checkpoint()
    if newest is not None and newest.path == place.path:
        raise rs.InvalidArgument(
            f"checkpoint_dir_name must be a new one for each checkpoint, got {checkpoint_dir_name!r}, which is "
            "that of the newest: a failure during the report would leave none"
        )
    remove_unfinished(place)


def _with_input(
    file: InputFile, storage: Any, checkpoint: Checkpoint | None, upload: UploadFn | None
) -> UploadFn:
    """Uploads like ``upload``, or like Ray by default, and adds ``file``."""

    def upload_with_input(given: Checkpoint, checkpoint_dir_name: str) -> Checkpoint:
        if checkpoint is None:
            uploaded = _checkpoint_in(storage, checkpoint_dir_name)
        elif upload is None:
            uploaded = storage.persist_current_checkpoint(given, checkpoint_dir_name)
        else:
            uploaded = upload(given, checkpoint_dir_name)
        write_file(uploaded, file)
        return uploaded

    return upload_with_input
