"""Pipelines drawn for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.graphs import catalogue, write_data

import resumable as rs
from resumable.core.epochs import ByEpoch
from resumable.core.saved_state import saved_state
from resumable.core.transform import PassThrough


def nine() -> Iterator[int]:
    return iter(range(9))


def pipeline() -> rs.Pipeline[Any]:
    numbers = rs.range(10**6).shuffle(1).skip(3).map(abs)
    return (
        rs.zip(numbers, rs.from_iterable(nine).shuffle(0, window=10)).batch(4).repeat().prefetch(2)
    )


def test_the_tree_has_a_line_for_each_stage() -> None:
    drawn = pipeline().describe()
    assert drawn.splitlines() == [
        "stage                                             items  access         its part of the state",
        "Prefetch(buffer_size=2)                               ?  stream         nothing",
        "└─ Repeat()                                           ?  stream         the epoch",
        "   └─ Batch(batch_size=4)                             ?  stream         nothing",
        "      └─ Zip()                                        ?  stream         nothing",
        "         ├─ Map(fn=abs)                         999,997  random access  nothing",
        "         │  └─ Skip(count=3)                    999,997  random access  the position",
        "         │     └─ Shuffle(seed=1)             1,000,000  random access  nothing: looked up by index",
        "         │        └─ Range(stop=1000000)      1,000,000  random access  nothing: looked up by index",
        "         └─ WindowShuffle(seed=0, window=10)          ?  stream         the position; a resume reads at most 346 items again",
        "            └─ FromIterable(iterable=nine)            ?  stream         the position; resumes by the state of its iterator, or else by iterating anew and skipping",
    ]


def test_the_graph_for_mermaid_has_every_stage_and_every_edge() -> None:
    lines = rs.range(5).map(abs).to_mermaid().splitlines()
    assert lines == [
        "graph TD",
        '    s0["Map(fn=abs)"]',
        '    s1["Range(stop=5)"]',
        "    s1 --> s0",
    ]
    graph = pipeline().to_mermaid()
    assert graph.count("[") == 10
    assert graph.count("-->") == 9


def test_a_notebook_shows_a_table() -> None:
    shown = rs.from_sequence(["<script>"]).map(repr)._repr_html_()
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == 3
    assert "<script>" not in rs.range(5).map(lambda item: "<b>")._repr_html_()


def test_drawing_starts_nothing() -> None:
    def opened() -> Any:
        raise AssertionError("it was iterated")

    assert "FromIterable" in rs.from_iterable(opened).prefetch(2).describe()


def test_what_stages_say_they_save_is_what_they_save(tmp_path: Path) -> None:
    write_data(tmp_path)
    for name, make in catalogue(tmp_path).items():
        made = make()
        outermost = made.stage
        while isinstance(outermost, (PassThrough, ByEpoch)):
            outermost = outermost.inputs[0]
        with iter(made) as iterator:
            saved = set(iterator.get_state()["pipeline"]) - {"upstream", "upstreams", "stage"}
        says_nothing = saved_state(outermost).text == "nothing"
        assert says_nothing == (not saved), f"{name}: {saved_state(outermost).text}, saved {saved}"


def test_a_stage_of_ones_own_may_say_what_it_costs() -> None:
    class Mine(rs.Transform[int]):
        def start(self, epoch: int = 0) -> rs.StageIterator[int]:
            raise NotImplementedError

    assert "Mine()" in rs.range(3).apply(Mine).describe()


@pytest.mark.parametrize("name", ["describe", "to_mermaid", "_repr_html_"])
def test_every_pipeline_of_the_catalogue_can_be_drawn(name: str, tmp_path: Path) -> None:
    write_data(tmp_path)
    for make in catalogue(tmp_path).values():
        assert getattr(make(), name)()
