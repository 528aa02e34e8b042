"""Differences between the fingerprints of two saved states, read from the texts alone."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import shorten
from ..state.saved_pipeline import SavedPipeline, below
from .library_stages import names_rank


class FingerprintDifference(NamedTuple):
    """The first place at which two fingerprints differ.

    Attributes:
      later: names of the stages after ``stage``, the nearest first.
      stage: name of the stage; if the names differ, the name in the first fingerprint.
      path: of the stage, as errors show it.
      field: of the stage; empty if the stages themselves differ, or the numbers of their upstreams.
      values: of the field, in either fingerprint; otherwise the two stages.
    """

    later: tuple[str, ...]
    stage: str
    path: str
    field: str
    values: tuple[str, str]

    @property
    def names_rank(self) -> bool:
        """Whether the field names the rank that saved a state."""
        return names_rank(self.stage.partition("@")[0], self.field)

    def describe(self, one: str, other: str) -> str:
        """The difference in words, between states called ``one`` and ``other``."""
        if self.names_rank:
            held = " or ".join(dict.fromkeys(self.later)) or "a function"
            return (
                f"{held} holds items of its rank after {self.stage} at {self.path}, so each rank resumes from "
                "its own state"
            )
        what = f"{self.stage} at {self.path}: {self.field}" if self.field else self.path
        return f"{what} is {self.values[0]} in {one} and {self.values[1]} in {other}"


def difference(one: str, other: str) -> FingerprintDifference | None:
    """The first difference of two fingerprints; None if equal, or if either cannot be read."""
    try:
        return _between(SavedPipeline.read(one), SavedPipeline.read(other), "pipeline", ())
    except (ValueError, RecursionError):  # fingerprints may come from anywhere
        return None


def _between(
    one: SavedPipeline, other: SavedPipeline, path: str, later: tuple[str, ...]
) -> FingerprintDifference | None:
    name, other_name = one.name_with_version, other.name_with_version
    if name != other_name:
        return FingerprintDifference(later, name, path, "", (name, other_name))
    if len(one.inputs) != len(other.inputs):
        counts = f"{name} of {len(one.inputs)}", f"{name} of {len(other.inputs)}"
        return FingerprintDifference(later, name, path, "", counts)
    for field in sorted({*one.fields, *other.fields}):
        if one.fields.get(field) != other.fields.get(field):
            values = _value(one, field), _value(other, field)
            return FingerprintDifference(later, name, path, field, values)
    for number, pair in enumerate(zip(one.inputs, other.inputs, strict=True)):
        if found := _between(*pair, below(path, one.inputs, number), (name, *later)):
            return found
    return None


def _value(pipeline: SavedPipeline, field: str) -> str:
    return shorten(pipeline.fields[field]) if field in pipeline.fields else "the default"
