"""One cluster for all tests: it takes longer to start than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ray_adapter.nodes import Nodes


@pytest.fixture(scope="session")
def shared_nodes() -> Iterator[Nodes]:
    from ray_adapter.nodes import started_nodes  # here, since not every environment has Ray

    with started_nodes(3) as nodes:
        yield nodes


@pytest.fixture
def nodes(shared_nodes: Nodes) -> Iterator[Nodes]:
    """Three nodes of one CPU each; no actor may be left on them."""
    shared_nodes.complete()
    yield shared_nodes
    shared_nodes.complete()
    shared_nodes.wait_until_idle()
