"""Elements of HTML and SVG; text is escaped unless marked as markup."""

from __future__ import annotations

import html
from typing import final


@final
class Markup(str):
    """Text already in the form of markup."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Markup:
    """The element ``name``; content that is no `Markup` is escaped.

    Args:
      name: of the element.
      content: in the element, in this order.
      attributes: all except None. An underscore means a hyphen, a final underscore is left out.

    >>> print(element("p", "a < b ", element("b", "c"), class_="note"))
    <p class="note">a &lt; b <b>c</b></p>
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name == "meta":  # the only void element used here
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """The ``content`` joined; parts that are no `Markup` are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content))


def escape(text: str) -> Markup:
    """``text`` as markup that shows the text, whatever its characters.

    Unprintable characters are shown as escapes: control characters, halves of characters, and marks
    that would change the direction of the following text.
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
