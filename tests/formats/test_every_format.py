"""Each format with an index is known wherever formats are listed; a message says what to add, and where."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaigns.damaged_records import RecordTarget
from campaigns.lost_items import KINDS
from support.command import ROOT
from support.format_facts import FORMAT_FACTS, FormatFacts

import resumable as rs
from resumable import from_files
from resumable.cli.parsers import add_commands
from resumable.formats.index.names import is_cache, suffix_of
from resumable.formats.known import FORMATS

NAMES = [format.name for format in FORMATS]
KNOWN = "FORMATS of resumable/formats/known.py"


def of_page(path: str) -> str:
    return (ROOT / "docs" / path).read_text(encoding="utf-8")


def functions_of_files() -> list[tuple[str, Callable[..., Any]]]:
    """The functions that make pipelines over files, by name."""
    return [
        (name, function)
        for name, function in vars(from_files).items()
        if inspect.isfunction(function)
        and function.__module__ == from_files.__name__
        and not name.startswith("_")
    ]


def test_each_function_with_an_index_reads_a_known_format() -> None:
    with_index = {
        name
        for name, function in functions_of_files()
        if "index_dir" in inspect.signature(function).parameters
    }
    assert with_index == set(NAMES), f"{sorted(with_index ^ set(NAMES))} must be in {KNOWN}"


def test_the_command_line_offers_each_format() -> None:
    parser = argparse.ArgumentParser()
    add_commands(parser)
    for name in NAMES:
        assert parser.parse_args(["index", "--format", name, "file"]).format == name


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_public_and_described(name: str) -> None:
    assert name in rs.__all__, f"{name!r} must be in resumable/__init__.py, twice"
    listed = f".. autofunction:: {name}\n"
    assert listed in of_page("reference/sources.md"), f"docs/reference/sources.md needs {listed}"
    assert f"rs.{name}(" in of_page("guides/sources.md"), (
        f"the table of docs/guides/sources.md needs {name}"
    )
    assert f"`{name}`" in of_page("guides/files.md"), f"docs/guides/files.md must explain `{name}`"


def test_each_format_has_facts() -> None:
    functions = {name for name, _ in functions_of_files()}
    told = [FORMAT_FACTS.path(name) for name in sorted(functions ^ FORMAT_FACTS.all.keys())]
    assert functions == FORMAT_FACTS.all.keys(), f"missing, or of no format: {told}"


def needs(name: str, field: str, entry: str) -> str:
    return f"`{field}` of {FORMAT_FACTS.path(name)} needs an entry {entry}"


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_files_for_each_test_that_all_formats_take(name: str) -> None:
    facts = FORMAT_FACTS.all[name]
    if facts.package is not None:
        pytest.importorskip(facts.package, reason=f"{facts.package} is not installed")
    for field in ("one_size", "removed", "behind_urls", "in_streams"):
        assert name in getattr(facts, field), needs(name, field, repr(name))
    assert facts.behind_urls[name].has_index, f"the file behind a URL of {name} needs an index"
    assert isinstance(facts.damaged().get(name), RecordTarget), needs(
        name, "damaged", f"{name!r}: RecordTarget(...)"
    )
    assert name in KINDS, f"a Kind {name!r} must be in tests/campaigns/lost_items.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_in_the_catalogue_also_with_what_is_skipped(name: str, tmp_path: Path) -> None:
    found = FORMAT_FACTS.all[name].pipelines(tmp_path)
    assert name in found, needs(name, "pipelines", repr(name))
    skips = "on_error" in inspect.signature(getattr(rs, name)).parameters
    skipping = f"{name} skipping"
    assert not skips or skipping in found, needs(name, "pipelines", repr(skipping))


@pytest.mark.parametrize("name", NAMES)
def test_no_pattern_takes_a_cache_of_a_format_for_data(name: str) -> None:
    format = next(format for format in FORMATS if format.name == name)
    facts = FORMAT_FACTS.all[name]
    if facts.package is not None:
        pytest.importorskip(facts.package, reason=f"{facts.package} is not installed")
    target = facts.damaged()[name]
    assert isinstance(target, RecordTarget)
    found = target.format
    assert is_cache(f"a{suffix_of(found)}"), f"caches of {name} begin otherwise than {KNOWN} says"
    assert found.name.split("-")[0] == format.caches


def test_an_incomplete_file_is_refused_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_damage(name: str) -> None:
        FormatFacts(one_size={}, removed={})  # type: ignore[call-arg]

    monkeypatch.setattr("support.fact_files.import_module", without_damage)
    told = r"^tests/formats/facts/array_record\.py must have FACTS.*format_facts.py.*'damaged'"
    with pytest.raises(ImportError, match=told):
        FORMAT_FACTS.read()
