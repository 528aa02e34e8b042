"""Markup in which text stays text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from resumable.views.markup import element, escape, join

HOSTILE = "<script>alert(\"'&amp;'\")</script> ]]> <!-- \x1b[2J \ud800 \u202e \x00"


def test_text_is_escaped_in_content_and_in_attributes() -> None:
    made = element("p", HOSTILE, element("b", HOSTILE), title=HOSTILE)
    read = ET.fromstring(made)
    assert [one.tag for one in read.iter()] == ["p", "b"]
    shown = HOSTILE.replace("\x1b", r"\x1b").replace("\ud800", r"\ud800")
    shown = shown.replace("\u202e", r"\u202e").replace("\x00", r"\x00")
    assert read.text == read.get("title") == read[0].text == shown


@given(st.text(alphabet=st.characters()))
def test_any_text_is_one_node_of_printable_text(text: str) -> None:
    read = ET.fromstring(element("p", text, title=text))
    assert len(read) == 0
    assert (read.text or "").isprintable()
    made = element("p", text)
    made.encode()  # no half of a character is left
    assert escape(text) == join(text) == made[3:-4]


def test_markup_stays_as_it_is() -> None:
    assert join("<", element("i"), "&") == "&lt;<i></i>&amp;"


def test_attributes_that_are_none_are_left_out_and_names_are_those_of_html() -> None:
    made = element("a", class_="b", aria_label="c", id=None, x=1)
    assert made == '<a class="b" aria-label="c" x="1"></a>'
