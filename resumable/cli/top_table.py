"""The table of `resumable top`, as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..checkpoint.stats_lines import RankProgress, inputs_of_ranks
from ..views.table import table_lines
from .texts import show_age, show_duration, show_time

T = TypeVar("T", int, float)

HEADINGS: Final = (
    "input",
    "rank",
    "step",
    "items/s",
    "waiting",
    "p99 wait",
    "skipped",
    "saved",
    "age",
)
OF_INPUTS: Final = ("of", "items", "passes", "tokens")
ALIGNMENT: Final = "<>>>>>>>"
UNKNOWN: Final = "-"
WHOLE: Final = 1000
MOST_NAMED: Final = 5
HOW: Final = (
    "No speed is known: the run must write it, by rs.Checkpointer(folder, trigger, stats=True)."
)


class RunTable(NamedTuple):
    """The table of a run.

    Attributes:
      rows: the headings first; empty if only the notes are shown.
      alignment: of the columns, as for `table_lines`.
      notes: lines below the table: the inputs of mixtures, and sentences.
    """

    rows: list[tuple[str, ...]]
    alignment: str
    notes: list[str]

    def lines(self) -> Iterator[str]:
        """The table as text."""
        if self.rows:
            yield from table_lines(self.rows, self.alignment)
        if self.rows and self.notes:
            yield ""
        yield from self.notes


def run_table(found: Sequence[RankProgress], now: float) -> RunTable:
    """The table of ``found``, at least one rank, at the time ``now``."""
    by_name: dict[str, list[RankProgress]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    rows: list[tuple[str, ...]] = [HEADINGS]
    for ranks in by_name.values():
        if len(ranks) > 1:
            rows.append(_row("all", ranks, now))
        rows += [_row(str(one.rank), [one], now) for one in ranks]
    several = len(by_name) > 1
    shown = rows if several else [row[1:] for row in rows]
    notes = [*_notes(found, now)]
    if inputs := [row for ranks in by_name.values() for row in _rows_of_inputs(ranks, several)]:
        notes = [*table_lines([OF_INPUTS, *inputs], "<>>>"), *[""] * bool(notes), *notes]
    return RunTable(shown, ALIGNMENT if several else ALIGNMENT[1:], notes)


def _row(label: str, ranks: Sequence[RankProgress], now: float) -> tuple[str, ...]:
    """Ranks in a row: rates and skipped items are added up, the worst of each other figure is shown."""
    steps = _known(one.step for one in ranks)
    times = _known(one.time for one in ranks)
    lines = [one.last for one in ranks if one.last is not None]
    rates, shares = _known(one.rate for one in ranks), _known(one.wait_share for one in ranks)
    waits, skipped = _known(one.wait_p99 for one in lines), _known(one.skipped for one in lines)
    return (
        ranks[0].name,
        label,
        _shown(steps, lambda found: str(min(found)) if len({*found}) == 1 else f"{min(found)}..{max(found)}"),
        _shown(rates, lambda found: _rate(sum(found))),
        _shown(shares, lambda found: f"{100 * max(found):.1f} %"),
        _shown(waits, lambda found: show_duration(max(found))),
        _shown(skipped, lambda found: f"{sum(found):,}"),
        _shown(times, lambda found: show_time(min(found), brief=True)),
        _shown(times, lambda found: show_age(now - min(found))),
    )  # fmt: skip


def _rows_of_inputs(ranks: Sequence[RankProgress], several: bool) -> Iterator[tuple[str, ...]]:
    """The totals of each input of a mixture over all ranks."""
    for name, (items, passes, tokens) in inputs_of_ranks(ranks):
        counts = [_shown(value, "{:,.0f}".format) for value in (items, tokens)]
        label = f"{ranks[0].name}: {name}" if several else name
        yield label, counts[0], _shown(passes, "{:,.2f}".format), counts[1]


def _notes(found: Sequence[RankProgress], now: float) -> Iterator[str]:
    if not any(one.last for one in found):
        yield HOW
    missing = [one for one in found if one.step is None]
    if missing:
        named = ", ".join(str(one.rank) for one in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        yield f"Not heard of yet: rank {named}{more}."
    ahead = [one.time - now for one in found if one.time is not None and one.time > now + 1]
    if ahead:
        yield f"A clock there is ahead of this one, by {show_age(max(ahead))}."


def _shown(value: Any, show: Callable[[Any], str]) -> str:
    return UNKNOWN if value is None or value == [] else show(value)


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= WHOLE else f"{value:.3g}"
