"""Real trainings of Ray Train that are killed, stopped and scaled train on every item once, in order."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.train", reason="ray.train is not installed")
import ray
from ray.cluster_utils import Cluster
from ray.train import CheckpointConfig, FailureConfig, Result, RunConfig
from ray.train.v2.api.config import ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray_adapter.train_loops import PARTS, in_partitions, phases_in, sharded, train
from support.behind_deals import leaves
from support.command import WITH_ADAPTERS

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # of Ray's own

WAITS = 240
"""Seconds after which what does not happen is a fault."""


@contextmanager
def started_cluster() -> Iterator[Cluster]:
    """A node with two processors; others may be added."""
    folder = tempfile.mkdtemp(prefix="ray")  # names of sockets are short
    environment = {
        "PYTHONPATH": WITH_ADAPTERS,
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        head = {"num_cpus": 2, "include_dashboard": False, "temp_dir": folder}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()  # type: ignore[no-untyped-call]
            shutil.rmtree(folder, ignore_errors=True)


def trainer(
    folder: Path, name: str, workers: int | tuple[int, int], **config: Any
) -> DataParallelTrainer:
    """A trainer with a name, whose state is in ``folder``."""
    return DataParallelTrainer(
        train,
        train_loop_config={"pipeline": name, "results": str(folder), "mode": "SYNC", **config},
        scaling_config=ScalingConfig(num_workers=workers, elastic_resize_monitor_interval_s=0.1),
        run_config=RunConfig(
            name=name,
            storage_path=str(folder / "storage"),
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )


def begun(fit: Callable[[], Result]) -> Callable[[], Result]:
    """Call ``fit`` in a thread; returns what waits for its result.

    Ray's nodes can be started by the main thread only, and what waits for ever is to fail.
    """
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(fit()), daemon=True)
    thread.start()

    def result() -> Result:
        thread.join(WAITS)
        assert results, "the training failed, or did not end"
        return results[0]

    return result


def test_trainings_that_are_killed_scaled_and_begun_anew_train_on_every_item_once(
    tmp_path: Path,
) -> None:
    # One test, since a cluster takes long to start, and the workers of the test runner would each start one.
    with started_cluster() as cluster:
        folder = tmp_path / "partitions"
        folder.mkdir()
        stopped = begun(trainer(folder, "in_partitions", 2, kill=8, stop=14).fit)()
        check_that_a_killed_worker_went_on_after_the_last_report(folder, stopped)
        check_that_workers_that_become_more_share_what_is_left(cluster, tmp_path)
        begun(trainer(folder, "in_partitions", 3).fit)()
        check_that_a_new_trainer_went_on_with_more_workers(phases_in(folder))


def check_that_a_killed_worker_went_on_after_the_last_report(folder: Path, result: Result) -> None:
    assert (folder / "killed").exists()
    assert result.checkpoint is not None
    killed, resumed = phases_in(Path(result.checkpoint.path))
    assert [len(batches) for batches in (*killed, *resumed)] == [6, 6, 6, 6]  # until steps 6 and 12
    for rank in range(2):
        whole = [batch.tolist() for batch in in_partitions(rank, 2)]
        assert killed[rank] + resumed[rank] == whole[:12]
    kept = sorted((folder / "storage" / "in_partitions").glob("checkpoint_2*"))
    assert len(kept) == 2
    for place in kept:
        assert len(list((place / "input").iterdir())) == 2


def check_that_workers_that_become_more_share_what_is_left(cluster: Cluster, folder: Path) -> None:
    result = begun(trainer(folder, "sharded", (2, 3), wait=8, mode="ASYNC").fit)
    deadline = time.monotonic() + WAITS
    while len(list(folder.glob("waits-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.add_node(num_cpus=1)
    newest = result().checkpoint
    of_two, of_three = phases_in(folder)
    assert [len(batches) for batches in of_two] == [8, 8]
    assert len(of_three) == 3
    delivered = [*in_turns(of_two), *in_turns(of_three)]
    assert delivered == [int(number) for batch in sharded(0, 1) for number in batch]
    assert newest is not None
    (state,) = Path(newest.path, "input").iterdir()
    assert state.stat().st_size < 400


def check_that_a_new_trainer_went_on_with_more_workers(
    phases: list[list[list[list[int]]]],
) -> None:
    assert [len(phase) for phase in phases] == [2, 2, 3]
    in_time = [number for phase in phases for number in in_turns(phase)]
    assert sorted(in_time) == sorted(leaves(in_partitions(0, 1)))
    for part in range(PARTS):
        of_part = [number for number in in_time if number % PARTS == part]
        assert of_part == sorted(of_part)


def in_turns(batches: list[list[list[int]]]) -> list[int]:
    """The items of workers in the order of all, as `shard` deals them out."""
    items = [list(chain.from_iterable(one)) for one in batches]
    return [item for row in zip_longest(*items) for item in row if item is not None]
