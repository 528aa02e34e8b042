"""Checkpoints: when the loop saves, what a file holds, and where files are kept."""

# Where things are: a `Checkpointer` resumes a `loop`, which asks its trigger between two steps; the
# `saver` makes one save after another, in a thread; a `store` keeps bytes by step (`directory`,
# `memory`, `remote`); `envelope` is what one checkpoint looks like. Several ranks save parts of one
# step, which fit together if they are of one run (`ranks`).

from .checkpointer import Checkpointer as Checkpointer
from .directory import Directory as Directory
from .envelope import Checkpoint as Checkpoint
from .listener import CheckpointListener as CheckpointListener
from .loop import ResumedLoop as ResumedLoop
from .memory import Memory as Memory
from .names import task_name as task_name
from .ranks.part import RankPart as RankPart
from .remote import Remote as Remote
from .retention import Retention as Retention
from .store import Store as Store
from .store import StoreLock as StoreLock
