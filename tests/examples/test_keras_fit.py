"""A network trained by Keras's ``fit`` is the same, whatever happened to the job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

from examples.lives import Program

SIZES = ("--length", "248", "--batch-size", "10", "--epochs", "2", "--every", "7")


def weights(folder: Path) -> list[list[float]]:
    """Those that the program wrote at its end."""
    with np.load(folder / "forecaster.npz") as saved:
        return [saved[name].tolist() for name in saved.files]


def test_kills_at_any_moments_leave_the_same_weights(tmp_path: Path) -> None:
    program = Program("keras_fit.py", *SIZES, preloaded=("tensorflow", "resumable_tf"))
    program.check_kills(tmp_path, weights, runs=2, kills=2)
