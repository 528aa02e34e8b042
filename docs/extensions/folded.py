"""The sidebar: each part of the pages can be folded, and is open where the reader is."""

from __future__ import annotations

import re
from typing import Any

PART = re.compile(
    r'<p class="caption"[^>]*><span class="caption-text">(.*?)</span></p>\s*(<ul.*?)(?=<p class="caption"|\Z)',
    re.S,
)
OPEN = {"Start", "Guides"}
"""Open everywhere, for those who have just come."""


def fold_parts(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put each part of the navigation into an element that folds without a script."""
    context["furo_navigation_tree"] = PART.sub(folded, context["furo_navigation_tree"])


def folded(part: re.Match[str]) -> str:
    """A caption and its list as one element, open if the page is in the list."""
    title, entries = part.groups()
    state = " open" if title in OPEN or 'class="toctree-l1 current' in entries else ""
    return f'<details{state}><summary class="caption"><span class="caption-text">{title}</span></summary>{entries}</details>'


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("html-page-context", fold_parts, priority=900)  # after the theme has made the tree
    return {"parallel_read_safe": True}
