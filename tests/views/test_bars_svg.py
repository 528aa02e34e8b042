"""Shares drawn as bars."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from resumable.views.bars_svg import LABEL, Bar, bars_svg


@pytest.mark.parametrize(
    ("share", "length"), [(0.25, "25.00%"), (0.0, "0.00%"), (1.7, "100.00%"), (-0.1, "0.00%")]
)
def test_a_bar_is_as_long_as_its_share(share: float, length: str) -> None:
    picture = ET.fromstring(bars_svg([Bar("a", share, "x")], "Shares", "In words."))
    track, bar = picture.iter("rect")
    assert track.get("width") == "100%"
    assert bar.get("width") == length


def test_labels_are_cut_where_a_telephone_ends_and_told_in_full_on_demand() -> None:
    picture = ET.fromstring(bars_svg([Bar("a" * 90, 0.5, "50 %", "b" * 90)], "Shares", "In words."))
    label, number = picture.iter("text")
    assert label.text == "a" * (LABEL - 1) + "…"
    assert number.text == "50 %"
    assert [one.text for one in picture.iter("title")] == ["Shares", "b" * 90]


def test_the_largest_stands_out_by_more_than_its_length() -> None:
    bars = [Bar("a", 0.2, "20 %"), Bar("b", 0.8, "80 %", stands_out=True)]
    picture = ET.fromstring(bars_svg(bars, "Shares", "In words."))
    kinds = [one.get("class") for one in picture.iter("rect")]
    assert kinds == ["track", "bar", "track", "bar most"]
