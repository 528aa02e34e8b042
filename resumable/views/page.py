"""A page of HTML that loads nothing: light and dark, at any width, and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from .markup import Markup, element, join

# The contrasts of the colours in `page.css` are tested. The width of a letter in its fixed-width
# fonts is about 0.6 of the size: `graph_svg` relies on this width.


def page(title: str, *content: Markup) -> str:
    """A whole page.

    Args:
      title: in the bar of the browser, as text.
      content: of the page.
    """
    # Even if some content named another address, nothing would be loaded from the network.
    nothing_else = "default-src 'none'; style-src 'unsafe-inline'"
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=nothing_else),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(f"\n{style}")),
    )
    body = element("body", element("main", *content))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(heading: str, *content: Markup, long: bool = False) -> Markup:
    """A part of the page; a ``long`` part may be broken between sheets of paper."""
    kind = "long" if long else None
    return element("section", element("h2", heading), *content, class_=kind)


def cards(figures: Iterable[tuple[str, str]]) -> Markup:
    """The most important figures, each with a name."""
    return element("dl", *(element("div", _pair(*figure)) for figure in figures), class_="cards")


def definitions(figures: Iterable[tuple[str, str]]) -> Markup:
    """Figures, each with a name."""
    return element("dl", *(_pair(*figure) for figure in figures), class_="figures")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str],
    wide: Sequence[str],
) -> Markup:
    """A table, scrolled if wider than the page.

    Args:
      headings: of the columns.
      rows: the cells.
      numbers: headings of columns with numbers.
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
    """``content``, scrolled if wider than the page, also by keys."""
    return element("div", content, class_="scroll", tabindex="0")


def folded(heading: str, content: Markup, *, is_open: bool) -> Markup:
    """A part of the page, folded up unless ``is_open``."""
    state = "open" if is_open else None
    return element(
        "section",
        element("details", element("summary", heading), content, open=state),
        class_="long",
    )


def _pair(name: str, value: str) -> Markup:
    return join(element("dt", name), element("dd", value))
