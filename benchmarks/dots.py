"""Draw the time of each operator as a multiple of the time by hand: a dot for each variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.style import OUR_COLOUR, TEXT, times

__all__ = ["draw_dots"]

FILLED: Final = "random access"
"""Dots over this are filled; all others are hollow."""
NEAR: Final = (1 / 4, 1 / 2, 1, 2, 4, 8, 16)
FAR: Final = (1 / 100, 1 / 10, 1, 10, 100, 1000)
"""Ticks of the axis, `NEAR` if all dots are there, else `FAR`."""


def draw_dots(path: Path, panels: dict[str, dict[str, list[tuple[str, float]]]]) -> Path:
    """Draw a panel for each way, with a row for each operator and a dot for each variant."""
    import matplotlib.pyplot as plt

    names = sorted({name for marks in panels.values() for name in marks}, key=str.lower)
    size = (6.6, 1.2 + 0.19 * len(names))
    figure, axes = plt.subplots(
        1, len(panels), figsize=size, sharex=True, sharey=True, layout="constrained"
    )
    drawn: dict[str, Any] = {}
    for panel, (way, marks) in zip(axes, panels.items(), strict=True):
        for row, name in enumerate(names):
            panel.axhline(row, color=TEXT, linewidth=0.5, alpha=0.3, zorder=0)
            for over, multiple in marks.get(name, ()):
                face = OUR_COLOUR if over == FILLED else "none"
                (drawn[over],) = panel.plot(
                    multiple, row, "o", color=OUR_COLOUR, markerfacecolor=face, markersize=5
                )
        panel.axvline(1, color=TEXT, linewidth=1.2, zorder=0)
        panel.set_xscale("log")
        panel.set_title(way, fontsize=10)
        panel.xaxis.set_major_formatter(times)
        panel.minorticks_off()
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
    low, high = axes[0].get_xlim()
    ticks = NEAR if high < 2 * NEAR[-1] else FAR
    axes[0].set_xticks([tick for tick in ticks if low <= tick <= high])
    axes[0].set_yticks(range(len(names)), names, fontsize=9)
    axes[0].invert_yaxis()
    figure.supxlabel("time ÷ that of the same written by hand; further left is faster", fontsize=10)
    figure.legend(
        [drawn[over] for over in sorted(drawn)],
        [f"over {'a stream' if over != FILLED else over}" for over in sorted(drawn)],
        loc="outside upper center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, dpi=180)
    plt.close(figure)
    return path
