"""A pipeline's graph: its stages in order, and copies with some stages exchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from operator import is_not
from typing import Any, NamedTuple

from ..errors import InvalidArgument
from ..state.saved_pipeline import below
from .stage import Stage, tuning_variants

Tuning = Mapping[int, Mapping[str, Any]]
"""New values of fields, by the number of their stage in the order of `walk`."""


class Variation(NamedTuple):
    """The same pipeline, tuned in another way."""

    label: str
    tuning: Tuning


def walk(stage: Stage[Any], path: str = "pipeline") -> Iterator[tuple[Stage[Any], str]]:
    """Every stage of the graph, the last stage first, with its path as shown in errors."""
    yield stage, path
    for number, upstream in enumerate(stage.inputs):
        inner = below(path, stage.inputs, number) if stage._in_path else path
        yield from walk(upstream, inner)


def why_first_epoch_only(stage: Stage[Any]) -> str | None:
    """Why a pipeline has no epoch after the first; None if it has."""
    reasons = (found._first_epoch_only for found, _ in walk(stage))
    return next(filter(None, reasons), None)


def cut_after(stage: Stage[Any], number: int) -> Stage[Any]:
    """The pipeline up to stage ``number`` in the order of `walk`; 0 is the whole pipeline."""
    return [found for found, _ in walk(stage)][number]


def rebuilt(stage: Stage[Any], change: Callable[[int, Stage[Any]], Stage[Any]]) -> Stage[Any]:
    """The graph with each stage replaced by ``change(number, stage)``.

    The stage passed to ``change`` already has its changed upstreams.

    Raises:
      InvalidArgument: if a stage cannot be copied, or keeps upstreams elsewhere than in its fields.
    """
    numbers = count()

    def build(found: Stage[Any]) -> Stage[Any]:
        number = next(numbers)
        inputs = tuple(map(build, found.inputs))
        if any(map(is_not, inputs, found.inputs)):
            found = with_inputs(found, inputs)
        return change(number, found)

    return build(stage)


def with_inputs(stage: Stage[Any], inputs: tuple[Stage[Any], ...]) -> Stage[Any]:
    """``stage`` with other upstreams."""
    try:
        changed = stage._with_inputs(inputs)
    except TypeError as error:
        raise InvalidArgument(f"{type(stage).__name__} cannot be copied: {error}") from error
    if len(changed.inputs) != len(inputs) or any(map(is_not, changed.inputs, inputs)):
        raise InvalidArgument(
            f"the upstreams of {type(stage).__name__} must be fields of it, in the order of `inputs`, or "
            "those of a Combine"
        )
    return changed


def tuned(stage: Stage[Any], tuning: Tuning) -> Stage[Any]:
    """``stage`` with the fields of ``tuning`` replaced."""
    return rebuilt(
        stage,
        lambda number, found: (
            dataclasses.replace(found, **tuning[number]) if number in tuning else found
        ),
    )


def without_threads(stage: Stage[Any]) -> Stage[Any]:
    """The same pipeline without threads and workers; states are the same."""
    return tuned(stage, tuning_without_threads(stage))


def tuning_without_threads(stage: Stage[Any]) -> Tuning:
    """The tuning of `without_threads`; empty if nothing is computed ahead."""
    return _variants(stage, 0)


def has_threads(stage: Stage[Any]) -> bool:
    """Whether threads or workers compute items of the pipeline ahead."""
    return bool(tuning_without_threads(stage))


def variations(stage: Stage[Any]) -> list[Variation]:
    """The unchanged pipeline, then without threads and workers, then with more workers."""
    found = [Variation("as it is", {})]
    for place in range(2):
        tuning = _variants(stage, place)
        if tuning:
            found.append(Variation(f"with {_show(stage, tuning)}", tuning))
    return found


def _variants(stage: Stage[Any], place: int) -> Tuning:
    return {
        number: variants[place]
        for number, (found, _) in enumerate(walk(stage))
        if len(variants := tuning_variants(found)) > place
    }


def _show(stage: Stage[Any], tuning: Tuning) -> str:
    shown = []
    for number, (one, _) in enumerate(walk(stage)):
        if number in tuning:
            fields = ", ".join(f"{name}={value!r}" for name, value in tuning[number].items())
            shown.append(f"{type(one).__name__}({fields})")
    return ", ".join(shown)
