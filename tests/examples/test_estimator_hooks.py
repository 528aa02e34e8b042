"""A model trained by an Estimator is the same, whatever happened to the job."""

from __future__ import annotations

from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")
if not hasattr(tf, "estimator"):
    pytest.skip("TensorFlow has no Estimator after 2.15", allow_module_level=True)

from examples.lives import Program  # noqa: E402

SIZES = ("--rows", "240", "--batch-size", "8", "--epochs", "2", "--every", "7")


def variables(folder: Path) -> dict[str, list[float]]:
    """Those of the last checkpoint."""
    saved = tf.train.load_checkpoint(str(folder / "run"))
    names = saved.get_variable_to_shape_map()
    return {name: saved.get_tensor(name).tolist() for name in names}


def test_kills_at_any_moments_leave_the_same_variables(tmp_path: Path) -> None:
    program = Program("estimator_hooks.py", *SIZES, preloaded=("tensorflow", "resumable_tf"))
    program.check_kills(tmp_path, variables, runs=2, kills=2)
