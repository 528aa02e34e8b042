"""Draw the results: how fast each contestant is, and what grows with a buffer or a position."""

# `python -m benchmarks.plots` draws the published results again, without measuring anything.

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.discovery import BARE
from benchmarks.dots import draw_dots
from benchmarks.result import Result, Series
from benchmarks.style import GREY, OURS, TEXT, style_of, times

__all__ = ["write_plots"]

WORKS: Final = {
    "columns": "images in arrays,\nshuffled, in batches",
    "python-map": "a Python function of\nshuffled integers, in batches",
    "item-by-item": "a function and a filter,\nitem by item",
    "stream-shuffle": "a stream, shuffled\nin a window of 10,000",
    "text": "JSON lines on disk,\nshuffled, parsed, in batches",
    "arrays 2 process": "arrays of 1 MiB\nfrom two processes",
    "arrays 2 thread": "arrays of 1 MiB\nfrom two threads",
    "zlib 2 process": "compression\nin two processes",
}
"""The rows of the picture of a whole run, from top to bottom."""
CLOSE: Final = 1.2
"""Marks would hide each other if the times are closer than this factor."""
NEXT: Final = {0.0: 0.22, 0.22: -0.22, -0.22: 0.0}
MOST_TICKS: Final = 5
ALONG: Final = {"resume_time": "items handed out before the save"}
BYTES: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))
SECONDS: Final = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))
COUNTS: Final = ((1e9, "billion"), (1e6, "million"), (1, ""))


def write_plots(folder: Path, results: list[Result]) -> list[Path]:
    """Write PNG files of all that can be drawn; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed")
        return []
    import matplotlib as mpl

    mpl.use("Agg")  # draws without a display
    settings: dict[Any, Any] = dict.fromkeys(GREY, TEXT) | {"savefig.transparent": True}
    written = []
    with mpl.rc_context(settings):
        works = {
            name: ratios for result in results for name, ratios in result.ratios.items() if ratios
        }
        if works:
            chosen = {name: works[name] for name in WORKS if name in works} or works
            written.append(_ratios(folder / "ratios.png", chosen))
        for result in results:
            if result.multiples:
                written.append(draw_dots(folder / f"{result.name}.png", result.multiples))
            if result.series:
                written.append(_curves(folder / f"{result.name}.png", result))
    return written


def _ratios(path: Path, works: dict[str, dict[str, tuple[float, float, float]]]) -> Path:
    """Draw a row for each work, with a mark for each contestant."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.6, 1.7 + 0.6 * len(works)), layout="constrained")
    marked: dict[str, Any] = {}
    for row, ratios in enumerate(works.values()):
        axes.axhline(row, color=TEXT, linewidth=0.6, alpha=0.4, zorder=0)
        medians = {
            label.partition(",")[0]: ratio[0] for label, ratio in ratios.items() if label != BARE
        }
        for name, place in _apart(medians).items():
            marked[name] = _mark(axes, name, medians[name], row + place)
    axes.axvline(1, color=TEXT, linewidth=1.2, zorder=0)
    axes.set_xscale("log")
    axes.set_yticks(range(len(works)), [WORKS.get(name, name) for name in works])
    axes.invert_yaxis()
    axes.margins(x=0.05, y=0.08)
    axes.xaxis.set_major_formatter(times)
    axes.minorticks_off()
    axes.set_xlabel("time of an epoch beside a plain loop's; further left is faster")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    names = sorted(marked, key=lambda name: (name != OURS, name.lower()))
    figure.legend(
        [marked[name] for name in names],
        names,
        loc="outside upper center",
        ncols=4,
        frameon=False,
        columnspacing=1.2,
        handletextpad=0.3,
        fontsize=9,
    )
    figure.savefig(path, dpi=180)
    plt.close(figure)
    return path


def _apart(medians: dict[str, float]) -> dict[str, float]:
    """How far above or below its row each mark is, so that none hides another."""
    places: dict[str, float] = {}
    before, place = 0.0, 0.0
    for name in sorted(medians, key=lambda name: medians[name]):
        place = NEXT[place] if medians[name] < CLOSE * before else 0.0
        places[name], before = place, medians[name]
    return places


def _mark(axes: Any, name: str, ratio: float, row: float) -> Any:
    colour, mark = style_of(name)
    size = 10 if name == OURS else 8
    (marked,) = axes.plot(ratio, row, mark, color=colour, markersize=size, linestyle="none")
    return marked


def _limits(lines: list[Series]) -> tuple[float, float]:
    """Limits wide enough that a flat line looks flat."""
    values = [value for line in lines for value in line.values]
    return min(values) / 3, max(values) * 3


def _curves(path: Path, result: Result) -> Path:
    """Draw a panel for each quantity, on logarithmic axes, with each line's name at its end."""
    import matplotlib.pyplot as plt

    count = len(result.series)
    figure, panels = plt.subplots(
        1, count, figsize=(6.6 if count == 1 else 5.5 * count, 4.4), layout="constrained"
    )
    exact: dict[str, str] = result.raw.get("exact", {})
    for panel, (label, lines) in zip(
        [panels] if count == 1 else panels, result.series.items(), strict=True
    ):
        panel.set(xscale="log", yscale="log", ylim=_limits(lines))
        for line in lines:
            _line(panel, line, loses=exact.get(line.name) == "no")
        _name_lines(panel, lines, exact)
        panel.set_xlabel(ALONG.get(result.name, "items in the buffer"))
        panel.set_title(label if count > 1 else result.title.rstrip("."), fontsize=11)
        panel.minorticks_off()
        sizes = sorted({size for line in lines for size in line.sizes})
        panel.set_xticks(sizes if len(sizes) <= MOST_TICKS else sizes[::2])
        panel.xaxis.set_major_formatter(lambda value, _: _in_units(value, COUNTS))
        units = {"bytes": BYTES, "seconds": SECONDS}.get(label, ((1, ""),))
        panel.yaxis.set_major_formatter(lambda value, _, units=units: _in_units(value, units))
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
        name = line.name.replace(", ", ",\n")
        if exact.get(line.name) == "no":
            name += " (loses the buffer)"
        if "\n" in name:
            above *= least
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
    return f"{value / factor:,.10g} {unit}".strip()


def _read(path: Path) -> list[Result]:
    """The results in a file, wherever they were measured."""
    return [
        Result(
            written["name"],
            written["title"],
            ratios=written["ratios"],
            multiples=written.get("multiples", {}),
            series={
                label: [Series(**line) for line in lines]
                for label, lines in written["series"].items()
            },
            raw=written["raw"],
        )
        for written in json.loads(path.read_text())["results"]
    ]


def main(folders: list[str]) -> None:
    """Draw the results in ``folders`` again."""
    for folder in map(Path, folders):
        for path in write_plots(folder, _read(folder / "results.json")):
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:] or ["benchmarks/results", "benchmarks/results/resuming"])
