"""Draw the results: a bar for each contestant, and what a state costs against the buffer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.discovery import BARE
from benchmarks.result import Result, Series

__all__ = ["write_plots"]

BAR_INCHES = 0.26
OURS_COLOUR, OTHER_COLOUR, BARE_COLOUR = "#c8102e", "#8aa4bf", "#444444"


def write_plots(folder: Path, results: list[Result]) -> list[Path]:
    """PNG files of what there is to draw; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed")
        return []
    import matplotlib as mpl

    mpl.use("Agg")  # draws without a display
    written = []
    bars = {name: ratios for result in results for name, ratios in result.ratios.items() if ratios}
    if bars:
        written.append(_bars(folder / "ratios.png", bars))
    for result in results:
        if result.series:
            written.append(_curves(folder / f"{result.name}.png", result))
    return written


def _bars(path: Path, works: dict[str, dict[str, tuple[float, float, float]]]) -> Path:
    """One panel a work, two beside each other, on a common logarithmic axis."""
    import matplotlib.pyplot as plt

    columns = min(2, len(works))
    names = list(works)
    rows = [names[begin : begin + columns] for begin in range(0, len(names), columns)]
    heights = [1 + max(len(works[name]) for name in row) for row in rows]
    figure, axes = plt.subplots(
        len(rows),
        columns,
        figsize=(6.5 * columns, 1 + sum(BAR_INCHES * height + 0.6 for height in heights)),
        height_ratios=heights,
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for row, panels in zip(rows, axes, strict=True):
        for name, panel in zip(row, panels, strict=False):
            _panel(panel, name, works[name])
        for panel in panels[len(row) :]:
            panel.set_visible(False)
    figure.suptitle("Time of a pass as a multiple of the bare loop's, median and quartiles")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _panel(panel: Any, name: str, ratios: dict[str, tuple[float, float, float]]) -> None:
    ordered = sorted(ratios.items(), key=lambda entry: -entry[1][0])  # the fastest on top
    labels = [label for label, _ in ordered]
    medians = [ratio[0] for _, ratio in ordered]
    spread = [
        [ratio[0] - ratio[1] for _, ratio in ordered],
        [ratio[2] - ratio[0] for _, ratio in ordered],
    ]
    panel.barh(labels, medians, xerr=spread, color=[_colour(label) for label in labels])
    panel.set_xscale("log")
    panel.axvline(1, color=BARE_COLOUR, linewidth=0.8)
    panel.set_title(name, fontsize=11)
    panel.tick_params(labelsize=8, labelbottom=True)
    panel.set_xlabel("time ÷ bare loop (logarithmic; shorter is faster)", fontsize=8)
    for position, (_, ratio) in enumerate(ordered):
        panel.annotate(
            f"{ratio[0]:.3g}",
            (ratio[2], position),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    panel.margins(x=0.15)


def _colour(label: str) -> str:
    if label == BARE:
        return BARE_COLOUR
    return OURS_COLOUR if label.startswith("resumable") else OTHER_COLOUR


def _curves(path: Path, result: Result) -> Path:
    """One panel a quantity, on logarithmic axes, with a line for each buffer."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(result.series), figsize=(4.2 * len(result.series), 3.8), layout="constrained"
    )
    for panel, (label, lines) in zip(panels, result.series.items(), strict=True):
        for line in lines:
            _line(panel, line)
        panel.set(xscale="log", yscale="log", ylabel=label, xlabel="items in the buffer")
        panel.set_title(label, fontsize=11)
        low = min(value for line in lines for value in line.values)
        high = max(value for line in lines for value in line.values)
        panel.set_ylim(low / 3, high * 3)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.suptitle(result.title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _line(panel: Any, line: Series) -> None:
    panel.plot(line.sizes, line.values, marker="o", label=line.name)
