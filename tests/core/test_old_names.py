"""What the author of a stage wrote for 0.3 means the same until 0.5, with a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from support.graphs import stream

import resumable as rs
import resumable.core
from resumable.core import EPOCHS, ITEMS, NOTHING, RANK, LookedUp, PassThrough, block_items
from resumable.core.old_names import NAMES_OF_0_3
from resumable.core.prepared_items import PreparedItems
from resumable.core.stage_iterator import StageIterator
from resumable.testing import check_stage

CORE: Any = resumable.core
T = TypeVar("T")


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of the test, all from its own lines."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found
    assert {str(one.category) for one in found} <= {str(DeprecationWarning)}
    assert {one.filename for one in found} <= {__file__}


@pytest.mark.parametrize("name", NAMES_OF_0_3)
def test_a_name_is_found_with_a_warning_that_says_what_to_write(name: str) -> None:
    advice, _, attribute = NAMES_OF_0_3[name]
    with pytest.warns(DeprecationWarning, match=re.escape(f"write {advice}")) as warned:
        found = getattr(CORE, name)
    assert warned[0].filename == __file__
    assert getattr(found, "__name__", name) in (name, attribute, "frozenset", "Callable")
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        CORE.Other  # noqa: B018


@pytest.mark.parametrize(
    ("base", "old", "new"),
    [
        (rs.Transform, "relies_on", "depends_on"),
        (PassThrough, "blind", "ignores_items"),
        (PreparedItems, "turns", "iterators_for"),
    ],
)
def test_a_renamed_member_is_written_and_read(
    base: type[Any], old: str, new: str, warned: list[warnings.WarningMessage]
) -> None:
    value = object()
    kind: Any = type("Old", (base,), {old: value})
    assert getattr(kind, new) is value
    assert getattr(base, old) == getattr(base, new)
    assert [str(one.message).partition(" will")[0] for one in warned] == [f"{old} of Old", old]
    both: Any = type("Both", (base,), {old: value, new: None})
    assert getattr(both, new) is None
    later: Any = type("Later", (kind,), {new: None})
    assert getattr(later, new) is None
    assert len(warned) == 2


def test_a_fact_may_come_from_any_base(warned: list[warnings.WarningMessage]) -> None:
    class Holds:
        relies_on = ITEMS | RANK

    class Mixed(Holds, LookedUp[Any], rs.Transform[Any]):
        pass

    class Derived(Mixed):
        pass

    assert {Mixed.depends_on, Derived.depends_on} == {ITEMS | RANK}
    assert [str(one.message).partition(" will")[0] for one in warned] == ["relies_on of Holds"]


def test_a_fact_may_follow_from_that_of_the_base(warned: list[warnings.WarningMessage]) -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Old(LookedUp[Any], rs.Transform[Any]):
        more: bool = False
        constant = LookedUp.relies_on - ITEMS

        @property
        def relies_on(self) -> Any:
            return super().relies_on | (EPOCHS if self.more else NOTHING)

    @dataclass(frozen=True, eq=False, repr=False)
    class Older(Old):
        @property
        def relies_on(self) -> Any:
            return super().relies_on | RANK

    usual = LookedUp.depends_on
    assert Old.constant == usual - ITEMS
    for more, expected in ((False, usual), (True, usual | EPOCHS)):
        stages = [rs.range(9).apply(kind, more=more).stage for kind in (Old, Older)]
        assert [stage.depends_on for stage in stages] == [expected, expected | RANK]
        assert [stage.relies_on for stage in stages] == [expected, expected | RANK]
    assert rs.range(9).batch(2).stage.relies_on == NOTHING


def doubled(self: Any, count: int) -> list[int]:
    return [2 * item for item in block_items(self._upstream.pull(count))]


class Doubles(rs.Transform[int]):
    def start(self, epoch: int = 0) -> StageIterator[int]:
        return DoublesIterator(self, epoch)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    class DoublesIterator(
        CORE.DefersState[T],  # type: ignore[misc]
        CORE.MovesInBlocks,  # type: ignore[misc]
        CORE.CallsOneByOne[int],  # type: ignore[misc]
        rs.TransformIterator[T],
    ):
        pull = doubled

    class Alone(CORE.DefersState, CORE.MovesInBlocks[T]):  # type: ignore[misc]
        """An iterator with no other base."""

        def __init__(self, upstream: rs.StageIterator[Any]) -> None:
            self._upstream = upstream

        pull = doubled

        def get_state(self) -> dict[str, Any]:
            return dict(self._upstream.get_state())

        def set_state(self, state: dict[str, Any]) -> None:
            self._upstream.set_state(state)


class DoublesAlone(rs.Transform[int]):
    def start(self, epoch: int = 0) -> StageIterator[int]:
        started: StageIterator[int] = Alone(self.upstream.start(epoch))
        return started


def test_an_iterator_with_old_bases_moves_and_resumes() -> None:
    assert DoublesIterator.__mro__[1] is rs.TransformIterator
    assert Alone.__mro__[1] is StageIterator
    for kind in (Doubles, DoublesAlone):
        pipeline = rs.range(9).apply(kind)
        blocks = [list(block) for block in pipeline.stage.start().blocks(6)]
        assert blocks == [[0, 2, 4, 6, 8, 10], [12, 14, 16]]
        assert list(pipeline.prefetch(2).batch(4, collate=list)) == [
            [0, 2, 4, 6],
            [8, 10, 12, 14],
            [16],
        ]
    check_stage(stream(20).apply(Doubles))


def test_an_old_base_knows_every_iterator(warned: list[warnings.WarningMessage]) -> None:
    assert isinstance(rs.range(3).stage.start(), CORE.MovesInBlocks)
    assert not isinstance(rs.range(3).stage, CORE.DefersState)
    assert list(CORE.blocks_of(rs.range(3).map(abs).stage.start(), 2)) == [[0, 1], [2]]
    assert len(warned) == 3
