"""The commands of the command line, and their arguments."""

# This module imports nothing of the library, so that help and a mistyped argument take no longer
# than Python itself. What a command does is in the module of its name, loaded when it is run.

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

BATCH_SIZE: Final = 256
"""Lines in a step of the demo."""


CHOICE: Final = re.compile(
    r"invalid choice: '?(?P<given>[^\s']*)'? \(choose from (?P<choices>.*)\)"
)
UNKNOWN: Final = re.compile(r"unrecognized arguments: (?P<given>--?\w[\w-]*)")
MISSING: Final = "the following arguments are required: COMMAND"

EXAMPLES: Final = "examples:\n"
NO_HELP: Final = "\n\n\n\n"
"""In place of a docstring that Python has left out, as with ``-OO``."""


class HelpFormatter(argparse.HelpFormatter):
    """Leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors suggest what may have been meant."""

    def __init__(self, *, examples: Sequence[str] = (), **options: Any) -> None:
        lines = "".join(f"  {example}\n" for example in examples)
        options |= {"formatter_class": HelpFormatter, "epilog": EXAMPLES + lines if lines else None}
        super().__init__(**options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As usual, but a command itself refuses what it does not know, with its own usage."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print the usage, the message and a suggestion; without a command print the whole help.

        Either ends the program with status 2.
        """
        if message == MISSING:
            self.print_help(sys.stderr)
            self.exit(2)
        super().error(message + self._suggestion(message))

    def _suggestion(self, message: str) -> str:
        if match := CHOICE.search(message):
            known = re.findall(r"[\w-]+", match["choices"])
        elif match := UNKNOWN.search(message):
            known = list(self._option_string_actions)
        else:
            return ""
        near = get_close_matches(match["given"], known, 1)
        return f"; did you mean {near[0]}?" if near else ""


def add_commands(root: argparse.ArgumentParser) -> None:
    """Add every command to ``root``; the parsed options have the chosen one as ``command``."""
    commands = root.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for add in (
        *(_demo, _verify, _bench, _report, _inspect, _diff, _amend),
        *(_trace, _top, _show, _index, _cache),
    ):
        # Its docstring is its help: what it does in a line, then at length, and examples.
        parts = (add.__doc__ or NO_HELP).split("\n\n")
        summary, description, examples = (part.strip() for part in parts)
        parser = commands.add_parser(
            add.__name__[1:],
            help=summary[:1].lower() + summary[1:-1],
            description=description,
            examples=[line.strip() for line in examples.splitlines()],
        )
        add(parser)


def _demo(parser: Any) -> None:
    """Train on real text, kill the training at random, and check that nothing is lost.

    Trains a small language model on lines of text, once without interruption and once killed by
    SIGKILL at random moments. Compares the lines that each has seen, and the weights.

    resumable demo
    resumable demo --kills 20 --steps 200
    resumable demo --partitions 8 --keep run
    """
    parser.add_argument(
        "--kills", type=_at_least(0), default=5, metavar="N", help="number of kills (default: 5)"
    )
    parser.add_argument(
        "--steps",
        type=_at_least(1),
        metavar="N",
        help=f"batches of {BATCH_SIZE} lines to train on (default: all lines once)",
    )
    parser.add_argument(
        "--every",
        type=_at_least(1),
        default=100,
        metavar="N",
        help="steps between checkpoints (default: 100)",
    )
    parser.add_argument(
        "--partitions",
        type=_at_least(1),
        metavar="N",
        help="divide the work into so many partitions, and resume with other numbers of workers",
    )
    parser.add_argument(
        "--seed",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="seed of the order and of the kills (default: 0)",
    )
    parser.add_argument(
        "--data",
        metavar="GLOB",
        help="text files to train on (default: the .py files of Python's standard library)",
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="keep the checkpoints in this empty folder (default: a temporary one)",
    )


def _verify(parser: Any) -> None:
    """Check that a pipeline resumes exactly, and find out why if it does not.

    Runs a pipeline for reference and stops it at random positions. Resumes it from checkpoint
    files in fresh processes, and stops and resumes it there again, also with other numbers of
    workers and ranks and other prefetch depths, where it has them. What is dealt out to ranks
    is run as two that save one checkpoint together. Compares every item; if one differs, finds
    the first stage at fault and says why. The file or module is executed many times. The exit
    status is 0 if the pipeline is exact, 1 if it is not, 2 if it cannot be loaded or run.

    resumable verify train.py
    resumable verify train.py:pipeline --items 1000
    resumable verify train:make_pipeline --arg seed=1 --positions 6 --json
    """
    _add_target(parser)
    parser.add_argument(
        "--items",
        type=int,
        metavar="N",
        help="check the first N items (default: all; 10,000 of an endless pipeline)",
    )
    parser.add_argument(
        "--positions",
        type=int,
        default=24,
        metavar="N",
        help="number of stops to resume from (default: 24)",
    )
    parser.add_argument(
        "--generations",
        type=int,
        default=3,
        metavar="N",
        help="how many times in a row a run is stopped and resumed (default: 3)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random positions (default: 0)"
    )
    _add_json(parser)


def _bench(parser: Any) -> None:
    """Measure how fast a pipeline is, which stage slows it down, and what a save costs.

    Runs a pipeline as fast as possible, first unchanged, then with each stage timed. Then saves
    and resumes it in the middle of the items measured. The share of a stage is the part of the
    loop's time in which the loop waits for it; while prefetch waits for its thread, the stage
    at work there counts. The file or module is executed. The exit status is 0, or 2 if the
    pipeline cannot be loaded or run.

    resumable bench train.py
    resumable bench train.py:pipeline --seconds 20 --plot stages.png
    resumable bench train:make_pipeline --arg workers=4 --json > bench.json
    """
    _add_target(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="the longest time of a run; there are two, and a short one before (default: 5)",
    )
    parser.add_argument(
        "--items",
        type=int,
        metavar="N",
        help="run the first N items (default: all there is time for)",
    )
    _add_json(parser)
    parser.add_argument(
        "--plot", metavar="FILE.png", help="also draw the shares of the stages; needs matplotlib"
    )


def _report(parser: Any) -> None:
    """Write a page with a pipeline's graph, its time, its state and its verdict.

    Writes one HTML page that loads nothing else: the graph of a pipeline with what each stage
    saves, the shares of the stages of the time, the size of the state and the cost of a save,
    and the verdict of `resumable verify` if it is given. The pipeline is measured, unless
    --bench gives a measurement. The file or module is executed. The exit status is 0, or 2 if
    the pipeline cannot be loaded or run, or a file cannot be read or written.

    resumable report train.py -o report.html
    resumable verify train.py --json > verify.json
    resumable report train.py -o report.html --verify verify.json
    """
    _add_target(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.html",
        required=True,
        help="the page; replaced if it is there",
    )
    parser.add_argument(
        "--bench", metavar="FILE.json", help="what `resumable bench --json` has printed"
    )
    parser.add_argument(
        "--verify", metavar="FILE.json", help="what `resumable verify --json` has printed"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="the longest time of a run of the measurement, as in `resumable bench` (default: 2)",
    )


def _inspect(parser: Any) -> None:
    """Show the checkpoints of a folder, or what one of them holds.

    Lists every checkpoint of a folder with its step, age, size and whether it is valid, or
    shows the state in one file as the tree of its pipeline. Nothing is changed. For each stage
    it prints what was saved: mostly the position, in items; and from which position on each
    value of an argument holds that may change, such as the weights of a mix. The exit status is
    1 if a checkpoint is damaged, unless it was set aside and a valid one is left; 2 if there is
    nothing to read.

    resumable inspect run
    resumable inspect run/input-000000001200.ckpt
    resumable inspect run --history
    """
    parser.add_argument(
        "path", metavar="DIR|FILE|URL", help="a folder of checkpoints, or one file; or its URL"
    )
    parser.add_argument(
        "--history",
        action="store_true",
        help="show instead what was changed in the runs of a folder, and at which steps",
    )
    _add_json(parser)


def _diff(parser: Any) -> None:
    """Show what moved between two checkpoints.

    Compares two checkpoints stage by stage. A folder stands for its newest valid checkpoint, of
    the input NAME if it holds several. The exit status is 0 if both hold the same state, 1 if
    they differ, 2 if one cannot be read.

    resumable diff run/input-000000001200.ckpt run/input-000000001300.ckpt
    resumable diff run-a run-b --name valid
    """
    parser.add_argument("a", metavar="A", help="a checkpoint file, or a folder")
    parser.add_argument("b", metavar="B", help="another one")
    _add_name(parser)
    _add_json(parser)


def _amend(parser: Any) -> None:
    """Say what to write so that a run goes on with changed arguments.

    Prints where a run stands at its newest valid checkpoint, on all of its ranks, and from
    where on what may change: the weights of a mix, the records that are left out, the pipelines
    by epoch, and the inputs of a concatenation. For each that the code has changed, prints what
    to write, with the position filled in. Nothing is changed. The file or module is executed.
    The exit status is 0 if the run can go on with the code as it is, 1 if something must be
    written first, 2 if the run or the pipeline cannot be read, or they differ in more.

    resumable amend run train.py
    resumable amend run train.py:pipeline --json
    resumable amend s3://bucket/run train:make_pipeline --arg seed=1
    """
    _add_run(parser)
    _add_name(parser)
    _add_json(parser)


def _trace(parser: Any) -> None:
    """Say which records a step was made of, or which steps a record was in.

    Prints a row for each record that the item of a step was made of, on all ranks: where it is
    in the item, the input, the file and the number of the record, and how it begins. With
    --find, prints the steps, ranks and places that a record was in, up to the newest checkpoint
    and in the rest of its epoch. Ranks are those of that time, by the checkpoints, which are
    only read. The file or module is executed. The exit status is 0 if something was found, 1 if
    nothing was, 2 if the run or the pipeline cannot be read.

    resumable trace run train.py --step 41317
    resumable trace run train.py:pipeline --step 41317 --place "row 3" --exclude bad.json
    resumable trace run train.py --find books.jsonl:812
    """
    _add_run(parser)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--step", type=_at_least(1), metavar="N", help="the step, from 1")
    chosen.add_argument(
        "--find",
        metavar="RECORD",
        help="a record: its number, or FILE:NUMBER or INPUT:NUMBER, counted from 0",
    )
    parser.add_argument("--rank", type=_at_least(0), metavar="N", help="only this rank")
    parser.add_argument(
        "--ranks",
        type=_at_least(1),
        metavar="N",
        help="how many ranks there were, if the checkpoints do not tell",
    )
    parser.add_argument(
        "--place",
        metavar="PLACE",
        help='only what is at this place in the item of the step, such as "row 3", as the table has it',
    )
    parser.add_argument(
        "--exclude",
        metavar="FILE",
        help="add the records of the step to this file, which rs.read_exclusions reads",
    )
    _add_name(parser)
    _add_json(parser)


def _top(parser: Any) -> None:
    """Show how each rank of a run is doing, while it runs.

    Shows for each rank of a run its step, its speed, how much of the time it waits for items,
    how many items were skipped, and when it saved last; and for each input of a mixture the items,
    passes and tokens of all ranks. Reads the folder of the run only, again and again until it is
    interrupted. All but the step and the save is known if the run was started with
    Checkpointer(..., stats=True), which notes it at each save. Speed and waiting are those since
    the save before. The exit status is 0, or 2 if there is no such folder, or with --once nothing
    to read.

    resumable top run
    resumable top run --once
    resumable top run --name train --interval 10
    """
    parser.add_argument("run", metavar="RUN", help="the folder of checkpoints")
    parser.add_argument("--name", help="show only the input of this name")
    parser.add_argument("--once", action="store_true", help="print the table once, and end")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=2.0,
        metavar="S",
        help="seconds between two looks at the folder (default: 2)",
    )


def _show(parser: Any) -> None:
    """Show a pipeline as a tree of its stages.

    Prints each stage of a pipeline with its arguments, the number of its items, whether it has
    random access, and what it adds to the state. The file or module is executed.

    resumable show train.py
    resumable show train.py:pipeline --mermaid
    resumable show train:make_pipeline --arg seed=1
    """
    _add_target(parser)
    parser.add_argument("--mermaid", action="store_true", help="print a graph for Mermaid instead")


def _cache(parser: Any) -> None:
    """Show what a cache of remote files holds, or empty it.

    Shows the remote files of which an rs.FileCache keeps parts in a folder, how much of each,
    and how many processes use it. Removes nothing that a cache has not written.

    resumable cache /scratch/cache
    resumable cache /scratch/cache --clear
    """
    parser.add_argument("folder", metavar="DIR", help="the folder of the cache")
    parser.add_argument("--clear", action="store_true", help="remove all parts")


def _index(parser: Any) -> None:
    """Build the indexes of files before they are needed.

    Finds where the records of files end, and keeps that next to them or in a folder, so that a
    pipeline over them opens at once. Indexes that are there and right are left as they are. The
    exit status is 1 if a file cannot be indexed, 2 if there is none.

    resumable index "data/*.jsonl"
    resumable index "data/*.tar" --index-dir indexes --workers 4
    resumable index "s3://bucket/*.tar" --index-dir indexes --storage-option anon=true
    """
    parser.add_argument(
        "patterns", metavar="PATH", nargs="+", help="files or URLs, or patterns in quotes"
    )
    parser.add_argument(
        "--format",
        choices=["lines", "jsonl", "csv", "tar", "tfrecord"],
        help="of all files (default: by their names; of others, lines)",
    )
    parser.add_argument(
        "--index-dir", metavar="DIR", help="where to keep the indexes; needed for URLs"
    )
    parser.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="storage_options",
        type=_storage_option,
        help=(
            "open URLs with this storage option of fsspec, such as anon=true; may be given for several "
            "names. A VALUE that is no JSON is a string"
        ),
    )
    parser.add_argument(
        "--workers",
        type=_at_least(1),
        metavar="N",
        help="files at a time (default: the number of cores)",
    )


def _add_target(parser: Any) -> None:
    """Add TARGET and ``--arg`` to the options of a command."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        help=(
            "MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, a pipeline or a function that returns one; "
            "MODULE or FILE.py alone if it has only one pipeline"
        ),
    )
    parser.add_argument(
        "--arg",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_argument,
        help=(
            "call the function with this argument; may be given for several names. "
            "A VALUE that is no Python literal is a string"
        ),
    )


def _add_run(parser: Any) -> None:
    """Add RUN and TARGET to the options of a command about a run and its code."""
    parser.add_argument("run", metavar="RUN", help="a folder of checkpoints, or its URL")
    _add_target(parser)


def _add_name(parser: Any) -> None:
    """Add ``--name`` to the options of a command about one input."""
    parser.add_argument("--name", help="name of the input, if a folder holds several")


def _add_json(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def _at_least(minimum: int) -> Callable[[str], int]:
    """The type of an argument that is an integer of at least ``minimum``."""

    def integer(text: str) -> int:
        if (value := int(text)) < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {value}")
        return value

    return integer


def _seconds(text: str) -> float:
    """The type of an argument that is a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"must be above 0 and below a million, got {text}")
    return value


def _argument(text: str) -> tuple[str, Any]:
    name, value = _named(text, shown=text)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value


def _storage_option(text: str) -> tuple[str, Any]:
    # What stands behind the sign may be a secret.
    name, value = _named(text, shown=text.partition("=")[0])
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        # As Python writes them: otherwise "False" would be a string that counts as true.
        return name, {"True": True, "False": False, "None": None}.get(value, value)


def _named(text: str, shown: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {shown!r}")
    return name, value
