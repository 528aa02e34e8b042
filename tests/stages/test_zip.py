"""Zipped pipelines that must be of one length."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import stream

import resumable as rs
from resumable.testing import check_resumes_everywhere

TAKES: dict[str, Callable[[rs.Pipeline[Any]], object]] = {
    "item by item": list,
    "in one block": lambda zipped: iter(zipped).pull(9),
    "in blocks": lambda zipped: list(zipped.batch(2)),
    "passed over": lambda zipped: iter(zipped).skip(9),
    "in a thread": lambda zipped: list(zipped.prefetch(2)),
}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("lengths", [*itertools.product([3, 4], repeat=3)])
def test_strict_refuses_whatever_has_items_after_another_has_ended(
    lengths: tuple[int, ...], take: str
) -> None:
    zipped = rs.zip(*map(stream, lengths), strict=True)
    if len(set(lengths)) == 1:
        TAKES[take](zipped)
        return
    longer, ended = lengths.index(4), lengths.index(3)
    with pytest.raises(
        rs.InvalidArgument, match=rf"upstreams\[{longer}\] has .* upstreams\[{ended}\]"
    ):
        TAKES[take](zipped)


def test_strict_compares_known_lengths_at_once() -> None:
    with pytest.raises(rs.InvalidArgument, match="got 3 of 'a' and inf of 'b'"):
        rs.zip({"a": rs.range(3), "b": rs.range(5).repeat()}, strict=True)
    assert len(rs.zip(rs.range(3), rs.from_sequence("abc"), strict=True)) == 3


def test_all_rows_come_before_the_refusal_and_it_comes_again() -> None:
    with iter(rs.zip(stream(3), stream(4), strict=True)) as iterator:
        assert [next(iterator) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
        for _ in range(2):
            with pytest.raises(rs.InvalidArgument, match=r"upstreams\[1\] has items after"):
                next(iterator)
        assert iterator.get_state()["step"] == 3


def test_strict_streams_keep_the_laws_and_a_run_may_become_strict() -> None:
    check_resumes_everywhere(rs.zip(stream(7), stream(7).filter(str), strict=True).repeat(2))
    with iter(rs.zip(stream(5), stream(5))) as iterator:
        next(iterator)
        state = iterator.get_state()
    assert len(list(rs.zip(stream(5), stream(5), strict=True).resume(state))) == 4
