"""Checkpoints: when the loop saves, what a file holds, and where files are kept."""

from .checkpointer import Checkpointer as Checkpointer
from .checkpointer import ResumedLoop as ResumedLoop
from .directory import Directory as Directory
from .envelope import Checkpoint as Checkpoint
from .listener import CheckpointListener as CheckpointListener
from .memory import Memory as Memory
from .store import Store as Store
