"""Ranks that hold items of their own are killed by SIGKILL, and go on in new processes, each from its own part."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.behind_deals import DEALS, TAILS, shown
from support.command import ROOT, run_python

import resumable as rs

LIFE = """
import os, signal, sys, warnings
import resumable as rs
from support.behind_deals import DEALS, TAILS, shown

folder, deal, tail, rank, steps = sys.argv[1:]
warnings.filterwarnings("ignore", "step .* can be resumed by 2 ranks only")
saving = rs.Checkpointer(folder, rs.EverySteps(2), rank=int(rank), ranks=2)
loop = saving.resume(TAILS[tail](DEALS[deal](int(rank), 2)))
print(loop.step, flush=True)
for number, item in enumerate(loop, 1):
    print(shown([item]), flush=True)
    if number == int(steps):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.deep
@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("tail", ["window shuffle", "scan", "map_batches", "a stage of a user"])
def test_killed_ranks_go_on_each_from_its_own_part(deal: str, tail: str, tmp_path: Path) -> None:
    whole = [
        [str(shown([item])) for item in TAILS[tail](DEALS[deal](rank, 2))] for rank in range(2)
    ]
    saved = 0
    for steps in ((5, 7), (4, 3), (5, 5)):  # items until each is killed
        newest = saved
        for rank in range(2):
            arguments = (str(tmp_path / "run"), deal, tail, str(rank), str(steps[rank]))
            done = run_python("-c", LIFE, *arguments, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")
            assert done.returncode == -signal.SIGKILL, done.stderr
            began, *items = done.stdout.splitlines()
            # What the first one saves may complete a step that the second one had saved before.
            assert int(began) >= saved if rank else int(began) == saved
            assert items == whole[rank][int(began) : int(began) + steps[rank]]
            newest = max(newest, int(began))
        saved = max(rs.Checkpointer(tmp_path / "run", rs.AtEnd()).steps())
        assert saved >= newest
