"""Pipelines as data sources of Grain: its shuffles, loaders and checkpoints over our files."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import ROOT, run_python
from support.graphs import catalogue
from support.waiting import wait_until

grain = pytest.importorskip("grain", reason="grain is not installed")

from jax_adapter.grain_data import THREADS, is_even, loader, start_lasting_threads  # noqa: E402
from resumable_jax.grain import GrainSource, from_grain  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.core.graph import walk  # noqa: E402
from resumable.core.stage import runs_ahead  # noqa: E402


@pytest.fixture(scope="module")
def lasting_threads() -> None:
    start_lasting_threads()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "numbers.jsonl"
    file.write_text("".join(f'{{"number": {i}}}\n' for i in range(200)), encoding="utf-8")
    return file


def number(record: dict[str, int]) -> int:
    return record["number"]


def shown(items: Any) -> list[str]:
    return [repr(item) for item in items]


def test_every_pipeline_is_a_source_with_its_items_or_refused(catalogue_data: Path) -> None:
    given, refused = [], []
    for name, make in catalogue(catalogue_data).items():
        pipeline = make()
        ahead = any(runs_ahead(stage) for stage, _ in walk(pipeline.stage))
        if not pipeline.random_access or pipeline.length == np.inf or ahead:
            with pytest.raises(rs.InvalidArgument, match=r"pipeline must (have|not)"):
                GrainSource(pipeline)
            refused.append(name)
            continue
        source = GrainSource(pipeline)
        items = pipeline[:]
        given.append(name)
        if any(item is None for item in items):
            continue
        dataset = grain.MapDataset.source(source)
        assert isinstance(source, grain.sources.RandomAccessDataSource)
        assert shown(dataset[i] for i in range(len(dataset))) == shown(items), name
        backwards = list(range(len(items)))[::-1]
        assert shown(source._getitems(backwards)) == shown(items[::-1]), name
    assert len(given) > 20
    assert len(refused) > 20


def test_items_of_a_later_epoch_are_those_of_that_epoch() -> None:
    pipeline = rs.range(30).shuffle(0).random_map(lambda n, rng: (n, rng.integers(99)), seed=1)
    for epoch in (0, 1, 5):
        assert list(grain.MapDataset.source(GrainSource(pipeline, epoch))) == list(
            pipeline.start(epoch)
        )
    assert shown(GrainSource(pipeline, 1)._getitems(range(30))) == shown(pipeline.start(1))


def test_threads_may_look_items_up_at_the_same_time(path: Path) -> None:
    source = GrainSource(rs.jsonl(path).map(number).shuffle(0))
    expected = list(rs.jsonl(path).map(number).shuffle(0))
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            assert list(threads.map(source.__getitem__, range(200))) == expected


def test_a_data_set_over_files_resumes_by_the_state_of_grain(path: Path) -> None:
    def dataset() -> Any:
        source = GrainSource(rs.jsonl(path).map(number))
        return grain.MapDataset.source(source).seed(1).shuffle()[:24].to_iter_dataset(THREADS)

    whole = list(dataset())
    assert len(set(whole)) == 24
    iterator = iter(dataset())
    for position in range(25):
        state = json.loads(json.dumps(iterator.get_state()))
        again = iter(dataset())
        again.set_state(state)
        assert list(again) == whole[position:]
        again.close()
        next(iterator, None)
    iterator.close()
    assert list(from_grain(dataset())) == whole  # and back


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_resumes_by_the_state_of_grain(
    workers: int, path: Path, lasting_threads: None
) -> None:
    source = GrainSource(rs.jsonl(path).take(40).map(number))
    made = loader(source, workers=workers, epochs=1)
    iterator = iter(made)
    items = [next(iterator) for _ in range(4)]
    state = iterator.get_state()
    items += list(iterator)
    assert sorted(np.concatenate(items)) == list(range(40))
    again = iter(
        loader(GrainSource(rs.jsonl(path).take(40).map(number)), workers=workers, epochs=1)
    )
    again.set_state(state)
    assert shown(again) == shown(items[4:])
    other = iter(
        loader(GrainSource(rs.jsonl(path).skip(160).map(number)), workers=workers, epochs=1)
    )
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        other.set_state(state)
    del iterator, again, other
    wait_until(lambda: not multiprocessing.active_children())


REPR = """
import sys
import resumable as rs
from resumable_jax.grain import GrainSource
print(repr(GrainSource(rs.jsonl(sys.argv[1]).shuffle(3), 2)))
"""


def test_it_is_shown_alike_in_every_process(path: Path, tmp_path: Path) -> None:
    source = GrainSource(rs.jsonl(path).shuffle(3), 2)
    program = tmp_path / "program.py"
    program.write_text(REPR, encoding="utf-8")
    search = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
    printed = run_python(str(program), str(path), PYTHONPATH=search, PYTHONHASHSEED="7")
    assert printed.stdout.strip() == repr(source) == repr(pickle.loads(pickle.dumps(source)))
    assert repr(source).startswith("GrainSource(length=200, epoch=2, pipeline=")


def test_it_is_shown_differently_for_another_pipeline(path: Path, tmp_path: Path) -> None:
    pipelines = [
        rs.range(10),
        rs.range(1, 11),
        rs.range(10).shuffle(0),
        rs.range(10).shuffle(1),
        rs.range(20).shard(0, 2),
        rs.range(20).shard(1, 2),
        rs.range(20).shuffle(0).shard(0, 2),
        rs.from_sequence([0] * 10),
        rs.from_sequence([0] * 10, identity="a"),
        rs.range(10).map(abs),
        rs.range(10).map(abs, version=2),
        rs.jsonl(path).take(10),
    ]
    sources = [GrainSource(one) for one in pipelines] + [GrainSource(pipelines[0], 1)]
    assert len({repr(source) for source in sources}) == len(sources)
    before = repr(GrainSource(rs.jsonl(path)))
    path.write_text(path.read_text(encoding="utf-8").replace("7", "8"), encoding="utf-8")
    assert repr(GrainSource(rs.jsonl(path))) != before


def test_it_can_be_pickled_after_it_was_used(path: Path) -> None:
    source = GrainSource(rs.jsonl(path).map(number).shuffle(0))
    items = source._getitems(range(200))
    assert pickle.loads(pickle.dumps(source))._getitems(range(200)) == items


@pytest.mark.parametrize("index", [-1, 5, sys.maxsize])
def test_an_index_beyond_the_items_is_refused(index: int) -> None:
    source = GrainSource(rs.range(5))
    with pytest.raises(IndexError, match=f"index {index} is out of range for 5 items"):
        source[index]
    with pytest.raises(IndexError, match="is out of range"):
        source._getitems([0, index])
    assert source._getitems([]) == []
    assert source[np.int64(4)] == 4


def test_an_item_that_grain_would_leave_out_is_refused() -> None:
    source = GrainSource(rs.from_sequence([1, None]))
    assert source[0] == 1
    for look_up in (lambda: source[1], lambda: source._getitems([0, 1])):
        with pytest.raises(
            rs.MalformedItem, match=r"item 1 of .* is None, which Grain would leave"
        ):
            look_up()


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        (rs.range(5).filter(is_even), "must have random access.*leave out what ends it"),
        (rs.range(5).repeat(), "must have an end.*use that of Grain"),
        (rs.range(5).map(str, workers=2), r"no threads or processes.*Map.*at pipeline"),
        (rs.range(5).prefetch(2).map(str), r"no threads or processes.*Prefetch.*at pipeline"),
    ],
)
def test_a_pipeline_that_cannot_be_a_source_is_refused(pipeline: Any, reason: str) -> None:
    with pytest.raises(rs.InvalidArgument, match=reason):
        GrainSource(pipeline)


def test_arguments_of_another_kind_are_refused() -> None:
    with pytest.raises(rs.InvalidType, match="must be a pipeline, got range"):
        GrainSource(range(5))  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match="epoch must be at least 0, got -1"):
        GrainSource(rs.range(5), -1)
