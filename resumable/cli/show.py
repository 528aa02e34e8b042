"""`resumable show`: a pipeline as a tree."""

from __future__ import annotations

import argparse
import sys

from ..verify import TargetError
from .target import target_of


def run(options: argparse.Namespace) -> int:
    """Print the pipeline; returns the exit status."""
    try:
        pipeline = target_of(options).load()
    except TargetError as error:
        print(f"resumable show: {error}", file=sys.stderr)
        return 2
    print(pipeline.to_mermaid() if options.mermaid else pipeline.describe())
    return 0
