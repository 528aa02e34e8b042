"""A graph of boxes and lines, drawn as SVG."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .graph_layout import Box, Frame, GraphNode, Line, columns_of, lay_out
from .markup import Markup, element, join
from .text_width import cut, wrap

ONE_COLUMN: Final = 332.0
"""The width of a box in a graph with one column: the width of a telephone."""
SEVERAL_COLUMNS: Final = 252.0
PADDING: Final = 12.0
LINE: Final = 17.0
"""The height of a line of text."""
LETTER: Final = 7.25
"""The width of a letter in the fonts of `page` at 12 pixels: exact for code, ample for text."""
TEXT: Final = 6.6
MOST_LINES: Final = 3
SHRINKS: Final = 0.7
"""Smallest legible share of the size; the graph shrinks to this share, then scrolls."""
CURVE: Final = 8.0
ARROW_HEAD: Final = Markup(
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z" class="head"></path></marker></defs>'
)


def graph_svg(root: GraphNode, title: str, description: str) -> Markup:
    """The graph as an `svg` element that adapts to the width of the page.

    Args:
      root: the last node of the graph.
      title: content of the graph, for people who cannot see the graph.
      description: the same in a few sentences.
    """
    wide = ONE_COLUMN if columns_of(root) == 1 else SEVERAL_COLUMNS
    layout = lay_out(_fitted(root, wide), wide, _height)
    least, most = _number(SHRINKS * layout.width), _number(layout.width)
    size = f"width:100%;min-width:{least}px;max-width:{most}px"
    return element(
        "svg",
        element("title", title, id="graph-title"),
        element("desc", description, id="graph-description"),
        ARROW_HEAD,
        *map(_frame, layout.frames),
        *map(_line, layout.lines),
        *map(_box, layout.boxes),
        viewBox=f"0 0 {_number(layout.width)} {_number(layout.height)}",
        role="img",
        aria_labelledby="graph-title graph-description",
        class_="graph",
        style=size,
    )


def _fitted(node: GraphNode, wide: float) -> GraphNode:
    """``node`` and all inputs, with texts broken into lines."""
    room = wide - 2 * PADDING
    facts = []
    for word, text in node.facts:
        # The word stands in the first line only.
        lines = wrap(f"{word} {text}", int(room / TEXT), MOST_LINES)
        facts.append((word, lines[0][len(word) :].lstrip()))
        facts += [("", line) for line in lines[1:]]
    letters = int(room / LETTER)
    return replace(
        node,
        title=cut(node.title, letters - len(node.number) - len(node.mark) - 3),
        code=tuple(line for text in node.code for line in wrap(text, letters, MOST_LINES)),
        facts=tuple(facts),
        inputs=tuple(_fitted(one, wide) for one in node.inputs),
        labels=tuple(cut(label, int(room / LETTER / 2) - 1) for label in node.labels),
    )


def _height(node: GraphNode) -> float:
    return 2 * PADDING + LINE * (1 + len(node.code) + len(node.facts)) - 4


def _frame(frame: Frame) -> Markup:
    room = int(frame.width / TEXT) - 3
    x, y = _number(frame.x + PADDING), _number(frame.y + 17)
    title = element("text", cut(frame.title, room), x=x, y=y, class_="note")
    return element("g", _rectangle(frame, 10, "frame"), title)


def _rectangle(place: Box | Frame, radius: int, kind: str) -> Markup:
    sides = {name: _number(getattr(place, name)) for name in ("x", "y", "width", "height")}
    return element("rect", **sides, rx=radius, class_=kind)


def _line(line: Line) -> Markup:
    (x, y), (to_x, to_y) = line.start, line.end
    if x == to_x:
        path = f"M{_number(x)} {_number(y)}V{_number(to_y - 1)}"
    else:
        path = (
            f"M{_number(x)} {_number(y)}V{_number(line.bend - CURVE)}"
            f"q0 {_number(CURVE)} {_number(-CURVE)} {_number(CURVE)}"
            f"H{_number(to_x)}V{_number(to_y - 1)}"
        )
    drawn = element("path", d=path, class_="line", marker_end="url(#arrow)")
    if not line.label:
        return drawn
    place = {"x": _number(x + 8), "y": _number(y + 14)}
    return join(drawn, element("text", line.label, class_="code label", **place))


def _box(box: Box) -> Markup:
    node = box.node
    left, right, y = box.x + PADDING, box.x + box.width - PADDING, box.y + PADDING + 11
    parts = [element("title", node.tooltip)] if node.tooltip else []
    parts.append(_rectangle(box, 6, "box dashed" if node.dashed else "box"))
    if node.accent:
        edge = f"M{_number(box.x)} {_number(box.y + 8)}V{_number(box.bottom - 8)}"
        parts.append(element("path", d=edge, class_="accent"))
    number = element("tspan", f"{node.number} ", class_="note") if node.number else ""
    parts.append(element("text", number, node.title, x=_number(left), y=_number(y), class_="name"))
    if node.mark:
        where = {"x": _number(right), "y": _number(y), "text_anchor": "end"}
        parts.append(element("text", node.mark, class_="mark", **where))
    for text in node.code:
        y += LINE
        parts.append(element("text", text, x=_number(left), y=_number(y), class_="code"))
    for word, text in node.facts:
        y += LINE
        named = element("tspan", word, class_="note") if word else ""
        shown = f" {text}" if word else text
        parts.append(element("text", named, shown, x=_number(left), y=_number(y), class_="fact"))
    return element("g", *parts)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
