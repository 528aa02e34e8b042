"""Every pipeline of the catalogue on several ranks: exact, or refused with a reason."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from support.graphs import catalogue
from support.tiers import thinned

import resumable as rs
from resumable.core.graph import cut_after, rebuilt, tuned
from resumable.errors import ResumableError
from resumable.testing import processes
from resumable.verify.processes import TaskOutcome, TaskProcesses
from resumable.verify.several import check_several
from resumable.verify.target import Target

Make = Callable[[], rs.Pipeline[Any]]

with tempfile.TemporaryDirectory() as folder:
    NAMES = [*catalogue(Path(folder))]


class Here(TaskProcesses):
    """Runs tasks in this process, each with a pipeline made anew; a kill leaves the loop without a save."""

    def __init__(self, make: Make, folder: Path) -> None:
        super().__init__(Target("none"), folder, 1)
        self._make = make

    def run(self, work: Any, cut: int = 0, tuning: Any = None, *_: Any, **__: Any) -> TaskOutcome:
        stage = cut_after(self._make().stage, cut)
        try:
            result = work(tuned(stage, tuning or {}), lambda count: None)
        except ResumableError as error:
            return TaskOutcome("", None, str(error), type(error).__name__)
        finally:
            processes.left_open.clear()  # as the end of the killed process does
        return TaskOutcome("", result)


def behind(
    pipeline: rs.Pipeline[Any], deal: Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]
) -> rs.Pipeline[Any]:
    """``pipeline``, of which each rank gets its share from each source."""
    return rs.Pipeline(
        rebuilt(
            pipeline.stage,
            lambda number, found: found if found.inputs else deal(rs.Pipeline(found)).stage,
        )
    )


def in_parts(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    return pipeline.partition(4, lambda part: part.map(same)).shard(0, 2)


def same(item: Any) -> Any:
    return item


def of_ranks(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    return pipeline.shard(0, 2, uneven="keep")


DEALS = {"shard": of_ranks, "partition": in_parts}


# Each behind one of both; `test_laws_of_ranks.py` has each stage behind both.
@pytest.mark.parametrize(
    ("name", "deal"), thinned(zip(NAMES, cycle(DEALS), strict=False), 8, "stages on ranks")
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of ranks at their end, and of joined states
def test_every_pipeline_is_exact_on_ranks_or_refused(
    catalogue_data: Path, tmp_path: Path, name: str, deal: str
) -> None:
    def make() -> rs.Pipeline[Any]:
        return behind(catalogue(catalogue_data)[name](), DEALS[deal])

    try:
        pipeline = make()
    except ResumableError:  # such as a stream in partitions
        return
    with Here(make, tmp_path) as workers:
        found = check_several(pipeline.stage, workers, 200, may_change=True)
    assert found.finding is None, found.finding
    assert found.resumed or found.notes
