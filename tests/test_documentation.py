"""`help()` of whatever is public explains every one of its parameters."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from support.command import ROOT
from support.format_facts import named_packages

import resumable as rs
from resumable import errors

FLUENT = {
    f"Pipeline.{name}": method
    for name, method in vars(rs.Pipeline).items()
    if inspect.isfunction(method) and not name.startswith("_")
    if not (method.__doc__ or "").startswith("Deprecated")
}
EXPLAINED: dict[str, Callable[..., Any]] = {
    **{name: getattr(rs, name) for name in rs.__all__ if name not in ("decoders", "metrics")},
    **{
        f"decoders.{name}": function
        for name, function in vars(rs.decoders).items()
        if inspect.isfunction(function) and not name.startswith("_")
    },
    "metrics.prometheus": rs.metrics.prometheus,
    "metrics.tensorboard": rs.metrics.tensorboard,
    **FLUENT,
}


def parameters(explained: Callable[..., Any]) -> set[str]:
    if isinstance(explained, type) and "__init__" not in vars(explained):
        return set()  # of its base
    found = inspect.signature(explained).parameters
    return {name for name in found if name != "self"}


def explained_in(text: str, *titles: str) -> set[str]:
    """The names that stand in the sections with these titles."""
    title = "|".join(titles)
    sections = re.findall(rf"^(?:{title}):\n((?:  .*\n|\n)*)", text + "\n", re.MULTILINE)
    return set(re.findall(r"^  (\w+): \S", "".join(sections), re.MULTILINE))


@pytest.mark.parametrize("name", sorted(EXPLAINED))
def test_help_explains_every_parameter(name: str) -> None:
    text = inspect.getdoc(EXPLAINED[name]) or ""
    missing = parameters(EXPLAINED[name]) - explained_in(text, "Args", "Attributes")
    assert not missing, f"{name} says nothing of {sorted(missing)}:\n{text}"


@pytest.mark.parametrize("name", sorted({*FLUENT, "range", "from_arrays", "zip", "mix", "lines"}))
def test_help_speaks_of_no_parameter_that_is_not_there(name: str) -> None:
    text = inspect.getdoc(EXPLAINED[name]) or ""
    assert explained_in(text, "Args", "Attributes") <= parameters(EXPLAINED[name])
    assert "data_identity" not in text


def test_help_tells_errors_state_and_an_example() -> None:
    text = inspect.getdoc(rs.Pipeline.map) or ""
    assert text.startswith("Apply ``fn`` to every item")
    assert re.search(r"^Raises:$", text, re.MULTILINE)
    assert re.search(r"^State: ", text, re.MULTILINE)
    assert re.search(r"^>>> ", inspect.getdoc(rs.Pipeline.batch) or "", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(EXPLAINED))
def test_help_has_an_example(name: str) -> None:
    explained = EXPLAINED[name]
    if not (isinstance(explained, type) and issubclass(explained, Exception)):
        assert re.search(r"^ *>>> ", inspect.getdoc(explained) or "", re.MULTILINE)


METHODS = {
    f"{name}.{method}": function
    for name in rs.__all__
    if isinstance(kind := getattr(rs, name), type) and not issubclass(kind, Exception)
    for method, function in vars(kind).items()
    if inspect.isfunction(function) and not method.startswith("_")
}
CONSTRUCTORS = ("__init__", "__post_init__")


@cache
def refusals(called: Callable[..., Any]) -> set[str]:
    """The names of the errors that a call raises when it looks at its arguments.

    They are raised in a function itself, in the ``check_...`` that it calls or passes on, and in the
    constructor of a stage that it makes.
    """
    if isinstance(called, type):
        constructors = (vars(base).get(name) for base in called.__mro__ for name in CONSTRUCTORS)
        return set().union(*(refusals(each) for each in constructors if is_ours(each)))
    nodes = [*ast.walk(ast.parse(textwrap.dedent(inspect.getsource(called))))]
    raised = {called_name(node.exc) for node in nodes if isinstance(node, ast.Raise)}
    names = inspect.unwrap(called).__globals__
    known = (names.get(called_name(node)) for node in nodes)
    passed = (names.get(node.id) for node in nodes if isinstance(node, ast.Name))
    makes = {one for one in known if is_stage(one)} | {one for one in passed if is_check(one)}
    return (raised & vars(errors).keys()).union(*map(refusals, makes))


def called_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def is_ours(function: object) -> bool:
    """Whether its source can be read: a dataclass writes an ``__init__`` without one."""
    if not inspect.isfunction(function):
        return False
    return inspect.getfile(inspect.unwrap(function)).startswith(str(ROOT))


def is_check(value: object) -> bool:
    return inspect.isfunction(value) and value.__name__.lstrip("_").startswith("check")


def is_stage(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, rs.Stage)


@pytest.mark.parametrize("name", sorted({**EXPLAINED, **METHODS}))
def test_help_tells_every_error_that_an_argument_can_cause(name: str) -> None:
    explained = {**EXPLAINED, **METHODS}[name]
    if not (isinstance(explained, type) and issubclass(explained, Exception)):
        text = inspect.getdoc(explained) or ""
        assert not refusals(explained) - explained_in(text, "Raises")


def test_the_errors_of_arguments_are_found_where_they_are_raised() -> None:
    assert refusals(rs.EverySteps) == {"InvalidArgument", "InvalidType"}
    assert refusals(rs.Pipeline.filter) == {"InvalidType"}
    assert "StateMismatch" not in refusals(rs.Pipeline.resume)
    assert refusals(rs.Memory) == set()


def functions_with_arrays() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public functions and methods with an array among their arguments or results."""
    array = re.compile(r"\b(Indices|NDArray|ndarray)\b")
    for path in sorted((ROOT / "resumable").rglob("*.py")):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if array.search(source) else ():
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            annotations = [argument.annotation for argument in node.args.args] + [node.returns]
            text = " ".join(ast.unparse(each) for each in annotations if each is not None)
            if ast.get_docstring(node) and array.search(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_whatever_takes_or_gives_an_array_says_its_shape() -> None:
    functions = dict(functions_with_arrays())
    assert len(functions) > 15
    silent = {
        place
        for place, function in functions.items()
        if not re.search(r"\bshape\b", ast.get_docstring(function) or "")
    }
    assert not silent


# The packages without which the example of a name cannot run.
NEEDS = named_packages() | {
    "decoders.example": "google",
    "metrics.prometheus": "prometheus_client",
}


def test_the_examples_in_help_are_true() -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    names = {"rs": rs, "np": np, **vars(rs)}
    for name, explained in {"resumable": rs, **EXPLAINED}.items():
        if name in NEEDS and find_spec(NEEDS[name]) is None:
            continue
        for examples in finder.find(explained, name, globs=names):
            runner.run(examples)
    assert runner.summarize(verbose=False).attempted > 50
    assert not runner.failures


def test_without_docstrings_everything_works_too() -> None:
    code = "import resumable as rs; assert list(rs.range(3).map(abs).shuffle(0).batch(2))"
    subprocess.run([sys.executable, "-OO", "-c", code], check=True, cwd=ROOT)


REFERENCE = sorted((ROOT / "docs/reference").glob("*.md"))


def entries_of_the_reference() -> Counter[str]:
    """The names that the pages of the reference describe, as they are written there."""
    found = Counter[str]()
    for page in REFERENCE:
        text = page.read_text("utf-8")
        for name, options in re.findall(r"^\.\. auto\w+:: ([\w.]+).*\n((?:   :.*\n)*)", text, re.M):
            found[name] += 1
            for members in re.findall(r":members: (.+)", options):
                found.update(f"{name}.{each}" for each in members.split(", "))
    return found


def test_the_reference_describes_each_public_name_once() -> None:
    found = entries_of_the_reference()
    names = {*rs.__all__} - {"decoders", "metrics"} | {*FLUENT}
    names |= {f"PipelineIterator.{name}" for name in dir(iter(rs.range(1))) if name[0] != "_"}
    names -= {"PipelineIterator.step"}  # is among the attributes of the class
    of_all = (
        "blocks",
        "defer_state",
        "one_by_one",
    )  # of each `StageIterator`, where they are described
    names -= {f"PipelineIterator.{name}" for name in of_all}
    assert {name: found[name] for name in names if found[name] != 1} == {}
