"""Input pipelines that stop at any item and continue at exactly the next one."""

# Where things are: `pipeline` is the builder; `sources` and `stages` hold one operation a
# module; `stage` is the contract between them, `transform` has their usual bases, and `iterator`
# is the running pass a user holds; `order` makes every random choice, `block` moves runs of items,
# `encoding` turns states into bytes and `fingerprint` tells whose they are; `triggers` say when to
# save and `checkpoint` where.

# The modules are imported when a name of theirs is first asked for, so that importing the package
# costs little where little of it is used.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checkpoint import Checkpoint as Checkpoint
    from .checkpoint import Checkpointer as Checkpointer
    from .checkpoint import CheckpointListener as CheckpointListener
    from .checkpoint import Directory as Directory
    from .checkpoint import Memory as Memory
    from .checkpoint import Remote as Remote
    from .checkpoint import Retention as Retention
    from .checkpoint import Store as Store
    from .checkpoint import task_name as task_name
    from .encoding import dumps as dumps
    from .encoding import loads as loads
    from .errors import CorruptCheckpoint as CorruptCheckpoint
    from .errors import ExternalStateError as ExternalStateError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import InvalidType as InvalidType
    from .errors import IteratorClosed as IteratorClosed
    from .errors import MalformedItem as MalformedItem
    from .errors import MissingDependency as MissingDependency
    from .errors import NewerFormat as NewerFormat
    from .errors import NoValidCheckpoint as NoValidCheckpoint
    from .errors import ResumableError as ResumableError
    from .errors import SaveError as SaveError
    from .errors import StateMismatch as StateMismatch
    from .errors import UnencodableState as UnencodableState
    from .errors import UnknownLength as UnknownLength
    from .errors import WorkerError as WorkerError
    from .iterator import PipelineIterator as PipelineIterator
    from .pipeline import Pipeline as Pipeline
    from .pipeline import concatenate as concatenate
    from .pipeline import from_arrays as from_arrays
    from .pipeline import from_iterable as from_iterable
    from .pipeline import from_sequence as from_sequence
    from .pipeline import interleave as interleave
    from .pipeline import jsonl as jsonl
    from .pipeline import lines as lines
    from .pipeline import mix as mix
    from .pipeline import range as range
    from .pipeline import zip as zip
    from .stage import Stage as Stage
    from .stage import StageIterator as StageIterator
    from .transform import Transform as Transform
    from .transform import TransformIterator as TransformIterator
    from .triggers import AtEnd as AtEnd
    from .triggers import AtSteps as AtSteps
    from .triggers import EverySeconds as EverySeconds
    from .triggers import EverySteps as EverySteps
    from .triggers import OnSignal as OnSignal
    from .triggers import Progress as Progress
    from .triggers import Trigger as Trigger
    from .triggers import When as When
    from .triggers import every as every

__version__ = "0.1.0"

_NAMES_OF = {
    "checkpoint": "Checkpoint Checkpointer CheckpointListener Directory Memory Remote Retention Store "
    "task_name",
    "encoding": "dumps loads",
    "errors": "CorruptCheckpoint ExternalStateError InvalidArgument InvalidType IteratorClosed "
    "MalformedItem MissingDependency NewerFormat NoValidCheckpoint ResumableError SaveError "
    "StateMismatch UnencodableState UnknownLength WorkerError",
    "iterator": "PipelineIterator",
    "pipeline": "Pipeline concatenate from_arrays from_iterable from_sequence interleave jsonl lines "
    "mix range zip",
    "stage": "Stage StageIterator",
    "transform": "Transform TransformIterator",
    "triggers": "AtEnd AtSteps EverySeconds EverySteps OnSignal Progress Trigger When every",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _NAMES_OF:
        return import_module(f"{__name__}.{name}")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*_MODULE_OF, "__version__"})
