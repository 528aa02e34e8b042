"""The script that measures how fast items get into a graph."""

from __future__ import annotations

from importlib import import_module

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


def test_the_benchmark_of_the_feed_measures_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    tf_feed = import_module("benchmarks.workloads.scripts.tf_feed")
    tf_feed.main(["--quick"])
    printed = capsys.readouterr().out
    assert all(f"\n{name} " in printed for name in tf_feed.CASES)
    assert printed.count(" x ") == len(tf_feed.RATIOS)
