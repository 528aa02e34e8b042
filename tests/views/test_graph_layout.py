"""Boxes, lines and frames in their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resumable.views.graph_layout import Box, Frame, GraphLayout, GraphNode, columns_of, lay_out

WIDTH = 100.0


def height(node: GraphNode) -> float:
    return 30.0 + 10 * len(node.facts)


def leaves() -> st.SearchStrategy[GraphNode]:
    return st.integers(0, 5).map(lambda count: GraphNode("s", facts=(("", ""),) * count))


def trees(ends: st.SearchStrategy[GraphNode], max_leaves: int = 8) -> st.SearchStrategy[GraphNode]:
    def joined(below: st.SearchStrategy[GraphNode]) -> st.SearchStrategy[GraphNode]:
        several = st.lists(below, min_size=1, max_size=4)
        return st.builds(
            lambda node, inputs: replace(node, inputs=tuple(inputs)), leaves(), several
        )

    return st.recursive(ends, joined, max_leaves=max_leaves)


def parts(above: st.SearchStrategy[GraphNode]) -> st.SearchStrategy[GraphNode]:
    return st.builds(
        lambda node, one: replace(node, inputs=(one,), ends_frame=True), leaves(), above
    )


def framed() -> st.SearchStrategy[GraphNode]:
    return trees(parts(trees(leaves(), 3)), 4).map(
        lambda inner: GraphNode("p", inputs=(inner,), frame="each")
    )


GRAPHS = trees(st.one_of(leaves(), framed()))


def overlap(one: Box | Frame, other: Box | Frame) -> bool:
    apart = (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )
    return not apart


def contains(frame: Frame, box: Box) -> bool:
    return (
        frame.x < box.x
        and frame.y < box.y
        and box.x + box.width < frame.x + frame.width
        and box.y + box.height < frame.y + frame.height
    )


def segments(layout: GraphLayout) -> Iterator[Box]:
    """Each straight piece of the lines, as a box of hardly any width."""
    thin = 0.01
    for line in layout.lines:
        corners = [line.start, (line.start[0], line.bend), (line.end[0], line.bend), line.end]
        for (x, y), (to_x, to_y) in pairwise(corners):
            assert y <= to_y + thin, "a line leads down only"
            left, right = sorted([x, to_x])
            yield Box(GraphNode(""), left, y, right - left + thin, to_y - y + thin)


@given(GRAPHS)
def test_nothing_overlaps_and_all_lies_within_the_picture(root: GraphNode) -> None:
    layout = lay_out(root, WIDTH, height)
    assert not any(overlap(*pair) for pair in combinations(layout.boxes, 2))
    assert not any(overlap(*pair) for pair in combinations(layout.frames, 2))
    shapes: list[Box | Frame] = [*layout.boxes, *layout.frames]
    for one in shapes:
        assert one.x >= 0
        assert one.y >= 0
        assert one.x + one.width <= layout.width
        assert one.y + one.height <= layout.height


@given(GRAPHS)
def test_no_line_crosses_a_box(root: GraphNode) -> None:
    layout = lay_out(root, WIDTH, height)
    for piece in segments(layout):
        for box in layout.boxes:
            # A line touches the box where it begins and the one where it ends.
            inner = Box(box.node, box.x + 1, box.y + 1, box.width - 2, box.height - 2)
            assert not overlap(piece, inner)


@given(GRAPHS)
def test_a_frame_has_what_each_partition_does_and_nothing_else(root: GraphNode) -> None:
    layout = lay_out(root, WIDTH, height)
    boxes = {id(box.node): box for box in layout.boxes}

    def within(node: GraphNode) -> Iterator[Box]:
        yield boxes[id(node)]
        if not node.ends_frame:
            for before in node.inputs:
                yield from within(before)

    found = [[*within(node.inputs[0])] for node in all_of(root) if node.frame]
    assert len(layout.frames) == len(found)
    for frame, inner in zip(layout.frames, found, strict=True):
        for box in layout.boxes:
            assert contains(frame, box) if box in inner else not overlap(frame, box)


def all_of(node: GraphNode) -> Iterator[GraphNode]:
    yield node
    for before in node.inputs:
        yield from all_of(before)


@given(GRAPHS)
def test_a_first_input_stands_straight_above_and_all_flow_down(root: GraphNode) -> None:
    layout = lay_out(root, WIDTH, height)
    boxes = {id(box.node): box for box in layout.boxes}
    for box in layout.boxes:
        for number, before in enumerate(box.node.inputs):
            above = boxes[id(before)]
            assert above.y + above.height < box.y
            assert above.x == box.x if number == 0 else above.x > box.x
    assert columns_of(root) == len({box.x for box in layout.boxes})


@pytest.mark.parametrize("count", [1, 200])
def test_as_many_boxes_and_lines_as_nodes(count: int) -> None:
    node = GraphNode("source")
    for number in range(count):
        node = GraphNode(str(number), inputs=(node,))
    layout = lay_out(node, WIDTH, height)
    assert (len(layout.boxes), len(layout.lines)) == (count + 1, count)
