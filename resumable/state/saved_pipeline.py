"""A pipeline as described by a saved state, read from its fingerprint."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, TypeVar, final

from ..errors import shorten

V = TypeVar("V")

BY_EPOCH: Final = "ByEpoch"
"""The name of a stage with a pipeline for some epochs as each input.

``starts`` has their first epochs.
"""


class UnreadableFingerprint(ValueError):
    """A fingerprint of no pipeline."""


@final
@dataclass(frozen=True)
class SavedPipeline:
    """A stage of a saved pipeline, with the stages before.

    Attributes:
      name: of the stage.
      version: of the state of the stage, as text; empty for version 1.
      fields: identity fields that differ from their defaults.
      inputs: the stages before.
    """

    name: str
    version: str
    fields: Mapping[str, Any]
    inputs: tuple[SavedPipeline, ...]

    @classmethod
    def read(cls, fingerprint: Any) -> SavedPipeline:
        """The last stage of the pipeline described by ``fingerprint``.

        Raises:
          UnreadableFingerprint: with the place, if ``fingerprint`` describes no pipeline.
        """
        if not isinstance(fingerprint, str):
            raise UnreadableFingerprint(
                f"its fingerprint must be a string, got {shorten(fingerprint)}"
            )
        try:
            return cls.of_node(json.loads(fingerprint))
        except UnreadableFingerprint:
            raise
        except (ValueError, RecursionError):
            raise UnreadableFingerprint(
                f"its fingerprint cannot be read: {shorten(fingerprint)}"
            ) from None

    @classmethod
    def of_node(cls, node: Any, path: str = "pipeline") -> SavedPipeline:
        """The stage of a node [name or name@version, {field: value} unless empty, upstream...].

        Raises:
          UnreadableFingerprint: with the place, if ``node`` is no such node.
        """
        if not (isinstance(node, (list, tuple)) and node and isinstance(node[0], str)):
            raise UnreadableFingerprint(
                f"{path}: the saved fingerprint is not one of this library's: {shorten(node)}"
            )
        name, _, version = node[0].partition("@")
        fields = node[1] if len(node) > 1 and isinstance(node[1], dict) else {}
        inputs = [part for part in node[1:] if part is not fields]
        read = (cls.of_node(part, below(path, inputs, at)) for at, part in enumerate(inputs))
        return cls(name, version, fields, tuple(read))

    @cached_property
    def epochs(self) -> list[tuple[int, SavedPipeline]]:
        """Pairs of a first epoch and its pipeline; this pipeline alone if equal in all epochs."""
        starts: Any = self.fields.get("starts")
        is_by_epoch = self.name_with_version == BY_EPOCH and self.fields.keys() == {"starts"}
        if not is_by_epoch or not _ascend(starts) or len(starts) != len(self.inputs):
            return [(0, self)]
        return list(zip([0, *starts[1:]], self.inputs, strict=True))

    @property
    def name_with_version(self) -> str:
        """The name, with the version of the state as in ``Stage@2`` from version 2 on."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def with_stage(self, name: str) -> SavedPipeline:
        """The stage ``name`` over this pipeline, left out of a fingerprint if it does nothing."""
        return self if self.name == name else SavedPipeline(name, "", {}, (self,))

    @property
    def node(self) -> list[Any]:
        """The node of a fingerprint from which this stage was read."""
        fields = [dict(self.fields)] if self.fields else []
        return [self.name_with_version, *fields, *(upstream.node for upstream in self.inputs)]

    def walk(self, path: str = "pipeline") -> Iterator[tuple[SavedPipeline, str]]:
        """Every stage, the last one first, with its path as shown in errors."""
        yield self, path
        if len(self.epochs) > 1:
            for _, pipeline in self.epochs:
                yield from pipeline.walk(path)
            return
        for number, upstream in enumerate(self.inputs):
            yield from upstream.walk(below(path, self.inputs, number))


def _ascend(starts: Any) -> bool:
    """Whether ``starts`` is a list of first epochs from 0 on, each later than the one before."""
    if not isinstance(starts, list) or any(type(start) is not int for start in starts):
        return False
    return bool(starts) and starts[0] >= 0 and sorted(set(starts)) == starts


def in_epoch(pipelines: Sequence[tuple[int, V]], epoch: int) -> V:
    """The pipeline of ``epoch`` among ``pipelines``, pairs of a first epoch and a pipeline."""
    return pipelines[bisect_right(pipelines, epoch, key=itemgetter(0)) - 1][1]


def below(path: str, upstreams: Sequence[Any], number: int) -> str:
    """The path of upstream ``number`` of the stage at ``path``."""
    return f"{path}.upstream" if len(upstreams) == 1 else f"{path}.upstreams[{number}]"
