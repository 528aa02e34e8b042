"""Whatever names the version names the same one, and the README can be read on a package index."""

from __future__ import annotations

import re
import runpy
import sys
from types import ModuleType

import pytest
from support.command import ROOT

import resumable as rs


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    entries = re.findall(
        r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert entries[0][0] == rs.__version__
    assert [date for _, date in entries] == sorted((date for _, date in entries), reverse=True)


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    version, released = re.findall(r"^(?:version|date-released): (.*)$", citation, re.M)
    newest = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert (version, released.strip('"')) == newest.groups()


def test_on_an_index_every_link_and_picture_of_the_readme_is_absolute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hatchling = ModuleType("hatchling.metadata.plugin.interface")
    hatchling.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, hatchling.__name__, hatchling)
    absolute = runpy.run_path(str(ROOT / "hatch_build.py"))["absolute"]
    text = absolute((ROOT / "README.md").read_text("utf-8"), "https://example.org/owner/name/")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    ours = [(mark, link) for mark, link in links if link.startswith("https://example.org/owner/")]
    assert len(ours) > 30
    assert {mark for mark, _ in ours} == {"", "!"}
    for mark, link in ours:
        path = link.removeprefix(
            f"https://example.org/owner/name/{'raw' if mark else 'blob'}/HEAD/"
        )
        assert (ROOT / path.partition("#")[0]).exists(), link
    assert all(link.startswith("https://") for _, link in links)
