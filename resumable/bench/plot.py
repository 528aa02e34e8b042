"""Draw the shares of the stages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidArgument
from ..formats.packages import imported
from .report import BenchReport, brief, percent

COLOUR: Final = "#9db4c8"
COLOUR_OF_BOTTLENECK: Final = "#c8553d"
LONGEST_LABEL: Final = 44


def check_plot(path: str) -> None:
    """Refuse an impossible plot file before measuring.

    Raises:
      MissingDependency: if matplotlib is not installed.
      InvalidArgument: if the suffix names no format that matplotlib writes.
      OSError: if the file cannot be written.
    """
    known = _canvas().get_supported_filetypes()
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in known:
        raise InvalidArgument(
            f"--plot must end with one of {', '.join(f'.{name}' for name in sorted(known))}, "
            f"got {path!r}"
        )
    check_writable(path)


def check_writable(path: str) -> None:
    """Refuse a file that cannot be written, without changing the file.

    Raises:
      OSError: if the file is refused.
    """
    existed = os.path.lexists(path)
    with open(path, "ab"):
        pass
    if not existed:
        os.unlink(path)


def draw(report: BenchReport, path: str) -> None:
    """Write horizontal bars, one for each stage, to the file ``path``.

    Raises:
      OSError: if writing fails.
    """
    canvas = _canvas(height=1.6 + 0.42 * max(len(report.stages), 1))
    axes = canvas.figure.add_subplot()
    shares = percent([stage.share for stage in report.stages])
    names = [brief(stage.stage, LONGEST_LABEL) for stage in report.stages]
    places = range(len(names))
    colours = [COLOUR_OF_BOTTLENECK if one == report.bottleneck else COLOUR for one in places]
    bars = axes.barh(places, [100 * stage.share for stage in report.stages], color=colours)
    axes.bar_label(bars, [f"{share} %" for share in shares], padding=4)
    axes.set_yticks(places, names, parse_math=False)  # a name may have a $
    axes.invert_yaxis()  # the last stage on top, as in the table
    axes.set_xlim(0, 110)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("share of the loop's time (%)")
    title = f"Where the time goes in {brief(report.target, LONGEST_LABEL)}"
    if report.items_per_second is not None:
        title += f"\n{report.rate} items/s"
    axes.set_title(title, fontsize="medium", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    canvas.figure.savefig(path, dpi=150)


def _canvas(height: float = 3.0) -> Any:
    """A canvas that needs no screen, with a figure 9 inches wide."""
    imported("matplotlib", "--plot needs matplotlib", "bench")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(figsize=(9, height), layout="constrained"))
