"""`resumable report`: a page about a pipeline."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command import call_command, run_command
from support.graphs import catalogue, write_data

from resumable.bench import BenchReport
from resumable.bench.report import AROUND, StageTime
from resumable.bench.saving import Saving
from resumable.cli.report_graph import graph_of, report_stages
from resumable.cli.report_page import LARGEST, MOST_BARS, PipelineReport
from resumable.core.graph import walk
from resumable.core.stage import Stage
from resumable.pipeline import Pipeline
from resumable.verify import Finding, Report

Command = Callable[..., "subprocess.CompletedProcess[str]"]

HOSTILE = "</text></svg><script>alert('1')</script><img src=x onerror=\"alert(2)\">&\x1b[2J"
MINE = f"""
import numpy as np
import resumable as rs

HOSTILE = {HOSTILE!r}

training = rs.range(200).shuffle(0).batch(4)


def make(size):
    print("making")
    return rs.range(size)


def named(item):
    return item


class Odd:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index


named.__qualname__ = HOSTILE
hostile = rs.mix({{HOSTILE: rs.from_sequence([HOSTILE]), "b": rs.range(5).map(named)}})
object_without_a_name = rs.from_sequence(Odd())
wide = rs.mix({{f"source-{{n}}": rs.range(9 + n).shuffle(n) for n in range(200)}}).batch(2)
parts = rs.partition(
    {{"code": rs.range(90), "prose": rs.range(60).skip(1)}},
    4,
    lambda code, prose: rs.mix(code.shuffle(0), prose).batch(2),
)
epochs = rs.by_epoch({{0: rs.range(3), 2: rs.range(5)}})
fails = rs.range(9).map(lambda item: 1 // 0)
number = 5
"""


def report(
    folder: Path, *arguments: str, command: Command = call_command
) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    return command(folder, "report", *arguments, "-o", "page.html")


def parsed(folder: Path) -> ET.Element:
    return ET.fromstring((folder / "page.html").read_text(encoding="utf-8"))


def texts(page: ET.Element, tag: str, kind: str = "") -> list[str]:
    """The text of each ``tag`` of class ``kind``."""
    found = [one for one in page.iter(tag) if kind in (one.get("class") or "").split() or not kind]
    return ["".join(one.itertext()) for one in found]


def measured(stage: Stage[Any], **fields: Any) -> BenchReport:
    """A measurement of ``stage`` that took no time to make."""
    names = [(str(one), path) for one, path in walk(stage)]
    share = 1 / (len(names) + 1)
    stages = [StageTime(text, path, share, 1e-6, 0.0, 7) for text, path in names]
    around = StageTime(AROUND, "", share, 1e-7, 0.0, None)
    saving = Saving(5, 148, 1e-6, 2e-3, 5e-3, 0)
    made = BenchReport("mine:training", 9, 0.5, True, stages=(*stages, around), bottleneck=0)
    return replace(made, advice="Look here.", saving=saving, **fields)


def of(stage: Stage[Any], bench: BenchReport | None = None, found: Report | None = None) -> str:
    bench = bench or measured(stage)
    return PipelineReport("mine:x", report_stages(stage, bench, ()), bench, found).html()


def pipeline(folder: Path, name: str) -> Pipeline[Any]:
    names: dict[str, Any] = {}
    exec(MINE, names)
    found: Pipeline[Any] = names[name]
    return found


def given(folder: Path, name: str = "training") -> list[str]:
    """The arguments that name reports of that pipeline, in files."""
    stage = pipeline(folder, name).stage
    verified = Report("mine:training", items=50, planned=24, positions=24, processes=9)
    (folder / "bench.json").write_text(json.dumps(measured(stage).as_json()))
    (folder / "verify.json").write_text(json.dumps(verified.as_json()))
    return [f"mine:{name}", "--bench", "bench.json", "--verify", "verify.json"]


def test_the_page_shows_the_graph_the_time_the_state_and_the_verdict(tmp_path: Path) -> None:
    done = report(tmp_path, *given(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = parsed(tmp_path)
    graph, bars = page.iter("svg")
    assert texts(graph, "text", "name") == ["3 Batch", "2 Shuffle", "1 Range"]
    assert "state the position (7 bytes)" in texts(graph, "text", "fact")
    assert texts(bars, "text", "code") == [
        "1 Range(stop=200)", "2 Shuffle(seed=0)", "3 Batch(batch_size=4)", AROUND,
    ]  # fmt: skip
    assert texts(bars, "text", "mark") == ["25 %"] * 4
    assert [one.get("width") for one in bars.iter("rect")] == ["100%", "25.00%"] * 4
    assert dict(zip(texts(page, "dt"), texts(page, "dd"), strict=True)) == {
        "items/s": "18",
        "state": "148 bytes",
        "a durable save": "2 ms (median)",
        "a resume, to its first item": "5 ms",
        "verified": "exact",
        "items": "50",
        "positions tried": "24",
        "differences": "0",
        "fresh processes": "9",
        "bytes of state": "148 (after 5 items)",
        "a get_state": "1 µs (median)",
        "source items read again on resume": "0",
    }
    assert texts(page, "p", "good") == ["Exact: nothing differs."]
    assert "Look here." in texts(page, "p")
    rows = [row.findall("td") for row in page.iter("tr")]
    assert [[cell.text for cell in row][:4] for row in rows if row] == [
        ["1", "Range(stop=200)", "200", "random access"],
        ["2", "Shuffle(seed=0)", "200", "random access"],
        ["3", "Batch(batch_size=4)", "50", "random access"],
    ]


def test_without_a_measurement_it_measures_and_without_a_verdict_says_how_to_get_one(
    tmp_path: Path,
) -> None:
    done = report(tmp_path, "mine:make", "--arg", "size=30", "--seconds", "60")
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert "making\n" in done.stderr
    page = parsed(tmp_path)
    bars = [*page.iter("svg")][1]
    assert texts(bars, "text", "code") == ["1 Range(stop=30)", AROUND]
    assert sum(int(text.removesuffix(" %")) for text in texts(bars, "text", "mark")) == 100
    assert "not yet" in texts(page, "dd")
    shown = ["resumable verify TARGET --json > verify.json", "--verify verify.json"]
    assert texts(page, "code") == shown


def test_what_the_commands_print_as_json_is_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    bench = call_command(tmp_path, "bench", "mine:training", "--items", "9", "--json")
    (tmp_path / "bench.json").write_text(bench.stdout)
    done = report(tmp_path, "mine:training", "--bench", "bench.json")
    assert done.returncode == 0, done.stderr
    rate = float(texts(parsed(tmp_path), "dd")[0].replace(",", ""))
    assert rate == pytest.approx(json.loads(bench.stdout)["items_per_second"], rel=0.01)


def test_what_is_not_exact_is_told_with_its_reason() -> None:
    stage = pipeline(Path(), "training").stage
    finding = Finding(
        "counts calls", "Map(fn=f)", "pipeline", "It <did>.", "Do not.", 5, 6, "1", "2"
    )
    found = Report("mine", items=9, planned=9, positions=4, differences=1, finding=finding)
    page = ET.fromstring(of(stage, found=replace(found, suspicions=("A <thing>.",))))
    assert "not exact" in texts(page, "dd")
    assert texts(page, "p", "bad") == ["Not exact: counts calls."]
    (why,) = texts(page, "pre")
    assert why.startswith("It first appears at Map(fn=f) at pipeline.\nIt <did>.\n")
    assert "Look at this: A <thing>." in texts(page, "p")
    nothing = ET.fromstring(of(stage, found=replace(found, finding=None, positions=0)))
    assert "nothing tried" in texts(nothing, "dd")
    assert not texts(nothing, "p", "good")


TAGS = (
    "html head meta title style body main h1 h2 p section div dl dt dd details summary table thead tbody "
    "tr th td footer code pre svg desc defs marker path g rect text tspan"
)


def test_text_of_the_user_stays_text_wherever_it_comes_from() -> None:
    stage = pipeline(Path(), "hostile").stage
    bench = measured(stage, notes=(HOSTILE,))
    finding = Finding(
        HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, got=HOSTILE, unchecked=(HOSTILE,)
    )
    found = Report(
        HOSTILE,
        resumed=(HOSTILE,),
        finding=finding,
        left_out=(HOSTILE,),
        suspicions=(HOSTILE,),
        notes=(HOSTILE,),
    )
    bench = replace(bench, target=HOSTILE, advice=HOSTILE)
    html = PipelineReport(HOSTILE, report_stages(stage, bench, ()), bench, found).html()
    page = ET.fromstring(html)
    assert {one.tag for one in page.iter()} <= {*TAGS.split()}
    assert not any(name.startswith("on") for one in page.iter() for name in one.attrib)
    assert "\x1b" not in html
    shown = " ".join("".join(page.itertext()).split())
    assert shown.count(HOSTILE.replace("\x1b", r"\x1b")) > 15
    assert sum("script" in text for text in texts(page, "text")) >= 3, "in the graph"


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    assert report(tmp_path, *given(tmp_path, "wide")).returncode == 0
    html = (tmp_path / "page.html").read_text()
    assert not re.search(r"https?:|@import|url\((?!#arrow\))|<script|<link|src=|href=", html)


def test_equal_input_gives_an_equal_page_in_every_process(tmp_path: Path) -> None:
    pages = set()
    for command in (call_command, run_command):
        done = report(tmp_path, *given(tmp_path, "object_without_a_name"), command=command)
        assert done.returncode == 0, done.stderr
        pages.add((tmp_path / "page.html").read_bytes())
    assert len(pages) == 1


def test_of_many_inputs_some_are_drawn_and_all_are_listed() -> None:
    stage = pipeline(Path(), "wide").stage
    page = ET.fromstring(of(stage))
    graph, bars = page.iter("svg")
    names = texts(graph, "text", "name")
    assert len(names) == 2 + 10 * 2 + 1
    assert names[-1] == "and 190 more"
    assert "stages 21 to 400" in texts(graph, "text", "fact")
    assert texts(graph, "text", "label") == [f"source-{number}" for number in range(10)]
    assert len(texts(bars, "text", "code")) == LARGEST + 2
    assert f"the other {402 - LARGEST} stages together" in texts(bars, "text", "code")
    assert len([*page.iter("tr")]) == 1 + 402
    (folded,) = page.iter("details")
    assert "open" not in folded.attrib


def test_bars_are_left_out_only_where_there_are_many_and_only_the_smallest() -> None:
    stage = pipeline(Path(), "training")
    for _ in range(MOST_BARS - 3):
        stage = stage.map(abs)
    bench = measured(stage.stage)
    page = ET.fromstring(of(stage.stage))
    assert len(texts([*page.iter("svg")][1], "text", "code")) == MOST_BARS + 1
    longer = stage.map(abs).stage
    bench = measured(longer)
    largest = replace(bench.stages[-2], share=0.9)  # that of the first source
    bench = replace(bench, stages=(*bench.stages[:-2], largest, bench.stages[-1]))
    page = ET.fromstring(of(longer, bench))
    bars = texts([*page.iter("svg")][1], "text", "code")
    assert bars[0] == "1 Range(stop=200)"
    assert len(bars) == LARGEST + 2


def test_what_partitions_do_is_framed() -> None:
    stage = pipeline(Path(), "parts").stage
    page = ET.fromstring(of(stage))
    graph = next(page.iter("svg"))
    (frame,) = (one for one in graph.iter("g") if one[0].get("class") == "frame")
    assert texts(frame, "text") == ["4 partitions"]
    left, top, width, height = (
        float(frame[0].get(name) or 0) for name in ("x", "y", "width", "height")
    )
    inside = set()
    for box in graph.iter("g"):
        rectangle = box.find("rect[@class='box']")
        if rectangle is None:
            continue
        x, y = float(rectangle.get("x") or 0), float(rectangle.get("y") or 0)
        if left < x < left + width and top < y < top + height:
            inside.add(texts(box, "text", "name")[0].split()[1])
    assert inside == {"Batch", "Mix", "Shuffle", "Part"}
    assert any("done in each partition" in text for text in texts(page, "p"))


def test_pipelines_by_epoch_are_named() -> None:
    graph = next(ET.fromstring(of(pipeline(Path(), "epochs").stage)).iter("svg"))
    assert texts(graph, "text", "label") == ["from epoch 0", "from epoch 2"]


def test_what_could_not_be_measured_is_left_out() -> None:
    stage = pipeline(Path(), "training").stage
    bench = BenchReport("mine", 0, 0.0, True, notes=("the stages could not be timed",))
    page = ET.fromstring(of(stage, bench))
    assert len([*page.iter("svg")]) == 1
    assert "the stages could not be timed" in texts(page, "p")
    assert "No state was measured." in texts(page, "p")
    assert not texts(page, "text", "mark")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:"], "named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, got 'mine:'"),
        (["nowhere.py:training"], "nowhere.py: no such file"),
        (["mine:other"], "cannot be loaded: AttributeError"),
        (["mine:number"], "mine:number must be a pipeline, got 5"),
        (["mine:fails", "--seconds", "0.1"], "the pipeline fails at item 0: ZeroDivisionError"),
        (["mine:training", "--seconds", "0"], "seconds must be finite and above 0, got 0.0"),
        (["mine:training", "--bench", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["mine:training", "--bench", "mine.py"], "--bench must be what `resumable bench --json`"),
        (["mine:training", "--verify", "bench.json"], "--verify must be what `resumable verify --j"),
        (["mine:training", "--bench", "bench.json", "--seconds", "1"], "got both --seconds 1 and --b"),
        (["mine:epochs", "--bench", "bench.json"], "which has Batch at pipeline where there is ByEp"),
        (["mine:make", "--arg", "size=3", "--bench", "bench.json"], "got bench.json, which has Batch"),
        (["mine:training", "--bench", "short.json"], "which has 2 stages where there are 3 here"),
    ],
)  # fmt: skip
def test_what_cannot_be_reported_is_told_and_leaves_the_old_page(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    given(tmp_path)
    short = json.loads((tmp_path / "bench.json").read_text())
    del short["stages"][2]
    (tmp_path / "short.json").write_text(json.dumps(short))
    for before in (None, "old"):
        if before is not None:
            (tmp_path / "page.html").write_text(before)
        done = report(tmp_path, *arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not done.stdout
        page = tmp_path / "page.html"
        assert (page.read_text() if page.exists() else None) == before


def test_a_page_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old" * 100_000)
    assert report(tmp_path, *given(tmp_path)).returncode == 0
    assert parsed(tmp_path).tag == "html"


@pytest.mark.parametrize(
    ("output", "message"),
    [("nowhere/page.html", "nowhere/page.html: No such file or directory"), (".", ".: Is a directory")],
)  # fmt: skip
def test_a_page_that_could_not_be_written_is_refused_before_anything_is_run(
    tmp_path: Path, output: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text("raise AssertionError('it was run')")
    done = call_command(tmp_path, "report", "mine:training", "-o", output)
    assert done.returncode == 2
    assert message in done.stderr
    assert "it was run" not in done.stderr


def test_every_pipeline_of_the_catalogue_can_be_reported(tmp_path: Path) -> None:
    write_data(tmp_path)
    for name, make in catalogue(tmp_path).items():
        stage = make().stage
        last = report_stages(stage, measured(stage), ())
        assert [one.number for one in last.in_order()] == [*range(1, 1 + len([*walk(stage)]))], name
        paths = {one.path for one in last.in_order()}
        assert paths == {path for _, path in walk(stage)}, name
        assert graph_of(last).title == str(stage).partition("(")[0], name
        ET.fromstring(of(stage))
