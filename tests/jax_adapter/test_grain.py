"""Data sets of Grain as pipelines: the same items, exact at every cut, and nothing is left behind."""

from __future__ import annotations

import doctest
import multiprocessing
import pickle
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import DOCS, blocks
from support.tiers import is_deep
from support.waiting import wait_until

grain = pytest.importorskip("grain", reason="grain is not installed")

import resumable_jax.grain  # noqa: E402
from jax_adapter.grain_data import (  # noqa: E402
    ITEMS,
    THREADS,
    Gaps,
    is_even,
    loader,
    map_datasets,
    numbers,
    start_lasting_threads,
    streams,
    with_noise,
)
from resumable_jax.grain import from_grain  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.testing import check_resumes_everywhere  # noqa: E402

MAPS = map_datasets()


@pytest.fixture(scope="module")
def lasting_threads() -> None:
    start_lasting_threads()


def shown(items: Any) -> list[Any]:
    """Items as text, so that arrays can be compared."""
    return [repr(item) for item in items]


def is_exact_at_every_cut(pipeline: rs.Pipeline[Any]) -> None:
    """The short form of `check_resumes_everywhere`."""
    with iter(pipeline) as iterator:
        states, items = [rs.dumps(iterator.get_state())], []
        for item in iterator:
            items.append(item)
            states.append(rs.dumps(iterator.get_state()))
        states.append(rs.dumps(iterator.get_state()))
    for position, state in enumerate(states):
        with pipeline.resume(rs.loads(state)) as resumed:
            assert rs.dumps(resumed.get_state()) == state
            if position < len(items):
                assert shown([next(resumed)]) == shown([items[position]])
                assert rs.dumps(resumed.get_state()) == states[position + 1]
            assert shown(resumed) == shown(items[position + 1 :])


def whole_batches(size: int) -> Any:
    return numbers(11).batch(size, drop_remainder=True)


def mixed(*weights: int) -> Any:
    return grain.MapDataset.mix([numbers(30), numbers(30).map(str)], weights=weights)


def with_random_map(seed: int) -> Any:
    return numbers(9).random_map(with_noise, seed=seed)


def grain_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("grain")]


def chains(dataset: Any) -> Any:
    """Strategy of what a few more transformations make of ``dataset``."""
    steps = st.sampled_from(
        [
            lambda before, n: before.repeat(500).shuffle(n)[:7],
            lambda before, n: before.seed(n).random_map(lambda item, rng: (item, rng.integers(99))),
            lambda before, n: before[n % 3 :: 1 + n % 4],
            lambda before, n: before.map(lambda item: [item]),
            lambda before, n: before.repeat(1 + n % 3),
            lambda before, n: before.filter(lambda item: hash(str(item)) % (2 + n) > 0),
            lambda before, n: grain.MapDataset.concatenate([before, numbers(n)]),
        ]
    )

    def made(chosen: list[tuple[Any, int]]) -> Any:
        result = dataset
        for step, number in chosen:
            result = step(result, number) if len(result) else result
        return result

    return st.lists(st.tuples(steps, st.integers(1, 9)), max_size=4).map(made)


@pytest.mark.parametrize("name", MAPS)
def test_epochs_of_the_pipeline_are_those_of_the_data_set(name: str) -> None:
    dataset = MAPS[name]
    pipeline = from_grain(dataset)
    repeated = shown(dataset.repeat(3))
    assert shown(pipeline.repeat(3)) == repeated
    assert shown(from_grain(dataset.repeat(3))) == repeated
    assert shown(pipeline.start(epoch=1)) == shown(dataset[i] for i in _indices(dataset, 1))
    assert pipeline.random_access is not any(word in name for word in ("filter", "flat map"))


def _indices(dataset: Any, epoch: int) -> list[int]:
    """The indices of an epoch that have an item."""
    length = len(dataset)
    return [i for i in range(epoch * length, (epoch + 1) * length) if dataset[i] is not None]


@pytest.mark.parametrize("name", MAPS)
def test_a_map_data_set_resumes_everywhere(name: str) -> None:
    pipeline = from_grain(MAPS[name]).repeat(2)
    is_exact_at_every_cut(pipeline)
    if is_deep():
        check_resumes_everywhere(pipeline)


@given(dataset=chains(numbers(4096).shuffle(1)[:6]), epochs=st.integers(1, 3))
def test_any_chain_gives_what_grain_gives(dataset: Any, epochs: int) -> None:
    pipeline = from_grain(dataset)
    if not len(dataset):
        assert list(pipeline.repeat(epochs)) == []
        return
    assert list(pipeline.repeat(epochs)) == list(dataset.repeat(epochs))
    is_exact_at_every_cut(pipeline.repeat(epochs))
    if pipeline.random_access:
        assert pipeline[:] == pipeline[list(range(len(dataset)))] == list(dataset)


@pytest.mark.parametrize("name", streams())
def test_a_stream_resumes_everywhere(name: str) -> None:
    dataset = streams()[name]
    pipeline = from_grain(dataset)
    if name != "elastic":  # which is its own iterator, and can be read once
        assert shown(pipeline) == shown(dataset)
    is_exact_at_every_cut(pipeline)
    if is_deep():
        check_resumes_everywhere(pipeline.repeat(2).batch(2, collate=list), generations=1)


@pytest.mark.parametrize("name", streams())
def test_a_state_of_a_stream_does_not_change_later(name: str) -> None:
    with iter(from_grain(streams()[name])) as iterator:
        states = [iterator.get_state()]
        then = [rs.dumps(states[0])]
        for _ in iterator:
            states.append(iterator.get_state())
            then.append(rs.dumps(states[-1]))
        assert [rs.dumps(state) for state in states] == then


@pytest.mark.parametrize("name", streams())
def test_threads_of_a_stream_end_when_its_iterator_is_closed(name: str) -> None:
    iterator = iter(from_grain(streams()[name]))
    next(iterator)
    assert name in ("plain", "interleave", "cache", "elastic") or grain_threads()
    iterator.close()
    if name == "loader":  # whose iterator has no `close`
        del iterator
    wait_until(lambda: not grain_threads())


def test_processes_of_a_stream_end_when_its_iterator_is_closed(lasting_threads: None) -> None:
    options = grain.MultiprocessingOptions(num_workers=2)
    dataset = numbers(12).shuffle(1).to_iter_dataset(THREADS).filter(is_even).mp_prefetch(options)
    pipeline = from_grain(dataset)
    with iter(pipeline) as iterator:
        first = list(islice(iterator, 2))
        state = rs.dumps(iterator.get_state())
        whole = first + list(iterator)
    assert sorted(whole) == list(range(0, 12, 2))
    with pipeline.resume(rs.loads(state)) as resumed:
        assert first + list(resumed) == whole
    wait_until(lambda: not multiprocessing.active_children())


@pytest.mark.deep
@pytest.mark.parametrize("make", ["batches", "window", "loader"])
def test_a_stream_with_processes_resumes_everywhere(make: str, lasting_threads: None) -> None:
    options = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)
    before = numbers(11).shuffle(1).to_iter_dataset(THREADS).filter(is_even)
    dataset = {
        "batches": lambda: before.batch(2).mp_prefetch(options),
        "window": lambda: grain.experimental.WindowShuffleIterDataset(
            before.mp_prefetch(options), window_size=3, seed=1
        ),
        "loader": lambda: loader(range(11), workers=2, epochs=1),
    }[make]()
    pipeline = from_grain(dataset)
    with iter(pipeline) as iterator:
        states, items = [rs.dumps(iterator.get_state())], []
        for item in iterator:
            items.append(item)
            states.append(rs.dumps(iterator.get_state()))
    assert len(items) >= 3
    for position, state in enumerate(states):
        with pipeline.resume(rs.loads(state)) as resumed:
            assert shown(resumed) == shown(items[position:])
    del iterator, resumed
    wait_until(lambda: not multiprocessing.active_children())


def test_ranks_may_change_behind_a_map_data_set() -> None:
    pipeline = from_grain(numbers(20).seed(3).shuffle().random_map(with_noise)).repeat(2)
    ranks = [iter(pipeline.shard(rank, 2)) for rank in range(2)]
    done = [next(rank) for _ in range(2) for rank in ranks]
    state = ranks[0].get_state()
    ranks = [iter(pipeline.shard(rank, 3).resume(state)) for rank in range(3)]
    done += [next(rank) for _ in range(12) for rank in ranks]
    assert done == list(pipeline)


def test_a_resume_asks_for_no_item_before_the_position() -> None:
    asked: list[int] = []

    def noted(number: int) -> int:
        asked.append(number)
        return number

    pipeline = from_grain(numbers(10**12).map(noted))
    state = {**iter(pipeline).get_state(), "step": 10**11, "pipeline": {"position": 10**11}}
    assert next(pipeline.resume(state)) == 10**11
    assert asked == [10**11]


def test_a_data_set_without_end_is_an_endless_pipeline() -> None:
    dataset = numbers(5).shuffle(1)
    pipeline = from_grain(dataset.repeat())
    assert pipeline.length == np.inf
    assert pipeline[10**18] == dataset[10**18]
    assert list(pipeline.take(12)) == list(dataset.repeat(3))[:12]
    assert list(from_grain(dataset.repeat().filter(is_even)).take(7)) == list(
        islice(dataset.repeat().filter(is_even), 7)
    )
    is_exact_at_every_cut(pipeline.take(12))


def test_none_is_left_out_or_refused_but_never_an_item() -> None:
    pipeline = from_grain(Gaps())
    assert pipeline.random_access
    assert pipeline[1] == 1
    with pytest.raises(rs.MalformedItem, match=r"item 2 of .*Gaps.* is None.*filtered=True"):
        list(pipeline)
    with pytest.raises(rs.MalformedItem, match="item 2 of"):
        pipeline.gather(np.array([0, 2]))
    assert list(from_grain(Gaps(), filtered=True)) == [0, 1, 3]
    with pytest.raises(rs.MalformedItem, match="item 1 of"):
        list(from_grain(numbers().filter(is_even), filtered=False))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: numbers(9).shuffle(2), "by its seeds"),
        (lambda: numbers(8).shuffle(1), r"len\(dataset\)=9, this pipeline has len\(dataset\)=8"),
        (lambda: numbers(9).map(str).shuffle(1), "by its structure"),
        (lambda: numbers(9), "by its structure"),
        (lambda: numbers(9).shuffle(1).filter(is_even), "Filter"),
    ],
)
def test_a_state_of_another_data_set_is_refused(other: Any, reason: str) -> None:
    state = iter(from_grain(numbers(9).shuffle(1))).get_state()
    with pytest.raises(rs.StateMismatch, match=reason):
        from_grain(other()).resume(state)
    assert len(list(from_grain(numbers(9).shuffle(1)).resume(state))) == 9


@pytest.mark.parametrize(
    ("saved", "other", "reason"),
    [
        (numbers(20)[:10], numbers(20)[5:15], "structure"),
        (numbers(20)[:10], numbers(20)[::2], "structure"),
        (grain.MapDataset.range(0, 10), grain.MapDataset.range(5, 15), "structure"),
        (grain.MapDataset.range(0, 10), grain.MapDataset.range(0, 20, 2), "structure"),
        (whole_batches(5), whole_batches(4), "structure"),
        (mixed(1, 3), mixed(3, 1), "structure"),
        (with_random_map(1), with_random_map(2), "seeds"),
        (numbers(9).seed(1).random_map(with_noise), numbers(9).seed(2).random_map(with_noise), "s"),
        (MAPS["repeat alike"], MAPS["repeat"], "structure"),
    ],
)
def test_a_state_is_refused_where_only_an_argument_of_a_transformation_is_another(
    saved: Any, other: Any, reason: str
) -> None:
    assert len(saved) == len(other)
    with iter(from_grain(saved)) as iterator:
        next(iterator)
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match=f"by its {reason}"):
        from_grain(other).resume(state)
    assert len(list(from_grain(saved).resume(state))) == len(saved) - 1


@pytest.mark.parametrize(
    "alike",
    [numbers(20)[0:10:2], grain.MapDataset.range(np.int64(0), np.int64(20), np.int64(1))[:9:2]],
)
def test_the_same_items_told_otherwise_are_the_same_data_set(alike: Any) -> None:
    state = iter(from_grain(numbers(20)[0:9:2])).get_state()
    assert list(from_grain(alike).resume(state)) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("dataset", [numbers(), numbers().to_iter_dataset()])
def test_a_state_of_other_data_is_refused_by_what_identifies_them(dataset: Any) -> None:
    state = iter(from_grain(dataset, identity="a")).get_state()
    from_grain(dataset, identity="a").resume(state)
    with pytest.raises(rs.StateMismatch, match="saved identity=a, this pipeline has identity=b"):
        from_grain(dataset, identity="b").resume(state)


def test_a_pipeline_over_a_used_data_set_can_be_pickled() -> None:
    dataset = numbers().seed(3).shuffle().random_map(with_noise)
    pipeline = from_grain(dataset)
    expected = list(pipeline)
    assert list(dataset) == expected
    copied = pickle.loads(pickle.dumps(pipeline))
    assert list(copied) == expected
    assert list(copied.resume(iter(pipeline).get_state())) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (range(5), "got range.*use from_sequence"),
        (iter(numbers().to_iter_dataset()), "pass what it iterates"),
        (iter(loader(range(5), workers=0)), "pass what it iterates"),
        (None, "must be a grain.MapDataset"),
    ],
)
def test_what_is_no_data_set_of_grain_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(rs.InvalidType, match=reason):
        from_grain(value)


def test_a_stream_is_not_told_whether_it_is_filtered() -> None:
    with pytest.raises(rs.InvalidArgument, match=r"filtered must be None .* got True"):
        from_grain(numbers().to_iter_dataset(), filtered=True)
    with pytest.raises(rs.InvalidType, match="identity must be a string"):
        from_grain(numbers(), identity=3)  # type: ignore[arg-type]


def test_its_length_is_part_of_the_fingerprint_and_its_name_is_shown() -> None:
    pipeline = from_grain(numbers().shuffle(1))
    assert len(pipeline) == ITEMS
    assert repr(pipeline) == f"Pipeline(FromMapDataset(ShuffleMapDataset, {ITEMS} items, by index))"


def test_the_page_for_those_who_come_from_grain_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks that need Grain, which the tests of the pages do not run."""
    monkeypatch.chdir(tmp_path)
    page = DOCS / "coming-from" / "grain.md"
    ported, in_steps = (
        page.read_text(encoding="utf-8")[: page.read_text(encoding="utf-8").index(heading)].count(
            "\n"
        )
        for heading in ("\nHere:\n", "\n## In steps\n")
    )
    names: dict[str, Any] = {}
    run = 0
    for line, info, text in blocks(page):
        if line > ported and (info == "python" or (info == "py" and line > in_steps)):
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
            run += 1
    assert run == 3
    assert names["first"]["y"].shape == (32,)
    names["iterator"].close()


def test_examples_in_its_documentation_are_true() -> None:
    module = resumable_jax.grain
    names = {**vars(module), "rs": rs, "grain": grain}
    assert doctest.testmod(module, extraglobs=names).failed == 0
