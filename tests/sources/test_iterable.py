"""Any iterable resumes in the best way it offers, and says which."""

from __future__ import annotations

import codecs
import gc
import io
import itertools
import pickle
import random
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from support.graphs import Counter, Dice, Loader

import resumable as rs
from resumable.testing.laws import resumes_at_every_position


def numbers() -> Iterator[int]:
    yield from range(9)


class OldStyle:
    def __getitem__(self, index: int) -> int:
        if index > 4:
            raise IndexError
        return index


class Both:
    """Offers several protocols; the first counts."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def get_state(self) -> None: ...
    def set_state(self, state: Any) -> None: ...
    def state_dict(self) -> None: ...
    def load_state_dict(self, state: Any) -> None: ...


def test_repr_says_how_it_resumes(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    with open(tmp_path / "f") as file:
        for iterable, method in (
            (Both(), "get_state/set_state"),
            (Loader(3), "state_dict/load_state_dict"),
            (Dice(3), "getstate/setstate"),
            (file, "tell/seek"),
            ([1, 2], "by index"),
            ({1: 2}, "iterating anew and skipping"),
            (numbers, "the state of its iterator, or else by iterating anew and skipping"),
            (OldStyle(), "iterating anew and skipping"),
            (iter([1]), "none: it can be read once"),
            (numbers(), "none: it can be read once"),
        ):
            assert method in repr(rs.from_iterable(iterable)), iterable  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_an_open_file_resumes_by_tell_and_seek(tmp_path: Path, mode: str) -> None:
    (tmp_path / "f").write_text("".join(f"zeile {i} ü\r\n" for i in range(20)), "utf-8", newline="")
    with open(tmp_path / "f", mode) as file:
        expected = file.readlines()
        file.seek(0)
        pipeline: rs.Pipeline[Any] = rs.from_iterable(file)
        assert list(pipeline) == expected
        assert list(pipeline) == expected, "a second pass starts where the file stood"
        resumes_at_every_position(pipeline)
        state = None
        with iter(pipeline) as iterator:
            list(itertools.islice(iterator, 7))
            state = rs.dumps(iterator.get_state())
    with open(tmp_path / "f", mode) as file:
        assert list(rs.from_iterable(file).resume(rs.loads(state))) == expected[7:]


def test_memory_files_and_pipes_are_told_apart() -> None:
    resumes_at_every_position(rs.from_iterable(io.StringIO("a\nb\nc")))
    resumes_at_every_position(rs.from_iterable(io.BytesIO(b"a\nb\nc")))


def test_a_dice_resumes_in_a_fresh_object() -> None:
    expected = list(itertools.islice(iter(Dice(5)), 20))
    pipeline = rs.from_iterable(Dice(5))
    with iter(pipeline) as iterator:
        assert [next(iterator) for _ in range(8)] == expected[:8]
        state = rs.loads(rs.dumps(iterator.get_state()))
    with rs.from_iterable(Dice(99)).resume(state) as iterator:
        assert [next(iterator) for _ in range(12)] == expected[8:]
    assert isinstance(Dice(5), random.Random)


def test_a_one_shot_iterator_is_refused_by_default() -> None:
    iterator = iter(rs.from_iterable(numbers()).map(str))
    assert next(iterator) == "0"
    with pytest.raises(
        rs.ExternalStateError, match=r"FromIterable at pipeline\.upstream: .*'ignore'"
    ):
        iterator.get_state()
    assert next(iterator) == "1", "refusing lost nothing"


@pytest.mark.parametrize("policy", ["warn", "ignore"])
def test_the_policy_lets_a_one_shot_iterator_be_saved_by_count(policy: str) -> None:
    def pipeline() -> rs.Pipeline[int]:
        return rs.from_iterable(numbers(), external_state_policy=policy)

    iterator = iter(pipeline())
    list(itertools.islice(iterator, 4))
    if policy == "warn":
        with pytest.warns(RuntimeWarning, match="can only be read once"):
            state = iterator.get_state()
    else:
        state = iterator.get_state()
    assert list(pipeline().resume(state)) == [4, 5, 6, 7, 8]


def test_a_one_shot_iterator_cannot_be_set_back() -> None:
    pipeline = rs.from_iterable(numbers(), external_state_policy="ignore")
    with iter(pipeline) as iterator:
        start = iterator.get_state()
        list(itertools.islice(iterator, 4))
        iterator.set_state(start)
        with pytest.raises(rs.ExternalStateError, match="cannot go back from item 4 to item 0"):
            next(iterator)


def test_a_class_is_called_for_an_instance() -> None:
    class Three(Counter):
        def __init__(self) -> None:
            super().__init__(3)

    assert list(rs.from_iterable(Three)) == [10, 20, 30]


def test_a_state_that_cannot_be_encoded_is_refused_by_get_state_only() -> None:
    class Opaque(Counter):
        def __iter__(self) -> Any:
            iterator = super().__iter__()
            setattr(iterator, "get_state", lambda: {"object": object()})  # noqa: B010
            return iterator

    with iter(rs.from_iterable(Opaque(5)).flat_map(lambda item: [item]).prefetch(2)) as iterator:
        assert len([next(iterator) for _ in range(3)]) == 3
        with pytest.raises(rs.UnencodableState, match=r"FromIterable.*state\['object'\]"):
            iterator.get_state()
        assert len(list(iterator)) == 2


def test_a_source_that_shrank_is_noticed() -> None:
    with iter(rs.from_iterable(lambda: range(9))) as iterator:
        list(itertools.islice(iterator, 7))
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=r"position=7 lies beyond the end.*2 items fewer"):
        next(rs.from_iterable(lambda: range(5)).resume(state))


def test_a_pipeline_can_be_pickled_after_a_pass() -> None:
    pipeline = rs.from_iterable(numbers)
    expected = list(pipeline)
    assert list(pickle.loads(pickle.dumps(pipeline))) == expected


@pytest.mark.parametrize("make", [numbers, lambda: iter([1, 2, 3]), lambda: map(abs, numbers())])
def test_a_function_must_make_a_new_iterator_each_time(make: Callable[[], Iterator[int]]) -> None:
    shared = make()
    pipeline = rs.from_iterable(lambda: shared)
    with iter(pipeline) as iterator:
        next(iterator)
    with pytest.raises(rs.ExternalStateError, match="must make a new one each time"):
        list(pipeline)


def test_what_a_pass_was_given_is_not_kept_after_it() -> None:
    given_away: list[weakref.ref[Iterator[int]]] = []

    def read() -> Iterator[int]:
        inner = numbers()
        given_away.append(weakref.ref(inner))
        return map(abs, inner)  # which takes no weak reference

    pipeline = rs.from_iterable(read)
    assert list(pipeline) == list(numbers())
    with iter(pipeline) as iterator:
        next(iterator)
    gc.collect()
    assert [inner() for inner in given_away] == [None, None]


def test_a_function_must_return_an_iterable() -> None:
    with pytest.raises(rs.InvalidType, match="must return an iterable, got None"):
        list(rs.from_iterable(lambda: None))  # type: ignore[arg-type,return-value]


def test_a_reader_that_runs_ahead_of_tell_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n" * 50)
    with codecs.open(str(tmp_path / "f"), encoding="utf-8") as file:
        assert "none: it can be read once" in repr(rs.from_iterable(file))


class Countdown(Iterator[int]):
    """Is its own iterator, with a state."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def state_dict(self) -> int:
        return self.left

    def load_state_dict(self, left: int) -> None:
        self.left = left


@pytest.mark.parametrize("make", [lambda: Countdown(9), lambda: io.StringIO("a\nb\nc\nd\n")])
def test_of_an_object_that_is_its_own_iterator_only_the_latest_pass_goes_on(
    make: Callable[[], Any],
) -> None:
    expected = list(rs.from_iterable(make()))
    pipeline = rs.from_iterable(make())
    earlier, later = iter(pipeline), iter(pipeline)
    assert next(earlier) == expected[0]
    state = earlier.get_state()
    assert next(later) == expected[0]
    for refused in (earlier.get_state, lambda: next(earlier)):
        with pytest.raises(
            rs.ExternalStateError, match=r"a later iterator reads .*lambda: make\(\)"
        ):
            refused()
    assert next(later) == expected[1]
    earlier.set_state(state)
    assert list(earlier) == expected[1:]
    with pytest.raises(rs.ExternalStateError, match="a later iterator reads"):
        next(later)
    assert list(pipeline) == list(pipeline) == expected


def test_two_passes_do_not_share_out_what_can_be_read_once() -> None:
    pipeline = rs.from_iterable(iter(range(9)), external_state_policy="ignore")
    earlier, later = iter(pipeline), iter(pipeline)
    assert next(later) == 0
    with pytest.raises(rs.ExternalStateError, match="cannot go back from item 1 to item 0"):
        next(earlier)
    copied = pickle.loads(pickle.dumps(pipeline))
    assert list(copied.resume(later.get_state())) == list(later) == list(range(1, 9))


def test_the_iterator_of_a_generator_function_is_closed() -> None:
    closed = []

    def source() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.append(True)

    with iter(rs.from_iterable(source)) as iterator:
        next(iterator)
    assert closed == [True]


def test_an_iterator_that_was_opened_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n", encoding="utf-8")
    opened: list[TextIO] = []

    def source() -> TextIO:
        opened.append(path.open(encoding="utf-8"))
        return opened[-1]

    pipeline = rs.from_iterable(source)
    with iter(pipeline) as iterator:
        assert next(iterator) == "a\n"
        state = iterator.get_state()
    with pipeline.resume(state) as iterator:
        assert list(iterator) == ["b\n", "c\n"]
    with iter(pipeline.repeat(2)) as iterator:
        assert list(iterator) == ["a\n", "b\n", "c\n"] * 2
    with path.open(encoding="utf-8") as theirs, iter(rs.from_iterable(theirs)) as iterator:
        next(iterator)
        iterator.close()
        assert not theirs.closed  # they have opened it
    assert [file.closed for file in opened] == [True] * 4


def test_reading_many_items_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = rs.from_iterable(itertools.count)
    state = iter(pipeline).get_state()
    monkeypatch.setattr("resumable.sources.iterable.MANY_ITEMS", 40)
    for position in (40, 41):
        state["pipeline"]["position"] = position
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert next(pipeline.resume(state)) == position
        assert len(told) == (position == 41)
    assert "reads 1 more items again" in str(told[0].message)


def test_a_stream_knows_the_state_before_its_last_item() -> None:
    stage = rs.from_iterable(lambda: iter(range(100))).map(str).stage
    for resumed in (0, 3, 16, 20):
        iterator = stage.start()
        iterator.skip(resumed)
        restored = stage.start()
        restored.set_state(iterator.get_state())
        items = iter(restored.items())
        for _ in range(60):
            before = restored.get_state()
            next(items)
            assert restored.state_at(-1) == (before, -1)
            assert restored.state_at(0) is None


def of_epoch(epoch: int) -> Iterator[tuple[int, int]]:
    return ((epoch, number) for number in range(5 - epoch))


class ByEpoch:
    def __call__(self, epoch: int) -> list[int]:
        return [epoch, epoch]

    def method(self, epoch: int, /, more: int = 1) -> list[int]:
        return [epoch + more] * 2


def test_a_function_with_an_argument_gets_the_epoch() -> None:
    epochs = rs.from_iterable(of_epoch)
    assert [epoch for epoch, _ in epochs.repeat(3)] == [0] * 5 + [1] * 4 + [2] * 3
    assert [epoch for epoch, _ in epochs.start(epoch=2)] == [2] * 3
    nested = epochs.repeat(2).repeat(2)
    assert sorted({epoch for epoch, _ in nested}) == [0, 1, 2, 3]
    resumes_at_every_position(nested)
    assert list(rs.from_iterable(ByEpoch()).repeat(2)) == [0, 0, 1, 1]
    assert list(rs.from_iterable(ByEpoch().method).repeat(2)) == [1, 1, 2, 2]


def test_a_resume_calls_the_function_with_the_epoch_it_was_in() -> None:
    called: list[int] = []

    def make(epoch: int) -> Iterator[int]:
        called.append(epoch)
        return iter(range(4))

    pipeline = rs.from_iterable(make).repeat(3)
    iterator = iter(pipeline)
    assert list(itertools.islice(iterator, 6)) == [0, 1, 2, 3, 0, 1]
    called.clear()
    assert list(pipeline.resume(iterator.get_state())) == [2, 3, 0, 1, 2, 3]
    assert called == [1, 2]


def with_default(epoch: int = 7) -> list[int]:
    return [epoch]


def with_any(*epochs: int, **names: int) -> list[int]:
    return [len(epochs) + len(names)]


class Instances:
    def __init__(self, count: int = 3) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


def test_a_function_that_can_be_called_without_an_argument_is() -> None:
    assert list(rs.from_iterable(with_default).repeat(2)) == [7, 7]
    assert list(rs.from_iterable(with_any).repeat(2)) == [0, 0]
    assert list(rs.from_iterable(Instances).repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert list(rs.from_iterable(list)) == []


def test_a_function_with_several_arguments_is_the_users_error() -> None:
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        list(rs.from_iterable(lambda epoch, rank: iter([epoch, rank])))  # type: ignore[arg-type,misc]
    with pytest.raises(TypeError, match="missing 1 required positional"):
        list(rs.from_iterable(needs_a_name))  # type: ignore[arg-type]


def needs_a_name(epoch: int, *, rank: int) -> list[int]:
    return [epoch, rank]
