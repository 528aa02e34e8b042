"""Each format with an index is known wherever formats are listed; a message says what to add, and where."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

import pytest
from campaigns.damaged_records import RECORDS
from support.command import ROOT
from support.graphs import catalogue

import resumable as rs
from resumable import from_files
from resumable.cli.parsers import add_commands
from resumable.formats.index.known import FORMATS
from resumable.formats.index.names import is_cache, suffix_of

NAMES = [format.name for format in FORMATS]
KNOWN = "FORMATS of resumable/formats/index/known.py"
# They are in the tables below only where their package is installed.
PACKAGED = {"tfrecord": "google_crc32c"}


def of_page(path: str) -> str:
    return (ROOT / "docs" / path).read_text(encoding="utf-8")


def test_each_function_with_an_index_reads_a_known_format() -> None:
    with_index = {
        name
        for name, function in vars(from_files).items()
        if inspect.isfunction(function)
        and function.__module__ == from_files.__name__
        and not name.startswith("_")
        and "index_dir" in inspect.signature(function).parameters
    }
    assert with_index == set(NAMES), f"{sorted(with_index ^ set(NAMES))} must be in {KNOWN}"


def test_the_command_line_offers_each_format() -> None:
    parser = argparse.ArgumentParser()
    add_commands(parser)
    for name in NAMES:
        try:
            parser.parse_args(["index", "--format", name, "file"])
        except SystemExit:
            pytest.fail(f"{name!r} must be in the choices of --format in resumable/cli/parsers.py")


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_public_and_described(name: str) -> None:
    assert name in rs.__all__, f"{name!r} must be in resumable/__init__.py, twice"
    listed = f".. autofunction:: {name}\n"
    assert listed in of_page("reference/sources.md"), f"docs/reference/sources.md needs {listed}"
    assert f"rs.{name}(" in of_page("guides/sources.md"), (
        f"the table of docs/guides/sources.md needs {name}"
    )
    assert f"`{name}`" in of_page("guides/files.md"), f"docs/guides/files.md must explain `{name}`"


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_files_for_each_test_that_all_formats_take(name: str) -> None:
    if name in PACKAGED:
        pytest.importorskip(PACKAGED[name], reason=f"{PACKAGED[name]} is not installed")
    assert name in RECORDS, f"a RecordTarget {name!r} must be in tests/campaigns/damaged_records.py"
    for path in ("tests/formats/test_contents.py", "tests/formats/test_remote_index.py"):
        table = (ROOT / path).read_text(encoding="utf-8")
        assert f'\n    "{name}": (' in table, f"a file of {name!r} must be in the table of {path}"


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_in_the_catalogue_also_with_what_is_skipped(name: str) -> None:
    if name in PACKAGED:
        pytest.importorskip(PACKAGED[name], reason=f"{PACKAGED[name]} is not installed")
    found = [one for one in catalogue(Path()) if one.split()[0] == name]
    assert found, f"a pipeline named {name!r} must be in tests/support/catalogue/files.py"
    skips = "on_error" in inspect.signature(getattr(rs, name)).parameters
    assert not skips or f"{name} skipping" in found, f"so must one named '{name} skipping'"


@pytest.mark.parametrize("name", NAMES)
def test_no_pattern_takes_a_cache_of_a_format_for_data(name: str) -> None:
    format = next(format for format in FORMATS if format.name == name)
    if name in PACKAGED:
        pytest.importorskip(PACKAGED[name], reason=f"{PACKAGED[name]} is not installed")
    assert name in RECORDS, f"a RecordTarget {name!r} must be in tests/campaigns/damaged_records.py"
    found = RECORDS[name].format
    assert is_cache(f"a{suffix_of(found)}"), f"caches of {name} begin otherwise than {KNOWN} says"
    assert found.name.split("-")[0] == format.caches
