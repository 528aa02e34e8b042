"""Map on the worker processes of Dask: exact, whoever dies, and resumed without Dask."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import resumable as rs
from resumable.testing.laws import states_along

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install resumable-loader[dask]"
)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_a_killed_worker_loses_nothing_and_the_rest_needs_no_dask(client: Any) -> None:
    def square(item: int) -> int:
        return item * item

    upstream = rs.range(200).shuffle(1)
    expected = list(upstream.map(square))
    states = states_along(upstream.map(square), len(expected))
    got: list[int] = []
    pipeline = upstream.map(square, workers=4, executor=client.get_executor())
    with iter(pipeline) as iterator:
        for item in itertools.islice(iterator, 150):
            got.append(item)
            assert rs.dumps(iterator.get_state()) == states[len(got)]
            if len(got) == 40:
                victims = client.run(os.getpid)
                os.kill(next(iter(victims.values())), signal.SIGKILL)
        state = iterator.get_state()
    with upstream.map(square).resume(rs.loads(rs.dumps(state))) as iterator:
        got += iterator
    assert got == expected
    assert client.submit(abs, -1).result() == 1, "it is used, not shut down"
