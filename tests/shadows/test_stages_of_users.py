"""Of stages that the library does not know, an origin is either the right one or said to be unknown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from support import said
from support.said import Said

import resumable as rs
from resumable.core import (
    Combine,
    Indexed,
    PassThrough,
    Relation,
    Sliced,
    StageIterator,
    Transform,
    TransformIterator,
    block_items,
)
from resumable.core.origin import BatchOrigin, ItemOrigin, Origin, UnknownOrigin, ZipOrigin
from resumable.core.transform import StateForwardingIterator

NOTHING: Any = object()


def of_range(number: int) -> Origin:
    return Origin("Range", number)


def stage_of(iterator: type[TransformIterator[Any]], what: Said) -> type[Transform[Any]]:
    class OfUser(Transform[Any]):
        def start(self, epoch: int = 0) -> TransformIterator[Any]:
            return iterator(self, epoch)

    return what.by(OfUser)


class OneByOne(TransformIterator[Any]):
    """Makes its items by a generator."""

    def __init__(self, stage: Transform[Any], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._made = self.made()

    def read(self) -> Any:
        block = block_items(self._upstream.pull(1))
        return block[0] if block else NOTHING

    def made(self) -> Iterator[Any]:
        raise NotImplementedError

    def pull(self, count: int) -> Any:
        return list(islice(self._made, count))


class FirstOfTwo(OneByOne):
    """Reads two items and delivers the first."""

    def made(self) -> Iterator[Any]:
        while (item := self.read()) is not NOTHING:
            self.read()
            yield item


class Swapped(OneByOne):
    """Delivers each two items the other way round."""

    def made(self) -> Iterator[Any]:
        while (item := self.read()) is not NOTHING:
            second = self.read()
            if second is not NOTHING:
                yield second
            yield item


class Thirds(OneByOne):
    """Groups numbers by a third of them, for which it must read one too many."""

    def made(self) -> Iterator[Any]:
        item = self.read()
        while item is not NOTHING:
            group = [item]
            while (item := self.read()) is not NOTHING and item // 3 == group[0] // 3:
                group.append(item)
            yield self.joined(group)

    def joined(self, group: list[Any]) -> Any:
        return tuple(group)


class SumsOfThirds(Thirds):
    def joined(self, group: list[Any]) -> Any:
        return sum(group)


class Twice(OneByOne):
    """Delivers each item twice, after it has read the next one."""

    def made(self) -> Iterator[Any]:
        item = self.read()
        while item is not NOTHING:
            following = self.read()
            yield from [item] * 2
            item = following


class Copied(OneByOne):
    """Delivers equal items that are other objects."""

    def made(self) -> Iterator[Any]:
        while (item := self.read()) is not NOTHING:
            yield dict(item)


@pytest.mark.parametrize("what", [said.FILTERED, said.SUBSET])
def test_the_first_of_two_items_is_told_from_the_last_that_was_read(what: Said) -> None:
    shadow = rs.origins(rs.range(1000, 1007).apply(stage_of(FirstOfTwo, what)))
    assert list(shadow) == [of_range(number) for number in (0, 2, 4, 6)]


@pytest.mark.parametrize("what", [said.REORDERED, said.REPEATED])
def test_another_order_is_seen(what: Said) -> None:
    shadow = rs.origins(rs.range(5).apply(stage_of(Swapped, what)))
    assert list(shadow) == [of_range(number) for number in (1, 0, 3, 2, 4)]


class Couples(OneByOne):
    def made(self) -> Iterator[Any]:
        while (item := self.read()) is not NOTHING:
            yield item, self.read()


def test_one_object_that_is_read_twice_is_told_only_where_that_decides_nothing() -> None:
    same = rs.from_sequence([None] * 4)
    for origin in rs.origins(same.apply(stage_of(Swapped, said.REORDERED))):
        assert isinstance(origin, UnknownOrigin)
    for origin in rs.origins(same.apply(stage_of(FirstOfTwo, said.SUBSET))):
        assert isinstance(origin, UnknownOrigin)
    for origin in rs.origins(same.apply(stage_of(Couples, said.GROUPED))):
        assert isinstance(origin, UnknownOrigin)


def test_a_group_is_told_by_its_members_and_not_by_what_was_read_for_it() -> None:
    numbers = rs.range(8)
    rows = [(0, 1, 2), (3, 4, 5), (6, 7)]
    assert list(rs.origins(numbers.apply(stage_of(Thirds, said.GROUPED)))) == [
        BatchOrigin(tuple(map(of_range, row))) for row in rows
    ]
    for origin in rs.origins(numbers.apply(stage_of(SumsOfThirds, said.GROUPED))):
        assert isinstance(origin, UnknownOrigin)


@pytest.mark.parametrize("what", [said.EXPANDED, said.NOTHING, said.COUNTED])
def test_what_may_have_been_read_ahead_is_unknown(what: Said) -> None:
    shadow = rs.origins(rs.range(4).apply(stage_of(Twice, what)))
    assert all(isinstance(origin, UnknownOrigin) for origin in shadow)


@pytest.mark.parametrize(
    "what", [said.FILTERED, said.SUBSET, said.REORDERED, said.REPEATED, said.JOINED]
)
def test_a_copy_of_an_item_is_unknown_and_nothing_is_kept_for_it(what: Said) -> None:
    documents = rs.from_sequence([{"n": number % 2} for number in range(50)])
    with iter(rs.origins(documents.apply(stage_of(Copied, what)))) as iterator:
        for origin in iterator:
            assert isinstance(origin, UnknownOrigin)
            assert len(origin.parts) <= 1


class Pairs(StageIterator[Any]):
    """Reads the inputs in step."""

    def __init__(self, stage: Combine[Any], epoch: int) -> None:
        self._stage = stage
        self._inputs = [one.start(epoch) for one in stage.upstreams]

    @property
    def inputs(self) -> tuple[StageIterator[Any], ...]:
        return tuple(self._inputs)

    def pull(self, count: int) -> Any:
        return list(zip(*[block_items(one.pull(count)) for one in self._inputs], strict=False))

    def get_state(self) -> Any:
        return {"upstreams": [one.get_state() for one in self._inputs]}

    def set_state(self, state: Any) -> None:
        for one, saved in zip(self._inputs, state["upstreams"], strict=True):
            one.set_state(saved)


class Alternating(Pairs):
    """Delivers the items of the inputs in turn."""

    def pull(self, count: int) -> Any:
        assert count == 1
        first, second = self._inputs
        self._inputs = [second, first]
        return block_items(first.pull(1))


def joined(iterator: type[Pairs], what: Said, names: tuple[str, ...] | None) -> rs.Pipeline[Any]:
    class OfUser(Combine[Any]):
        def start(self, epoch: int = 0) -> StageIterator[Any]:
            return iterator(self, epoch)

    inputs = (rs.range(4).stage, rs.range(1000, 1004).stage)
    return rs.Pipeline(what.by(OfUser)(inputs, names=names))


def test_an_item_of_each_of_several_inputs_is_told_by_all_of_them() -> None:
    named = list(rs.origins(joined(Pairs, said.ONE_TO_ONE, ("a", "b"))))
    assert named == [ZipOrigin({"a": of_range(n), "b": of_range(n)}) for n in range(4)]
    numbered = next(iter(rs.origins(joined(Pairs, said.ONE_TO_ONE, None))))
    assert numbered == ZipOrigin({0: of_range(0), 1: of_range(0)})


def test_records_tell_through_which_input_of_a_stage_of_the_user_they_came() -> None:
    found = list(islice(rs.origins(joined(Alternating, said.JOINED, ("a", "b"))), 4))
    assert found == [Origin("Range", n // 2, inputs=("ab"[n % 2],)) for n in range(4)]


class Held(TransformIterator[Any]):
    """Has one item more in its state than it has delivered."""

    _held: Any = None

    def pull(self, count: int) -> Any:
        assert count == 1
        if self._held is None:
            self._held = block_items(self._upstream.pull(1))
        made, self._held = self._held, block_items(self._upstream.pull(1))
        return made

    def get_state(self) -> Any:
        return {"held": self._held, "upstream": self._upstream.get_state()}

    def set_state(self, state: Any) -> None:
        self._held = state["held"]
        self._upstream.set_state(state["upstream"])


@pytest.mark.parametrize("what", [said.SAME, said.ONE_TO_ONE, said.SUBSET, said.REORDERED])
@pytest.mark.parametrize(
    "data", [[7] * 6, [[number] for number in range(6)]], ids=["same", "lists"]
)
def test_items_that_a_state_holds_are_never_mistaken_for_others(
    what: Said, data: list[Any]
) -> None:
    pipeline = rs.from_sequence(data).apply(stage_of(Held, what))
    with iter(pipeline) as iterator:
        list(islice(iterator, 2))
        state = iterator.get_state()
    with iter(rs.origins(pipeline)) as shadow:
        shadow.set_state(state)
        for number, origin in enumerate(shadow, start=2):
            assert isinstance(origin, UnknownOrigin) or origin == Origin("FromSequence", number)


def test_the_offset_in_a_state_of_the_user_is_not_taken_for_ours() -> None:
    class Counted(Twice):
        def get_state(self) -> Any:
            return {"offset": 3, "upstream": self._upstream.get_state()}

        def set_state(self, state: Any) -> None:
            self._upstream.set_state(state["upstream"])

    pipeline = rs.range(9).apply(stage_of(Counted, said.EXPANDED))
    with iter(pipeline) as iterator:
        list(islice(iterator, 2))
        state = iterator.get_state()
    with iter(rs.origins(pipeline)) as shadow:
        shadow.set_state(state)
        assert all(isinstance(origin, UnknownOrigin) for origin in shadow)


class OneMore(StateForwardingIterator[int]):
    def __init__(self, stage: PassThrough[int], epoch: int) -> None:
        self._stage = stage
        self._upstream = stage.upstream.start(epoch)

    def pull(self, count: int) -> Any:
        return [item + 1 for item in block_items(self._upstream.pull(count))]


class AddsOne(PassThrough[int]):
    """Changes items on their way, as one that must not be in the fingerprint may."""

    unchanged = False

    def start(self, epoch: int = 0) -> StageIterator[int]:
        return OneMore(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[int] | None:
        return None


def test_items_that_a_pass_through_of_the_user_changes_decide_as_changed() -> None:
    pipeline = rs.range(9).apply(AddsOne).filter(lambda item: item % 2)
    origins: list[ItemOrigin] = list(rs.origins(pipeline))
    assert origins == [of_range(item - 1) for item in pipeline]


class EverySecond(StateForwardingIterator[int]):
    def __init__(self, stage: PassThrough[int], epoch: int) -> None:
        self._stage = stage
        self._upstream = stage.upstream.start(epoch)

    def pull(self, count: int) -> Any:
        return block_items(self._upstream.pull(2 * count))[::2]


class Halved(PassThrough[int]):
    ignores_items = True

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, step=2)

    def start(self, epoch: int = 0) -> StageIterator[int]:
        return EverySecond(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[int] | None:
        return None


def test_a_pass_through_of_the_user_that_looks_at_nothing_moves_the_origins() -> None:
    pipeline = rs.range(9).apply(Halved)
    assert list(pipeline) == [0, 2, 4, 6, 8]
    assert list(rs.origins(pipeline)) == [of_range(number) for number in pipeline]


class Checking(OneByOne):
    """A pass-through that looks at its items."""

    def made(self) -> Iterator[Any]:
        while (item := self.read()) is not NOTHING:
            assert isinstance(item, int)
            yield item


@pytest.mark.parametrize("base", [Transform, PassThrough])
def test_what_passes_items_on_and_looks_at_them_gets_items(base: type[Transform[Any]]) -> None:
    class OfUser(base):  # type: ignore[misc, valid-type]
        def start(self, epoch: int = 0) -> Checking:
            return Checking(self, epoch)

    careless = said.SAME.by(type("Careless", (OfUser,), {"depends_on": frozenset()}))
    assert list(rs.origins(rs.range(9).apply(careless))) == list(map(of_range, range(9)))
