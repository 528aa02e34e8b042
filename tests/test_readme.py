"""Every Python block of the README runs, in order, in one namespace."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import resumable as rs

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def blocks(path: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of each fenced block of ``language``."""
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match[1])
        for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


def test_every_python_block_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = ModuleType("readme")  # so that what it defines can be pickled
    monkeypatch.setitem(sys.modules, "readme", readme)
    namespace = vars(readme)
    found = blocks(README, "python")
    assert len(found) >= 4
    for line, code in found:
        padded = "\n" * (line - 1) + code  # so that a traceback shows the README's line
        exec(compile(padded, str(README), "exec", dont_inherit=True), namespace)
    assert namespace["model"][0] == 3000  # lines
    assert "Shuffle at pipeline.upstream.upstream: saved seed=0" in capsys.readouterr().out


def test_the_readme_is_short_and_leads_on() -> None:
    text = README.read_text(encoding="utf-8")
    marks = text.count("<!--")  # around passages that are written from the results
    assert text.count("\n") - marks <= 180
    for page in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / page).exists(), page


@pytest.mark.parametrize("number", [0, 1], ids=["stage", "format"])
def test_what_the_contributing_page_shows_obeys_every_law(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    line, code = blocks(ROOT / "CONTRIBUTING.md", "python")[number]
    assert code.count("\n") < 70
    page = ModuleType("contributing")
    monkeypatch.setitem(sys.modules, "contributing", page)
    exec(
        compile("\n" * (line - 1) + code, "CONTRIBUTING.md", "exec", dont_inherit=True), vars(page)
    )


def test_the_readme_has_the_two_commands() -> None:
    commands = [block for _, block in blocks(README, "")]
    assert "pip install -e . && resumable demo\n" in commands
    assert 'pip install -e ".[test]" && pytest\n' in commands


def test_the_guides_name_every_method_and_source() -> None:
    pages = (ROOT / "docs" / "guides").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    internal = {
        "apply",
        "gather",
        "start",
        "resume",
        "length",
        "random_access",
        "fingerprint",
        "stage",
    }
    for name in vars(rs.Pipeline):
        if not name.startswith("_") and name not in internal:
            assert f"{name}(" in text, f"no guide mentions {name}"
