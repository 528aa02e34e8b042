"""The notebook is the page Start, and each of its cells runs."""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.pages import ROOT, check_command

NOTEBOOK = ROOT / "examples/start.ipynb"


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_is_the_page() -> None:
    made = runpy.run_path(str(ROOT / "docs/notebook.py"))["notebook"]()
    assert NOTEBOOK.read_text("utf-8") == made, "run `python docs/notebook.py`"


def test_the_links_of_the_notebook_lead_to_pages() -> None:
    text = NOTEBOOK.read_text("utf-8")
    links = [part.partition(")")[0].partition("#")[0] for part in text.split("](")[1:]]
    assert len(links) > 10
    assert {link for link in links if not (NOTEBOOK.parent / link).is_file()} == set()


@pytest.mark.deep
def test_every_cell_of_the_notebook_runs_without_jupyter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = ModuleType("start_notebook")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for number, cell in enumerate(code_cells()):
        source = "".join(cell["source"])
        if source.startswith("!"):
            printed = "".join(line for output in cell["outputs"] for line in output["text"])
            check_command(source[1:], printed, Path.cwd(), f"cell {number}")
        elif source.startswith("%%writefile "):
            name, _, text = source.removeprefix("%%writefile ").partition("\n")
            Path(name).write_text(text, "utf-8")
        else:
            exec(compile(source, f"cell {number}", "exec", dont_inherit=True), vars(module))
    assert Path.cwd() != tmp_path
    assert len(vars(module)["pipeline"]) == 47
