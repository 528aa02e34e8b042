"""A state as the tree of its pipeline's stages, with their positions."""

# The fingerprint names the stages, and the nested positions follow the same tree. Stages without a
# position are in the fingerprint only. A stage within partitions has a column of positions, one for
# each partition.

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, final

import numpy as np

from ..core.function_state import split_carried
from ..core.library_stages import changes_of
from ..core.pipelines_by_epoch import show_name
from ..errors import shorten
from ..state.partitions import OF_EVEN_STEPS, is_of_partitions
from ..state.saved_pipeline import BY_EPOCH, SavedPipeline, below
from ..state.value import State
from .column import Column, PartitionStates, as_columns, parts_of
from .table import draw_tree, table_lines

LONGEST_FIELD: Final = 60
LONGEST_INTEGER: Final = 10_000
MOST_LEVELS: Final = 200
"""Levels of lists and dicts shown, more than the levels of a state."""


@final
@dataclass(frozen=True)
class StageNode:
    """A stage of a saved pipeline.

    Attributes:
      name: of the stage.
      path: the path of the stage, as in errors.
      identity: saved identity fields that differ from their defaults.
      position: saved by the stage.
      upstreams: the stages before.
    """

    name: str
    path: str
    identity: dict[str, Any] = field(default_factory=dict)
    position: dict[str, Any] = field(default_factory=dict)
    upstreams: tuple[StageNode, ...] = ()

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={_cut(repr(value))}" for name, value in self.identity.items())
        return f"{self.name}({fields})" if fields else self.name


def stage_tree(state: State) -> StageNode:
    """The stages in a state of a `PipelineIterator`; a single node for any other state."""
    try:
        tree = SavedPipeline.read(state["fingerprint"])
        return _node(tree, state.get("pipeline"), "pipeline", state.get("epoch"))
    except (KeyError, TypeError, ValueError, RecursionError):
        return StageNode("state", "state", position=dict(state))


def _node(tree: SavedPipeline, saved: Any, path: str, epoch: Any) -> StageNode:
    name, identity, inner = tree.name_with_version, dict(tree.fields), tree.inputs
    # A file from elsewhere may hold anything, also commands for a terminal.
    if not (re.fullmatch(r"\w+(@\d+)?", name) and all(map(re.compile(r"\w+").fullmatch, identity))):
        raise ValueError("not a fingerprint")
    if name == BY_EPOCH and (number := _number_in(identity.get("starts"), epoch)) is not None:
        parts = [
            _node(part, saved if place == number else None, path, epoch)
            for place, part in enumerate(inner)
        ]  # the state belongs to one of the parts
        return StageNode(name, path, identity, {}, tuple(parts))
    position, below_it = _split(saved, len(inner))
    may_begin = changes_of(tree.name).may_begin
    if may_begin and isinstance(saved, dict) and saved.keys() != {"position"}:
        position, below_it = {}, {0: saved}  # over a stream the state is the upstream's
    epoch = position.get("pass", epoch)
    upstreams = [
        _node(part, below_it.get(number), below(path, inner, number), epoch)
        for number, part in enumerate(inner)
    ]
    return StageNode(name, path, identity, position, tuple(upstreams))


def _number_in(starts: Any, epoch: Any) -> int | None:
    """The number of the pipeline for ``epoch``, by the first epochs ``starts``; None if unknown.

    ``epoch`` counts from the first of ``starts``.
    """
    if type(epoch) is not int or not isinstance(starts, list):
        return None
    if not starts or any(type(start) is not int for start in starts):
        return None
    begun: int = sum(start <= starts[0] + epoch for start in starts)
    return max(begun - 1, 0)


def _split(saved: Any, upstreams: int) -> tuple[dict[str, Any], dict[int, Any]]:
    """The stage's own part of ``saved``, and the parts of its upstreams by number."""
    if isinstance(saved, PartitionStates):
        return _split_each(saved, upstreams)
    if not isinstance(saved, dict):
        return ({} if saved is None else {"state": saved}), {}
    if is_of_partitions(saved) and upstreams == 1:
        position, rows = parts_of(saved)
        return position, {0: rows}
    function, rest = split_carried(saved)
    if function:
        inner, parts = _split(rest, upstreams)
        return function | inner, parts
    own = dict(saved)
    if own.keys() == set(OF_EVEN_STEPS):  # the last key has the partitions' state
        inner, parts = _split(own.pop(OF_EVEN_STEPS[-1]), upstreams)
        return own | inner, parts
    if isinstance(own.get("upstreams"), list) and len(own["upstreams"]) == upstreams:
        return own, dict(enumerate(own.pop("upstreams")))
    if "upstream" in own and upstreams == 1:
        return own, {0: own.pop("upstream")}
    if "upstream" in own and own.get("index") in range(upstreams):
        return own, {own["index"]: own.pop("upstream")}
    return own, {}


def _split_each(saved: PartitionStates, upstreams: int) -> tuple[dict[str, Any], dict[int, Any]]:
    """As `_split`, for a stage within partitions: columns, and the parts of each upstream."""
    positions: dict[int, dict[str, Any]] = {}
    below_it: dict[int, PartitionStates] = {}
    for number, state in saved.items():
        positions[number], inner = _split(state, upstreams)
        for place, part in inner.items():
            below_it.setdefault(place, PartitionStates())[number] = part
    return as_columns(positions), dict(below_it)


def tree_lines(root: StageNode) -> list[str]:
    """The tree as text: a line for each stage, with a column for the positions."""
    rows = draw_tree(root, lambda node: node.upstreams, lambda node: (str(node), _position(node)))
    return table_lines(rows, "<")


def _position(node: StageNode) -> str:
    return ", ".join(f"{show_name(name)} {show(value)}" for name, value in node.position.items())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_FIELD else text[: LONGEST_FIELD - 3] + "..."


def positions(node: StageNode) -> dict[tuple[str, str, str], Any]:
    """Every saved position by (path, stage, name)."""
    found = {(node.path, str(node), name): value for name, value in node.position.items()}
    for upstream in node.upstreams:
        found |= positions(upstream)
    return found


def show(value: Any) -> str:
    """A position in a few words."""
    if isinstance(value, Column):
        return value.show(show)
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, shape {value.shape}"
    if isinstance(value, bytes) and len(value) > 20:
        return f"{len(value)} bytes"
    return shorten(value)


def as_json(value: Any, levels: int = MOST_LEVELS) -> Any:
    """``value`` for JSON; values without a form in JSON, or beyond ``levels``, are described."""
    if not levels:  # a fingerprint from elsewhere
        return {"nested": shorten(value)}
    inner = partial(as_json, levels=levels - 1)
    if isinstance(value, dict):
        return {str(key): inner(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(inner, value))
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, complex):
        return {"complex": [as_json(value.real), as_json(value.imag)]}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"dtype": str(value.dtype), "values": as_json(value.tolist())}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if type(value) is int and value.bit_length() > LONGEST_INTEGER:  # more than Python writes
        return {"hexadecimal": hex(value)}
    return value
