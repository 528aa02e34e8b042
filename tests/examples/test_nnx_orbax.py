"""A Flax model saved by Orbax together with its input is the same, whatever happened to the job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax", reason="Flax is not installed")
pytest.importorskip("orbax.checkpoint", reason="Orbax is not installed")

from examples.lives import Program, trained
from support.tiers import examples

POINTS, EPOCHS = 120, 2
SIZES = ("--points", str(POINTS), "--batch-size", "8", "--epochs", str(EPOCHS), "--every", "4")


def result(folder: Path) -> Any:
    """The weights that the program wrote at its end, and what it was trained on."""
    with np.load(folder / "classifier.npz") as saved:
        weights = [saved[name].tobytes() for name in saved.files]
    return weights, trained(folder)


def test_kills_at_any_moments_leave_the_same_weights_and_each_point_once_an_epoch(
    tmp_path: Path,
) -> None:
    program = Program("nnx_orbax.py", *SIZES, preloaded=None)
    program.check_kills(tmp_path, result, runs=max(1, examples() // 10), kills=2)
    steps = trained(tmp_path / "0")
    times = Counter(row for (rows,) in steps.values() for row in rows)
    assert sorted(steps) == list(range(1, POINTS * EPOCHS // 8 + 1))
    assert times == dict.fromkeys(range(POINTS), EPOCHS)
