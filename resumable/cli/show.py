"""`resumable show`: a pipeline as a tree.

Prints each stage of a pipeline with the arguments, the number of items, whether the stage has random access, and
the stage's part of the state. Executes the file or module.

Examples:
  resumable show train.py
  resumable show train.py:pipeline --mermaid
  resumable show train:make_pipeline --arg seed=1
"""

from __future__ import annotations

import argparse

from .target import target_of


def run(options: argparse.Namespace) -> int:
    """Print the pipeline; returns the exit status."""
    pipeline = target_of(options).load()
    print(pipeline.to_mermaid() if options.mermaid else pipeline.describe())
    return 0
