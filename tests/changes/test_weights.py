"""Laws of a mix whose weights change while a run goes on: the past stays, or the change is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from support.advised import advised
from support.graphs import RunningSum
from support.tiers import thinned

import resumable as rs
from resumable.testing.comparing import assert_same

Weights = tuple[int, ...]
Timeline = Mapping[int, Weights]
Make = Callable[[Timeline], rs.Pipeline[Any]]
Step = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]

MOST = 200
"""Items of a pipeline that are looked at."""


def hashed(item: Any) -> int:
    return crc32(repr(item).encode())


def is_no_third(item: Any) -> bool:
    return hashed(item) % 3 > 0


def repeated(item: Any) -> list[Any]:
    return [item] * (hashed(item) % 3)


def counted(carry: int, item: Any) -> tuple[int, Any]:
    return carry + hashed(item) % 5, (carry, item)


def without_first(batch: Any) -> list[Any]:
    return list(batch)[1:]


STEPS: Mapping[str, Step] = {
    "map": lambda mixed: mixed.map(repr),
    "map in threads": lambda mixed: mixed.map(repr, workers=2, executor="thread"),
    "filter": lambda mixed: mixed.filter(is_no_third),
    "batch": lambda mixed: mixed.map(repr).batch(3),
    "whole batches": lambda mixed: mixed.map(repr).batch(3, drop_last=True),
    "batches by index": lambda mixed: mixed.map(repr).batch(3).skip(1),
    "windows by index": lambda mixed: mixed.window(4, shift=3).map(list).skip(1),
    "batch, unbatch": lambda mixed: mixed.batch(4, collate=list).unbatch(),
    "window": lambda mixed: mixed.window(4, shift=3).map(list),
    "window with gaps": lambda mixed: mixed.window(2, shift=5).map(list),
    "shuffle in a window": lambda mixed: mixed.shuffle(3, window=5),
    "carried window": lambda mixed: mixed.map(repr).shuffle(3, window=5, carry=True),
    "skip": lambda mixed: mixed.skip(3),
    "take": lambda mixed: mixed.take(30),
    "take while": lambda mixed: mixed.take_while(lambda item: repr(item) != "17"),
    "repeat": lambda mixed: mixed.repeat(2),
    "enumerate": lambda mixed: mixed.enumerate(),
    "flat map": lambda mixed: mixed.flat_map(repeated),
    "map batches": lambda mixed: mixed.map_batches(without_first, 4),
    "scan": lambda mixed: mixed.scan(counted, 0),
    "shard": lambda mixed: mixed.shard(1, 2),
    "concatenate before": lambda mixed: rs.concatenate(mixed, rs.range(5)),
    "concatenate after": lambda mixed: rs.concatenate(rs.range(5), mixed),
    "zip": lambda mixed: rs.zip(mixed, rs.range(1000)),
    "mix": lambda mixed: rs.mix(mixed, rs.range(900, 990), weights=[2, 1]),
    "mix, cycling": lambda mixed: rs.mix(mixed, rs.range(900, 910), stop="cycle", seed=5),
    "interleave": lambda mixed: rs.interleave(mixed, rs.range(900, 950), block_length=2),
    "interleave of functions": lambda mixed: mixed.interleave_map(repeated, cycle_length=2),
    "prefetch": lambda mixed: mixed.prefetch(2),
    "cache": lambda mixed: mixed.cache(),
    "bucket": lambda mixed: mixed.bucket(hashed, batch_size=3, group=8, collate=list),
}
ONLY_BY_INDEX: Mapping[str, Step] = {
    "shuffle": lambda mixed: mixed.shuffle(7),
    "shuffle of blocks": lambda mixed: mixed.shuffle(7, block=4),
    "partition": lambda mixed: mixed.partition(3, lambda part: part.map(repr)),
    "partition in workers": lambda mixed: mixed.partition(
        3, lambda part: part.map(repr), workers=2, executor="thread"
    ),
}
INPUTS: Mapping[str, Callable[[int], rs.Pipeline[Any]]] = {
    "by index": lambda start: rs.range(start, start + 40),
    "stream": lambda start: rs.from_iterable(lambda: iter(range(start, start + 40))),
    "shuffled epochs": lambda start: rs.range(start, start + 11).shuffle(1).repeat(3),
    "filtered": lambda start: rs.range(start, start + 40).filter(is_no_third),
}
WEIGHTS = st.tuples(st.integers(1, 4), st.integers(1, 3))


def with_steps(
    made: rs.Pipeline[Any], names: Sequence[str], by_index: bool = True
) -> rs.Pipeline[Any]:
    """The named steps, without those that cannot stand there, and without steps by index on demand."""
    for name in names:
        if name in STEPS:
            made = STEPS[name](made)
        elif by_index and made.random_access and not names[0].startswith("partition"):
            made = ONLY_BY_INDEX[name](made)
    return made


@st.composite
def makers(draw: st.DrawFn) -> Make:
    """Pipelines of a mix, and of up to three stages after it."""
    inputs = draw(st.lists(st.sampled_from(list(INPUTS)), min_size=2, max_size=2))
    stop, seed = draw(st.sampled_from(["first", "cycle"])), draw(st.none() | st.just(3))
    reshuffle = seed is not None and draw(st.booleans())
    names = draw(st.lists(st.sampled_from([*STEPS, *ONLY_BY_INDEX]), max_size=3))

    def make(weights: Timeline) -> rs.Pipeline[Any]:
        made = rs.mix(
            *(INPUTS[name](100 * number) for number, name in enumerate(inputs)),
            weights=weights,
            seed=seed,
            stop=stop,
            reshuffle=reshuffle,
        )
        return with_steps(made, names)

    make.__name__ = " | ".join([*inputs, stop, *names])
    return make


def timelines(draw: st.DrawFn, before: Timeline) -> Timeline:
    """Another timeline that begins as ``before`` does, up to some item."""
    place = draw(st.integers(0, 70))
    kept = {first: weights for first, weights in before.items() if first < place}
    return kept | {place if kept else 0: draw(WEIGHTS)}


def read(pipeline: rs.Pipeline[Any], count: int, state: Any = None) -> tuple[list[Any], Any]:
    """Up to ``count`` items from ``state`` on, and the state then."""
    with pipeline.start() if state is None else pipeline.resume(state) as iterator:
        return list(islice(iterator, count)), iterator.get_state()


@given(data=st.data(), make=makers(), cut=st.integers(0, 60))
def test_a_change_keeps_the_past_or_is_refused_with_what_to_write(
    data: st.DataObject, make: Make, cut: int
) -> None:
    draw = data.draw
    timeline: Timeline = {0: draw(WEIGHTS)}
    try:
        make(timeline)
    except rs.InvalidArgument:
        reject()  # threads before a stage that looks items up
    passed, state = read(make(timeline), cut)
    for _ in range(3):  # changes in a row
        changed: Timeline | None = draw(st.composite(timelines)(timeline))
        assert changed is not None
        try:
            make(changed).resume(state).close()
        except rs.StateMismatch as error:
            changed = advised(error)
            if changed is None:
                break
        further = draw(st.integers(0, 20))
        items, state = read(make(changed), further, state)
        passed += items
        assert_same(passed, read(make(changed), len(passed))[0], make.__name__)
        timeline = changed
    rest, _ = read(make(timeline), MOST, state)
    assert_same(passed + rest, read(make(timeline), len(passed) + MOST)[0], make.__name__)


@pytest.mark.parametrize("name", [*STEPS, *ONLY_BY_INDEX])
def test_a_change_far_ahead_is_accepted_unless_all_may_have_been_read(name: str) -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        step = {**STEPS, **ONLY_BY_INDEX}[name]
        return step(rs.mix(rs.range(100), rs.range(100, 200), weights=weights))

    for cut in (0, 1, 5):
        _, state = read(make({0: (2, 1)}), cut)
        changed = make({0: (2, 1), 90: (1, 2)})
        if name in ("shuffle", "shuffle of blocks", "cache") and cut:
            with pytest.raises(rs.StateMismatch, match="cannot be changed here"):
                changed.resume(state)
        else:
            changed.resume(state).close()


@pytest.mark.parametrize(
    ("name", "kind"), thinned(product([*STEPS, *ONLY_BY_INDEX], INPUTS), 24, "the item to name")
)
def test_from_the_item_that_the_error_names_on_everything_may_change(name: str, kind: str) -> None:
    step = {**STEPS, **ONLY_BY_INDEX}[name]

    def make(weights: Timeline) -> rs.Pipeline[Any]:
        return step(rs.mix(INPUTS[kind](0), INPUTS[kind](100), weights=weights))

    if name in ONLY_BY_INDEX and not INPUTS[kind](0).random_access:
        return
    for cut in thinned(range(1, 30), 3, (name, kind)):
        passed, state = read(make({0: (50, 1)}), cut)
        changed: Timeline | None = {0: (1, 50)}
        assert changed is not None
        try:
            make(changed).resume(state).close()  # nothing of the mix was read
        except rs.StateMismatch as error:
            changed = advised(error)
        if changed is not None:
            rest, _ = read(make(changed), MOST, state)
            assert_same(passed + rest, read(make(changed), cut + MOST)[0], f"{cut}: {changed}")


def kept_or_refused(make: Make, before: Timeline, after: Timeline, cut: int) -> bool:
    """Whether a run that read ``cut`` items goes on with ``after``, or as the error says; then it is exact."""
    passed, state = read(make(before), cut)
    try:
        make(after).resume(state).close()
        accepted = True
    except rs.StateMismatch as error:
        advice = advised(error)
        if advice is None:
            return False
        after, accepted = advice, False
    rest, _ = read(make(after), MOST, state)
    assert_same(passed + rest, read(make(after), cut + MOST)[0], f"{cut}: {after}")
    return accepted


@pytest.mark.parametrize("kind", ["by index", "stream"])
def test_a_planned_change_that_has_a_part_in_the_present_round_stays_in_its_place(
    kind: str,
) -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        inputs = (INPUTS[kind](start).repeat() for start in (0, 100))
        return rs.mix(*inputs, weights=weights, seed=3, reshuffle=True)

    # Item 95 is within a round of ten, which so has the order of the seed alone.
    before = {0: (7, 3), 95: (3, 7)}
    for cut in range(88, 95):
        # A stream does not say where it ends, so item 90 may have been looked for.
        begun = cut > 90 - (kind == "stream")
        for after in ({0: (7, 3)}, {0: (7, 3), 100: (1, 2)}, {0: (7, 3), 95: (1, 2)}):
            assert kept_or_refused(make, before, after, cut) == (not begun)
        assert kept_or_refused(make, before, {**before, 96: (1, 2)}, cut)


@pytest.mark.parametrize("kind", ["by index", "windows"])
def test_a_change_before_a_reshuffled_mix_does_not_move_its_end_into_the_present_round(
    kind: str,
) -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        inner = rs.mix(rs.range(30), rs.range(100, 180), weights=weights)
        if kind == "windows":
            inner = inner.shuffle(2, window=1)
        return rs.mix(inner, rs.range(1000, 1200), weights=(7, 3), seed=2, reshuffle=True)

    before, after = {0: (5, 1)}, {0: (5, 1), 35: (1, 5)}
    length = make(before).length
    assert length is not None
    assert length < (make(after).length or 0)
    found = [kept_or_refused(make, before, after, cut) for cut in range(40, int(length) + 1)]
    assert found == sorted(found, reverse=True)
    assert 5 < sum(found) < len(found)


def test_what_another_mix_with_the_same_weights_has_read_does_not_count() -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        changing = rs.mix(rs.range(50), rs.range(100, 150), weights=weights)
        return rs.mix(changing, rs.mix(rs.range(200, 250), rs.range(300, 350)))

    for cut in range(6, 20):
        read_by_then = (cut + 1) // 2
        after = {0: (1, 1), read_by_then: (1, 5)}
        assert kept_or_refused(make, {0: (1, 1)}, after, cut)
        assert not kept_or_refused(make, {0: (1, 1)}, {0: (1, 1), read_by_then - 1: (1, 5)}, cut)


def test_what_the_error_says_to_write_is_accepted_where_an_input_then_has_no_weight() -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        return rs.mix(rs.range(90), rs.range(100, 190), weights=weights)

    for after in ({0: (1, 2), 5: (0, 1)}, {0: (1, 0), 5: (0, 1), 8: (1, 0)}):
        assert not kept_or_refused(make, {0: (1, 0), 30: (1, 1)}, after, 10)
    assert kept_or_refused(make, {0: (1, 0), 30: (1, 1)}, {0: (1, 0)}, 30)
    with pytest.raises(rs.InvalidArgument, match="finite and above 0"):
        make((1, 0))  # type: ignore[arg-type]


def test_a_change_that_hides_the_end_of_a_reshuffled_mix_does_not_redraw_its_last_round() -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        inner = rs.mix(
            INPUTS["by index"](0).repeat(), INPUTS["filtered"](100), weights=weights, stop="cycle"
        )
        return rs.mix(inner, rs.range(1000, 1040), weights=(1, 3), seed=4, reshuffle=True)

    before, after = {0: (5, 3)}, {0: (5, 3), 60: (0, 1)}
    length = make(before).length
    assert length is not None
    assert make(after).length is None
    for cut in range(40, int(length) + 1):
        # The last round is of items 52 to 55.
        assert kept_or_refused(make, before, after, cut) == (cut <= 52)


@pytest.mark.parametrize(
    "weights",
    [
        '"parts":[2147483648,1]',
        '"parts":[10,10]',
        '"changes":[[9223372036854775808,[1,1]]],"parts":[2,1]',
        '"changes":[[3,[0,0]]],"parts":[2,1]',
        '"changes":[[3,[1,1]],[3,[1,2]]],"parts":[2,1]',
    ],
)
def test_damaged_weights_are_refused_as_a_state_that_does_not_fit(weights: str) -> None:
    def make(weights: Timeline) -> rs.Pipeline[Any]:
        return rs.mix(rs.range(50), rs.range(100, 150), weights=weights)

    _, state = read(make({0: (2, 1)}), 10)
    damaged = {**state, "fingerprint": state["fingerprint"].replace('"parts":[2,1]', weights)}
    assert damaged != state
    with pytest.raises(rs.StateMismatch, match="weights="):
        make({0: (2, 1), 20: (1, 1)}).resume(damaged)


@pytest.mark.parametrize("cut", [9, 12])
def test_asking_an_input_how_far_it_was_read_leaves_it_where_it_was(cut: int) -> None:
    def make(weights: tuple[int, int]) -> rs.Pipeline[Any]:
        mixed = rs.mix(rs.range(10), rs.range(100, 110), weights=weights).batch(4, collate=list)
        return rs.concatenate(rs.range(5), mixed.unbatch().map_batches(without_first, 4))

    _, state = read(make((4, 1)), cut)
    with pytest.raises(
        rs.StateMismatch, match=r"to change it from there on, write weights=\{0: \(4, 1\)"
    ):
        make((1, 1)).resume(state)


@pytest.mark.parametrize(
    ("name", "cut"), thinned(product(sorted(STEPS.keys() - {"prefetch"}), (19, 20)), 16, "refused")
)
def test_a_refused_state_leaves_a_function_with_state_as_it_was(name: str, cut: int) -> None:
    def make(weights: Any, add: RunningSum) -> rs.Pipeline[Any]:
        mixed = rs.mix(rs.range(100), rs.range(100, 200), weights=weights)
        return STEPS[name](mixed.map(add))

    add = RunningSum()
    try:
        changed, pipeline = make({0: (1, 1), 3: (1, 3)}, add), make((1, 1), add)
    except rs.InvalidArgument:
        return  # no function with state may stand there
    expected, _ = read(make((1, 1), RunningSum()), 30)
    _, state = read(changed, cut)
    with pipeline.start() as iterator:
        items = list(islice(iterator, 10))
        with pytest.raises(rs.StateMismatch, match="weights"):
            iterator.set_state(state)
        items += islice(iterator, 20)
    assert_same(items, expected, name)
