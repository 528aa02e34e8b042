"""Parse the command line and run a subcommand.

Input pipelines that stop at any item and continue at exactly the next item.

Examples:
  resumable demo
  resumable verify train.py
  resumable inspect run
"""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module

from .. import __version__
from .output import CLOSED_PIPE, Output, ReaderEnded
from .parsers import CommandParser, add_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `resumable`; returns the exit status."""
    parser = CommandParser(prog="resumable")
    parser.add_argument("--version", action="version", version=f"resumable {__version__}")
    add_commands(parser)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal that cannot show every character
    run = import_module(f"{__package__}.{options.command}").run
    output = Output(sys.stdout)
    try:
        with redirect_stdout(output):
            status = _status(run, options)
            output.flush()
    except ReaderEnded:
        output.drop()
        return CLOSED_PIPE
    return status


def _status(run: Callable[[Namespace], int], options: Namespace) -> int:
    """Run a command; print an error in a line, and return the exit status."""
    try:
        return run(options)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Imported late: help and a command without errors need not load the module.
        from ..errors import ResumableError
        from .texts import explain

        if not isinstance(error, (ResumableError, OSError)):
            raise
        print(f"resumable {options.command}: {explain(error)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
