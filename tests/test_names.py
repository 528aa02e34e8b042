"""One word, one thing: no two classes of the package share a name."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import resumable

PACKAGE = Path(resumable.__file__).parent


def test_no_two_classes_at_the_top_of_modules_share_a_name() -> None:
    """Leading underscores aside; who searches for a name finds one thing."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            places[name.lstrip("_")].append(str(path.relative_to(PACKAGE)))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
