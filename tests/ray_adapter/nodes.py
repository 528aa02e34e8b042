"""A Ray cluster of several nodes in this machine, of which some are killed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import psutil
import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install resumable-loader[ray]")

import ray
from ray.cluster_utils import Cluster
from support.command import WITH_ADAPTERS
from support.waiting import wait_until

STORE_BYTES = 100 << 20


class Nodes:
    """A cluster of ``count`` nodes of one CPU, to which this process is connected.

    Attributes:
      address: of the cluster.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._cluster: Any = Cluster()
        self.complete()
        self.address: str = self._cluster.address
        ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)

    def complete(self) -> None:
        """Start a new node in the place of each that was killed."""
        while len(self._cluster.list_all_nodes()) < self._count:
            self._cluster.add_node(
                num_cpus=1, include_dashboard=False, object_store_memory=STORE_BYTES
            )

    def kill_one(self) -> set[int]:
        """Kill all processes of a node that is not the driver's; returns their ids."""
        node = next(iter(self._cluster.worker_nodes))
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        victims = [raylet, *raylet.children(recursive=True)]
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
        self._cluster.remove_node(node, allow_graceful=False)
        return {victim.pid for victim in victims}

    def wait_until_idle(self) -> None:
        """Wait until no actor holds a CPU of any node; fail if one was left behind."""
        resources: Any = ray.available_resources
        wait_until(lambda: resources().get("CPU") == self._count)

    def close(self) -> None:
        """End the cluster."""
        ray.shutdown()
        self._cluster.shutdown()


@contextmanager
def started_nodes(count: int) -> Iterator[Nodes]:
    """Such a cluster, whose processes find the library."""
    environment = {"PYTHONPATH": WITH_ADAPTERS, "RAY_USAGE_STATS_ENABLED": "0"}
    with patch.dict(os.environ, environment):
        nodes = Nodes(count)
        try:
            yield nodes
        finally:
            nodes.close()
