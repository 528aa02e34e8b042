"""Elements of HTML and SVG, in which text is escaped unless it is markup."""

from __future__ import annotations

import html
from typing import final


@final
class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Markup:
    """The element ``name``; what of its content is no `Markup` is text.

    Args:
      name: of the element.
      content: in the element, in this order.
      attributes: those that are not None. An underscore stands for a hyphen, one at the end is left out.

    >>> print(element("p", "a < b ", element("b", "c"), class_="note"))
    <p class="note">a &lt; b <b>c</b></p>
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name == "meta":  # the only one here that HTML ends by itself
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """``content`` one after the other; what of it is no `Markup` is text."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content))


def escape(text: str) -> Markup:
    """``text`` as markup that shows it, whatever it holds.

    What cannot be printed is shown by its escape: control characters, halves of characters, and
    marks that would change the direction of the text after them.
    """
    shown = "".join(
        letter
        if letter.isprintable()
        else " "
        if letter.isspace()
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
    return Markup(html.escape(shown))
