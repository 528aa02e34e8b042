"""What MaxText asserts of Grain's iterators in its checkpoints, asserted of ours, and what it refuses there."""

# The cases are those of `grain_utility_test.py` of MaxText. There, an iterator that is not elastic writes a
# file for each process, and lists of iterators with numbers of processes stand in for others that saved. An
# elastic one writes a single file, but cannot pack or mix.

from __future__ import annotations

import asyncio
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

from etils import epath
from jax_adapter.orbax_folders import ORBAX_WARNS, input_files
from jax_adapter.orbax_inputs import PIPELINES, WRAPPED, at, rest
from orbax.checkpoint import v1
from resumable_jax import (
    InputCheckpointable,
    InputCheckpointHandler,
    InputHandler,
    InputRestore,
    InputSave,
)
from support import graphs
from support.behind_deals import leaves

import resumable as rs

pytestmark = ORBAX_WARNS
STANDARD = rs.range(10)


def elastic(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return rs.range(40).shard(rank, ranks, uneven="keep")


@pytest.mark.parametrize("how", WRAPPED)
def test_a_standard_iterator_is_saved_and_restored(how: str, tmp_path: Path) -> None:
    iterator = at(STANDARD, 4)
    expected = iterator.get_state()
    v1.save_checkpointables(tmp_path / "40", {"iter": WRAPPED[how](iterator)})
    assert list(input_files(tmp_path / "40", "iter")) == ["input-000000000004.ckpt"]
    other = iter(STANDARD)
    v1.load_checkpointables(tmp_path / "40", {"iter": WRAPPED[how](other)})
    assert other.get_state() == expected


def test_an_elastic_iterator_writes_one_file_that_all_share(tmp_path: Path) -> None:
    iterator = at(elastic(0, 2).batch(2), 3)
    v1.save_checkpointables(tmp_path / "40", {"iter": iterator})
    assert len(input_files(tmp_path / "40", "iter")) == 1
    for rank in range(2):
        other = iter(elastic(rank, 2).batch(2))
        v1.load_checkpointables(tmp_path / "40", {"iter": other})
        assert rest(other) == rest(elastic(rank, 2).batch(2))[3:]


def saved_by_two(folder: Path, make: Any, cut: int) -> list[Any]:
    """What two iterators of one process have delivered, which are then saved under names of their own."""
    iterators = [at(make(rank, 2), 0) for rank in range(2)]
    seen = [[next(iterator) for _ in range(cut)] for iterator in iterators]
    named = {f"iter_{rank}": iterator for rank, iterator in enumerate(iterators)}
    v1.save_checkpointables(folder, named)
    return list(chain.from_iterable(seen))


@pytest.mark.parametrize("stateful", [False, True])
def test_a_process_with_several_ranks_saves_and_restores_each(
    stateful: bool, tmp_path: Path
) -> None:
    def make(rank: int, ranks: int) -> rs.Pipeline[Any]:
        shard = elastic(rank, ranks)
        return shard.filter(lambda number: number % 3 > 0) if stateful else shard

    saved_by_two(tmp_path / "40", make, 6)
    others = {f"iter_{rank}": iter(make(rank, 2)) for rank in range(2)}
    v1.load_checkpointables(tmp_path / "40", dict(others))
    for rank, other in enumerate(others.values()):
        assert rest(other) == rest(make(rank, 2))[6:]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_more_or_fewer_go_on_from_the_file_of_one(ranks: int, tmp_path: Path) -> None:
    seen = saved_by_two(tmp_path / "40", elastic, 6)
    rest_of_all: list[Any] = []
    for rank in range(ranks):
        other = iter(elastic(rank, ranks))
        v1.load_checkpointables(tmp_path / "40", {"iter_0": other})
        rest_of_all += other
    assert leaves([*seen, *rest_of_all]) == leaves(range(40))


def packed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    documents = rs.range(1, 60).shuffle(1).map(graphs.document)
    return documents.partition(4, lambda part: part.pack(16, group=4)).shard(rank, ranks)


def mixed(rank: int, ranks: int) -> rs.Pipeline[Any]:
    both = rs.mix(rs.range(50), rs.range(100, 150), weights=[3, 1], seed=1, stop="all")
    return both.shard(rank, ranks, uneven="keep")


@pytest.mark.parametrize("make", [packed, mixed])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_what_is_packed_or_mixed_goes_on_with_more_or_fewer(
    make: Any, ranks: int, tmp_path: Path
) -> None:
    with at(make(0, 1), 7) as iterator:
        seen = rest(make(0, 1))[:7]
        v1.save_checkpointables(tmp_path / "40", {"iter": iterator})
    rest_of_all = []
    for rank in range(ranks):
        other = iter(make(rank, ranks))
        v1.load_checkpointables(tmp_path / "40", {"iter": other})
        rest_of_all += rest(other)
    assert sorted([*seen, *rest_of_all]) == sorted(rest(make(0, 1)))


class FolderToCome:
    """A folder as version 1 of Orbax hands it to what it saves."""

    def __init__(self, path: Path) -> None:
        self.path = epath.Path(path)

    async def await_creation(self) -> epath.Path:
        self.path.mkdir(parents=True)
        return self.path


async def both_phases(first: Any) -> Any:
    return await (await first)


@pytest.mark.parametrize("name", PIPELINES)
def test_the_handlers_of_both_versions_do_the_same(name: str, tmp_path: Path) -> None:
    iterator, v0 = at(PIPELINES[name], 5), InputCheckpointHandler()
    folders = [tmp_path / "v0", tmp_path / "wrapped", tmp_path / "handler"]
    folders[0].mkdir()
    v0.save(epath.Path(folders[0]), args=InputSave(iterator))
    wrapped = InputCheckpointable(iterator)
    asyncio.run(both_phases(wrapped.save(FolderToCome(folders[1]))))
    asyncio.run(both_phases(InputHandler().save(FolderToCome(folders[2]), iterator)))
    assert len({path.name for path in tmp_path.glob("*/*")}) == 1
    expected = rest(iterator)
    for folder in map(epath.Path, folders):
        others = [iter(PIPELINES[name]) for _ in range(3)]
        v0.restore(folder, args=InputRestore(others[0]))
        asyncio.run(both_phases(InputCheckpointable(others[1]).load(folder)))
        asyncio.run(both_phases(InputHandler().load(folder, others[2])))
        assert [rest(other) for other in others] == [expected] * 3
