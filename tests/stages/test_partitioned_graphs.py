"""Random graphs in partitions, through changes of ranks and workers; `campaigns/partitioned_graphs.py`."""

from __future__ import annotations

import pytest
from campaigns.partitioned_graphs import campaign
from support.tiers import is_deep


def test_ranks_and_workers_of_random_graphs_may_change_or_are_refused_before_an_item() -> None:
    pytest.importorskip("loky")
    report = campaign(250 if is_deep() else 40, seed=1)
    assert not report.inexact
    assert report.changes > report.graphs
    assert report.refused
