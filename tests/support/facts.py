"""What the tests of every stage know of each: a file of facts in `tests/stages/facts/` for each module of stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import resumable as rs

__all__ = [
    "ENDLESS",
    "Extreme",
    "Mutation",
    "Refusal",
    "StageFacts",
    "Step",
    "all_facts",
    "gathered",
    "merged",
]

K = TypeVar("K")
V = TypeVar("V")

FOLDER: Final = Path(__file__).parents[1] / "stages/facts"

Maker: TypeAlias = Callable[[], rs.Pipeline[Any]]
Step: TypeAlias = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]
Extreme: TypeAlias = Callable[[rs.Pipeline[Any], Any], rs.Pipeline[Any]]
Refusal: TypeAlias = tuple[Callable[[], Any], type[Exception], str]

ENDLESS: Final = frozenset({"endless", "endless stream", "nearly all integers"})
"""Sources of `test_extreme_arguments.py` that have more items than can be read."""


class Mutation(NamedTuple):
    """A fault in one place.

    Attributes:
      path: of the module, below the package.
      old: what stands there, once in the module.
      new: what is put in its place.
    """

    path: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class StageFacts:
    """What the tests of every stage need to know of the stages of one module.

    Names of `pipelines`, `behind_deals`, `around_changes` and `extremes` differ from those of all other stages.

    Attributes:
      built_by: each stage, with the method or the function whose parameters an error about its `identity` names.
      pipelines: for the catalogue: pipelines with the stage, over a source with random access and over a
        stream, with arguments that change something. `test_laws.py` stops and resumes them at every position, and each has a golden state.
      checked: names of `pipelines`, at least one that ends with each stage (before a last `repeat`); the quick
        tier runs `check_stage` on them. One over random access and one over a stream find most.
      sharing_an_object: names of `pipelines` with an object that has state, which only one iterator may use at a time.
      behind_deals: the method after `shard` and after `partition`: each takes a pipeline of numbers.
      around_changes: the method before and after an argument that changes in a run: each takes a pipeline of
        any items.
      extremes: the method with each of its numbers, for which it gets numbers at their extremes and other objects.
      endless_over: names of `extremes`, with sources over which a large number reads on and on before
        the first item.
      refused: what else the method refuses: the call, the error, and words of its message.
      mutations: faults that the tests of the stage must notice.
    """

    built_by: Mapping[type[rs.Stage[Any]], Callable[..., Any]]
    pipelines: Mapping[str, Maker]
    checked: Collection[str]
    sharing_an_object: Collection[str] = ()
    behind_deals: Mapping[str, Step]
    around_changes: Mapping[str, Step]
    extremes: Mapping[str, Extreme]
    endless_over: Mapping[str, Collection[str]] = field(default_factory=dict)
    refused: Sequence[Refusal] = ()
    mutations: Sequence[Mutation] = ()


@cache
def all_facts() -> Mapping[str, StageFacts]:
    """The facts of all stages, by the name of their module.

    Raises:
      ImportError: if a file does not say all; the message names what to write.
    """
    return {path.stem: _read(path.stem) for path in sorted(FOLDER.glob("*.py"))}


def _read(name: str) -> StageFacts:
    told = f"tests/stages/facts/{name}.py must have FACTS = StageFacts(...), as tests/support/facts.py explains"
    try:
        facts = getattr(import_module(f"stages.facts.{name}"), "FACTS", None)
    except TypeError as error:  # a missing argument
        raise ImportError(f"{told}: {error}") from error
    if not isinstance(facts, StageFacts):
        raise ImportError(told)
    return facts


def merged(of: Callable[[StageFacts], Mapping[K, V]]) -> dict[K, V]:
    """The entries that ``of`` finds in each of all facts.

    Raises:
      ValueError: if two stages have the same name in it.
    """
    found: dict[K, V] = {}
    for name, facts in all_facts().items():
        if twice := found.keys() & of(facts).keys():
            raise ValueError(f"{twice} of tests/stages/facts/{name}.py is in an earlier file too")
        found.update(of(facts))
    return found


def gathered(of: Callable[[StageFacts], Iterable[V]]) -> list[V]:
    """The values that ``of`` finds in each of all facts."""
    return [value for facts in all_facts().values() for value in of(facts)]
