"""The short forms of the campaigns about workers."""

from __future__ import annotations

import sys

import pytest
from support.command import run_python
from support.tiers import is_deep


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    "scene", [pytest.param("a prefetch", marks=pytest.mark.deep), "threads", "processes"]
)
def test_a_fork_beside_busy_workers_ends_as_it_likes_and_takes_nothing_with_it(scene: str) -> None:
    if scene == "processes":
        pytest.importorskip("loky", reason="loky is not installed")
    forks = 12 if is_deep() else 4  # one for each way in which a child ends
    arguments = ("-m", "campaigns.forks", "--forks", f"{forks}", "--scene", scene)
    done = run_python(*arguments, PYTHONPATH=".:tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{forks} forks beside {scene}: 0 hang, 0 other problems" in done.stdout
