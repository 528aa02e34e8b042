"""The pipeline named by TARGET and `--arg`, and the pipeline's output."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from ..errors import shorten
from ..verify.target import Target, TargetError


def target_of(options: argparse.Namespace) -> Target:
    """The target named by the command line.

    Raises:
      TargetError: if an argument is given twice.
    """
    arguments: dict[str, Any] = {}
    for name, value in options.arg:
        if name in arguments:
            raise TargetError(
                f"--arg {name} must be given once, got {shorten(arguments[name])} and "
                f"{shorten(value)}"
            )
        arguments[name] = value
    return Target(options.target, arguments)


@contextmanager
def only_outcome(command: str) -> Iterator[None]:
    """Send a pipeline's prints and warnings to standard error; standard output has the outcome."""
    with redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in noted):
                print(f"resumable {command}: {message}", file=sys.stderr)
