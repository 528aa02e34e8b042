"""What the tests of every stage know of each: a file of facts in `tests/stages/facts/` for each module of stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import resumable as rs

from .fact_files import FactFiles, Mutation

__all__ = [
    "ENDLESS",
    "STAGE_FACTS",
    "Extreme",
    "Mutation",
    "Refusal",
    "StageFacts",
    "Step",
]

Maker: TypeAlias = Callable[[], rs.Pipeline[Any]]
Step: TypeAlias = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]
Extreme: TypeAlias = Callable[[rs.Pipeline[Any], Any], rs.Pipeline[Any]]
Refusal: TypeAlias = tuple[Callable[[], Any], type[Exception], str]

ENDLESS: Final = frozenset({"endless", "endless stream", "nearly all integers"})
"""Sources of `test_extreme_arguments.py` that have more items than can be read."""


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


STAGE_FACTS: Final = FactFiles(StageFacts, "stages")
