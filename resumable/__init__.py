"""Input pipelines that stop at any item and continue at exactly the next one.

>>> import resumable as rs
>>> pipeline = rs.range(1000).shuffle(seed=0).map(str).batch(64)
>>> iterator = iter(pipeline)
>>> batch = next(iterator)
>>> state = iterator.get_state()
>>> next(pipeline.resume(state)) == next(iterator)
True

A `Checkpointer` saves states while a loop runs, and resumes the loop. ``help(rs.Pipeline)`` lists
the stages, and ``help(rs.Pipeline.map)`` explains the stage `map`. The names, by purpose:

Begin a `Pipeline`
  in memory: range, from_sequence, from_arrays, from_iterable
  files: lines, jsonl, csv, parquet, arrow, tar, tfrecord, warc, array_record, files, image_folder, image_classes
  data sets of other libraries: lance, mds, litdata, megatron
  on the way: decoders (for the ``decode`` of files), FileCache (of remote files)
Join pipelines
  zip, concatenate, interleave, mix, partition, by_epoch
Iterate
  PipelineIterator, which ``iter(pipeline)`` returns
  dumps, loads (a state as bytes), merge_states (of several ranks)
  padded (to collate), origins (the records of items), read_exclusions, metrics (for monitoring)
Save and resume
  Checkpointer, Checkpoint, CheckpointListener, Retention (the checkpoints to keep), task_name
  out of order: Leases, Lease, LeaseCounts
  where: Directory, Remote, Memory; Store, for more
  when: every, EverySteps, EverySeconds, AtSteps, AtEnd, OnSignal, When; Trigger and Progress, for more
Write stages
  Stage, StageIterator, Transform, TransformIterator; the rest is in resumable.core
Errors
  ResumableError, the base of all
  arguments and items: InvalidArgument, InvalidType, UnknownLength, MalformedItem, IteratorClosed, WorkerError,
  MissingDependency
  states: StateMismatch, UnencodableState, ExternalStateError
  checkpoints and files: CorruptCheckpoint, NewerFormat, NoValidCheckpoint, NameInUse, ReadError, MissingFile,
  SaveError

Further packages: ``rs.testing`` checks that a pipeline resumes exactly, ``rs.core`` and ``rs.order`` are for authors of
stages, ``rs.consumed`` is for authors of adapters. The command ``resumable`` checks, measures and shows pipelines.
"""

# The folders and modules, each importing only from earlier ones: `errors`; `state`, a value and its
# bytes; `core`, the interface of a stage and the motion of items; `order`, every random choice;
# `views`, stages and states for people; `windows`, `groups` and `workers`, the machinery of
# shuffled streams, of groups of items and of parallel work; `file_cache`, parts of remote files on
# a disk; `sources`, `formats` (files) and `stages` (one operation a module); `pipeline`, the
# builder; `from_files`, pipelines over files; `triggers`, when to save; `leases`, items finished
# out of order; `checkpoint`, where to save; `monitoring`, for tools that show the stats of a run; `consumed`, for adapters that run
# ahead; then the tools.
#
# A module is imported when one of its names is first used, so importing the package costs little.

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import consumed as consumed
    from . import core as core
    from . import order as order
    from . import testing as testing
    from .checkpoint import Checkpoint as Checkpoint
    from .checkpoint import Checkpointer as Checkpointer
    from .checkpoint import CheckpointListener as CheckpointListener
    from .checkpoint import Directory as Directory
    from .checkpoint import Memory as Memory
    from .checkpoint import Remote as Remote
    from .checkpoint import Retention as Retention
    from .checkpoint import Store as Store
    from .checkpoint import task_name as task_name
    from .core.iterator import PipelineIterator as PipelineIterator
    from .core.merging import merge_states as merge_states
    from .core.stage import Stage as Stage
    from .core.stage_iterator import StageIterator as StageIterator
    from .core.transform import Transform as Transform
    from .core.transform import TransformIterator as TransformIterator
    from .errors import CorruptCheckpoint as CorruptCheckpoint
    from .errors import ExternalStateError as ExternalStateError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import InvalidType as InvalidType
    from .errors import IteratorClosed as IteratorClosed
    from .errors import MalformedItem as MalformedItem
    from .errors import MissingDependency as MissingDependency
    from .errors import MissingFile as MissingFile
    from .errors import NameInUse as NameInUse
    from .errors import NewerFormat as NewerFormat
    from .errors import NoValidCheckpoint as NoValidCheckpoint
    from .errors import ReadError as ReadError
    from .errors import ResumableError as ResumableError
    from .errors import SaveError as SaveError
    from .errors import StateMismatch as StateMismatch
    from .errors import UnencodableState as UnencodableState
    from .errors import UnknownLength as UnknownLength
    from .errors import WorkerError as WorkerError
    from .file_cache.cache import FileCache as FileCache
    from .formats import decoders as decoders
    from .formats.image_folder import image_classes as image_classes
    from .from_files import array_record as array_record
    from .from_files import arrow as arrow
    from .from_files import csv as csv
    from .from_files import files as files
    from .from_files import image_folder as image_folder
    from .from_files import jsonl as jsonl
    from .from_files import lance as lance
    from .from_files import lines as lines
    from .from_files import litdata as litdata
    from .from_files import mds as mds
    from .from_files import megatron as megatron
    from .from_files import parquet as parquet
    from .from_files import tar as tar
    from .from_files import tfrecord as tfrecord
    from .from_files import warc as warc
    from .groups.padding import padded as padded
    from .leases import Lease as Lease
    from .leases import LeaseCounts as LeaseCounts
    from .leases import Leases as Leases
    from .monitoring import metrics as metrics
    from .pipeline import Pipeline as Pipeline
    from .pipeline import by_epoch as by_epoch
    from .pipeline import concatenate as concatenate
    from .pipeline import from_arrays as from_arrays
    from .pipeline import from_iterable as from_iterable
    from .pipeline import from_sequence as from_sequence
    from .pipeline import interleave as interleave
    from .pipeline import mix as mix
    from .pipeline import origins as origins
    from .pipeline import partition as partition
    from .pipeline import range as range
    from .pipeline import zip as zip
    from .stages.exclude import read_exclusions as read_exclusions
    from .state.encoding import dumps as dumps
    from .state.encoding import loads as loads
    from .triggers import AtEnd as AtEnd
    from .triggers import AtSteps as AtSteps
    from .triggers import EverySeconds as EverySeconds
    from .triggers import EverySteps as EverySteps
    from .triggers import OnSignal as OnSignal
    from .triggers import Progress as Progress
    from .triggers import Trigger as Trigger
    from .triggers import When as When
    from .triggers import every as every

__version__ = "0.3.0"

_NAMES_OF = {
    "checkpoint": "Checkpoint Checkpointer CheckpointListener Directory Memory Remote Retention Store "
    "task_name",
    "core.iterator": "PipelineIterator",
    "core.stage": "Stage",
    "core.stage_iterator": "StageIterator",
    "core.transform": "Transform TransformIterator",
    "errors": "CorruptCheckpoint ExternalStateError InvalidArgument InvalidType IteratorClosed "
    "MalformedItem MissingDependency MissingFile NameInUse NewerFormat NoValidCheckpoint ReadError ResumableError SaveError "
    "StateMismatch UnencodableState UnknownLength WorkerError",
    "file_cache.cache": "FileCache",
    "formats.image_folder": "image_classes",
    "groups.padding": "padded",
    "leases": "Lease LeaseCounts Leases",
    "from_files": "array_record arrow csv files image_folder jsonl lance lines litdata mds megatron parquet tar tfrecord warc",
    "pipeline": "Pipeline by_epoch concatenate from_arrays from_iterable from_sequence interleave mix origins partition range zip",
    "stages.exclude": "read_exclusions",
    "state.encoding": "dumps loads",
    "core.merging": "merge_states",
    "triggers": "AtEnd AtSteps EverySeconds EverySteps OnSignal Progress Trigger When every",
}
_MODULES = {"decoders": "formats.decoders", "metrics": "monitoring.metrics"}
_ROOMS = {*(module.split(".")[0] for module in _NAMES_OF), "consumed", "order", "testing"}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [*_MODULE_OF, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    module = _MODULE_OF.get(name)
    if module is None:
        foreign_words = import_module(f"{__name__}.errors.foreign_words")
        message = foreign_words.no_attribute(f"module {__name__!r}", name, "functions")
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
