"""A page that loads nothing and can be read by everyone."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from resumable.views.markup import element
from resumable.views.page import cards, folded, page, section, table

LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#\w{6});", colours))
    for colours in re.findall(r":root \{([^}]*)\}", page("t"))
)


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted(map(luminance, (one, other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrasts_are_those_that_wcag_asks_for(colours: Mapping[str, str]) -> None:
    for ground in ("page", "card"):
        for text in ("ink", "muted", "good", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for shape in ("accent", "bar", "most"):
        assert contrast(colours[shape], colours["card"]) >= 3, shape
    for shape in ("bar", "most"):
        assert contrast(colours[shape], colours["track"]) >= 3, shape


def test_both_kinds_of_light_have_every_colour_that_is_used() -> None:
    used = set(re.findall(r"var\(--(\w+)\)", page("t")))
    assert used == set(LIGHT) == set(DARK)


def test_a_page_is_whole_and_loads_nothing() -> None:
    made = page("a & b", section("Part", element("p", "text")), cards([("size", "3")]))
    assert made.startswith('<!DOCTYPE html>\n<html lang="en">')
    read = ET.fromstring(made)
    assert read.findtext("head/title") == "a & b"
    assert not {"script", "link", "img", "iframe", "object"} & {one.tag for one in read.iter()}
    assert not re.search(r"https?:|@import|url\((?!#)|src=|href=", made)
    policies = {
        one.get("http-equiv") or one.get("name"): one.get("content") for one in read.iter("meta")
    }
    assert policies["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert '<meta name="viewport" content="width=device-width, initial-scale=1"/>' in made


def test_only_screens_are_dark() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in page("t")
    assert "@media print" in page("t")


def test_a_table_has_a_cell_for_each_heading_and_can_be_scrolled_by_keys() -> None:
    made = table(["a", "b"], [["1", "x"], ["", "<y>"]], numbers=["a"], wide=["b"])
    read = ET.fromstring(made)
    assert read.get("tabindex") == "0"
    assert [one.text for one in read.iter("td")] == ["1", "x", None, "<y>"]
    assert [one.get("class") for one in read.iter("th")] == ["number", "wide"]


@pytest.mark.parametrize("is_open", [True, False])
def test_what_is_long_is_folded(is_open: bool) -> None:
    read = ET.fromstring(folded("Stages", element("p", "text"), is_open=is_open))
    assert read.findtext("details/summary") == "Stages"
    assert ("open" in read[0].attrib) is is_open
