"""Records that are left out from where a run stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import pytest
from changes.test_weights import MOST, ONLY_BY_INDEX, STEPS, read, with_steps
from hypothesis import example, given, reject
from hypothesis import strategies as st
from support.advised import advised
from support.gzipped import gzipped_numbers

import resumable as rs
from resumable.testing.comparing import assert_same

Records = Mapping[int, Sequence[int]]
Make = Callable[[Records], rs.Pipeline[Any]]


def compressed() -> list[str]:
    """Two files of the numbers from 0 to 39, which are read in order."""
    return gzipped_numbers(range(20), range(20, 40))


def by_file(records: Any) -> Any:
    """The same ``records`` by the file that they are in."""
    if isinstance(records, dict):
        return {first: by_file(each) for first, each in records.items()}
    return {
        name: [number - start for number in records if start <= number < start + 20]
        for name, start in (("a.gz", 0), ("b.gz", 20))
    }


class OfFiles(rs.Pipeline[Any]):
    """Of which records are left out by their file."""

    def exclude(self, records: Any) -> rs.Pipeline[Any]:
        return super().exclude(by_file(records))


SOURCES: Mapping[str, Callable[[], rs.Pipeline[Any]]] = {
    "in order": lambda: rs.range(40),
    "shuffled": lambda: rs.range(40).shuffle(1),
    "repeated": lambda: rs.range(12).shuffle(1).repeat(4),
    "endless": lambda: rs.range(12).shuffle(1, block=3).repeat(),
    "stream": lambda: rs.from_iterable(lambda: iter(range(40)), identity="numbers"),
    "files": lambda: rs.lines(compressed()).map(int),
    "named files": lambda: OfFiles(rs.lines(compressed()).map(int).stage),
}
SOME = st.lists(st.integers(0, 11), max_size=5)
MANY = st.just(list(range(5, 39)))
"""So many that the fingerprint has their digest."""


@st.composite
def makers(draw: st.DrawFn) -> Make:
    """Pipelines of which records are left out, of one or two inputs, and of up to two stages after it."""
    kinds = draw(st.lists(st.sampled_from(list(SOURCES)), min_size=1, max_size=2))
    # What is left out from some item on is left out in one epoch.
    steps = {*STEPS, *ONLY_BY_INDEX} - {"repeat", "mix, cycling"}
    names = draw(st.lists(st.sampled_from(sorted(steps)), max_size=2))

    def make(records: Records) -> rs.Pipeline[Any]:
        inputs = [SOURCES[kind]().exclude(records) for kind in kinds]
        made = inputs[0] if len(inputs) == 1 else rs.mix(*inputs)
        if "endless" in kinds and set(names) & {*ONLY_BY_INDEX, "concatenate before", "cache"}:
            made = made.take(60)
        return with_steps(made, names)

    make.__name__ = " | ".join([*kinds, *names])
    return make


@given(
    make=makers(),
    cuts=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    records=st.lists(SOME, min_size=4, max_size=4),
    ahead=st.integers(0, 3),
)
def test_records_are_left_out_from_where_the_run_stands(
    make: Make, cuts: list[int], records: list[list[int]], ahead: int
) -> None:
    left_out: dict[int, Sequence[int]] = {}
    try:
        passed, state = read(make(left_out), cuts[0])
    except rs.InvalidArgument:
        reject()  # threads before a stage that looks items up
    for cut, more in zip(cuts, records, strict=False):
        first = 0
        asked: dict[int, Sequence[int]] = {0: [11, 10, 9, 8, *more]}
        for _ in range(3):  # each input tells how far it was read
            try:
                make(asked).resume(state).close()
                break
            except rs.StateMismatch as error:
                found = advised(error, "records")
                if found is None:
                    return
                first = max(found)
            asked = {**_before(left_out, first), first: [11, 10, 9, 8, *more]}
        left_out = _before(left_out, first + ahead)
        left_out[first + ahead] = more
        items, state = read(make(left_out), cut, state)
        passed += items
        assert_same(passed, read(make(left_out), len(passed))[0], make.__name__)
    rest, _ = read(make(left_out), MOST, state)
    assert_same(passed + rest, read(make(left_out), len(passed) + MOST)[0], make.__name__)


def _before(records: Records, first: int) -> dict[int, Sequence[int]]:
    return {item: each for item, each in records.items() if item < first}


@given(
    source=st.sampled_from(["in order", "shuffled", "files", "named files"]),
    cut=st.integers(0, 30),
    before=st.dictionaries(st.integers(0, 30), SOME | MANY, max_size=3),
    after=st.dictionaries(st.integers(0, 30), SOME | MANY, max_size=3),
)
def test_another_past_is_refused(source: str, cut: int, before: Records, after: Records) -> None:
    def make(records: Records) -> rs.Pipeline[int]:
        return SOURCES[source]().exclude(records)

    passed, state = read(make(before), cut)
    try:
        rest, _ = read(make(after), MOST, state)
    except rs.StateMismatch:
        assert _until(before, cut + 1) != _until(after, cut + 1)
    else:
        assert passed + rest == list(islice(make(after), cut + MOST))


def _until(records: Records, place: int) -> dict[int, set[int]]:
    """The records that are left out from each item before ``place`` on, where they change."""
    found: dict[int, set[int]] = {0: set()}
    for first in sorted(records):
        if first < place and set(records[first]) != found[max(found)]:
            found[first] = set(records[first])
    return found


def test_a_filter_that_joins_a_run_is_refused_with_the_stage_that_may() -> None:
    with iter(rs.range(9).map(str)) as iterator:
        state = iterator.get_state()
    advice = "exclude, unlike filter, can leave records out of a run that has begun"
    with pytest.raises(rs.StateMismatch, match=f"added, removed or moved[?] {advice}$"):
        rs.range(9).map(str).filter(bool).resume(state)
    with pytest.raises(rs.StateMismatch, match=r"added, removed or moved[?]$"):
        rs.range(9).filter(bool).map(str).shuffle(0, window=2).resume(state)


def test_other_records_than_were_saved_are_refused_with_what_to_write() -> None:
    shuffled = rs.range(40).shuffle(1)
    _, state = read(shuffled, 20)
    with pytest.raises(rs.StateMismatch, match=r"write records=\{0: \[\], 20: \[7, 9\]\}$"):
        shuffled.exclude([9, 7]).resume(state)
    _, state = read(shuffled.exclude({0: [], 5: range(33)}), 7)
    with pytest.raises(rs.StateMismatch, match=r"saved records=\{0: \[\], 5: <33 records>\}"):
        shuffled.exclude({0: [], 5: range(34)}).resume(state)
    with pytest.raises(rs.StateMismatch, match=r"Exclude here, .*; was exclude removed[?] Keep it"):
        shuffled.resume(state)


WITHIN: Mapping[str, Callable[[Any], rs.Pipeline[Any]]] = {
    "in order": lambda part: part,
    "shuffled": lambda part: part.shuffle(2),
    "repeated": lambda part: part.shuffle(2).repeat(3),
    "endless": lambda part: part.shuffle(2, block=3).repeat(),
}


@given(
    within=st.sampled_from(sorted(WITHIN)),
    mixed=st.booleans(),
    workers=st.integers(0, 2),
    ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    cut=st.integers(0, 12),
    first=st.integers(1, 9),
    records=st.sets(st.integers(0, 39), max_size=8),
)
def test_records_are_left_out_in_the_partitions_that_have_them(
    within: str,
    mixed: bool,
    workers: int,
    ranks: tuple[int, int],
    cut: int,
    first: int,
    records: set[int],
) -> None:
    def make(left_out: Any, rank: int, ranks: int, workers: int) -> rs.Pipeline[Any]:
        if not mixed:
            build = lambda part: WITHIN[within](part).exclude(left_out)  # noqa: E731
            parts = rs.range(40).partition(4, build, workers=workers, executor="thread")
        else:
            named = {0: {}, first: {"a": sorted(records)}} if left_out else {}
            parts = rs.partition(
                {"a": rs.range(40), "b": rs.range(100, 140)},
                4,
                lambda a, b: rs.mix({"a": WITHIN[within](a), "b": b}).exclude(named),
                workers=workers,
                executor="thread",
            )
        return parts.shard(rank, ranks, uneven="keep")

    changed = {0: [], first: sorted(records)}
    before, after = ranks
    passed, states = list[Any](), list[Any]()
    for rank in range(before):
        items, state = read(make({}, rank, before, workers), cut)
        passed += items
        states.append(state)
    rest = list[Any]()
    try:
        for rank in range(after):
            resumed = make(changed, rank, after, 2 - workers).resume(rs.merge_states(states))
            with resumed as iterator:
                rest.append(list(islice(iterator, 400)))
    except rs.StateMismatch as error:
        # Some partition is beyond it, or at the end of an epoch.
        assert cut >= first or "cannot be changed here" in str(error), error  # noqa: PT017
        return
    whole = list(islice(make(changed, 0, 1, 0), 2000))
    if within != "endless":
        assert sorted([*passed, *chain.from_iterable(rest)]) == sorted(whole)
        return
    for place in range(4):
        ours = [item for item in [*passed, *chain.from_iterable(rest)] if item % 4 == place]
        theirs = [item for item in whole if item % 4 == place]
        assert ours[:40] == theirs[:40]


@given(
    count=st.integers(0, 12),
    before=st.dictionaries(st.integers(1, 12), SOME, max_size=2),
    after=st.dictionaries(st.integers(1, 12), SOME, max_size=2),
    cut=st.integers(0, 13),
)
def test_a_stream_is_cleaned_at_every_cut(
    count: int, before: Records, after: Records, cut: int
) -> None:
    def make(records: Records) -> rs.Pipeline[int]:
        stream = rs.from_iterable(lambda: iter(range(count)), identity="numbers")
        return stream.exclude({0: [], **records})

    passed, state = read(make(before), cut)
    assert read(make(before), MOST, state)[0] == list(make(before))[len(passed) :]
    try:
        rest, _ = read(make(after), MOST, state)
    except rs.StateMismatch as error:
        reach = cut + 1
        assert _until(before, reach) != _until(after, reach), error  # noqa: PT017
        return
    assert passed + rest == list(make(after))


def test_what_a_stream_passed_over_at_its_end_does_not_come_back() -> None:
    def make(records: Any) -> rs.Pipeline[int]:
        return rs.from_iterable(lambda: iter(range(5)), identity="numbers").exclude(records)

    passed, state = read(make([4]), MOST)
    assert passed == [0, 1, 2, 3]
    with pytest.raises(rs.StateMismatch, match="items before 5 were read"):
        make({0: [4], 4: []}).resume(state)


@pytest.mark.parametrize("kind", SOURCES)
def test_what_was_to_be_left_out_later_may_stay(kind: str) -> None:
    pipeline = SOURCES[kind]()
    passed, state = read(pipeline.exclude({0: [], 19: [1, 2]}).map(float), 17)
    rest, state = read(pipeline.exclude({}).map(float), 5, state)
    whole = list(islice(pipeline.map(float), 25))
    assert passed + rest == whole[:22]
    assert read(pipeline.map(float), 3, state)[0] == whole[22:]


@pytest.mark.parametrize(
    "damaged", ["[[1]]", "[1.5]", "[true]", "[-1]", "[2,1]", "[99999]", '["a"]', '"ab"', "{}", "7"]
)
def test_a_state_of_records_that_nothing_leaves_out_is_refused(damaged: str) -> None:
    pipeline = rs.range(40).exclude({0: [], 30: [1, 2]})
    _, state = read(pipeline, 3)
    saved = state["fingerprint"]
    state["fingerprint"] = saved.replace("[[0,[]],[30,[1,2]]]", f"[[0,{damaged}]]")
    assert state["fingerprint"] != saved
    with pytest.raises(rs.StateMismatch, match=r"records|changes|Exclude"):
        pipeline.resume(state)


@pytest.mark.parametrize("before_repeat", [False, True])
def test_what_the_data_of_a_later_epoch_lack_stays_left_out_of_the_earlier_ones(
    before_repeat: bool,
) -> None:
    def made(pipelines: Any, records: Any) -> rs.Pipeline[int]:
        data = rs.by_epoch(pipelines)
        return data.exclude(records).repeat(4) if before_repeat else data.repeat(4).exclude(records)

    old, fewer = rs.range(9).shuffle(1), rs.range(5)
    saved, changed = made({0: old}, [2, 7]), made({0: old, 3: fewer}, [2, 7])
    expected = [number for number in [*old.repeat(3), *fewer] if number not in (2, 7)]
    assert list(changed) == expected
    for cut in range(15):  # the third epoch begins
        with iter(saved) as iterator:
            passed = list(islice(iterator, cut))
            state = iterator.get_state()
        assert passed + list(changed.resume(state)) == expected


def test_an_error_says_what_to_write_where_later_data_lack_a_record() -> None:
    data = rs.by_epoch({0: rs.range(9), 2: rs.range(5)}).repeat(4)
    with iter(data.exclude({0: [7], 20: [1]})) as iterator:
        next(iterator)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=r"write records=\{0: \[7\], 1: \[2, 8\]\}"):
        data.exclude([2, 8]).resume(state)


def test_a_state_of_records_that_the_new_pipeline_lacks_is_refused() -> None:
    _, state = read(rs.range(5).repeat().exclude([2]), 31)
    changed = rs.by_epoch({0: rs.range(2), 1: rs.range(8)}).repeat().exclude([2])
    with pytest.raises(rs.StateMismatch, match="saved stop=5, this pipeline has stop=2"):
        changed.resume(state)


@given(
    saved=st.integers(2, 9),
    present=st.integers(2, 9),
    epochs=st.integers(1, 3),
    more=st.integers(0, 2),
    mapped=st.booleans(),
    cut=st.integers(0, 30),
)
@example(saved=5, present=8, epochs=3, more=0, mapped=False, cut=6)
@example(saved=5, present=4, epochs=3, more=0, mapped=True, cut=6)
@example(saved=5, present=8, epochs=3, more=0, mapped=False, cut=3)
def test_another_length_of_the_epochs_that_were_read_is_refused(
    saved: int, present: int, epochs: int, more: int, mapped: bool, cut: int
) -> None:
    def made(count: int, epochs: int) -> rs.Pipeline[int]:
        data = rs.range(10).take(count)
        return (data.map(int) if mapped else data).repeat(epochs).exclude([1])

    passed, state = read(made(saved, epochs), cut)
    changed = made(present, epochs + more)
    try:
        rest, _ = read(changed, MOST, state)
    except rs.StateMismatch as error:
        assert f"saved count={saved}, this pipeline has count={present}" in str(error)  # noqa: PT017
        assert saved != present
        assert len(passed) >= min(saved, present) - 1  # in one of them the first epoch has ended
        return
    assert passed + rest == list(changed)


def test_another_length_of_epochs_is_refused_where_nothing_is_left_out_any_more() -> None:
    def made(count: int, records: Any) -> rs.Pipeline[int]:
        return rs.range(10).take(count).repeat(3).exclude(records)

    passed, state = read(made(5, {0: [], 12: [1]}), 7)
    assert passed + read(made(5, []), MOST, state)[0] == list(made(5, []))
    with pytest.raises(rs.StateMismatch, match="saved count=5, this pipeline has count=8"):
        made(8, []).resume(state)


def test_a_state_that_does_not_tell_the_length_of_epochs_goes_on() -> None:
    pipeline = rs.range(10).take(5).repeat(3).exclude([1])
    passed, state = read(pipeline, 6)
    told = state["fingerprint"]
    state["fingerprint"] = told.replace(',{"count_each":5}', "")  # as earlier versions saved it
    assert state["fingerprint"] != told
    assert passed + read(pipeline, MOST, state)[0] == list(pipeline)


def test_what_is_read_from_another_place_is_closed_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []
    motion: Any = rs.range(20).map(str).exclude({}).stage.start()
    monkeypatch.setattr(motion.inputs[0], "close", lambda: closed.append(True))
    motion.set_state({"position": 4})
    assert closed
    assert motion.pull(3) == ["4", "5", "6"]
