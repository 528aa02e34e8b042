"""Places for the boxes of a graph: in rows from the sources down, the first input straight above."""

# A pipeline is a tree, since every stage has a single reader. Each leaf gets a column, and a
# stage is placed in the column of its first input. So the first chain runs straight down on the
# left, where a narrow screen begins, and further inputs join from the right. All lines to a stage
# run in the gap right above its row or in separate columns, so no line crosses a box.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, final

GAP: Final = 40.0
"""Distance of two rows; more than frames need above and below."""
COLUMN_GAP: Final = 36.0
FRAME: Final = 12.0
"""From the boxes in a frame to the frame."""
FRAME_TITLE: Final = 26.0
"""Height of a frame above its boxes, for the title."""
MARGIN: Final = 16.0
"""Margin around everything; wider than a frame's distance from its boxes."""


@final
@dataclass(frozen=True)
class GraphNode:
    """A box with the boxes that lead to this box.

    Attributes:
      title: of the box.
      tooltip: the whole text.
      number: before the title.
      mark: right of the title.
      code: lines in letters of equal width.
      facts: lines below ``code``, each a word and its text; a continuation line has no word.
      accent: whether the box is marked.
      dashed: whether the box represents several.
      inputs: the boxes before.
      labels: a label for the line from each input, empty for none.
      frame: the title of a frame around the inputs, up to boxes with `ends_frame`.
      ends_frame: whether a frame ends with this box.
    """

    title: str
    tooltip: str = ""
    number: str = ""
    mark: str = ""
    code: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    accent: bool = False
    dashed: bool = False
    inputs: tuple[GraphNode, ...] = ()
    labels: tuple[str, ...] = ()
    frame: str | None = None
    ends_frame: bool = False


class Box(NamedTuple):
    """A node and its place."""

    node: GraphNode
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Half way from left to right."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


class Line(NamedTuple):
    """A line down from one box to another, with a label.

    ``bend`` is the height of the turn, if any.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    bend: float
    label: str


class Frame(NamedTuple):
    """A frame around boxes."""

    title: str
    x: float
    y: float
    width: float
    height: float


@final
@dataclass(frozen=True)
class GraphLayout:
    """All boxes, lines and frames in their places."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    frames: tuple[Frame, ...]


@dataclass(eq=False)
class _Cell:
    """A node with its row, counted from the last stage, and column."""

    node: GraphNode
    row: int
    column: int
    inputs: list[_Cell]

    def walk(self, *, within_frame: bool = False) -> Iterator[_Cell]:
        """The cell and all cells before; ``within_frame`` only those up to the end of the frame."""
        yield self
        if not (within_frame and self.node.ends_frame):
            for cell in self.inputs:
                yield from cell.walk(within_frame=within_frame)


def columns_of(root: GraphNode) -> int:
    """How many columns the graph takes."""
    return sum(map(columns_of, root.inputs)) or 1


def lay_out(root: GraphNode, box_width: float, height: Callable[[GraphNode], float]) -> GraphLayout:
    """Give each node a place.

    Args:
      root: the last node, at the bottom.
      box_width: of all boxes.
      height: of the box of a node.
    """
    cells = [*_cells_of(root, 0, count()).walk()]
    ends = _rows(cells, height)
    boxes = {}
    for cell in cells:
        tall = height(cell.node)
        x = MARGIN + cell.column * (box_width + COLUMN_GAP)
        boxes[cell] = Box(cell.node, x, ends[cell.row] - tall, box_width, tall)
    lines = [
        _line(boxes[before], boxes[cell], label)
        for cell in cells
        for before, label in zip(
            cell.inputs, cell.node.labels or [""] * len(cell.inputs), strict=True
        )
    ]
    frames = [_frame(cell, boxes) for cell in cells if cell.node.frame is not None]
    columns = 1 + max(cell.column for cell in cells)
    return GraphLayout(
        2 * MARGIN + columns * box_width + (columns - 1) * COLUMN_GAP,
        ends[0] + MARGIN,
        tuple(boxes.values()),
        tuple(lines),
        tuple(frames),
    )


def _cells_of(
    node: GraphNode, row: int, columns: Iterator[int], last_row: int | None = None
) -> _Cell:
    """The cells of ``node`` and all inputs.

    Args:
      node: in the ``row``.
      row: counted from the last stage.
      columns: the free columns; each leaf takes one.
      last_row: the row of boxes at the end of a frame.
    """
    if node.ends_frame and last_row is not None:
        row, last_row = last_row, None
    if node.frame is not None:
        last_row = row + _rows_of_frame(node)
    inputs = [_cells_of(one, row + 1, columns, last_row) for one in node.inputs]
    return _Cell(node, row, inputs[0].column if inputs else next(columns), inputs)


def _rows_of_frame(node: GraphNode) -> int:
    return max((1 if one.ends_frame else 1 + _rows_of_frame(one) for one in node.inputs), default=0)


def _rows(cells: list[_Cell], height: Callable[[GraphNode], float]) -> dict[int, float]:
    """Where each row ends, from the top."""
    tallest: dict[int, float] = {}
    for cell in cells:
        tallest[cell.row] = max(tallest.get(cell.row, 0.0), height(cell.node))
    ends, y = {}, MARGIN - GAP
    for row in sorted(tallest, reverse=True):
        y += GAP + tallest[row]
        ends[row] = y
    return ends


def _line(start: Box, end: Box, label: str) -> Line:
    return Line((start.middle, start.bottom), (end.middle, end.y), end.y - GAP / 2, label)


def _frame(cell: _Cell, boxes: dict[_Cell, Box]) -> Frame:
    inner = [boxes[one] for before in cell.inputs for one in before.walk(within_frame=True)]
    left = min(box.x for box in inner) - FRAME
    top = min(box.y for box in inner) - FRAME_TITLE
    right = max(box.x + box.width for box in inner) + FRAME
    bottom = max(box.bottom for box in inner) + FRAME
    return Frame(cell.node.frame or "", left, top, right - left, bottom - top)
