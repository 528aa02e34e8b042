"""Parse the command line and run a subcommand."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from .. import __version__
from . import bench, demo, diff, inspect, show, verify


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `resumable`; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="resumable",
        description="Input pipelines that stop at any item and continue at exactly the next one.",
    )
    parser.add_argument("--version", action="version", version=f"resumable {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (demo, verify, bench, inspect, diff, show):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal that lacks our letters
    run: int = options.run(options)
    return run


if __name__ == "__main__":
    sys.exit(main())
