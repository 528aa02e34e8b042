"""A graph drawn as SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from resumable.views.graph_layout import GraphNode
from resumable.views.graph_svg import LETTER, SEVERAL_COLUMNS, graph_svg
from resumable.views.text_width import width

LONG = "words=['" + "a long argument, " * 30 + "']"


def drawn(root: GraphNode) -> ET.Element:
    return ET.fromstring(graph_svg(root, "The graph", "In words."))


def texts(picture: ET.Element) -> list[str]:
    return ["".join(one.itertext()) for one in picture.iter("text")]


def test_a_box_says_what_its_node_says() -> None:
    node = GraphNode("Map", "Map(fn=abs)", "3", "9 %", ("fn=abs",), (("state", "nothing"),))
    assert texts(drawn(node)) == ["3 Map", "9 %", "fn=abs", "state nothing"]


def test_those_who_cannot_see_it_are_told_what_it_shows() -> None:
    picture = drawn(GraphNode("Range", "Range(stop=5) at pipeline"))
    assert picture.get("role") == "img"
    named = {one.get("id"): one.text for one in picture if one.get("id")}
    asked = (picture.get("aria-labelledby") or "").split()
    assert [named[name] for name in asked] == ["The graph", "In words."]
    (tooltip,) = picture.findall("g/title")
    assert tooltip.text == "Range(stop=5) at pipeline"


def test_long_texts_are_broken_and_cut_so_that_they_stay_in_the_box() -> None:
    node = GraphNode(LONG, number="12", mark="99 %", code=(LONG,), facts=(("state", LONG),))
    root = GraphNode("Zip", inputs=(node, node), labels=(LONG, LONG))
    shown = texts(drawn(root))
    assert max(map(width, shown)) * LETTER <= SEVERAL_COLUMNS
    assert sum(text.endswith("…") for text in shown) == 8
    assert len(shown) < 20


def test_an_arrow_and_a_label_for_each_input() -> None:
    node = GraphNode("Range")
    root = GraphNode("Mix", inputs=(node, node, node), labels=("web", "code", ""))
    picture = drawn(root)
    lines = [one.get("d") for one in picture.iter("path") if one.get("class") == "line"]
    assert len(lines) == 3
    assert [one.text for one in picture.iter("text") if "label" in one.get("class", "")] == [
        "web",
        "code",
    ]


def test_it_is_never_wider_than_its_page_unless_it_would_be_illegible() -> None:
    one, ten = drawn(GraphNode("a")), drawn(GraphNode("z", inputs=(GraphNode("a"),) * 10))
    widths = []
    for picture in (one, ten):
        style = picture.get("style") or ""
        assert "width:100%" in style
        widths += [float(number) for number in re.findall(r"-width:([\d.]+)px", style)]
    assert widths[0] < 360, "a chain fits a telephone"
    assert widths[2] > 1000


def test_the_edge_of_a_stage_that_saves_is_marked_and_a_box_for_several_is_dashed() -> None:
    picture = drawn(GraphNode("a", accent=True, inputs=(GraphNode("b", dashed=True),)))
    kinds = [one.get("class") for one in picture.iter() if one.get("class")]
    assert kinds.count("accent") == 1
    assert kinds.count("box dashed") == 1
