"""Ranks killed with leases open, and continued by other numbers of ranks: every item once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from leases.killed_lives import pipeline

import resumable as rs

ROOT = Path(__file__).parents[2]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["random access", "stream"])
@pytest.mark.parametrize("seed", range(2))
def test_killed_ranks_do_every_item_once(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    done: list[int] = []
    left_open = 0
    for life, ranks in enumerate([2, 3, 1, 4, 2]):
        program = Path(__file__).with_name("killed_lives.py")
        path = os.pathsep.join(str(ROOT / part) for part in ("", "tests"))
        lives = []
        for rank in range(ranks):
            lasts = -1 if life == 4 else rng.randint(5, 14)
            arguments = map(str, (rank, ranks, 10 * seed + life, lasts))
            command = [sys.executable, str(program), kind, str(tmp_path), *arguments]
            lives.append(subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}))
        ends = {process.wait() for process in lives}
        assert ends == ({0} if life == 4 else {-signal.SIGKILL})
        saved = [
            rs.loads((tmp_path / f"{rank}-of-{ranks}.state").read_bytes()) for rank in range(ranks)
        ]
        done += [number for one in saved for number in one["done"]]
        whole = rs.merge_states([one["state"] for one in saved])
        left_open += bool(whole["leases"]["unfinished"])
        (tmp_path / "whole.state").write_bytes(rs.dumps(whole))
    assert Counter(done) == Counter(range(len(list(pipeline(kind)))))
    assert left_open >= 4
