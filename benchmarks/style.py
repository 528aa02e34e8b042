"""Colours and marks of the pictures."""

# The pictures have no background. Their text has a grey that is readable on white and on black.
# Each contestant has its own colour and mark, so that they can be told apart in print.

from __future__ import annotations

from typing import Final

__all__ = ["GREY", "OURS", "OUR_COLOUR", "TEXT", "style_of", "times"]

OURS: Final = "resumable"
OUR_COLOUR: Final = "#d62839"
TEXT: Final = "#7d7d7d"
GREY: Final = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
STYLES: Final = {
    "infinibatch": ("#e08e0b", "s"),
    "tf.data": ("#2a78b8", "^"),
    "torch DataLoader": ("#0a8f6c", "o"),
    "torchdata": ("#5fb58f", "v"),
    "datasets": ("#b0699b", "P"),
    "Grain": ("#4fa3d9", "h"),
    "LitData": ("#8c6d4f", "X"),
    "MosaicML Streaming": ("#8a8f98", "d"),
}
"""Colour and mark of each peer, by the beginning of its label."""
OTHER: Final = (OUR_COLOUR, "o")


def times(ratio: float, _: float = 0) -> str:
    """A ratio as the text of a tick."""
    return f"{ratio:g}\N{MULTIPLICATION SIGN}" if ratio >= 1 else f"1/{1 / ratio:g}"


def style_of(name: str) -> tuple[str, str]:
    """Colour and mark of a contestant."""
    if name.startswith(OURS):
        return OUR_COLOUR, "D"
    return next((style for start, style in STYLES.items() if name.startswith(start)), OTHER)
