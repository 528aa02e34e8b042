"""A page of HTML that loads nothing: light and dark, at any width, and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .markup import Markup, element, join

LIGHT: Final[Mapping[str, str]] = {
    "page": "#f4f6f8",
    "card": "#ffffff",
    "ink": "#1c2128",
    "muted": "#57606a",
    "edge": "#c5ccd3",
    "accent": "#0b6e4f",
    "bar": "#4f7ba3",
    "most": "#b8452c",
    "track": "#e9edf1",
    "good": "#116a3a",
    "bad": "#b42318",
}
DARK: Final[Mapping[str, str]] = {
    "page": "#0f1419",
    "card": "#182028",
    "ink": "#e6edf3",
    "muted": "#a3b0bd",
    "edge": "#3d4955",
    "accent": "#4cc38a",
    "bar": "#6f9bc2",
    "most": "#f0785a",
    "track": "#27323d",
    "good": "#4cc38a",
    "bad": "#ff8a7a",
}

# Contrasts of these are tested. Fonts of equal letters are about 0.6 of their size wide: `graph_svg`
# relies on that.
STYLE: Final = """
* { box-sizing: border-box; }
body { margin: 0; padding: 24px 16px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 12px; }
p { margin: 0 0 12px; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px;
  padding: 16px; margin: 16px 0; }
section > :last-child { margin-bottom: 0; }
footer, .note { color: var(--muted); }
footer { font-size: 13px; }
code, pre { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: 13px; overflow-wrap: anywhere; white-space: pre-wrap; }
.verdict { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); }
dl.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 16px 0 0; }
dl.cards div { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px; }
dl.cards dt { color: var(--muted); font-size: 13px; }
dl.cards dd { margin: 0; font-size: 19px; font-weight: 600; overflow-wrap: anywhere; }
dl.figures { display: grid; grid-template-columns: minmax(0, max-content) minmax(0, 1fr);
  gap: 4px 20px; margin: 0 0 12px; }
dl.figures dt { color: var(--muted); }
dl.figures dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin-bottom: 12px; }
summary { cursor: pointer; font-size: 17px; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin-top: 8px; }
th, td { text-align: left; vertical-align: top; padding: 6px 12px 6px 0;
  border-bottom: 1px solid var(--edge); }
td { overflow-wrap: anywhere; min-width: 5em; }
td.wide { min-width: 15em; }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; min-width: 0; font-variant-numeric: tabular-nums; }
svg { display: block; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  fill: var(--ink); }
svg .code { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; }
svg .code { white-space: pre; }
svg .name { font-size: 13px; font-weight: 600; }
svg .mark { font-weight: 600; font-variant-numeric: tabular-nums; }
svg .note, svg .label { fill: var(--muted); font-weight: 400; }
svg .box { fill: var(--card); stroke: var(--edge); }
svg .dashed { stroke-dasharray: 5 4; }
svg .accent { fill: none; stroke: var(--accent); stroke-width: 4; stroke-linecap: round; }
svg .frame { fill: var(--page); stroke: var(--edge); stroke-dasharray: 5 4; }
svg .line { fill: none; stroke: var(--muted); stroke-width: 1.5; }
svg .head { fill: var(--muted); }
svg.bars { margin: 0 0 16px; }
svg .track { fill: var(--track); }
svg .bar { fill: var(--bar); }
svg .most { fill: var(--most); }
@media (max-width: 520px) {
  body { padding: 12px 8px; }
  section { padding: 12px; }
  dl.cards { grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); }
  dl.figures { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dl.figures dd { margin-bottom: 8px; }
}
@media print {
  body { background: none; padding: 0; font-size: 11pt; }
  main { max-width: none; }
  section, dl.cards div { border-radius: 0; break-inside: avoid; }
  section.long { break-inside: auto; }
  dl.cards { grid-template-columns: repeat(5, 1fr); gap: 8px; }
  dl.cards dd { font-size: 12pt; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  td, td.wide { min-width: 0; }
  th, td.number { white-space: normal; }
  td:first-child { white-space: nowrap; }
  svg.graph { width: auto !important; min-width: 0 !important; max-width: 100% !important;
    max-height: 62vh; }
  svg, .bar, .track { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def page(title: str, *content: Markup) -> str:
    """A whole page.

    Args:
      title: in the bar of the browser, as text.
      content: of the page.
    """
    # Even if something of the content named another place, nothing would be loaded from there.
    nothing_else = "default-src 'none'; style-src 'unsafe-inline'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=nothing_else),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(_style())),
    )
    body = element("body", element("main", *content))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(heading: str, *content: Markup, long: bool = False) -> Markup:
    """A part of the page; a ``long`` one may be broken between sheets of paper."""
    kind = "long" if long else None
    return element("section", element("h2", heading), *content, class_=kind)


def cards(figures: Iterable[tuple[str, str]]) -> Markup:
    """The most important figures, each with its name."""
    return element("dl", *(element("div", _pair(*figure)) for figure in figures), class_="cards")


def definitions(figures: Iterable[tuple[str, str]]) -> Markup:
    """Figures, each with its name."""
    return element("dl", *(_pair(*figure) for figure in figures), class_="figures")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str],
    wide: Sequence[str],
) -> Markup:
    """A table, which is scrolled where it is wider than the page.

    Args:
      headings: of its columns.
      rows: the cells.
      numbers: headings of columns that hold numbers.
      wide: headings of columns that need room.
    """

    def kind(heading: str) -> str | None:
        return "number" if heading in numbers else "wide" if heading in wide else None

    head = element("tr", *(element("th", one, class_=kind(one)) for one in headings))
    body = (
        element("tr", *(element("td", cell, class_=kind(one)) for one, cell in zip(headings, row, strict=True)))
        for row in rows
    )  # fmt: skip
    return scrolled(element("table", element("thead", head), element("tbody", *body)))


def scrolled(content: Markup) -> Markup:
    """``content``, which is scrolled where it is wider than the page, also by keys."""
    return element("div", content, class_="scroll", tabindex="0")


def folded(heading: str, content: Markup, *, is_open: bool) -> Markup:
    """A part of the page that is folded up, unless it ``is_open``."""
    state = "open" if is_open else None
    return element(
        "section",
        element("details", element("summary", heading), content, open=state),
        class_="long",
    )


def _pair(name: str, value: str) -> Markup:
    return join(element("dt", name), element("dd", value))


def _style() -> str:
    def variables(colours: Mapping[str, str]) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in colours.items())

    # On paper it is always light.
    return (
        f"\n:root {{ color-scheme: light dark; {variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}"
        f"{STYLE}"
    )
