"""Several iterators over one object that keeps its own position: exact, or refused before the first wrong item."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import resumable as rs

LENGTH, PASSES = 4, 3


class Item(NamedTuple):
    """What the object says of the pass that an item comes from, and where in the pass it comes."""

    passes: int
    epoch: int
    place: int


class Loader:
    """Counts its passes; each pass delivers other items.

    Args:
      counts: whether it counts passes.
      nested: whether its copies share one position.
      sticky: whether every pass begins at the place that was loaded last.
    """

    epoch = 0

    def __init__(self, *, counts: bool = False, nested: bool = False, sticky: bool = False) -> None:
        self.options = (counts, nested, sticky)
        self.at = {"passes": 0, "place": 0, "start": 0}

    def __iter__(self) -> Iterator[Item]:
        counts, _, sticky = self.options
        at, epoch = self.at, self.epoch
        start = at["start"]
        if not sticky:
            at["start"] = 0
        if counts and not start:
            at["passes"] += 1
        at["place"] = start
        while at["place"] < LENGTH:
            at["place"] += 1
            yield Item(at["passes"], epoch, at["place"] - 1)

    def __copy__(self) -> Loader:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        if not self.options[1]:
            copied.at = dict(self.at)
        return copied

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.at["passes"], "place": self.at["place"]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at["passes"], self.at["start"] = state["passes"], state["place"]
        self.at["place"] = state["place"]


class EpochLoader(Loader):
    """An iterable whose items depend on the epoch set by `set_epoch`."""

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Chained(EpochLoader):
    """Keeps its position in another object, as data sets of Hugging Face do."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self._ex_iterable = Loader(**options)

    def __iter__(self) -> Iterator[Item]:
        for item in self._ex_iterable:
            yield item._replace(epoch=self.epoch)

    def state_dict(self) -> dict[str, int]:
        return self._ex_iterable.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._ex_iterable.load_state_dict(state)


class Maker(NamedTuple):
    kind: type[Loader]
    options: dict[str, bool]

    def __call__(self) -> Loader:
        return self.kind(**self.options)


MAKERS = [
    *(Maker(Loader, {name: True}) for name in ("counts", "nested", "sticky")),
    Maker(Loader, {"counts": True, "nested": True}),
    *(Maker(EpochLoader, {name: True}) for name in ("nested", "sticky")),
    *(Maker(Chained, {"sticky": sticky}) for sticky in (False, True)),
]


def run_of(source: Any) -> rs.Pipeline[Item]:
    return rs.from_iterable(source).repeat(PASSES)


def alone(make: Maker, passes_before: int) -> list[Item]:
    """The items of a run with no other reader, over an object that has counted so many passes."""
    counts, epochs = make.options.get("counts", False), make.kind is not Loader
    return [
        Item(passes_before + counts * (1 + number), epochs * number, place)
        for number in range(PASSES)
        for place in range(LENGTH)
    ]


def expected_of(make: Maker, items: list[Item]) -> list[Item]:
    counts = make.options.get("counts", False)
    return alone(make, items[0].passes - counts if items else 0)


@pytest.mark.parametrize("make", MAKERS, ids=str)
def test_an_object_with_one_reader_is_exact_over_passes_and_any_number_of_resumes(
    make: Maker,
) -> None:
    expected = list(run_of(make()))
    assert expected == alone(make, 0)
    for stop in range(len(expected) + 1):
        iterator = iter(run_of(make()))
        for _ in range(stop):
            next(iterator)
        for again in range(stop, len(expected) + 1):
            resumed = run_of(make()).resume(rs.loads(rs.dumps(iterator.get_state())))
            assert list(copy(expected[again:])) == list(resumed), (stop, again)
            iterator = run_of(make()).resume(iterator.get_state())
            if again < len(expected):
                assert next(iterator) == expected[again]


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["take", "save", "open", "resume"])), max_size=40
)


@given(make=st.sampled_from(MAKERS), actions=ACTIONS)
@example(MAKERS[0], [(0, "take"), (1, "take"), (0, "save"), (0, "take")])
@example(MAKERS[6], [(0, "take"), (1, "take"), (0, "save"), (0, "take")])
def test_of_readers_that_take_turns_each_is_exact_or_refused(
    make: Maker, actions: list[tuple[int, str]]
) -> None:
    source = make()
    pipelines = [run_of(source), run_of(source)]
    readers = [iter(pipelines[0]), iter(pipelines[0]), iter(pipelines[1])]
    taken: list[list[Item]] = [[], [], []]
    refused: list[str] = []
    for number, action in actions:
        reader, items = readers[number], taken[number]
        try:
            if action == "take":
                if len(items) < LENGTH * PASSES:
                    items.append(next(reader))
                    assert items == expected_of(make, items)[: len(items)]
            elif action == "save":
                state = rs.loads(rs.dumps(reader.get_state()))
                rest = list(run_of(make()).resume(state))
                assert items + rest == expected_of(make, items or rest)
            elif action == "open":
                readers[number], taken[number] = iter(pipelines[number // 2]), []
            else:
                reader.set_state(reader.get_state())
        except rs.ExternalStateError as error:
            refused.append(str(error))
            readers[number], taken[number] = iter(pipelines[number // 2]), []
    assert all("from_iterable(lambda: make())" in message for message in refused)
    assert make.kind is not Chained or not refused


def test_a_generator_that_another_pipeline_reads_is_refused() -> None:
    numbers = iter(range(9))
    first = iter(rs.from_iterable(numbers))
    assert next(first) == 0
    assert next(iter(rs.from_iterable(numbers))) == 1
    with pytest.raises(rs.ExternalStateError, match="a later iterator reads the object"):
        next(first)


class Order:
    """An order that follows from the epoch, as that of torch's samplers."""

    epoch = 0

    def __iter__(self) -> Iterator[int]:
        return iter([(1 + 2 * self.epoch) * place % 8 for place in range(8)])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_each_pass_has_the_order_of_its_epoch() -> None:
    source = Order()
    pipeline = rs.from_iterable(source).repeat(3)
    expected = list(pipeline)
    assert expected == [(1 + 2 * epoch) * place % 8 for epoch in range(3) for place in range(8)]
    assert source.epoch == 0
    for stop in range(len(expected)):
        iterator = iter(pipeline)
        for _ in range(stop):
            next(iterator)
        resumed = rs.from_iterable(Order()).repeat(3).resume(iterator.get_state())
        assert list(resumed) == expected[stop:], stop


def test_an_epoch_that_the_loop_sets_is_kept_in_the_first_epoch() -> None:
    source = Order()
    pipeline = rs.from_iterable(source)
    for epoch in range(3):
        source.set_epoch(epoch)
        assert list(pipeline) == [(1 + 2 * epoch) * place % 8 for place in range(8)]


def test_a_state_of_the_order_without_an_epoch_is_refused_in_a_later_epoch() -> None:
    """Earlier versions delivered the order of epoch 0 in every epoch."""
    pipeline = rs.from_iterable(Order())
    with pipeline.start(0) as iterator:
        for _ in range(5):
            next(iterator)
        saved = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="differ from those of the save"):
        next(pipeline.resume({**saved, "epoch": 1}))


def test_the_pass_over_an_object_with_a_state_is_closed() -> None:
    closed = []

    class Closing(Loader):
        def __iter__(self) -> Iterator[Item]:
            try:
                yield from super().__iter__()
            finally:
                closed.append(True)

    iterator = iter(rs.from_iterable(Closing()))
    next(iterator)
    iterator.close()
    assert closed == [True]
