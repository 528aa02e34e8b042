"""Each stage is known wherever stages are listed; a message says what to add, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT
from support.graphs import catalogue

from resumable.core import Stage
from resumable.core.graph import walk

MODULES = sorted((ROOT / "resumable/stages").glob("[a-z]*.py"))
# Made by other stages, and described with these.
PARTS_OF_OTHERS = {"Part", "Places"}


def defined_in(path: Path) -> Iterator[type[Stage[Any]]]:
    """The stages of a module that are no base of others."""
    module = import_module(f"resumable.stages.{path.stem}")
    for kind in vars(module).values():
        # Python 3.10 takes `list[int]` for an instance of `type`, and `final` leaves no trace there.
        if issubclass(type(kind), type) and issubclass(kind, Stage):
            heirs = [one.__module__.split(".")[0] for one in kind.__subclasses__()]
            if kind.__module__ == module.__name__ and "resumable" not in heirs:
                yield kind


STAGES = [
    kind for path in MODULES for kind in defined_in(path) if kind.__name__ not in PARTS_OF_OTHERS
]


REFERENCE = [f"docs/reference/{page}.md" for page in ("stages", "sources", "iterator")]


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def builders() -> list[tuple[str, str]]:
    """The methods and functions of pipelines, each with a stage whose docstring its help has."""
    return [
        (node.name, ast.unparse(explained))
        for node in ast.walk(ast.parse(text_of("resumable/pipeline.py")))
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "explained_by"
        for explained in mark.args
    ]


def built_by(kind: type) -> list[str]:
    return sorted({builder for builder, stage in builders() if stage == kind.__name__})


def is_called(kind: type, path: str) -> bool:
    """Whether a builder of a stage is called in a module."""
    return any(re.search(rf"\.{name}\b", text_of(path)) for name in built_by(kind))


@pytest.fixture(scope="module")
def in_catalogue(catalogue_data: Path) -> set[type]:
    """The stages of its pipelines."""
    made = [make() for make in catalogue(catalogue_data).values()]
    return {type(stage) for pipeline in made for stage, _ in walk(pipeline.stage)}


def test_the_stages_are_found() -> None:
    assert {kind.__name__ for kind in STAGES} > {"Map", "Batch", "BestFitPack", "Zip", "Shard"}
    assert len(STAGES) > 25


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_has_a_builder_whose_help_has_its_docstring(kind: type[Stage[Any]]) -> None:
    told = (
        f"resumable/pipeline.py needs a method, or a function, with @explained_by({kind.__name__})"
    )
    assert built_by(kind), told


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_says_what_it_saves(kind: type[Stage[Any]]) -> None:
    where = [base for base in kind.__mro__ if "state_cost" in vars(base) and base is not Stage]
    assert where, f"{kind.__name__} must declare `state_cost`, as docs/writing/stage.md says"


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_is_described_and_compared_with_the_others(kind: type[Stage[Any]]) -> None:
    names = built_by(kind)
    entry = rf"^\.\. auto(?:method:: Pipeline\.|function:: )(?:{'|'.join(names)})$"
    pages = "".join(map(text_of, REFERENCE))
    assert re.search(entry, pages, re.MULTILINE), f"docs/reference/stages.md needs {entry}"
    rows = re.findall(r"^\| `.*$", text_of("docs/guides/stages.md"), re.MULTILINE)
    shown = [row for row in rows if any(re.search(rf"`(rs\.)?{name}\b", row) for name in names)]
    assert shown, f"the table of docs/guides/stages.md needs a row for {kind.__name__}"


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_faces_the_laws(kind: type[Stage[Any]], in_catalogue: set[type]) -> None:
    told = f"a pipeline with {kind.__name__} must be in a module of tests/support/catalogue/"
    assert kind in in_catalogue, told


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_stands_in_random_graphs(kind: type[Stage[Any]]) -> None:
    path = "resumable/testing/strategies.py"
    assert is_called(kind, path), f"a pipeline with {kind.__name__} must be made in {path}"


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_stands_before_and_after_what_changes_in_a_run(kind: type[Stage[Any]]) -> None:
    path = "tests/support/changed_graphs.py"
    assert is_called(kind, path), f"STEPS of {path} needs a step with {kind.__name__}"


@pytest.mark.parametrize("kind", STAGES)
def test_numbers_that_a_stage_takes_are_tried_at_their_extremes(kind: type[Stage[Any]]) -> None:
    numbers = [
        one.name for one in fields(kind) if one.init and re.search(r"\bint\b", str(one.type))
    ]
    path = "tests/test_extreme_arguments.py"
    told = f"{numbers} of {kind.__name__} must be in BUILDERS of {path}"
    assert not {*numbers} - {"fn_version"} or is_called(kind, path), told
