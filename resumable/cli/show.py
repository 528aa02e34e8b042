"""`resumable show`: a pipeline as a tree."""

from __future__ import annotations

import argparse

from .target import target_of


def run(options: argparse.Namespace) -> int:
    """Print the pipeline; returns the exit status."""
    pipeline = target_of(options).load()
    print(pipeline.to_mermaid() if options.mermaid else pipeline.describe())
    return 0
