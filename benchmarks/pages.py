"""Write the figures of the published results into the pages.

``python -m benchmarks.pages`` writes; with ``--check`` it writes nothing, and says which pages it would change.
"""

# A passage stands between `<!-- figures: NAME -->` and `<!-- end -->`, in a line or in lines of its own.

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.passages import PASSAGES
from benchmarks.published import Published

__all__ = ["OTHERS", "PASSAGE", "ROOT", "other_figures", "pages", "written"]

ROOT: Final = Path(__file__).parents[1]
PASSAGE: Final = re.compile(
    r"(?P<begin><!-- figures: (?P<name>[\w-]+) -->)(?P<text>.*?)(?P<end><!-- end -->)", re.DOTALL
)

FENCED: Final = re.compile(r"^(`{3,})[^\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
NUMBER: Final = r"(?<![\w.])\d[\d,.]*(?: (?:to|and|or) \d[\d,.]*)?[ \u00a0]?"
TIME: Final = r"µs|ms|ns|MB/s|GB/s|times (?:as|the|longer|faster)|\N{MULTIPLICATION SIGN}"
SIZE: Final = r"s|seconds?|minutes?|[kMGT]B|[KMG]iB|bytes|%"
FIGURE: Final = {
    True: re.compile(rf"{NUMBER}(?:{TIME}|{SIZE})(?!\w)"),
    False: re.compile(rf"{NUMBER}(?:{TIME})(?!\w)"),
}
"""A figure with its unit; on pages about speed also those of sizes, which elsewhere are mostly settings."""
ABOUT_SPEED: Final = ("README.md", "docs/benchmarks.md", "docs/guides/speed.md")
OTHERS: Final = Path(__file__).parent / "results" / "other_figures.json"
"""Figures on pages that no run of the benchmark measures: for each page, by where they are from."""


def pages() -> Iterator[Path]:
    """All pages that may have figures."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def written(text: str, found: Published) -> str:
    """``text`` with all its passages anew.

    Raises:
      KeyError: naming a passage that there is not, or a result that was not published.
    """

    def anew(match: re.Match[str]) -> str:
        passage = PASSAGES[match["name"]](found)
        space = "\n\n" if match["text"].startswith("\n") else ""
        return f"{match['begin']}{space}{passage}{space}{match['end']}"

    return PASSAGE.sub(anew, text)


def other_figures(page: Path) -> set[str]:
    """The figures about speed on a page that are in no passage and in no block of code."""
    text = FENCED.sub("", PASSAGE.sub("", page.read_text()))
    prose = re.sub(r"`[^`\n]*`", "", text)
    return set(FIGURE[str(page.relative_to(ROOT)) in ABOUT_SPEED].findall(prose))


def main(arguments: list[str]) -> int:
    """Write all pages, or with ``--check`` say which would change."""
    found, changed = Published(), []
    for path in pages():
        before = path.read_text()
        after = written(before, found)
        if after != before:
            changed.append(path)
            if "--check" not in arguments:
                path.write_text(after)
    for path in changed:
        print(path.relative_to(ROOT))
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
