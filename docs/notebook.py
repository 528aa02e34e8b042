"""Writes the notebook of the page Start: ``python docs/notebook.py``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/start.md"
NOTEBOOK: Final = ROOT / "examples/start.ipynb"

FIRST: Final = "## Your first pipeline"
"""What comes before it on the page is about the installation."""

HEAD: Final = """\
# Start

This notebook is the second half of [Start](../docs/start.md), made from that page by `docs/notebook.py`. In a checkout, install the library by `%pip install -e ..`, and restart the kernel.

The first cell changes to an empty folder."""

EMPTY_FOLDER: Final = """\
import os
import tempfile

os.chdir(tempfile.mkdtemp())"""

FENCE: Final = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)
FILE: Final = re.compile(r":caption: (\S+)\n\n?")
ROLE: Final = re.compile(r"\{py:\w+\}`~?(?:\w+\.)*(\w+)`")
LINK: Final = re.compile(r"\]\((?!\w+:)([^)]+)\)")

Cell = dict[str, Any]


def cells() -> Iterator[Cell]:
    """The cells of the notebook: texts, blocks of Python, files and commands, as on the page."""
    yield text_cell(HEAD)
    yield code_cell(EMPTY_FOLDER)
    page = PAGE.read_text("utf-8")
    page = page[page.index(FIRST) :]
    end = 0
    for block in FENCE.finditer(page):
        yield text_cell(page[end : block.start()])
        end = block.end()
        info, text = block.groups()
        if info == "python":
            yield code_cell(text)
        elif info == "console":
            yield from (command_cell(part) for part in re.split(r"^\$ ", text, flags=re.M)[1:])
        else:
            file = FILE.match(text)
            assert file is not None, f"a notebook has no cell for {info!r}"
            yield code_cell(f"%%writefile {file[1]}\n{text[file.end() :]}")
    yield text_cell(page[end:])


def text_cell(text: str) -> Cell:
    """A cell of text, with links that lead on from the folder of the notebook."""
    text = LINK.sub(r"](../docs/\1)", ROLE.sub(r"`\1`", text)).replace("../docs/../", "../")
    return {"cell_type": "markdown", "metadata": {}, "source": lines(text)}


def command_cell(command: str) -> Cell:
    """A cell that runs a command, with what it printed."""
    command, _, printed = command.partition("\n")
    return code_cell(f"!{command}", printed)


def code_cell(code: str, printed: str = "") -> Cell:
    """A cell of Python, or of a command of the notebook."""
    stream = {"output_type": "stream", "name": "stdout", "text": lines(printed)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [stream] if printed else [],
        "source": lines(code),
    }


def lines(text: str) -> list[str]:
    """``text`` as notebooks keep it."""
    return text.strip("\n").splitlines(keepends=True)


def notebook() -> str:
    """The notebook, as it stands in its file."""
    made = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells())]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), "utf-8")
