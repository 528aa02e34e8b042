"""Lines of text that fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resumable.views.text_width import ELLIPSIS, cut, width, wrap

LETTERS = st.text(alphabet="ab, 漢e\u0301(", max_size=60)


@given(LETTERS, st.integers(3, 12), st.integers(1, 4))
def test_no_line_is_too_wide_and_nothing_but_the_end_is_lost(
    text: str, columns: int, most: int
) -> None:
    lines = wrap(text, columns, most)
    assert len(lines) <= most
    assert all(0 < width(line) <= columns for line in lines if line.strip("\u0301"))
    whole, shown = "".join(text.split()), "".join("".join(lines).split())
    if shown.endswith(ELLIPSIS):
        assert len(lines) == most
        assert whole.startswith(shown.removesuffix(ELLIPSIS))
    else:
        assert shown == whole


def test_lines_break_at_spaces_where_there_are_some() -> None:
    assert wrap("seed=0, window=50", 10, 3) == ["seed=0,", "window=50"]
    assert wrap("abcdefghij klm", 4, 2) == ["abcd", "efg…"]


def test_what_fits_is_not_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cut("漢字", 4) == "漢字"
    assert cut("漢字漢", 4) == "漢…"
