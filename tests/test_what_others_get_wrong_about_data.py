"""One test for each fault in what other loaders take for the same data, or make of it."""

from __future__ import annotations

import itertools
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.command import run_code

import resumable as rs
from resumable.sources.recent import Recent, sample
from resumable.stages.zip import Zip
from resumable.testing.comparing import same


class Count:
    """An iterator with get_state/set_state that counts from any number on."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.number += 1
        return self.number - 1

    def get_state(self) -> dict[str, int]:
        return {"number": self.number}

    def set_state(self, state: dict[str, int]) -> None:
        self.number = state["number"]


def state_after(pipeline: rs.Pipeline[Any], steps: int) -> dict[str, Any]:
    """A state in the middle of a pass, through bytes."""
    with iter(pipeline) as iterator:
        iterator.pull(steps)
        return rs.loads(rs.dumps(iterator.get_state()))


def test_a_state_before_the_first_item_holds_where_the_iterator_stood() -> None:
    start = state_after(rs.from_iterable(Count(5)), 0)
    iterator = rs.from_iterable(Count(0)).resume(start)
    assert [next(iterator), next(iterator)] == [5, 6]
    again = rs.from_iterable(Count(0)).resume(start).get_state()
    assert again == start, "a state that was not used yet is the same when it is taken again"


def test_a_state_before_the_first_item_holds_where_a_file_stood(tmp_path: Any) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    with open(tmp_path / "f") as file:
        file.readline()
        start = state_after(rs.from_iterable(file), 0)
    with open(tmp_path / "f") as file:
        assert list(rs.from_iterable(file).resume(start)) == ["b\n", "c\n"]


def test_a_position_without_the_state_of_the_iterator_is_refused() -> None:
    by_count = state_after(rs.from_iterable(lambda: iter(range(9))), 3)
    with pytest.raises(rs.StateMismatch, match=r"saved position=3 without a state for get_state"):
        rs.from_iterable(Count(0)).resume(by_count)


MASKED = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [True, False]])
ONE_MASKED = np.ma.array([1, 2, 3], mask=[False, True, False])


@pytest.mark.parametrize("masked", [MASKED, ONE_MASKED], ids=["rows", "numbers"])
def test_a_masked_array_is_refused_since_its_rows_would_lose_the_mask(masked: Any) -> None:
    way_out = r"must not be masked.*\{'data': a\.data, 'mask': numpy\.ma\.getmaskarray\(a\)\}"
    for arrays in (masked, (np.arange(len(masked)), masked), {"x": masked}):
        with pytest.raises(rs.InvalidType, match=way_out):
            rs.from_arrays(arrays)
    with pytest.raises(rs.InvalidType, match=way_out):
        rs.from_sequence(masked)
    both = {"data": masked.data, "mask": np.ma.getmaskarray(masked)}
    (batch,) = rs.from_arrays(both).batch(len(masked))
    assert same(batch, both)


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element")
@pytest.mark.parametrize(
    "items",
    [list(MASKED), list(ONE_MASKED), [1, np.ma.masked], [1.5, np.ma.masked], [np.eye(2), MASKED]],
    ids=["rows", "scalars", "integers", "floats", "mixed"],
)
def test_a_batch_of_masked_items_is_refused_unless_the_user_says_how(items: list[Any]) -> None:
    with pytest.raises(rs.MalformedItem, match=r"masked.*collate.*numpy\.ma\.stack"):
        list(rs.from_sequence(items).batch(len(items)))


def test_a_masked_batch_comes_apart_with_its_mask() -> None:
    def batched(masked: Any) -> Any:
        return rs.from_sequence(list(masked)).batch(len(masked), collate=np.ma.stack)

    for masked in (MASKED, ONE_MASKED):
        (batch,) = batched(masked)
        assert same(np.ma.getmaskarray(batch), np.ma.getmaskarray(masked))
        (again,) = batched(masked).unbatch().batch(len(masked), collate=np.ma.stack)
        assert same(np.ma.getmaskarray(again), np.ma.getmaskarray(masked))


@pytest.mark.parametrize(
    "items",
    [
        [2**63, -1, 2**53 + 1],
        [2**63, -1],
        [2**53 + 1, 0.5],
        [0.5, float("nan"), 2**53 + 1],
        [2**53 + 1, 1j],
        [1, np.uint64(2**63 + 1), 0.5],
        [np.uint64(2**63 + 1), np.int64(-1)],
        [np.array([0.5]), np.array([2**53 + 1])],
    ],
    ids=str,
)
def test_numbers_that_no_dtype_holds_exactly_stay_a_list(items: list[Any]) -> None:
    (batch,) = rs.from_sequence(items).batch(len(items))
    assert same(batch, items)


@pytest.mark.parametrize(
    ("items", "batch"),
    [
        ([2**63, 1], np.array([2**63, 1], np.uint64)),
        ([2**64 - 1, 0], np.array([2**64 - 1, 0], np.uint64)),
        ([2**53, 0.5], np.array([2.0**53, 0.5])),
        ([1, float("nan"), float("inf"), 2**60], np.array([1, np.nan, np.inf, 2.0**60])),
        ([np.array([0.5]), np.array([2**53])], np.array([[0.5], [2.0**53]])),
    ],
    ids=str,
)
def test_numbers_that_a_dtype_holds_exactly_are_stacked(items: list[Any], batch: Any) -> None:
    (stacked,) = rs.from_sequence(items).batch(len(items))
    assert same(stacked, batch)


def test_a_batch_of_empty_dicts_keeps_their_number() -> None:
    empty: list[list[dict[str, Any]]] = [[{}, {}], [{"a": {}}, {"a": {}}]]
    for items in empty:
        pipeline = rs.from_sequence(items).batch(2)
        assert list(pipeline.unbatch()) == items
    with pytest.raises(rs.MalformedItem, match="collate"):
        list(rs.from_sequence([{}, {"a": 1}]).batch(2))


def in_the_order_of_a_list(items: list[Any]) -> rs.Pipeline[Any]:
    return rs.from_iterable(lambda: iter(items))


ITEMS: dict[str, list[Any]] = {
    "integers": list(range(20)),
    "large integers": [2**64 + number for number in range(20)],
    "floats": [number / 7 for number in range(20)],
    "words": [f"word {number}" for number in range(20)],
    "bytes": [b"%d" % number for number in range(20)],
    "long texts": ["x" * 1000 + str(number) + "\ud800" for number in range(20)],
    "rows": [(number, None) for number in range(20)],
    "lists": [[0, number] for number in range(20)],
    "dicts": [{"path": f"{number}.png", "at": object(), 3: None} for number in range(20)],
    "arrays": [np.full((3, 40), number, np.float32) for number in range(20)],
    "scalars": [np.int16(number) for number in range(20)],
}


@pytest.mark.parametrize("name", ITEMS)
def test_a_source_that_is_iterated_in_another_order_is_refused(name: str) -> None:
    items = ITEMS[name]
    state = state_after(in_the_order_of_a_list(items), 7)
    assert len(list(in_the_order_of_a_list(items).resume(state))) == 13
    reason = (
        r"FromIterable at pipeline: the items before position 7 differ from those of the save: "
        r"does the source deliver the same order in every run\?"
    )
    for number in (3, 4, 5, 6):
        other = items.copy()
        other[number], other[number + 7] = other[number + 7], other[number]
        with pytest.raises(rs.StateMismatch, match=reason):
            next(in_the_order_of_a_list(other).resume(state))


def test_a_set_that_is_iterated_under_another_hash_seed_is_refused() -> None:
    words = (
        "import resumable as rs; p = rs.from_iterable(lambda: iter({f'w{n}' for n in range(99)}));"
    )
    save = f"{words} i = iter(p); i.pull(50); print(rs.dumps(i.get_state()).hex())"
    saved = run_code(save, PYTHONHASHSEED="1").stdout.strip()
    resume = f"{words} print(next(p.resume(rs.loads(bytes.fromhex('{saved}')))))"
    assert run_code(resume, PYTHONHASHSEED="1").stdout.startswith("w")
    refused = run_code(resume, PYTHONHASHSEED="2").stderr
    assert "the items before position 50 differ from those of the save" in refused


def test_other_items_are_read_on_where_the_policy_says_so() -> None:
    state = state_after(in_the_order_of_a_list(list(range(9))), 5)

    def reversed_order(policy: str) -> rs.Pipeline[int]:
        numbers = range(8, -1, -1)
        return rs.from_iterable(lambda: iter(numbers), external_state_policy=policy)

    with pytest.warns(RuntimeWarning, match="the items before position 5 differ"):
        assert list(reversed_order("warn").resume(state)) == [3, 2, 1, 0]
    assert list(reversed_order("ignore").resume(state)) == [3, 2, 1, 0]


def test_what_the_loop_does_to_an_item_does_not_change_what_is_compared() -> None:
    def fresh() -> Iterator[Any]:
        for number in range(9):
            yield {"id": number, "tags": [number], "row": np.full(50, number)}
            yield [number] * 3
            yield np.arange(number, number + 30)

    pipeline = rs.from_iterable(fresh)
    for steps in range(1, 20):
        with iter(pipeline) as iterator:
            for item in itertools.islice(iterator, steps):
                if isinstance(item, dict):
                    item["row"][:] = 0
                    item.clear()
                else:
                    item[:] = item[:1] * 0
            state = rs.loads(rs.dumps(iterator.get_state()))
        assert len(list(pipeline.resume(state))) == 27 - steps


def test_what_differs_between_equal_runs_is_not_compared() -> None:
    def fresh() -> Iterator[Any]:
        for number in range(9):
            yield object(), {"a", "b"}, number / 3 * (1 + 1e-15 * random.random())

    pipeline = rs.from_iterable(fresh)
    assert len(list(pipeline.resume(state_after(pipeline, 6)))) == 3


@pytest.mark.parametrize("name", ITEMS)
def test_the_digest_of_items_is_a_few_bytes(name: str) -> None:
    state = state_after(in_the_order_of_a_list(ITEMS[name]), 7)
    assert len(rs.dumps(state["pipeline"])) < 40


def compared_at(position: int) -> list[int]:
    """The numbers of the items that a state at ``position`` has a digest of."""
    return [number for number in range(position) if number < 16 or number % 16 == 0][-4:]


@pytest.mark.parametrize("seed", range(5))
def test_the_digest_at_a_position_is_the_same_however_the_loop_came_to_it(seed: int) -> None:
    items = list(range(1000, 1400))
    pipeline = in_the_order_of_a_list(items)
    chosen = random.Random(seed)
    iterator, position = iter(pipeline), 0
    while position < len(items):
        count = chosen.choice([1, 1, 2, 3, 15, 16, 17, 40])
        way = chosen.choice(["next", "pull", "skip", "resume"])
        if way == "resume":
            state = rs.loads(rs.dumps(iterator.get_state()))
            iterator.close()
            iterator, count = pipeline.resume(state), 1
        if way == "pull":
            position += len(iterator.pull(count))
        elif way == "skip":
            position += iterator.skip(count)
        else:
            position += len(list(itertools.islice(iterator, count)))
        alone = Recent()
        for number in compared_at(position):
            alone.append(sample(items[number]))
        assert iterator.get_state()["pipeline"]["last"] == alone.digest(position), position
    iterator.close()


@pytest.mark.parametrize("position", [16, 17, 30, 32, 33, 64, 65, 100])
def test_one_item_in_sixteen_is_compared_after_the_first_sixteen(position: int) -> None:
    items = list(range(120))
    state = state_after(in_the_order_of_a_list(items), position)
    for number in range(position):
        other = items.copy()
        other[number] = -1
        resumed = in_the_order_of_a_list(other).resume(state)
        if number in compared_at(position):
            with pytest.raises(rs.StateMismatch, match=f"before position {position} differ"):
                next(resumed)
        else:
            assert next(resumed) == position


def test_large_items_are_let_go_of() -> None:
    kept: list[weakref.ref[Any]] = []

    def fresh() -> Iterator[Any]:
        for number in range(9):
            item = np.full(10_000, number)
            kept.append(weakref.ref(item))
            yield item
            del item

    with iter(rs.from_iterable(fresh)) as iterator:
        for _ in range(5):
            next(iterator)
        assert [item() for item in kept[:4]] == [None] * 4  # the generator holds the last


def test_a_state_that_resumed_by_count_is_compared_again() -> None:
    state = state_after(in_the_order_of_a_list(list(range(9))), 5)
    resumed = in_the_order_of_a_list(list(range(9))).resume(state)
    assert resumed.get_state() == state, "before anything is read"
    next(resumed)
    later = resumed.get_state()
    with pytest.raises(rs.StateMismatch, match="the items before position 6 differ"):
        next(in_the_order_of_a_list([*range(8, -1, -1)]).resume(later))


SOURCES: dict[str, Callable[[Any], rs.Pipeline[Any]]] = {
    "from_sequence": lambda identity: rs.from_sequence(range(9), identity=identity),
    "from_arrays": lambda identity: rs.from_arrays(np.arange(9), identity=identity),
    "from_iterable": lambda identity: rs.from_iterable(lambda: iter(range(9)), identity=identity),
    "by index": lambda identity: rs.from_iterable(range(9), identity=identity),
}
FILES = [f"image-{number}.png" for number in range(1000)]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(
    ("saved", "now", "shown"),
    [
        ("v1", "v2", r"identity=v1, this pipeline has identity=v2; were items"),
        (None, "v2", r"identity=None, this pipeline has identity=v2"),
        (
            ["a", "b"],
            ["ab"],
            r'identity=\["a", "b"\], this pipeline has identity=\["ab"\]',
        ),
        (
            FILES,
            [*FILES[:-1], "other.png"],
            r"identity=1000 strings, digest [0-9a-f]{24}, this",
        ),
        (FILES, FILES[::-1], r"identity=1000 strings, digest"),
        (["x" * 999, "y"], ["x" * 998, "xy"], r"identity=2 strings, digest"),
    ],
)
def test_data_that_are_not_those_of_the_save_are_refused(
    name: str, saved: Any, now: Any, shown: str
) -> None:
    make = SOURCES[name]
    state = state_after(make(saved).map(str), 4)
    assert len(rs.dumps(state)) < 300
    assert list(make(saved).map(str).resume(state)) == list("45678")
    with pytest.raises(rs.StateMismatch, match=f"at pipeline.upstream: saved {shown}"):
        make(now).map(str).resume(state)


def test_a_source_without_an_identity_is_known_as_before() -> None:
    assert rs.from_sequence("abc").fingerprint == '["FromSequence",{"length":3}]'


COMBINED: dict[str, Callable[[Any], rs.Pipeline[Any]]] = {
    "zip": rs.zip,
    "concatenate": rs.concatenate,
    "interleave": rs.interleave,
    "mix": rs.mix,
    "mix of streams": lambda inputs: rs.mix({key: one.filter(str) for key, one in inputs.items()}),
}


@pytest.mark.parametrize("name", COMBINED)
def test_named_inputs_in_another_order_are_refused_by_name(name: str) -> None:
    make = COMBINED[name]
    web, books = rs.range(20), rs.range(100, 120)
    state = state_after(make({"web": web, "books": books}), 5)
    whole = list(make({"web": web, "books": books}))
    assert list(make({"web": web, "books": books}).resume(state)) == whole[5:]
    for others in ({"books": books, "web": web}, {"web": web, "papers": books}):
        with pytest.raises(
            rs.StateMismatch,
            match=r"saved names of pipelines=\['web', 'books'\], this pipeline has names of pipelines=.* put in another order",
        ):
            make(others).resume(state)


def test_the_items_of_named_inputs_are_those_of_the_inputs_in_order() -> None:
    left, right = rs.range(6), rs.from_arrays({"x": np.arange(6.0)})
    pair = {"left": left, "right": right}
    rows = [{"left": number, "right": {"x": float(number)}} for number in range(6)]
    for zipped in (rs.zip(pair), rs.zip({key: each.filter(str) for key, each in pair.items()})):
        assert list(zipped) == rows
    (batch,) = rs.zip(pair).batch(6)
    assert same(batch, {"left": np.arange(6), "right": {"x": np.arange(6.0)}})
    assert rs.zip(pair).random_access
    for combine in (rs.concatenate, rs.interleave, rs.mix):
        assert list(combine(pair)) == list(combine(left, right))
    weighted = rs.mix(pair, weights={"right": 1, "left": 2})
    assert list(weighted) == list(rs.mix(left, right, weights=[2, 1]))


NUMBER: Any = 3
SET: Any = {"a"}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rs.from_sequence([1], identity=NUMBER),
            rs.InvalidType,
            "identity must be a string or",
        ),
        (lambda: rs.from_arrays(np.eye(2), identity=["a", NUMBER]), rs.InvalidType, "of strings"),
        (lambda: rs.from_iterable([1], identity=SET), rs.InvalidType, r"identity .*got \{'a'\}"),
        (lambda: rs.mix({}), rs.InvalidArgument, "at least one upstream"),
        (
            lambda: rs.zip({1: rs.range(2)}),
            rs.InvalidType,
            "names of upstreams must be strings, got 1",
        ),
        (
            lambda: rs.mix({"a": rs.range(2)}, weights={"b": 1}),
            rs.InvalidArgument,
            r"weights must have the names of the pipelines, \('a',\), got \{'b': 1\}",
        ),
        (
            lambda: rs.mix(rs.range(2), weights={"a": 1}),
            rs.InvalidArgument,
            r"weights must have the names of the pipelines, None",
        ),
        (
            lambda: Zip((rs.range(2), rs.range(2)), names=("a", "a")),  # type: ignore[arg-type]
            rs.InvalidArgument,
            "names must be one for each of 2 upstreams, all different",
        ),
    ],
)
def test_what_identifies_nothing_is_refused(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_function_that_is_changed_between_two_epochs_is_changed_in_workers_too() -> None:
    pytest.importorskip("loky", reason="loky is not installed")
    lessons = {"times": 1}
    pipeline = rs.range(4).map(lambda item: item * lessons["times"], workers=1, executor="process")
    with iter(pipeline.repeat(3)) as iterator:
        got = list(itertools.islice(iterator, 8))
        lessons["times"] = 10
        got += iterator
    assert got == [0, 1, 2, 3, 0, 1, 2, 3, 0, 10, 20, 30]
