"""The page of `resumable report`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from .. import __version__
from ..bench import BenchReport, percent
from ..bench.report import AROUND
from ..stages.partition import Partition
from ..verify import Report
from ..views.bars_svg import Bar, bars_svg
from ..views.graph_svg import graph_svg
from ..views.markup import Markup, element, join
from ..views.page import cards, definitions, folded, page, scrolled, section, table
from .bench import figures, figures_of_saving
from .report_graph import ReportStage, graph_of
from .texts import show_duration
from .verify import figures as figures_of_verifying
from .verify import finding_lines

MANY: Final = 40
"""A table of more rows is folded up at first."""
MOST_BARS: Final = 20
"""Most stages with a bar each. Of more stages, the `LARGEST` and a bar for the rest."""
LARGEST: Final = 15
HEADINGS: Final = ("", "stage", "items", "access", "its part of the state", "bytes", "share", "work per item", "at")  # fmt: skip


@final
@dataclass(frozen=True)
class PipelineReport:
    """All that the page shows.

    Attributes:
      target: the name of the pipeline.
      last: the last stage, with all earlier stages.
      bench: the measurement.
      verification: None if not verified.
    """

    target: str
    last: ReportStage
    bench: BenchReport
    verification: Report | None = None

    def html(self) -> str:
        """The page."""
        return page(
            f"{self.target}: pipeline report",
            element("h1", self.target),
            element("p", self._summary(), class_="note"),
            cards(self._cards()),
            self._graph(),
            self._time(),
            self._state(),
            self._verdict(),
            self._table(),
            element("footer", element("p", f"Made by resumable {__version__}.")),
        )

    def _summary(self) -> str:
        count = sum(1 for _ in self.last.in_order())
        shown = self.last.shown
        items = {"?": "items not counted yet", "endless": "endless"}.get(
            shown.items, f"{shown.items} item{'s' * (shown.items != '1')}"
        )
        return f"{count:,} stage{'s' * (count > 1)}, {items}, {shown.access}"

    def _cards(self) -> Iterator[tuple[str, str]]:
        if self.bench.items_per_second is not None:
            yield "items/s", self.bench.rate
        if (saving := self.bench.saving) is not None:
            yield "state", f"{saving.state_bytes:,} bytes"
            yield "a durable save", show_duration(saving.save_seconds)
            yield "a resume, to its first item", show_duration(saving.resume_seconds)
        yield "verified", self._verified()[0]

    def _verified(self) -> tuple[str, str]:
        """The verdict in few words and in a sentence."""
        found = self.verification
        if found is None:
            return "not yet", "Whether it resumes exactly has not been tried."
        if found.finding is not None:
            return "not exact", f"Not exact: {found.finding.reason}."
        if not found.positions:
            return "nothing tried", "No position was tried."
        return "exact", "Exact: nothing differs."

    def _graph(self) -> Markup:
        named = ", ".join(f"{one.number} {one.name}" for one in self.last.in_order(drawn=True))
        drawn = graph_svg(
            graph_of(self.last),
            f"The graph of {self.target}",
            f"From the sources down to the last stage: {named}. The table of stages says the same.",
        )
        legend = " ".join(self._legend())
        return section("Graph", scrolled(drawn), element("p", legend, class_="note"), long=True)

    def _legend(self) -> Iterator[str]:
        yield "Items pass from the top to the bottom."
        stages = [*self.last.in_order()]
        saving = sum(one.saves for one in stages)
        yield f"Stages that add to the state have a coloured edge: {saving:,} of {len(stages):,}."
        if any(isinstance(one.stage, Partition) for one in stages):
            yield "What stands in a frame is done in each partition by itself."
        if self.bench.stages:
            yield "A percentage is the share of the loop's time."

    def _time(self) -> Markup:
        heading = "Where the time goes"
        notes = [element("p", note, class_="note") for note in self.bench.notes]
        if not self.bench.stages:
            return section(heading, definitions(figures(self.bench)), *notes)
        bars = [*self._bars()]
        chart = bars_svg(
            bars,
            "Shares of the loop's time by stage",
            "; ".join(f"{bar.label}: {bar.number}" for bar in bars),
        )
        advice = [element("p", self.bench.advice)] if self.bench.advice else []
        said = definitions(figures(self.bench))
        return section(heading, *advice, element("div", chart, class_="chart"), said, *notes)

    def _bars(self) -> Iterator[Bar]:
        """A bar for each stage; of many stages, for the largest shares, and a bar for the rest."""
        stages = [*self.last.in_order()]
        chosen = stages
        if len(stages) > MOST_BARS:
            largest = sorted(stages, key=lambda one: one.share or 0.0, reverse=True)[:LARGEST]
            chosen = [one for one in stages if one in largest]
        for one in chosen:
            text = f"{one.number} {one.text}"
            yield Bar(text, one.share or 0.0, f"{one.percent} %", one.text, one.is_slowest)
        if others := [one for one in stages if one not in chosen]:
            share = sum(one.share or 0.0 for one in others)
            whole = sum(one.percent or 0 for one in others)
            yield Bar(f"the other {len(others):,} stages together", share, f"{whole} %")
        around = len(self.bench.stages) - 1
        shares = [one.share for one in self.bench.stages]
        slowest = self.bench.bottleneck == around
        yield Bar(AROUND, shares[around], f"{percent(shares)[around]} %", stands_out=slowest)

    def _state(self) -> Markup:
        shown = [*figures_of_saving(self.bench)]
        largest = self.verification and self.verification.state_bytes
        if not shown and largest is not None:
            shown = [("bytes of state", f"{largest:,} (most)")]
        if not shown:
            return section("State", element("p", "No state was measured.", class_="note"))
        return section("State", definitions(shown))

    def _verdict(self) -> Markup:
        found = self.verification
        sentence = self._verified()[1]
        if found is None:
            how = "resumable verify TARGET --json > verify.json"
            todo = element(
                "p",
                "Run ", element("code", how), " and pass ", element("code", "--verify verify.json"), ".",
            )  # fmt: skip
            return section("Verification", element("p", sentence, class_="note"), todo)
        kind = "verdict bad" if found.finding else "verdict good" if found.positions else "verdict"
        parts = [element("p", sentence, class_=kind)]
        if found.finding is not None:
            _, *lines = finding_lines(found.finding)  # the first line repeats the reason
            text = join(*(join(line.removeprefix("  "), Markup("\n")) for line in lines))
            parts.append(element("pre", text))
        parts += [element("p", f"Look at this: {text}") for text in found.suspicions]
        if found.resumed:
            parts.append(element("p", f"Resumed {'; '.join(found.resumed)}.", class_="note"))
        return section("Verification", *parts, definitions(figures_of_verifying(found)))

    def _table(self) -> Markup:
        rows = [*map(self._row, self.last.in_order())]
        shown = table(
            HEADINGS,
            rows,
            numbers=("", "items", "bytes", "share", "work per item"),
            wide=("stage", "its part of the state", "at"),
        )
        return folded("Stages", shown, is_open=len(rows) <= MANY)

    def _row(self, found: ReportStage) -> tuple[str, ...]:
        return (
            str(found.number),
            found.text,
            found.shown.items,
            found.shown.access,
            found.shown.saved,
            "" if found.bytes is None else f"{found.bytes:,}",
            "" if found.percent is None else f"{found.percent} %",
            found.work,
            found.path,
        )
