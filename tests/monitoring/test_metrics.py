"""Stats reach the tools that show them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.request import urlopen

import pytest
from support.clocks import Clock

import resumable as rs


def running() -> rs.PipelineIterator[Any]:
    """An iterator that has waited 4 s for 4 items, with a second for each."""
    clock = Clock()

    def read(item: int) -> int:
        clock.now += 1.0
        return item

    mixed = rs.mix({"web": rs.range(9), 'ma"th': rs.range(9)}).map(read, on_error="skip")
    iterator = iter(mixed)
    iterator.measure(clock)
    iterator.count_tokens({"web": 900})
    for _ in range(4):
        next(iterator)
        clock.now += 1.0
    return iterator


def test_prometheus_gets_the_stats() -> None:
    pytest.importorskip("prometheus_client")
    with (
        rs.metrics.prometheus(running(), port=0) as server,
        urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer,
    ):
        found = set(answer.read().decode().splitlines())
    server.close()
    assert {
        "resumable_steps_total 4.0",
        "resumable_items_total 4.0",
        "resumable_wait_seconds_total 4.0",
        "resumable_loop_seconds_total 4.0",
        "resumable_wait_share 0.5",
        'resumable_wait_quantile_seconds{quantile="0.95"} 1.03125',
        'resumable_inputs{input="web"} 2.0',
        r'resumable_inputs{input="ma\"th"} 2.0',
        'resumable_passes{input="web"} 0.2222222222222222',
        'resumable_tokens{input="web"} 900.0',
        'resumable_skipped{stage="pipeline"} 0.0',
        "resumable_requests_total 0.0",
        "resumable_worker_restarts_total 0.0",
        "resumable_cache_hits_total 0.0",
    } <= found


def test_a_port_is_free_again_once_its_server_is_closed() -> None:
    pytest.importorskip("prometheus_client")
    with rs.metrics.prometheus(running(), port=0) as server:
        pass
    with rs.metrics.prometheus(running(), server.port):
        pass


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import resumable as rs\n"
        "try: rs.metrics.prometheus(iter(rs.range(3)))\n"
        "except rs.MissingDependency as error: assert 'resumable-loader[prometheus]' in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensorboard_gets_scalars_at_their_step() -> None:
    written: dict[str, tuple[float, int]] = {}

    class Writer:
        def add_scalar(self, name: str, value: float, step: int) -> None:
            written[name] = value, step

    rs.metrics.tensorboard(Writer(), running())
    assert written["input/wait_share"] == (0.5, 4)
    assert written["input/inputs/web"] == (2, 4)
    assert written["input/tokens/web"] == (900, 4)
    assert written["input/skipped/pipeline"] == (0, 4)
    assert "input/steps" not in written


def test_what_has_no_stats_is_refused() -> None:
    with pytest.raises(rs.InvalidType, match=r"iterator must have stats.*got Pipeline"):
        rs.metrics.prometheus(rs.range(3))  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidType, match="writer must have add_scalar"):
        rs.metrics.tensorboard(None, iter(rs.range(3)))
    with pytest.raises(rs.InvalidArgument, match="port must be"):
        rs.metrics.prometheus(iter(rs.range(3)), port=70_000)
