"""Pipelines that are other ones from some epoch on: added data, and curricula."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from changes.test_weights import MOST, ONLY_BY_INDEX, STEPS, Step, read
from hypothesis import given, reject
from hypothesis import strategies as st
from support.graphs import RunningSum
from support.tiers import thinned

import resumable as rs
from resumable.core.epoch_runs import EpochRuns
from resumable.testing.comparing import assert_same
from resumable.views.state_tree import stage_tree, tree_lines

Pipelines = Mapping[int, rs.Pipeline[Any]]
Source = Callable[[int, int], rs.Pipeline[Any]]

SOURCES: Mapping[str, Source] = {
    "by index": lambda start, count: rs.range(start, start + count),
    "shuffled": lambda start, count: rs.range(start, start + count).shuffle(1),
    "stream": lambda start, count: rs.from_iterable(
        lambda: iter(range(start, start + count)), identity=f"{start} {count}"
    ),
    "repeated": lambda start, count: rs.range(start, start + count).shuffle(1).repeat(2),
}
BEHIND_EACH: Mapping[str, Step] = {**STEPS, **ONLY_BY_INDEX, "cache": lambda made: made.cache()}
NO_EPOCH_OF_ITS_OWN = {"repeat", "mix, cycling"}


@st.composite
def pipelines(draw: st.DrawFn, fewest: int = 0) -> Pipelines:
    """One to four pipelines of any kind and length, by the epoch from which on they hold."""
    starts = {0} | set(draw(st.lists(st.integers(1, 7), max_size=3)))
    kinds = st.sampled_from(list(SOURCES))
    return {
        start: SOURCES[draw(kinds)](100 * number, draw(st.integers(fewest, 9)))
        for number, start in enumerate(sorted(starts))
    }


def of_epoch(chosen: Pipelines, epoch: int) -> rs.Pipeline[Any]:
    return chosen[max(start for start in chosen if start <= epoch)]


@given(chosen=pipelines(), epochs=st.integers(0, 9))
def test_in_each_epoch_come_the_items_of_the_last_pipeline_that_begins_by_then(
    chosen: Pipelines, epochs: int
) -> None:
    changing = rs.by_epoch(chosen)
    expected = list[Any]()
    for epoch in range(epochs):
        items = list(of_epoch(chosen, epoch).start(epoch))
        assert list(changing.start(epoch)) == items
        expected += items
    repeated = changing.repeat(epochs)
    assert list(repeated) == expected
    assert repeated.length in (None, len(expected))
    if all(one.random_access for one in chosen.values()):
        assert [repeated[index] for index in range(len(repeated))] == expected
        assert list(repeated.shuffle(3).skip(0)) == [
            expected[index] for index in rs.range(len(expected)).shuffle(3)
        ]
    for place in (0, len(expected) // 2, len(expected)):
        with repeated.start() as iterator:
            assert iterator.skip(place) == place
            assert list(iterator) == expected[place:]
    with changing.repeat().start() as iterator:
        endless = list(islice(iterator, len(expected)))
    assert endless == expected[: len(endless)]
    empty = any(not list(of_epoch(chosen, epoch)) for epoch in range(epochs))
    assert len(endless) == len(expected) or empty


@given(
    chosen=pipelines(),
    inner=st.integers(0, 3),
    middle=st.integers(0, 3),
    outer=st.integers(1, 3),
    skipped=st.integers(0, 2),
)
def test_repeats_in_repeats_count_the_epochs_on(
    chosen: Pipelines, inner: int, middle: int, outer: int, skipped: int
) -> None:
    made = (
        rs.by_epoch(chosen).repeat(inner).skip(skipped).repeat(middle).skip(skipped).repeat(outer)
    )
    expected = list[Any]()
    for number in range(outer):
        passed = list[Any]()
        for each in range(number * middle, (number + 1) * middle):
            items = list[Any]()
            for epoch in range(each * inner, (each + 1) * inner):
                items += of_epoch(chosen, epoch).start(epoch)
            passed += items[skipped:]
        expected += passed[skipped:]
    assert list(made) == expected
    assert made.length in (None, len(expected))
    if made.random_access:
        assert [made[index] for index in range(len(made))] == expected


@given(
    chosen=pipelines(fewest=3),
    name=st.sampled_from(sorted(BEHIND_EACH.keys() - NO_EPOCH_OF_ITS_OWN)),
    epoch=st.integers(0, 8),
)
def test_what_comes_behind_stands_behind_each_of_them(
    chosen: Pipelines, name: str, epoch: int
) -> None:
    step = BEHIND_EACH[name]
    try:
        each = {start: step(one) for start, one in chosen.items()}
    except (rs.InvalidArgument, rs.InvalidType):
        reject()
    changed = step(rs.by_epoch(chosen))
    assert changed.fingerprint == rs.by_epoch(each).fingerprint
    with changed.start(epoch) as got, of_epoch(each, epoch).start(epoch) as expected:
        assert_same(list(got), list(expected), name)


@pytest.mark.parametrize("name", sorted(BEHIND_EACH))
def test_one_pipeline_alone_has_its_own_fingerprint_and_states(name: str) -> None:
    step = BEHIND_EACH[name]
    alone = step(rs.range(50).shuffle(1))
    changing = step(rs.by_epoch({0: rs.range(50).shuffle(1)}))
    passed, state = read(alone, 5)
    again, theirs = read(changing, 5)
    assert rs.dumps(state) == rs.dumps(theirs)
    assert_same(passed, again, name)


def test_a_state_of_other_pipelines_is_refused() -> None:
    old, new = rs.range(9), rs.range(12)
    _, state = read(rs.by_epoch({0: old, 3: new}).repeat(5), 4)
    for other in ({0: new}, {0: new, 3: new.skip(1)}, {0: old.skip(1), 3: new}):
        with pytest.raises(rs.StateMismatch, match="another pipeline"):
            rs.by_epoch(other).repeat(5).resume(state)


def test_a_million_epochs_cost_no_more_than_a_few() -> None:
    chosen = {0: rs.range(3), 10**6: rs.range(0), 10**9: rs.range(10, 15)}
    repeated = rs.by_epoch(chosen).repeat(2 * 10**9)
    assert len(repeated) == 3 * 10**6 + 5 * 10**9
    assert repeated[3 * 10**6 - 1 : 3 * 10**6 + 2] == [2, 10, 11]
    with repeated.start() as iterator:
        assert iterator.skip(3 * 10**6 - 1) == 3 * 10**6 - 1
        assert list(islice(iterator, 3)) == [2, 10, 11]
        assert iterator.epoch == 10**9
        assert iterator.skip(10**12) == 5 * 10**9 - 2


def test_stages_see_the_length_of_each_epoch() -> None:
    changing = rs.by_epoch({0: rs.range(4), 2: rs.range(5)})
    dealt = changing.shard(1, 2, uneven="keep").take(9)
    # Where the ranks end at different steps, a state names its rank; in epoch 0 they do not.
    node = dealt.fingerprint
    assert node.count("index_at_end") == 1
    assert list(changing.batch(2, drop_last=True).repeat(3).map(len)) == [2] * 6
    assert list(changing.batch(3).repeat(3).map(len)) == [3, 1, 3, 1, 3, 2]
    with pytest.raises(rs.InvalidArgument, match="of one length"):
        rs.zip(changing, rs.range(4), strict=True)
    with pytest.raises(rs.InvalidArgument, match="needs a window for a stream"):
        rs.by_epoch({0: rs.range(4), 2: SOURCES["stream"](0, 4)}).shuffle(1)
    assert changing.gather(np.array([4]), epoch=2).tolist() == [4]
    with pytest.raises(rs.InvalidArgument, match="within 4 items"):
        changing.gather(np.array([4]), epoch=1)


CACHED: Mapping[str, Source] = {
    "by index": SOURCES["by index"],
    "stream": SOURCES["stream"],
    "with threads": lambda start, count: rs.range(start, start + count).map(abs, workers=1),
}


@pytest.mark.parametrize("kind", CACHED)
@pytest.mark.parametrize("skipped", [0, 1])
def test_a_cache_has_the_items_of_both_pipelines_in_the_epoch_in_which_they_change(
    kind: str, skipped: int
) -> None:
    if kind == "with threads" and skipped:
        return  # skip looks its items up by index

    def made() -> rs.Pipeline[Any]:
        changing = rs.by_epoch({0: CACHED[kind](0, 3), 3: CACHED[kind](10, 3)}).repeat(2)
        return (changing.skip(skipped) if skipped else changing).cache().repeat(3)

    old, new = [0, 1, 2], [10, 11, 12]
    epochs = [[*old, *old], [*old, *new], [*new, *new]]
    expected = [item for epoch in epochs for item in epoch[skipped:]]
    assert list(made()) == expected
    for cut in range(len(expected) + 1):
        passed, state = read(made(), cut)
        assert passed == expected[:cut]
        assert list(made().resume(state)) == expected[cut:]


@pytest.mark.parametrize("calls", thinned(product([False, True], repeat=4), 7, "functions"))
def test_the_state_of_a_function_is_saved_or_the_pipelines_are_refused(
    calls: tuple[bool, ...],
) -> None:
    def made() -> rs.Pipeline[int]:
        add, numbers = RunningSum(), rs.range(1, 4)
        each = {2 * place: numbers.map(add) if now else numbers for place, now in enumerate(calls)}
        return rs.by_epoch(each).repeat(8)

    places = [place for place, now in enumerate(calls) if now]
    if places and len(places) <= places[-1] - places[0]:
        with pytest.raises(
            rs.InvalidArgument, match="must follow each other, since only the state"
        ):
            made()
        return
    whole = list(made())
    for cut in range(len(whole) + 1):
        passed, state = read(made(), cut)
        assert passed + list(made().resume(state)) == whole


def test_what_is_planned_for_a_rank_does_not_change_with_the_number_of_ranks() -> None:
    def made(ranks: int, skipped: int = 4) -> rs.Pipeline[int]:
        dealt = SOURCES["stream"](0, 30).shard(0, ranks, uneven="keep")
        return rs.by_epoch({0: dealt, 1: dealt.skip(skipped)}).repeat(2)

    with iter(made(2)) as iterator:
        next(iterator)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="saved count=2, this pipeline has count=1"):
        made(1).resume(state)
    # Another plan is one for these ranks.
    assert list(made(1, skipped=5).resume(state)) == [*range(2, 30), *range(5, 30)]


def test_partitions_may_repeat_what_changes() -> None:
    changing = rs.by_epoch({0: rs.range(4), 2: rs.range(4, 10)})
    parts = changing.partition(2, lambda part: part.shuffle(3).repeat(3).batch(2))
    items = [item for batch in parts for item in batch.tolist()]
    assert sorted(items) == sorted([*range(4), *range(4), *range(4, 10)])
    whole = list(map(list, changing.partition(2, lambda part: part.batch(3)).repeat(3)))
    assert whole[-2:] == [[4, 6, 8], [5, 7, 9]]
    with pytest.raises(rs.InvalidArgument, match="fn must build upon"):
        changing.partition(2, lambda part: rs.range(3))
    ranks = [list(parts.shard(rank, 2)) for rank in range(2)]
    assert sorted(str(batch) for rank in ranks for batch in rank) == sorted(map(str, parts))


def test_random_maps_behind_partitions_that_change_know_their_places() -> None:
    changing = rs.by_epoch({0: rs.range(4), 1: rs.range(7)}).partition(3, lambda part: part)
    drawn = changing.repeat(3).random_map(lambda item, rng: (item, rng.random()), 5)
    whole = sorted(drawn)
    dealt = changing.repeat(3)
    ranks = [
        list(dealt.shard(rank, 3).random_map(lambda item, rng: (item, rng.random()), 5))
        for rank in range(3)
    ]
    assert sorted(item for rank in ranks for item in rank) == whole


BEFORE_DRAWS: Mapping[str, Step] = {
    "map": lambda parts: parts.map(abs),
    "map with a version": lambda parts: parts.map(abs, version=1),
    "filter with a version": lambda parts: parts.filter(lambda item: item % 3, version="a"),
    "random_map": lambda parts: parts.random_map(lambda item, rng: item, 7),
}


@pytest.mark.parametrize("name", BEFORE_DRAWS)
def test_what_random_maps_behind_partitions_draw_for_is_changed_in_later_epochs(name: str) -> None:
    def made(data: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        parts = data.partition(2, lambda part: part)
        repeated = BEFORE_DRAWS[name](parts).repeat(5)
        return repeated.random_map(lambda item, rng: (item, rng.random()), 5)

    passed, state = read(made(OLD), 10)  # in epoch 1
    with pytest.raises(rs.StateMismatch, match="by_epoch"):
        made(rs.by_epoch({0: OLD, 1: NEW})).resume(state)
    changed = made(rs.by_epoch({0: OLD, 2: NEW}))
    assert passed + list(changed.resume(state)) == list(changed)


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    steps=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    epochs=st.integers(0, 15),
)
def test_runs_of_epochs_count_as_if_one_went_through_them(
    lengths: list[int], steps: list[int], epochs: int
) -> None:
    firsts = [sum(steps[:number]) for number in range(len(lengths))]
    firsts = [first - firsts[0] for first in firsts]
    runs = EpochRuns(firsts, lengths, epochs)
    each = [lengths[sum(first <= epoch for first in firsts) - 1] for epoch in range(epochs)]
    places = [(epoch, item) for epoch, length in enumerate(each) for item in range(length)]
    assert runs.total == len(places)
    for index, (epoch, item) in enumerate(places):
        assert runs.epoch_with(index) == epoch
        assert runs.items_before(epoch) + item == index
        assert runs.length_of(epoch) == each[epoch]


Change = Callable[[Pipelines], rs.Pipeline[Any]]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Up to two stages behind each pipeline, mostly a repeat, and up to two stages behind that."""
    each = draw(st.lists(st.sampled_from(sorted(BEHIND_EACH)), max_size=1))
    all_of_them = draw(st.lists(st.sampled_from(sorted(BEHIND_EACH)), max_size=2))
    epochs = draw(st.sampled_from([(40,), (6,), (2, 3), (2, 20), ()]))

    def make(chosen: Pipelines) -> rs.Pipeline[Any]:
        made = rs.by_epoch(chosen)
        for name in each:
            made = BEHIND_EACH[name](made)
        for count in epochs:
            made = made.repeat(count)
        for name in all_of_them:
            made = BEHIND_EACH[name](made)
        return made

    make.__name__ = " | ".join([*each, *map(str, epochs), *all_of_them])
    return make


def advised(error: rs.StateMismatch) -> dict[int, str] | None:
    """The epochs from which on a pipeline is as saved, or as here; None if nothing can be changed."""
    found = re.search(r"write by_epoch\(\{(.*)\}\)( before Repeat\(.*\))?$", str(error))
    if found is None:
        return None
    return {int(epoch): what for epoch, what in re.findall(r"(\d+): as (\w+)", found[1])}


def acceptable(
    make: Change, chosen: Pipelines, changed: dict[int, rs.Pipeline[Any]], state: Any
) -> dict[int, rs.Pipeline[Any]] | None:
    """``changed``, or what errors say to write instead; None if nothing can be changed."""
    for _ in range(12):
        try:
            make(changed).resume(state).close()
        except rs.StateMismatch as error:
            found = advised(error)
            if found is None:
                return None
            changed = {
                epoch: of_epoch(chosen if what == "saved" else changed, epoch)
                for epoch, what in found.items()
            }
        else:
            return changed
    raise AssertionError(f"{make.__name__}: what errors say to write is refused: {changed}")


@given(
    make=changes(),
    cuts=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    kinds=st.lists(st.sampled_from(sorted(SOURCES)), min_size=4, max_size=4),
    lengths=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    epochs=st.lists(st.integers(0, 6), min_size=3, max_size=3),
)
def test_a_change_keeps_the_past_or_is_refused_with_what_to_write(
    make: Change, cuts: list[int], kinds: list[str], lengths: list[int], epochs: list[int]
) -> None:
    sources = [
        SOURCES[kind](100 * number, length)
        for number, (kind, length) in enumerate(zip(kinds, lengths, strict=True))
    ]
    chosen: dict[int, rs.Pipeline[Any]] = {0: sources[0]}
    try:
        passed, state = read(make(chosen), cuts[0])
        for cut, new, first in zip(cuts, sources[1:], epochs, strict=False):
            changed = {epoch: one for epoch, one in chosen.items() if epoch < first} | {first: new}
            accepted = acceptable(make, chosen, changed, state)
            if accepted is None:
                break
            changed = accepted
            items, state = read(make(changed), cut, state)
            passed += items
            assert_same(passed, read(make(changed), len(passed))[0], make.__name__)
            chosen = changed
        rest, _ = read(make(chosen), MOST, state)
    except (rs.InvalidArgument, rs.InvalidType):
        return  # what is looked up by index must not be a stream, or have threads
    assert_same(passed + rest, read(make(chosen), len(passed) + MOST)[0], make.__name__)


OLD, NEW, NEWEST = rs.range(9), rs.range(12), rs.range(20, 25)


@pytest.mark.parametrize("epochs", [None, 8])
def test_a_run_is_changed_from_the_epoch_on_that_was_not_begun(epochs: int | None) -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return rs.by_epoch(chosen).shuffle(1).repeat(epochs).batch(4)

    passed, state = read(made({0: OLD}), 5)  # 20 items, so epoch 2 is begun
    for refused in ({0: NEW, 3: OLD}, {0: OLD, 1: NEW}, {0: OLD, 2: NEW}, {0: NEW}):
        with pytest.raises(
            rs.StateMismatch, match="saved stop=9, this pipeline has stop=12"
        ) as error:
            made(refused).resume(state)
        assert advised(error.value) == {0: "saved", 3: "here"}
    chosen: Pipelines = {0: OLD}
    for epoch, new in ((3, NEW), (5, NEWEST), (7, OLD)):  # changes in a row
        chosen = {**chosen, epoch: new}
        items, state = read(made(chosen), 4, state)
        passed += items
    assert_same(passed, read(made(chosen), len(passed))[0], "")
    assert_same(passed + read(made(chosen), 40, state)[0], read(made(chosen), 57)[0][:57], "")


@pytest.mark.parametrize("cut", [5, 6, 7])
def test_epochs_behind_a_repeat_that_is_looked_up_by_index_are_counted(cut: int) -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return rs.by_epoch(chosen).shuffle(1).repeat(8).skip(12)

    passed, state = read(made({0: OLD}), cut)  # 12 are skipped, and 18 are in two epochs
    begun = 2 if cut < 7 else 3
    with pytest.raises(rs.StateMismatch) as error:
        made({0: OLD, 1: NEW}).resume(state)
    assert advised(error.value) == {0: "saved", begun: "here"}
    changed = made({0: OLD, begun: NEW})
    assert passed + list(changed.resume(state)) == list(changed)


def test_what_a_run_has_begun_is_counted_in_the_epochs_that_it_had() -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return rs.by_epoch(chosen).repeat(9).batch(4).unbatch()

    _, state = read(made({0: rs.range(1)}), 1)  # in a batch of four epochs
    with pytest.raises(rs.StateMismatch) as error:
        made({0: rs.range(1), 1: rs.range(3)}).resume(state)
    assert advised(error.value) == {0: "saved", 4: "here"}


def test_where_only_the_saved_pipeline_tells_the_epoch_the_error_says_how_to_learn_it() -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return rs.by_epoch(chosen).shuffle(1).repeat(8).skip(12)

    _, state = read(made({0: OLD}), 7)  # items are counted, and NEW has others in an epoch
    with pytest.raises(rs.StateMismatch, match="; to learn from which epoch on it may") as error:
        made({0: NEW}).resume(state)
    assert advised(error.value) == {0: "saved", 1: "here"}
    with pytest.raises(rs.StateMismatch) as error:
        made({0: OLD, 1: NEW}).resume(state)
    assert advised(error.value) == {0: "saved", 3: "here"}


def test_what_is_wrong_behind_the_repeat_or_of_the_rank_is_said_alone() -> None:
    def made(rank: int, seed: int) -> rs.Pipeline[int]:
        dealt = rs.range(9).shard(rank, 2, uneven="keep").filter(bool)
        return dealt.repeat(2).shuffle(seed, window=3)

    _, state = read(made(0, 1), 1)
    for other in (made(1, 1), made(0, 2)):
        with pytest.raises(rs.StateMismatch) as error:
            other.resume(state)
        assert "by_epoch" not in str(error.value)


def test_without_a_repeat_the_epoch_of_the_loop_counts() -> None:
    for first, accepted in ((2, False), (3, True)):
        with rs.by_epoch({0: OLD}).batch(2).start(2) as iterator:
            next(iterator)
            state = iterator.get_state()
        changed = rs.by_epoch({0: OLD, first: NEW}).batch(2)
        if accepted:
            assert len(list(changed.resume(state))) == 4
            continue
        with pytest.raises(
            rs.StateMismatch, match=r"write by_epoch\(\{0: as saved, 3: as here\}\)$"
        ):
            changed.resume(state)


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(
        product(sorted({**STEPS, **ONLY_BY_INDEX}.keys() - {"mix, cycling"}), SOURCES),
        30,
        "far ahead",
    ),
)
def test_a_change_of_epochs_far_ahead_is_accepted_unless_all_may_have_been_read(
    name: str, kind: str
) -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return {**STEPS, **ONLY_BY_INDEX}[name](rs.by_epoch(chosen).repeat(90))

    old, new = SOURCES[kind](0, 9), SOURCES[kind](100, 9)
    if name in ONLY_BY_INDEX and not old.random_access:
        return
    _, state = read(made({0: old}), 5)
    changed = made({0: old, 80: new})
    if name in ("shuffle", "shuffle of blocks", "cache"):
        with pytest.raises(rs.StateMismatch, match="cannot be changed here"):
            changed.resume(state)
    else:
        changed.resume(state).close()


@pytest.mark.parametrize("epochs", [None, 7])
@pytest.mark.parametrize("cut", range(0, 10, 2))
@pytest.mark.parametrize("name", ["batch", "skip"])
def test_what_was_planned_for_epochs_that_were_not_begun_is_given_up(
    name: str, cut: int, epochs: int | None
) -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        repeated = rs.by_epoch(chosen).repeat(epochs)
        return repeated.batch(2) if name == "batch" else repeated.skip(2 * cut)

    passed, state = read(made({0: OLD, 3: NEW, 5: NEWEST}), cut)  # up to 24 items, in epoch 2
    plans: list[Pipelines] = [{0: OLD}, {0: OLD, 3: NEW}, {0: OLD, 3: NEWEST}, {0: OLD, 4: NEW}]
    for chosen in plans:
        rest, _ = read(made(chosen), 30, state)
        assert_same(passed + rest, read(made(chosen), cut + 30)[0], str(chosen))


def test_what_was_planned_for_later_epochs_of_a_repeat_in_a_repeat_is_exchanged() -> None:
    def made(chosen: Pipelines) -> rs.Pipeline[Any]:
        return rs.by_epoch(chosen).repeat(3).repeat(5)

    passed, state = read(made({0: OLD, 6: NEW, 8: OLD}), 30)  # in epoch 3
    plans: list[Pipelines] = [
        {0: OLD},
        {0: OLD, 7: NEW},
        {0: OLD, 6: NEWEST, 7: OLD},
        {0: OLD, 9: NEW},
    ]
    for chosen in plans:
        rest, _ = read(made(chosen), 90, state)
        assert_same(passed + rest, read(made(chosen), 120)[0], str(chosen))


def test_partitions_are_changed_from_the_epoch_on_that_none_has_begun() -> None:
    def made(chosen: Pipelines, workers: int = 0) -> rs.Pipeline[Any]:
        parts = rs.by_epoch(chosen)
        return parts.partition(3, lambda part: part.shuffle(2).repeat(5), workers=workers)

    passed, state = read(made({0: OLD}, workers=2), 14)
    with pytest.raises(rs.StateMismatch) as error:
        made({0: OLD, 1: NEW}).resume(state)
    assert advised(error.value) == {0: "saved", 2: "here"}
    changed = made({0: OLD, 2: NEW}, workers=2)
    assert passed + list(changed.resume(state)) == list(changed)


def test_weights_within_one_of_the_pipelines_stay() -> None:
    def made(weights: Any) -> rs.Pipeline[Any]:
        mixed = rs.mix(rs.range(40), rs.range(100, 140), weights=weights)
        return rs.by_epoch({0: mixed, 2: NEW}).repeat(3)

    _, state = read(made((1, 1)), 5)
    made({0: (1, 1), 30: (1, 2)}).resume(state).close()
    with pytest.raises(rs.StateMismatch, match="write weights="):
        made({0: (1, 1), 3: (1, 2)}).resume(state)


def test_a_state_shows_the_position_at_the_pipeline_of_its_epoch() -> None:
    changing = rs.by_epoch({0: OLD, 2: NEW}).shuffle(1)
    for made, count in ((changing.repeat(), 20), (changing.repeat(3), 20)):
        _, state = read(made, count)
        lines = "\n".join(tree_lines(stage_tree(state))).split("Shuffle")
        assert "position 2" in lines[2]
        assert "position 2" not in lines[1]
    with changing.start(2) as iterator:
        next(iterator)
        lines = "\n".join(tree_lines(stage_tree(iterator.get_state()))).split("Shuffle")
    assert ["position 1" in line for line in lines] == [False, False, True]


def test_no_by_epoch_is_advised_for_what_concerns_the_whole_run() -> None:
    def within(count: int) -> rs.Pipeline[Any]:
        return rs.range(20).partition(count, lambda part: part.shuffle(0).repeat(3))

    def before(count: int) -> rs.Pipeline[Any]:
        return rs.range(20).partition(count, lambda part: part.map(float)).repeat(3)

    for made in (within, before):
        _, state = read(made(4), 5)
        with pytest.raises(rs.StateMismatch, match=r"number of partitions is fixed for a run$"):
            made(5).resume(state)
    _, state = read(rs.range(5).repeat(3), 7)
    state["fingerprint"] = state["fingerprint"].replace('"Range"', '"Range@9"')
    with pytest.raises(rs.StateMismatch, match=r"a newer version of the library\?$"):
        rs.range(5).repeat(3).resume(state)
    with pytest.raises(rs.StateMismatch, match="write by_epoch"):
        rs.range(5).repeat(3).resume(read(rs.range(6).repeat(3), 7)[1])
