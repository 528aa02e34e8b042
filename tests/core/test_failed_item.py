"""An error out of a function of the user says in a note which item it was raised for."""

from __future__ import annotations

import pickle
import re
import sys
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.core.failed_item import ItemNote, map_items, note_failed_item
from resumable.core.iterator import PipelineIterator
from resumable.workers.watching import CallWatch

BAD = 7
process: Any = pytest.param(
    {"workers": 1, "executor": "process"},
    marks=pytest.mark.skipif(find_spec("loky") is None, reason="loky is not installed"),
)


def check(item: Any) -> Any:
    """Refuses the item with a certain number in the source."""
    if item == BAD or (isinstance(item, dict) and item["number"] == BAD):
        raise KeyError("bad")
    return item


def keyed(item: int) -> dict[str, Any]:
    return {"__key__": f"name-{item}", "number": item}


def notes_of(pipeline: rs.Pipeline[Any], pull: int = 0) -> list[str]:
    """The notes of the error that the pipeline raises."""
    with iter(pipeline) as iterator, pytest.raises(KeyError) as raised:
        take(iterator, pull)
    notes = notes_in(raised.value)
    assert all(type(note) is ItemNote for note in notes)
    return notes


def take(iterator: PipelineIterator[Any], pull: int) -> None:
    for _ in range(100):
        iterator.pull(pull) if pull else next(iterator)


def notes_in(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


# What stands before the function, and whether items have numbers of their own there.
BEFORE: dict[str, tuple[Callable[[rs.Pipeline[int]], rs.Pipeline[Any]], bool]] = {
    "nothing": (lambda numbers: numbers, True),
    "shuffle": (lambda numbers: numbers.shuffle(3), True),
    "map": (lambda numbers: numbers.map(abs), True),
    "shard": (lambda numbers: numbers.shuffle(1).shard(0, 2), False),
    "take and skip": (lambda numbers: numbers.skip(3).take(20), True),
    "repeat": (lambda numbers: numbers.shuffle(2).repeat(2), True),
    "filter": (lambda numbers: numbers.filter(lambda item: item % 3 != 2), False),
    "filters": (
        lambda numbers: (
            numbers.shuffle(0)
            .filter(lambda item: item % 3 != 2)
            .map(abs)
            .filter(lambda item: item > 3)
        ),
        False,
    ),
}

# Where the function stands.
CALLS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "map": lambda before: before.map(check),
    "filter": lambda before: before.filter(lambda item: check(item) is not None),
    "random_map": lambda before: before.random_map(lambda item, rng: check(item), seed=1),
    "flat_map": lambda before: before.flat_map(lambda item: [check(item)]),
    "take_while": lambda before: before.take_while(lambda item: check(item) is not None),
    "threads": lambda before: before.map(check, workers=2),
}
AFTER: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "nothing": lambda pipeline: pipeline,
    "batch": lambda pipeline: pipeline.batch(3, collate=list),
    "prefetch": lambda pipeline: pipeline.prefetch(2),
    "a map": lambda pipeline: pipeline.map(str),
    "a window": lambda pipeline: pipeline.shuffle(1, window=4),
}


@given(
    st.sampled_from(sorted(BEFORE)),
    st.sampled_from(sorted(CALLS)),
    st.sampled_from(sorted(AFTER)),
    st.integers(0, 5),
)
def test_the_note_names_the_stage_and_both_numbers(
    before: str, call: str, after: str, pull: int
) -> None:
    make, numbered = BEFORE[before]
    given_to_it = make(rs.range(24))
    places = [place for place, item in enumerate(given_to_it) if item == BAD]
    (note,) = notes_of(AFTER[after](CALLS[call](given_to_it)), pull)
    found = re.fullmatch(
        r"raised for (?:item (\d+) of|an item of) (\w+)\(.*?\)(?:, item (\d+) of Range)?(?:, counted from 0)?",
        note,
    )
    assert found, note
    place, stage, number = found.groups()
    assert stage.lower() == {"threads": "map"}.get(call, call).replace("_", "")
    # A map with workers reads ahead, and a filter reads another one several times at once. What was dropped
    # before is not known then.
    unknown = call == "threads" and not numbered
    assert number == str(BAD) or (number is None and (unknown or before == "filters")), note
    if call != "threads":
        assert place == (str(places[0]) if numbered else None), note
    else:
        assert place == str(places[0]), note


@pytest.mark.parametrize("options", [{}, {"workers": 2}, process])
def test_the_key_of_an_item_is_named_wherever_the_function_runs(options: Any) -> None:
    expected = f"item {BAD} of Range, __key__ 'name-{BAD}', counted from 0"
    numbers = rs.range(12)
    for pipeline in (
        numbers.map(keyed).map(check, **options),
        numbers.map(keyed).random_map(lambda item, rng: check(item), seed=0, **options),
        numbers.partition(3, lambda part: part.map(keyed).map(check), **options),
        numbers.partition(3, lambda part: part.map(keyed).map(check).batch(2), **options),
    ):
        (note,) = notes_of(pipeline)
        assert expected in note
        assert "Map(fn=" in note
        assert "raise" not in note.removeprefix("raised")


def test_only_one_of_the_partitions_is_meant() -> None:
    (note,) = notes_of(rs.range(20).shuffle(1).partition(4, lambda part: part.map(check)))
    assert f"item {BAD} of Range" in note
    (note,) = notes_of(rs.mix(stream(check), stream(lambda item: check(item) + 0), weights=(1, 2)))
    assert f"item {BAD} of FromIterable" in note


def stream(fn: Callable[[Any], Any]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(range(20))).map(fn)


def test_what_cannot_be_known_is_not_claimed() -> None:
    (note,) = notes_of(rs.range(20).map(check).shuffle(3))
    assert note == "raised for an item of Map(fn=check)"
    (note,) = notes_of(rs.range(20).map(check).map(check))
    assert note == f"raised for an item of Map(fn=check), item {BAD} of Range, counted from 0"
    (note,) = notes_of(rs.range(20).filter(lambda item: item % 2).map(check).map(check))
    assert note == f"raised for an item of Map(fn=check), item {BAD} of Range, counted from 0"

    class Source:
        def __len__(self) -> int:
            return 9

        def __getitem__(self, index: int) -> int:
            return int(check(index))

    with pytest.raises(KeyError) as raised:
        list(rs.from_sequence(Source()).map(int))
    assert not hasattr(raised.value, "__notes__")


def three_times(item: int) -> list[int]:
    return [item] * 3


def fails_at(place: int) -> Callable[[Any], Any]:
    """A function that fails when it is called once more than ``place`` times."""
    calls = iter(range(place))

    def counted(item: Any) -> Any:
        if next(calls, None) is None:
            raise KeyError("bad")
        return item

    return counted


@pytest.mark.parametrize("make", [
    lambda numbers: numbers.flat_map(three_times, size=3),
    lambda numbers: numbers.map(three_times).unbatch(size=3),
])  # fmt: skip
def test_an_error_in_a_part_of_an_item_names_the_item_of_the_source(
    make: Callable[[rs.Pipeline[int]], rs.Pipeline[int]],
) -> None:
    parts = make(rs.range(8)).shuffle(0)
    (note,) = notes_of(parts.map(check))
    assert "item 7 of Range" in note


@given(st.integers(0, 17))
def test_behind_a_repeat_a_note_counts_in_the_epoch_of_the_item(place: int) -> None:
    mixed = rs.mix(rs.range(3), rs.range(3), seed=0)
    joined = rs.concatenate(rs.range(2), rs.range(4)).shuffle(1)
    for inputs, name in ((mixed, "Mix"), (joined, "Concatenate")):
        (note,) = notes_of(inputs.repeat(3).shard(0, 1).map(fails_at(place)))
        (number,) = re.findall(rf"item (\d+) of {name}", note)
        assert int(number) < 6
        assert name != "Mix" or int(number) == place % 6


def test_a_note_names_the_source_of_the_epoch_and_not_what_chooses_it() -> None:
    pipeline = rs.by_epoch({0: rs.range(5), 1: rs.from_sequence(range(9))}).repeat(2).shard(0, 1)
    (note,) = notes_of(pipeline.map(fails_at(7)))
    assert "item 2 of FromSequence" in note
    (note,) = notes_of(pipeline.map(fails_at(3)))
    assert "item 3 of Range" in note


def test_a_function_that_is_not_written_in_python_is_named_if_it_is_the_only_one() -> None:
    texts = rs.from_sequence(["1", "x"])
    with pytest.raises(ValueError, match="invalid literal") as raised:
        list(texts.map(int))
    assert notes_in(raised.value) == [
        "raised for item 1 of Map(fn=int), item 1 of FromSequence, counted from 0"
    ]
    with pytest.raises(ValueError, match="invalid literal") as raised:
        list(texts.map(int).map(float))
    assert not hasattr(raised.value, "__notes__")


def test_a_note_survives_pickling_and_is_not_repeated() -> None:
    pipeline = rs.range(9).map(check)
    with iter(pipeline) as iterator:
        for _ in range(2):
            with pytest.raises(KeyError) as raised:
                list(iterator)
            assert len(notes_in(raised.value)) == 1
    again = pickle.loads(pickle.dumps(raised.value))
    assert notes_in(again) == notes_in(raised.value)
    if hasattr(again, "add_note"):  # Python 3.11 and later show notes
        assert "item 7 of Range" in "".join(traceback.format_exception(again))


def test_an_error_of_the_library_is_not_that_of_a_function_without_frames(tmp_path: Path) -> None:
    def kept(numbers: rs.Pipeline[int]) -> rs.Pipeline[int]:
        return numbers.filter(lambda item: True)

    path = tmp_path / "numbers"
    path.write_text("1\n2\n")
    lines = rs.lines(path).map(int)
    path.unlink()
    unlike = rs.zip(kept(rs.range(3)).map(str), kept(rs.range(5)), strict=True)
    for pipeline, error in ((lines, FileNotFoundError), (unlike, rs.InvalidArgument)):
        with pytest.raises(error) as raised:
            list(pipeline)
        assert notes_in(raised.value) == []


@pytest.mark.parametrize("first", [True, False])
def test_the_stage_is_the_right_one_of_several_whose_functions_the_library_stands_for(
    first: bool,
) -> None:
    def mapped(numbers: rs.Pipeline[int]) -> rs.Pipeline[int]:
        return (
            numbers.map(check).map(lambda item: item)
            if first
            else numbers.map(lambda item: item).map(check)
        )

    dealt = mapped(rs.range(12).partition(3, lambda part: part))
    (note,) = notes_of(dealt.random_map(lambda item, rng: item, seed=0))
    assert "Map(fn=check)" in note

    watch = CallWatch(mapped(rs.range(12)).stage, {}, None)
    watch.root = root = watch.pipeline.start()
    with pytest.raises(KeyError) as raised:
        list(root)
    note_failed_item(raised.value, root)
    (note,) = notes_in(raised.value)
    assert "Map(fn=check)" in note


def test_what_a_signal_handler_raises_after_the_last_item_comes_out_as_it_is() -> None:
    def ring(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and frame.f_code is map_items.__code__:
            raise TimeoutError("the alarm")

    with iter(rs.range(8).filter(abs).batch(4)) as iterator:
        sys.setprofile(ring)
        try:
            with pytest.raises(TimeoutError, match="the alarm") as caught:
                next(iterator)
        finally:
            sys.setprofile(None)
        assert notes_in(caught.value) == []
        assert next(iterator).tolist() == [1, 2, 3, 4]
