"""The drawing: a bar for each stage, with its name, its share and the bottleneck's colour."""

from __future__ import annotations

from pathlib import Path

import pytest

import resumable as rs
from resumable.bench import BenchReport, draw, measure
from resumable.bench.report import StageTime

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

STAGES = (
    StageTime("Batch(batch_size=4)", "pipeline", 0.12, 1e-3, 0.0, 0),
    StageTime("Map(fn=$x_$)", "pipeline.upstream", 0.88, 7e-3, 0.0, 0),
)


def drawn(folder: Path, report: BenchReport) -> str:
    """The texts of an SVG are in its comments."""
    draw(report, str(folder / "shares.svg"))
    return (folder / "shares.svg").read_text(encoding="utf-8")


def test_names_shares_and_units_are_legible(tmp_path: Path) -> None:
    report = BenchReport("mine:training", 500, 2.0, True, stages=STAGES, bottleneck=1)
    text = drawn(tmp_path, report)
    for shown in ("Batch(batch_size=4)", "Map(fn=$x_$)", "12 %", "88 %", "share of the loop's time",
                  "mine:training", "250 items/s"):  # fmt: skip
        assert f"<!-- {shown}" in text or f"{shown} -->" in text, shown
    assert text.count("#c8553d") == 1


def test_a_pipeline_without_times_is_drawn_too(tmp_path: Path) -> None:
    assert "<svg" in drawn(tmp_path, measure(rs.range(0), seconds=1))
