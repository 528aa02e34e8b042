"""Pages of documentation, run as a reader would who types all of it in, from the top."""

# ```python         a block of code: runs, in one namespace a page
# ```{code-block}   with a caption: a file of that name, which is written
# ```{literalinclude}  a program of the project: a copy of it, under its name
# ```console        commands after `$ `, and what they print: run, and compared
# anything else     is not run

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from support.command import fork_command
from support.tiers import is_deep

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)$", re.M | re.S)
CAPTION = re.compile(r"\A:caption: (\S+)\n(?::[^\n]*\n)*\n?")

COMMANDS = 'resumable() { python -m resumable "$@"; }\n'
"""What an installed library puts on the path."""


class Block(NamedTuple):
    """A fenced block: the number of its first line, what its fence says, and its text."""

    line: int
    info: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield Block(line, match["info"].strip(), match["text"])


def run_page(path: Path, folder: Path) -> ModuleType:
    """Run what a page tells the reader to do, in ``folder``, which must be the working directory.

    Returns:
      The module that its Python blocks filled.

    Raises:
      AssertionError: if a command prints something else than the page says.
    """
    name = "page_" + re.sub(r"\W", "_", path.stem)
    page = sys.modules[name] = ModuleType(name)  # so that what it defines can be pickled
    try:
        _send_by_value(page)
        for line, info, text in blocks(path):
            if info == "python":
                padded = "\n" * (line - 1) + text  # so that a traceback shows the page's line
                exec(compile(padded, str(path), "exec", dont_inherit=True), vars(page))
            elif info == "console":
                _run_commands(text, folder, f"{path}:{line}")
            elif info.startswith("{code-block}") and (caption := CAPTION.match(text)):
                file = folder / caption[1]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text[caption.end() :], encoding="utf-8")
            elif info.startswith("{literalinclude}"):
                shutil.copy(path.parent / info.split()[1], folder)
    finally:
        del sys.modules[name]
    return page


def module_path() -> str:
    """Where another interpreter finds what a reader has installed."""
    paths = [ROOT, ROOT / "adapters", os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(map(str, filter(None, paths)))


def _send_by_value(page: ModuleType) -> None:
    """Let worker processes get functions of ``page`` as those of `__main__`, where a reader types them."""
    try:
        import cloudpickle
    except ImportError:  # then there are no worker processes
        return
    cloudpickle.register_pickle_by_value(page)


def _run_commands(text: str, folder: Path, place: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        check_command(command, expected, folder, place)


def check_command(command: str, expected: str, folder: Path, place: str) -> None:
    """Run ``command`` in ``folder``.

    Raises:
      AssertionError: if it prints something else than ``expected``; it names the ``place``.
    """
    printed = _printed_by(command, folder)
    assert matches(expected, printed), (
        f"{place}: `{command}` does not print what the page says. It printed:\n{printed}"
    )


def _printed_by(command: str, folder: Path) -> str:
    name, *arguments = shlex.split(command)
    if name == "resumable" and not is_deep() and not re.search("[|&;<>$*`]", command):
        return fork_command(folder, *arguments, COLUMNS="100").stdout
    search = [Path(sys.executable).parent, os.environ.get("PATH", "")]
    done = subprocess.run(
        ["bash", "-c", COMMANDS + command],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join(map(str, search)),
            "PYTHONPATH": module_path(),
            "COLUMNS": "100",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what a page says, but for numbers, times and spaces.

    A line of three dots stands for any number of lines.
    """
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line.strip() == "..." else re.escape(_plain(line)) + "\n"
        for line in expected.strip("\n").splitlines()
    )
    found = "".join(_plain(line) + "\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, found) is not None


def _plain(line: str) -> str:
    """``line`` without what another run prints differently."""
    unit = r"(?:ns|µs|ms|s|min|hours?|days?)\b"
    line = re.sub(rf"\d+(?:[.,:-]\d+)*(?: {unit}(?: \d+ {unit})*)?", "#", line)
    return " ".join(line.split())
