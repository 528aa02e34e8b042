"""Checkpoints: when the loop saves, the content of a file, and where files are kept."""

# A `Checkpointer` resumes a `loop`, and the loop asks its trigger between two steps. The `saver`
# makes one save after another, in a thread. A `store` keeps bytes by step (`directory`, `memory`,
# `remote`), and `envelope` defines the bytes. Several ranks save parts of one step (`ranks`), and
# parts fit together if all belong to one run.

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
