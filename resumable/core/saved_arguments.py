"""The arguments by position that a fingerprint has, read without its pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..state.nodes import below, node_parts
from .saved_epochs import BY_EPOCH, PIPELINES, follows_from_repeats, nodes_by_epoch
from .stage import Stage
from .timeline import ByPosition, Timeline


class SavedArgument(NamedTuple):
    """An argument by position in a fingerprint.

    Attributes:
      stage: name of the stage whose argument it is.
      path: of the stage.
      argument: what it is.
      timeline: its value.
    """

    stage: str
    path: str
    argument: ByPosition
    timeline: Timeline


def saved_arguments(fingerprint: Any) -> list[SavedArgument]:
    """The arguments by position of the library's stages in ``fingerprint``, the last stage first.

    What cannot be read is left out, as a file from elsewhere may hold anything.
    """
    with suppress(ValueError, TypeError, RecursionError):
        found = list(_found(json.loads(fingerprint), "pipeline", _own_stages(Stage)))
        # A stage behind what changes with the epoch is there once for each of its pipelines.
        once = {(one.stage, one.path, one.argument.written(one.timeline)): one for one in found}
        return list(once.values())
    return []


def _own_stages(base: type[Any]) -> dict[str, type[Stage[Any]]]:
    """The loaded stages of the library that derive from ``base``, by their names."""
    found = {}
    for kind in base.__subclasses__():
        if kind.__module__.startswith("resumable."):
            found[kind.__name__] = kind
        found |= _own_stages(kind)
    return found


def _found(node: Any, path: str, stages: dict[str, type[Stage[Any]]]) -> Iterator[SavedArgument]:
    if not (isinstance(node, list) and node):
        return
    if len(pairs := nodes_by_epoch(node)) > 1:
        if not follows_from_repeats(node):
            yield SavedArgument(BY_EPOCH, path, PIPELINES, tuple(pairs))
        for _, pipeline in pairs:
            yield from _found(pipeline, path, stages)
        return
    named, fields, upstreams = node_parts(node)
    name = named.partition("@")[0]
    if name in stages and (read := _read(stages[name], fields, len(upstreams))):
        yield SavedArgument(name, path, *read)
    for number, upstream in enumerate(upstreams):
        yield from _found(upstream, below(path, upstreams, number), stages)


def _read(
    kind: type[Stage[Any]], fields: dict[str, Any], inputs: int
) -> tuple[ByPosition, Timeline] | None:
    argument = kind._run_changes.saved_argument(fields, inputs)
    timeline = None if argument is None else argument.timeline(fields)
    if argument is None or timeline is None:
        return None
    try:
        argument.written(timeline)
    except (ValueError, TypeError):  # as of names that are none
        return None
    return argument, timeline
