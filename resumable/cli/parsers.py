"""The commands of the command line, and their arguments."""

# This module imports nothing of the library but the names of formats, so help and a mistyped
# argument take no longer than Python itself. The module named like a command is loaded when the
# command runs. The docstring of the module is the help text.

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pkgutil import get_data
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, final

from ..formats.known import FORMATS

BATCH_SIZE: Final = 256
"""Lines in a step of the demo."""


CHOICE: Final = re.compile(
    r"invalid choice: '?(?P<given>[^\s']*)'? \(choose from (?P<choices>.*)\)"
)
UNKNOWN: Final = re.compile(r"unrecognized arguments: (?P<given>--?\w[\w-]*)")
MISSING: Final = "the following arguments are required: COMMAND"

EXAMPLES: Final = "examples:\n"


class HelpFormatter(argparse.HelpFormatter):
    """Leaves the lines of examples unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser with help from a module's docstring, and with suggestions in errors.

    Args:
      module: name of the module. After its first line, the docstring has a description and examples.
      options: of `argparse.ArgumentParser`.
    """

    def __init__(self, *, module: str = "main", **options: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, **options)
        self._module = module

    def format_help(self) -> str:
        """As usual; the docstring is read from the file, since an import would load the library."""
        source = get_data(__package__, f"{self._module}.py")
        _, _, text = str(ast.get_docstring(ast.parse(source or b""))).partition("\n\n")
        self.description, _, examples = text.partition("\n\nExamples:\n")
        self.epilog = EXAMPLES + examples
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as usual, but refuse unknown arguments here: the error then shows this usage."""
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


class Argument(NamedTuple):
    """An argument of a command.

    Attributes:
      usage: names of the argument, then the name of the value for the help, if different.
      text: the help.
      kind: makes the value from the typed text; `bool` for an option without a value.
      default: the value if not typed, and the end of a help with a number; a list collects the values of
        an argument that may be repeated.
      more: other options of `add_argument`.
    """

    usage: str
    text: str
    kind: Callable[[str], Any] | None = None
    default: Any = None
    more: Mapping[str, Any] = {}

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the argument to ``parser``."""
        names, _, metavar = self.usage.rpartition(" ")
        options: dict[str, Any] = {"action": "store_true"}
        if self.kind is not bool:
            options = {"type": self.kind, "default": self.default, **self.more}
            options["metavar"] = metavar if names else None
        text = self.text
        if isinstance(self.default, list):
            options["action"] = "append"
        elif self.default is not None:
            text += f" (default: {self.default:g})"
        parser.add_argument(*(names or metavar).split(), help=text, **options)


OneOf: TypeAlias = "tuple[Argument, ...]"
"""Mutually exclusive arguments; exactly one must be given."""


@final
class Command:
    """A command.

    Args:
      summary: a line for the help of all commands.
      arguments: in the order of the help.
    """

    def __init__(self, summary: str, *arguments: Argument | OneOf) -> None:
        self.summary = summary
        self.arguments = arguments


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add every command to ``parser``; the chosen command is ``command`` of the parsed options."""
    parsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for name, command in COMMANDS.items():
        added = parsers.add_parser(name, help=command.summary, module=name)
        for argument in command.arguments:
            if isinstance(argument, Argument):
                argument.add_to(added)
                continue
            group = added.add_mutually_exclusive_group(required=True)
            for alternative in argument:
                alternative.add_to(group)


def _at_least(minimum: int) -> Callable[[str], int]:
    """The type of an integer argument of at least ``minimum``."""

    def integer(text: str) -> int:
        if (value := int(text)) < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {value}")
        return value

    return integer


def _seconds(text: str) -> float:
    """The type of an argument in seconds, above 0."""
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
    # The text after the sign may be a secret.
    name, value = _named(text, shown=text.partition("=")[0])
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        # As Python writes constants: the string "False" would count as true.
        return name, {"True": True, "False": False, "None": None}.get(value, value)


def _named(text: str, shown: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {shown!r}")
    return name, value


TARGET: Final = (
    Argument(
        "target TARGET",
        "MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, a pipeline or a function that returns one; "
        "MODULE or FILE.py alone selects the only pipeline of the file",
    ),
    Argument(
        "--arg NAME=VALUE",
        "call the function with this argument; may be repeated for other names. "
        "A VALUE other than a Python literal is a string",
        _argument,
        [],
    ),
)
RUN: Final = (Argument("run RUN", "a folder of checkpoints, or its URL"), *TARGET)
NAME: Final = Argument("--name", "name of the input, if a folder holds several inputs")
JSON: Final = Argument("--json", "print JSON, for programs", bool)

COMMANDS: Final = {
    "demo": Command(
        "train on real text, kill the training at random, and check that nothing is lost",
        Argument("--kills N", "number of kills", _at_least(0), 5),
        Argument(
            "--steps N",
            f"batches of {BATCH_SIZE} lines to train on (default: all lines once)",
            _at_least(1),
        ),
        Argument("--every N", "steps between checkpoints", _at_least(1), 100),
        Argument(
            "--partitions N",
            "divide the work into N partitions, and resume with other numbers of workers",
            _at_least(1),
        ),
        Argument("--seed N", "seed of the order and of the kills", _at_least(0), 0),
        Argument(
            "--data GLOB",
            "text files to train on (default: the .py files of Python's standard library)",
        ),
        Argument(
            "--keep DIR", "keep the checkpoints in this empty folder (default: a temporary one)"
        ),
    ),
    "verify": Command(
        "check that a pipeline resumes exactly, and find the cause of a difference",
        *TARGET,
        Argument(
            "--items N",
            "check the first N items (default: all; 10,000 of an endless pipeline)",
            int,
        ),
        Argument("--positions N", "number of stops to resume from", int, 24),
        Argument(
            "--generations N", "number of times in a row that a run is stopped and resumed", int, 3
        ),
        Argument("--seed", "seed of the random positions", int, 0),
        JSON,
    ),
    "bench": Command(
        "measure the speed of a pipeline, the time of each stage, and the cost of a save",
        *TARGET,
        Argument(
            "--seconds S",
            "the longest time of each of the two runs, after a short warm-up",
            float,
            5.0,
        ),
        Argument("--items N", "run the first N items (default: as many as the time allows)", int),
        JSON,
        Argument("--plot FILE.png", "also draw the shares of the stages; needs matplotlib"),
    ),
    "report": Command(
        "write a page with the graph, the time, the state and the verdict of a pipeline",
        *TARGET,
        Argument(
            "-o --output FILE.html", "the page; replaces an older file", more={"required": True}
        ),
        Argument("--bench FILE.json", "the output of `resumable bench --json`"),
        Argument("--verify FILE.json", "the output of `resumable verify --json`"),
        Argument(
            "--seconds S",
            "the longest time of a measuring run, as in `resumable bench` (default: 2)",
            float,
        ),
    ),
    "inspect": Command(
        "show the checkpoints of a folder, or the content of a checkpoint",
        Argument("path DIR|FILE|URL", "a folder of checkpoints, a file, or a URL"),
        Argument(
            "--history", "show instead the changes in the runs of a folder, and their steps", bool
        ),
        JSON,
    ),
    "diff": Command(
        "show the differences between two checkpoints",
        Argument("a A", "a checkpoint file, or a folder"),
        Argument("b B", "a second checkpoint file, or a folder"),
        NAME,
        JSON,
    ),
    "amend": Command(
        "print the arguments to write to continue a run with changes", *RUN, NAME, JSON
    ),
    "trace": Command(
        "show the records of a step, or the steps of a record",
        *RUN,
        (
            Argument("--step N", "the step, from 1", _at_least(1)),
            Argument(
                "--find RECORD",
                "a record: its number, or FILE:NUMBER or INPUT:NUMBER, counted from 0",
            ),
        ),
        Argument("--rank N", "only this rank", _at_least(0)),
        Argument("--ranks N", "number of ranks, if the checkpoints do not say", _at_least(1)),
        Argument(
            "--place PLACE",
            'only the records at this place in the item, such as "row 3", written as in the table',
        ),
        Argument(
            "--exclude FILE", "add the records of the step to this file, for rs.read_exclusions"
        ),
        NAME,
        JSON,
    ),
    "top": Command(
        "show the progress of each rank of a running job",
        Argument("run RUN", "the folder of checkpoints"),
        Argument("--name", "show only the input of this name"),
        Argument("--once", "print the table once, then end", bool),
        Argument("--interval S", "seconds between two reads of the folder", _seconds, 2.0),
    ),
    "show": Command(
        "show a pipeline as a tree of its stages",
        *TARGET,
        Argument("--mermaid", "print a graph for Mermaid instead", bool),
    ),
    "index": Command(
        "build the indexes of files before a training starts",
        Argument("patterns PATH", "files or URLs, or patterns in quotes", more={"nargs": "+"}),
        Argument(
            "--format",
            "format of all files (default: by the name of each file, else lines)",
            more={"choices": [format.name for format in FORMATS]},
        ),
        Argument("--index-dir DIR", "where to keep the indexes; needed for URLs"),
        Argument(
            "--storage-option NAME=VALUE",
            "open URLs with this storage option of fsspec, such as anon=true; may be repeated for "
            "other names. A VALUE other than JSON is a string",
            _storage_option,
            [],
        ),
        Argument("--workers N", "files at a time (default: the number of cores)", _at_least(1)),
    ),
    "cache": Command(
        "show the content of a cache of remote files, or remove it",
        Argument("folder DIR", "the folder of the cache"),
        Argument("--clear", "remove all parts", bool),
    ),
}
