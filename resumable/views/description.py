"""A pipeline drawn for people: as text, as a Mermaid graph, as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from ..core.lookup import looks_up
from ..core.saved_state import saved_state
from ..core.stage import Stage
from .markup import element
from .table import draw_tree, table_lines

HEADINGS = ("stage", "items", "access", "its part of the state")


def describe(stage: Stage[Any]) -> str:
    """The graph as a tree, the last stage on top, with a line for each."""
    return "\n".join(table_lines([HEADINGS, *_rows(stage)], "<><"))


def to_html(stage: Stage[Any]) -> str:
    """The same as an HTML table."""
    style = "text-align: left; white-space: pre"  # branches of the tree keep their spaces
    rows = [("th", HEADINGS), *(("td", row) for row in _rows(stage))]
    drawn = [element("tr", *(element(tag, cell, style=style) for cell in row)) for tag, row in rows]
    return "\n".join(["<table>", *drawn, "</table>"])


def to_mermaid(stage: Stage[Any]) -> str:
    """The graph in the language of Mermaid, sources on top."""
    return "\n".join(["graph TD", *_mermaid_lines(stage, count())])


def _mermaid_lines(
    stage: Stage[Any], numbers: Iterator[int], above: int | None = None
) -> Iterator[str]:
    number = next(numbers)
    text = str(stage).replace('"', "#quot;")
    yield f'    s{number}["{text}"]'
    if above is not None:
        yield f"    s{number} --> s{above}"
    for upstream in stage.inputs:
        yield from _mermaid_lines(upstream, numbers, number)


class ShownStage(NamedTuple):
    """A stage as people see it.

    Attributes:
      stage: the stage.
      looked_up: whether a later stage looks up this stage by index.
    """

    stage: Stage[Any]
    looked_up: bool = False

    @property
    def inputs(self) -> list[ShownStage]:
        """The stages before."""
        looked_up = self.looked_up or looks_up(self.stage)
        return [ShownStage(upstream, looked_up) for upstream in self.stage.inputs]

    @property
    def items(self) -> str:
        """The number of items."""
        length = self.stage.length
        if length is None:
            return "?"
        return "endless" if length == math.inf else f"{length:,}"

    @property
    def access(self) -> str:
        """The access to items."""
        return "random access" if self.stage.random_access else "stream"

    @property
    def saved(self) -> str:
        """The stage's part of the state."""
        return "nothing: looked up by index" if self.looked_up else saved_state(self.stage).text


def _rows(stage: Stage[Any]) -> list[tuple[str, ...]]:
    return draw_tree(
        ShownStage(stage),
        lambda shown: shown.inputs,
        lambda shown: (str(shown.stage), shown.items, shown.access, shown.saved),
    )
