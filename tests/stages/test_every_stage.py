"""Each stage has facts, a method and pages; a message says what to add, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT
from support.facts import STAGE_FACTS, StageFacts

import resumable as rs
from resumable.core import Stage
from resumable.core.graph import walk

MODULES = sorted((ROOT / "resumable/stages").glob("[a-z]*.py"))
# Made by other stages, and described with these.
PARTS_OF_OTHERS = {"Part", "Places"}
# Not among the steps around a change: it is what changes.
CHANGES = {"Exclude"}


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


def facts_of(kind: type) -> StageFacts:
    name = kind.__module__.split(".")[-1]
    told = (
        f"{kind.__name__} needs FACTS in tests/stages/facts/{name}.py, see tests/support/facts.py"
    )
    assert name in STAGE_FACTS.all, told
    return STAGE_FACTS.all[name]


def needs(field: str, kind: type, why: str = "") -> str:
    name = kind.__module__.split(".")[-1]
    return f"`{field}` of tests/stages/facts/{name}.py needs an entry with {kind.__name__}{why}"


def stages_in(pipelines: Iterable[rs.Pipeline[Any]]) -> set[type]:
    return {type(stage) for pipeline in pipelines for stage, _ in walk(pipeline.stage)}


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
    assert names, (
        f"{kind.__name__} needs a method or a function with @explained_by in resumable/pipeline.py"
    )
    entry = rf"^\.\. auto(?:method:: Pipeline\.|function:: )(?:{'|'.join(names)})$"
    pages = "".join(map(text_of, REFERENCE))
    assert re.search(entry, pages, re.MULTILINE), f"docs/reference/stages.md needs {entry}"
    rows = re.findall(r"^\| `.*$", text_of("docs/guides/stages.md"), re.MULTILINE)
    shown = [row for row in rows if any(re.search(rf"`(rs\.)?{name}\b", row) for name in names)]
    assert shown, f"the table of docs/guides/stages.md needs a row for {kind.__name__}"


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_has_facts(kind: type[Stage[Any]]) -> None:
    assert kind in facts_of(kind).built_by, needs("built_by", kind)


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_faces_the_laws(kind: type[Stage[Any]]) -> None:
    facts = facts_of(kind)
    made = stages_in(make() for make in facts.pipelines.values())
    assert kind in made, needs("pipelines", kind)
    checked = stages_in(facts.pipelines[name]() for name in facts.checked)
    assert kind in checked, needs("checked", kind)


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_stands_in_random_graphs(kind: type[Stage[Any]]) -> None:
    # Users draw these graphs too, so they are made in the package, which knows no facts.
    path = "resumable/testing/strategies.py"
    assert is_called(kind, path), f"a pipeline with {kind.__name__} must be made in {path}"


@pytest.mark.parametrize("kind", STAGES)
def test_a_stage_stands_before_and_after_what_changes_in_a_run(kind: type[Stage[Any]]) -> None:
    steps = facts_of(kind).around_changes.values()
    made = stages_in(step(rs.range(20)) for step in steps)
    assert kind in made or kind.__name__ in CHANGES, needs("around_changes", kind)


@pytest.mark.parametrize("kind", STAGES)
def test_numbers_that_a_stage_takes_are_tried_at_their_extremes(kind: type[Stage[Any]]) -> None:
    numbers = [
        one.name for one in fields(kind) if one.init and re.search(r"\bint\b", str(one.type))
    ]
    facts, made = facts_of(kind), []
    for build, number in product(facts.extremes.values(), (0, 1)):
        with suppress(rs.ResumableError):  # where it must be something else
            made.append(build(rs.range(7), number))
    tried = stages_in(made) & facts.built_by.keys()  # one of those that the same method builds
    why = f", for its numbers {numbers}"
    assert not {*numbers} - {"fn_version"} or tried, needs("extremes", kind, why)


def test_names_of_pipelines_that_other_facts_give_are_known() -> None:
    names = STAGE_FACTS.merged(lambda facts: facts.pipelines).keys()
    given = {*STAGE_FACTS.gathered(lambda facts: [*facts.checked, *facts.sharing_an_object])}
    assert given <= names
    extremes = STAGE_FACTS.merged(lambda facts: facts.extremes).keys()
    assert STAGE_FACTS.merged(lambda facts: facts.endless_over).keys() <= extremes


def test_an_incomplete_file_is_refused_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_extremes(name: str) -> None:
        StageFacts(built_by={}, pipelines={}, checked=(), behind_deals={}, around_changes={})  # type: ignore[call-arg]

    for imported, missing in ((without_extremes, ": .*'extremes'"), (lambda name: None, "$")):
        monkeypatch.setattr("support.fact_files.import_module", imported)
        with pytest.raises(
            ImportError, match=rf"^tests/stages/facts/batch\.py must have FACTS.*{missing}"
        ):
            STAGE_FACTS.read()


def test_two_stages_do_not_share_a_name() -> None:
    with pytest.raises(ValueError, match=r"'same'.* of .*/bucket\.py is in an earlier"):
        STAGE_FACTS.merged(lambda facts: {"same": facts})
