"""`resumable show`: a pipeline as a tree.

Prints each stage of a pipeline with its arguments, the number of its items, whether it has random access, and
what it adds to the state. The file or module is executed.

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
