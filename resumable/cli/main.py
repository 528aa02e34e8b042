"""Parse the command line and run a subcommand."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module

from .. import __version__
from .output import CLOSED_PIPE, Output, ReaderEnded
from .parsers import CommandParser, add_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `resumable`; returns the exit status."""
    parser = CommandParser(
        prog="resumable",
        examples=(
            "resumable demo",
            "resumable verify train.py",
            "resumable inspect run",
        ),
        description="Input pipelines that stop at any item and continue at exactly the next one.",
    )
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
            status: int = run(options)
            output.flush()
    except ReaderEnded:
        output.drop()
        return CLOSED_PIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
