"""Draws what a command printed as a terminal, in SVG: ``resumable demo | python docs/draw_terminal.py 'resumable demo'``."""

from __future__ import annotations

import sys
from html import escape
from typing import Final

COLUMN: Final = 8.4  # of a letter of 14 px in the fonts below
ROW: Final = 20
MARGIN: Final = 18

STYLE: Final = """
    .back { fill: #f6f8fa; stroke: #d0d7de; }
    text { fill: #1f2328; font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
    .prompt { fill: #0a5ea8; font-weight: 600; }
    @media (prefers-color-scheme: dark) {
      .back { fill: #14181d; stroke: #3d444d; }
      text { fill: #e6edf3; }
      .prompt { fill: #8cc6ff; }
    }
"""


def drawn(command: str, printed: str) -> str:
    """The picture of a terminal in which ``command`` printed ``printed``."""
    lines = [f"$ {command}", *printed.rstrip("\n").splitlines()]
    width = 2 * MARGIN + COLUMN * max(map(len, lines))
    height = 2 * MARGIN + ROW * len(lines)
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
    rows = [
        f'  <text class="{"" if number else "prompt"}" x="{MARGIN}" '
        f'y="{MARGIN + ROW * number + 14}" xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(lines)
        if line
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="What {escape(command)} prints">',
            f"  <style>{STYLE}  </style>",
            f'  <rect class="back" x="1" y="1" width="{width - 2:.0f}" height="{height - 2}" rx="8"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(drawn(sys.argv[1], sys.stdin.read()))
