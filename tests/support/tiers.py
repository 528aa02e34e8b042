"""How much the tests try: a little of everything in the quick tier, much of it in the deep one.

``pytest`` is the quick tier, ``pytest -m deep`` the deep one; `conftest.py` says here which it is.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings

__all__ = ["begin", "examples", "is_deep", "names_of_tier", "thinned"]

T = TypeVar("T")

TESTS: Final = Path(__file__).parents[1]

EXAMPLES: Final = {"quick": 3, "deep": 12}
"""Examples of a random test, unless the environment variable RESUMABLE_EXAMPLES says how many."""


def begin(tier: str) -> None:
    """Let all tests that are imported from now on be of ``tier``.

    Examples are the same in every run, so that a failure tells of the change that was made. Whoever
    asks for more of them searches, and gets others each time.
    """
    examples = int(os.environ.get("RESUMABLE_EXAMPLES") or EXAMPLES[tier])
    settings.register_profile(
        tier,
        max_examples=examples,
        derandomize=examples <= EXAMPLES[tier],
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile(tier)
    global _tier
    _tier = tier


_tier = "quick"


def is_deep() -> bool:
    """Whether this is the deep tier."""
    return _tier == "deep"


def examples() -> int:
    """How many examples a random test tries, for one that draws them without Hypothesis."""
    return int(settings().max_examples)


def thinned(values: Iterable[T], most: int, seed: Any) -> list[T]:
    """All of ``values`` in the deep tier; in the quick one the ends, and ``most`` - 2 between them.

    They are fewer where fewer examples are asked for. Which ones is a matter of ``seed``, the name of
    what is tested: so two tests try other ones, and one test the same every time.
    """
    chosen = list(values)
    most = max(most * min(examples(), EXAMPLES["quick"]) // EXAMPLES["quick"], 2)
    if is_deep() or len(chosen) <= most:
        return chosen
    between = Random(repr(seed)).sample(range(1, len(chosen) - 1), most - 2)
    return [chosen[0], *(chosen[number] for number in sorted(between)), chosen[-1]]


@cache
def names_of_tier(file: Path) -> frozenset[str]:
    """The names at the top of a module of tests that are something else in each tier.

    They are found in its text: a statement with such a name in it makes what it binds one, and so on,
    through all modules of tests that it imports from.
    """
    if file == Path(__file__):
        return frozenset({"examples", "is_deep", "thinned"})
    found: set[str] = set()
    statements = []
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            home = TESTS / f"{str(statement.module).replace('.', '/')}.py"
            imported = {alias.name: alias.asname or alias.name for alias in statement.names}
            if home.is_file():
                found |= {imported[name] for name in imported.keys() & names_of_tier(home)}
        else:
            statements.append((_bound_by(statement), _mentioned_by(statement)))
    before = -1
    while before < len(found):
        before = len(found)
        for bound, mentioned in statements:
            if found & mentioned:
                found |= bound
    return frozenset(found)


def _bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _mentioned_by(statement: ast.stmt) -> set[str]:
    """Names, and those of arguments, which may be fixtures."""
    nodes = list(ast.walk(statement))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}
