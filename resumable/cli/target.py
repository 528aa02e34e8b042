"""The arguments by which a command names its pipeline: TARGET, and `--arg` for a function."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import shorten
from ..verify.target import Target, TargetError


def target_of(options: argparse.Namespace) -> Target:
    """The target that the command line names.

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
