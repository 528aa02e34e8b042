"""Where the fingerprints of two saved states differ, read from their texts alone."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from ..errors import shorten
from .nodes import below, node_parts

NAMES_RANK: Final = ("Shard.index", "Partition.index")
"""Fields that say which rank saved a state; a state has them if a later stage holds something of its rank."""


class FingerprintDifference(NamedTuple):
    """The first place at which two fingerprints differ.

    Attributes:
      later: names of the stages after this one, the nearest first.
      stage: name of the stage; if the names differ, that in the first fingerprint.
      path: of the stage, as errors show it.
      field: of the stage; empty if the stages themselves differ, or the numbers of their upstreams.
      values: of the field, in either fingerprint; else the two stages.
    """

    later: tuple[str, ...]
    stage: str
    path: str
    field: str
    values: tuple[str, str]

    @property
    def names_rank(self) -> bool:
        """Whether the field names the rank that saved a state."""
        return f"{self.stage}.{self.field}" in NAMES_RANK

    def describe(self, one: str, other: str) -> str:
        """What differs between the states that are called ``one`` and ``other``."""
        if self.names_rank:
            held = " or ".join(dict.fromkeys(self.later)) or "a function"
            return (
                f"{held} holds items of its rank after {self.stage} at {self.path}, so each rank resumes from "
                "its own state"
            )
        what = f"{self.stage} at {self.path}: {self.field}" if self.field else self.path
        return f"{what} is {self.values[0]} in {one} and {self.values[1]} in {other}"


def difference(one: str, other: str) -> FingerprintDifference | None:
    """Where two fingerprints differ; None if they are equal, or one cannot be read."""
    try:
        return _between(json.loads(one), json.loads(other), "pipeline", ())
    except (ValueError, TypeError, IndexError, RecursionError):  # it may come from anywhere
        return None


def _between(
    one: Any, other: Any, path: str, later: tuple[str, ...]
) -> FingerprintDifference | None:
    name, fields, upstreams = node_parts(one)
    theirs, their_fields, their_upstreams = node_parts(other)
    if name != theirs or len(upstreams) != len(their_upstreams):
        shown = tuple(f"{stage} of {len(inputs)}" if name == theirs else stage
                      for stage, inputs in ((name, upstreams), (theirs, their_upstreams)))  # fmt: skip
        return FingerprintDifference(later, name, path, "", (shown[0], shown[1]))
    for field in sorted({*fields, *their_fields}):
        if fields.get(field) != their_fields.get(field):
            values = tuple(
                shorten(found[field]) if field in found else "the default"
                for found in (fields, their_fields)
            )
            return FingerprintDifference(later, name, path, field, (values[0], values[1]))
    for number, pair in enumerate(zip(upstreams, their_upstreams, strict=True)):
        if found := _between(*pair, below(path, upstreams, number), (name, *later)):
            return found
    return None
