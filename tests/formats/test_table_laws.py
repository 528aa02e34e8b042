"""Every law on rows of Parquet and Arrow files, and resumes by other ranks in other processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from formats.laws_of_sources import items_of_two_ranks_then_three
from formats.table_files import NAMES, sources, write_arrow, write_parquet, write_tables
from support.tiers import is_deep, thinned

import resumable as rs
from resumable.testing import check_resumes_everywhere
from resumable.testing.comparing import same
from resumable.testing.laws import (
    blocks_agree_with_pull,
    first_items,
    gather_agrees_with_iteration,
    marks_keep_their_moment,
    next_and_pull_may_be_mixed,
    pull_agrees_with_next,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    resumes_for_generations,
    set_state_works_on_a_used_iterator,
    skip_agrees_with_next,
    state_is_a_value,
    stays_ended,
)

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

Maker = Callable[[], rs.Pipeline[Any]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_rows_obey_every_law(name: str, data: Path) -> None:
    make = sources(data)[name]
    every = range(len(first_items(make())) + 1)
    resumes_at_every_position(make(), positions=thinned(every, 6, name))
    for cuts in ([1, 2, 3], [0, 17, 1]):
        resumes_for_generations(make(), cuts)
    stays_ended(make())
    state_is_a_value(make(), 7)
    set_state_works_on_a_used_iterator(make(), 200)
    refused_states_leave_no_trace(make(), 3)
    pull_agrees_with_next(make(), [1, 2, 0, 5, 1, 30, 300])
    marks_keep_their_moment(make(), 100)
    blocks_agree_with_pull(make(), [1, 3, 2, 700])
    skip_agrees_with_next(make(), [0, 1, 3, 0, 10])
    next_and_pull_may_be_mixed(make(), [1, 2, 0, 3])
    pipeline = make()
    if pipeline.random_access:
        gather_agrees_with_iteration(pipeline)


@pytest.mark.parametrize("name", NAMES if is_deep() else ["parquet in blocks", "arrow shuffled"])
def test_rows_resume_in_a_fresh_process(name: str, data: Path) -> None:
    pipeline = sources(data)[name]()
    count = len(pipeline)
    check_resumes_everywhere(pipeline, positions=[0, count // 2, count], fresh_process=True)


def test_two_ranks_are_resumed_by_three(data: Path) -> None:
    pipeline = rs.parquet(data / "mixed-*.parquet", ["id"]).shuffle(5, block=4).repeat(2)
    seen = items_of_two_ranks_then_three(pipeline)
    assert sorted(row["id"] for row in seen) == sorted([*range(24)] * 2)


@pytest.mark.deep
@pytest.mark.parametrize("format", ["parquet", "parquet in parts", "arrow", "stream"])
def test_a_hundred_thousand_rows_are_all_there(format: str, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa

    table = pa.table({"id": np.arange(100_000), "text": [f"row {n}" for n in range(100_000)]})
    path = tmp_path / "data"
    if format.startswith("parquet"):
        write_parquet(path, table, 9_999)
        part = 1000 if "parts" in format else None
        pipeline = rs.parquet(path, batch_rows=part)
    else:
        write_arrow(path, table, 1001, stream=format == "stream")
        pipeline = rs.arrow(path)
    expected = table.to_pylist()
    assert list(pipeline) == expected
    shuffled = pipeline.shuffle(1, block=10_000)
    items = list(shuffled)
    assert sorted(items, key=lambda row: row["id"]) == expected
    for position in (0, 1, 49_999, 99_999, 100_000):
        with iter(shuffled) as iterator:
            iterator.skip(position)
            state = iterator.get_state()
        assert same(list(shuffled.resume(state)), items[position:])
