"""Shares as horizontal bars, drawn as SVG."""

# Lengths are percentages of the width and labels stand above their bars, so the chart fits every width
# without making its text smaller.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .markup import Markup, element
from .text_width import cut

ROW: Final = 38
THICKNESS: Final = 12
LABEL: Final = 40
"""Letters of a label next to its number, on a telephone."""


class Bar(NamedTuple):
    """A bar.

    Attributes:
      label: above the bar.
      share: length of the bar, from 0 to 1.
      number: the share in words.
      tooltip: the whole label.
      stands_out: whether the bar has the colour of the largest bar.
    """

    label: str
    share: float
    number: str
    tooltip: str = ""
    stands_out: bool = False


def bars_svg(bars: Sequence[Bar], title: str, description: str) -> Markup:
    """The bars from top to bottom as an `svg` element."""
    return element(
        "svg",
        element("title", title, id="bars-title"),
        element("desc", description, id="bars-description"),
        *(_drawn(bar, place * ROW) for place, bar in enumerate(bars)),
        width="100%",
        height=len(bars) * ROW,
        role="img",
        aria_labelledby="bars-title bars-description",
        class_="bars",
    )


def _drawn(bar: Bar, y: int) -> Markup:
    length = f"{100 * min(max(bar.share, 0.0), 1.0):.2f}%"
    shape = {"x": 0, "y": y + 19, "height": THICKNESS, "rx": 2}
    return element(
        "g",
        *([element("title", bar.tooltip)] if bar.tooltip else []),
        element("text", cut(bar.label, LABEL), x=0, y=y + 13, class_="code"),
        element("text", bar.number, x="100%", y=y + 13, text_anchor="end", class_="mark"),
        element("rect", width="100%", class_="track", **shape),
        element("rect", width=length, class_="bar most" if bar.stands_out else "bar", **shape),
    )
