"""Whatever names the version names the same one."""

from __future__ import annotations

import re

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
