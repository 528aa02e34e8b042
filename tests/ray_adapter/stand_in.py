"""Ray Train without a cluster: workers report one after the other, into a folder that Ray's own code writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray.train
from pyarrow.fs import FileSystem
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2._internal.execution.context import is_managed_checkpoint
from ray.train.v2._internal.execution.storage import StorageContext, delete_fs_path
from resumable_ray import train

__all__ = ["StandIn", "checkpoint_of"]

Attributes = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Context:
    """What a worker asks of ``ray.train.get_context()``."""

    rank: int
    workers: int
    storage: StorageContext | None

    def get_world_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.workers

    def get_storage(self) -> StorageContext:
        if self.storage is None:
            raise NotImplementedError("Local storage context not yet implemented. ")
        return self.storage


class StandIn:
    """A run of Ray Train.

    Attributes:
      storage: of Ray, where the checkpoints are.
      newest: the newest checkpoint that was committed.
      reported: what the workers have reported since then, with the metrics.
      uploads: how many of them uploaded something.
    """

    def __init__(self, folder: Path | str, filesystem: FileSystem | None = None) -> None:
        self.storage: StorageContext | None = StorageContext(str(folder), "run", filesystem)
        self.newest: Checkpoint | None = None
        self.reported: list[tuple[Any, Checkpoint | None]] = []
        self.uploads = 0
        self._names = iter(range(10**6))
        self._name = ""

    @contextmanager
    def worker(self, rank: int = 0, workers: int = 1, *, afresh: bool = True) -> Iterator[None]:
        """In the process of a worker; a new process, if it is ``afresh``."""
        mine = [self.newest]

        def report(
            metrics: Any,
            checkpoint: Checkpoint | None = None,
            checkpoint_dir_name: str | None = None,
            checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
            delete_local_checkpoint_after_upload: bool | None = None,
            checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
            validation: bool = False,
        ) -> None:
            """What Ray does, without the barrier; rank 0 is called first, and names the folder."""
            if self.storage is None:
                self.reported.append((metrics, checkpoint))
                return
            if rank == 0:
                self._name = checkpoint_dir_name or f"checkpoint_{next(self._names)}"
            if checkpoint is not None:
                uploaded = checkpoint
                if checkpoint_upload_mode != CheckpointUploadMode.NO_UPLOAD:
                    self.uploads += 1
                    persist = checkpoint_upload_fn or self.storage.persist_current_checkpoint
                    uploaded = persist(checkpoint, self._name)
                    if delete_local_checkpoint_after_upload or (
                        delete_local_checkpoint_after_upload is None
                        and checkpoint_upload_mode == CheckpointUploadMode.ASYNC
                    ):
                        delete_fs_path(checkpoint.filesystem, checkpoint.path)
                assert is_managed_checkpoint(self.storage, uploaded)
                mine[0] = checkpoint = uploaded
            self.reported.append((metrics, checkpoint))

        before = ray.train.get_context, ray.train.get_checkpoint, ray.train.report
        context = Context(rank, workers, self.storage)
        _set(get_context=lambda: context, get_checkpoint=lambda: mine[0], report=report)
        if afresh:
            train._has_reported = False
        try:
            yield
        finally:
            _set(get_context=before[0], get_checkpoint=before[1], report=before[2])

    def commit(self) -> Checkpoint:
        """Let the checkpoint of all workers be the newest one."""
        places = {one.path: one for _, one in self.reported if one is not None}
        self.reported = []
        (self.newest,) = places.values()
        return self.newest


def checkpoint_of(folder: Path, **files: str) -> Checkpoint:
    """A checkpoint of these files in ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    return Checkpoint.from_directory(folder)


def _set(**attributes: Callable[..., Any]) -> None:
    for name, value in attributes.items():
        setattr(ray.train, name, value)
