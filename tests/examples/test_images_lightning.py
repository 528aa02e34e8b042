"""A classifier trained by Lightning is the same, whatever happened to the job."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("lightning", reason="lightning is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from examples.lives import Program  # noqa: E402

SIZES = ("--images", "96", "--batch-size", "8", "--epochs", "2", "--every", "4")
IMPORTS = ("lightning.pytorch", "resumable_torch", "PIL.Image")


def weights(folder: Path) -> dict[str, list[float]]:
    """Those that the program wrote at its end."""
    saved = torch.load(folder / "classifier.pt", weights_only=True)
    return {name: weight.tolist() for name, weight in saved.items()}


@pytest.mark.parametrize("workers", [0, 2])
def test_kills_at_any_moments_leave_the_same_weights(workers: int, tmp_path: Path) -> None:
    program = Program("images_lightning.py", *SIZES, "--workers", str(workers), preloaded=IMPORTS)
    program.check_kills(tmp_path, weights, runs=2, kills=2)
