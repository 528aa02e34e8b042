"""Draw the results: how fast each contestant is, and what grows with a buffer or a position."""

# `python -m benchmarks.plots` draws the published results again, without measuring anything.

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.discovery import BARE
from benchmarks.dots import draw_dots
from benchmarks.published import figure as figure_of
from benchmarks.report import read_json
from benchmarks.result import Result, Series
from benchmarks.style import GREY, OURS, TEXT, style_of, times

__all__ = ["write_plots"]

RACES: Final = {
    "columns": "50,000 images in arrays,\nshuffled, in batches of 256",
    "text": "A million JSON lines on disk,\nshuffled, parsed, in batches of 256",
}
"""Races of which there is a picture, each with one row for a contestant."""
CURVES: Final = {
    ("resume_time", "everything shuffled"): "resume_time",
    ("resume_time", "a stream shuffled in a buffer of 10,000"): "resume_time_buffer",
    ("state_size", "bytes"): "state_size",
}
"""Series of results, and the name of the picture."""
TITLES: Final = {
    "resume_time": "From a saved state to the next batch,\neverything shuffled",
    "resume_time_buffer": "From a saved state to the next batch,\na stream shuffled in a buffer of 10,000",
    "state_size": "A saved state of a shuffled stream",
}
MOST_TICKS: Final = 4
ALONG: Final = {"state_size": "items in the buffer"}
NAMES: Final = {
    "resumable, a stream read anew": "resumable,\nread anew",
    "MosaicML Streaming": "MosaicML",
    "torch DataLoader": "torch",
}
"""Short names, for the end of a line."""
PLAIN: Final = "a plain loop"
WIDTH: Final = 4.4
"""Inches, so that text of ten points can be read on a phone."""
BYTES: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))
SECONDS: Final = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))
COUNTS: Final = ((1e9, " billion"), (1e6, " million"), (1e3, ",000"), (1, ""))


def write_plots(folder: Path, results: list[Result]) -> list[Path]:
    """Write PNG files of all that can be drawn; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed")
        return []
    import matplotlib as mpl

    mpl.use("Agg")  # draws without a display
    settings: dict[Any, Any] = dict.fromkeys(GREY, TEXT) | {"savefig.transparent": True}
    with mpl.rc_context(settings):
        return [*_drawn(folder, results)]


def _drawn(folder: Path, results: list[Result]) -> Iterator[Path]:
    for result in results:
        for work, title in RACES.items():
            if result.ratios.get(work):
                yield _race(folder / f"{work}.png", title, result.ratios[work])
        if result.multiples:
            yield draw_dots(folder / f"{result.name}.png", result.multiples)
    for (workload, label), name in CURVES.items():
        lines: dict[str, Series] = {}
        exact: dict[str, str] = {}
        for result in results:
            if result.name == workload:
                lines = {line.name: line for line in result.series.get(label, ())} | lines
                raw = result.raw if "exact" in result.raw else result.raw.get(label, {})
                exact = raw.get("exact", {}) | exact
        if lines:
            yield _curves(folder / f"{name}.png", name, [*lines.values()], exact)


def _race(path: Path, title: str, ratios: dict[str, tuple[float, float, float]]) -> Path:
    """Draw a row for each contestant, with its name and figure at the mark."""
    import matplotlib.pyplot as plt

    rows = sorted((ratio, label.partition(",")[0]) for label, ratio in ratios.items())
    figure, axes = plt.subplots(figsize=(WIDTH, 1.3 + 0.34 * len(rows)), layout="constrained")
    least, most = rows[0][0][0], rows[-1][0][0]
    axes.set_xscale("log")
    axes.set_xlim(least / 1.3, most * 1.3)
    for row, ((median, lower, upper), name) in enumerate(rows):
        colour, mark = (TEXT, "o") if name == BARE else style_of(name)
        axes.plot([lower, upper], [row, row], color=colour, linewidth=2, alpha=0.5)
        axes.plot(median, row, mark, color=colour, markersize=8)
        left = median > (least * most) ** 0.5
        axes.annotate(
            f"{PLAIN if name == BARE else name}  {figure_of(median)}\N{MULTIPLICATION SIGN}",
            (lower if left else upper, row),
            xytext=(-9 if left else 9, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=10,
            color=colour,
            fontweight="bold" if name == OURS else "normal",
        )
    axes.axvline(1, color=TEXT, linewidth=1, zorder=0)
    axes.set_title(title, fontsize=10)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(times)
    axes.minorticks_off()
    axes.set_xlabel("time ÷ that of a plain loop; left is faster")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=180)
    plt.close(figure)
    return path


def _limits(lines: list[Series]) -> tuple[float, float]:
    """Limits wide enough that a flat line looks flat."""
    values = [value for line in lines for value in line.values]
    return min(values) / 3, max(values) * 3


def _curves(path: Path, name: str, lines: list[Series], exact: dict[str, str]) -> Path:
    """Draw lines on logarithmic axes, with each one's name at its end."""
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(WIDTH, 3.9), layout="constrained")
    panel.set(xscale="log", yscale="log", ylim=_limits(lines))
    for line in lines:
        _line(panel, line, loses=exact.get(line.name) == "no")
    _name_lines(panel, lines, exact)
    panel.set_xlabel(ALONG.get(name, "items handed out before the save"))
    panel.set_title(TITLES[name], fontsize=10)
    panel.minorticks_off()
    sizes = sorted({size for line in lines for size in line.sizes})
    panel.set_xticks(sizes if len(sizes) <= MOST_TICKS else sizes[::2])
    panel.xaxis.set_major_formatter(lambda value, _: _in_units(value, COUNTS))
    units = BYTES if name == "state_size" else SECONDS
    panel.yaxis.set_major_formatter(lambda value, _: _in_units(value, units))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=180)
    plt.close(figure)
    return path


def _line(panel: Any, line: Series, loses: bool) -> None:
    colour, mark = style_of(line.name)
    dashed = loses or "," in line.name  # its name has a remark
    panel.plot(
        line.sizes,
        line.values,
        marker=mark,
        color=colour,
        linestyle="--" if dashed else "-",
        linewidth=3 if line.name.startswith(OURS) else 1.8,
    )


def _name_lines(panel: Any, lines: list[Series], exact: dict[str, str]) -> None:
    """Write the name of each line at its right end, without overlaps."""
    low, high = panel.get_ylim()
    least = (high / low) ** (1 / 17)  # the factor of one line of text
    above = 0.0
    for line in sorted(lines, key=lambda line: line.values[-1]):
        place = max(line.values[-1], above * least)
        above = place
        name = NAMES.get(line.name, line.name)
        if exact.get(line.name) == "no":
            name += "\n(loses the buffer)"
        if "\n" in name:
            above *= least ** (name.count("\n") + 0.3)
        panel.annotate(
            name,
            (line.sizes[-1], place),
            xytext=(10, 0),
            textcoords="offset points",
            va="bottom" if "\n" in name else "center",
            fontsize=10,
            color=style_of(line.name)[0],
            fontweight="bold" if line.name.startswith(OURS) else "normal",
            annotation_clip=False,
        )


def _in_units(value: float, units: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next((each for each in units if value >= 0.999 * each[0]), units[-1])
    space = "" if unit[:1] in " ," else " "
    return f"{value / factor:,.10g}{space}{unit}".strip()


def main(path: Path) -> None:
    """Draw the published results again."""
    results = [result for run in read_json(path) for result in run.results]
    for drawn in write_plots(path.parent, results):
        print(drawn)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/results/results.json"))
