"""A loop over a pipeline with Keras's ``train_on_batch``, as the page has it: no TensorFlow is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.pages import CAPTION, DOCS, blocks, module_path

pytest.importorskip("keras", reason="Keras is not installed")

WITHOUT_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None; import keras_loop"


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_loop_with_train_on_batch_that_is_killed_ends_with_the_same_weights(
    backend: str, tmp_path: Path
) -> None:
    pytest.importorskip(backend, reason=f"there is no {backend} for Keras")
    page = DOCS / "frameworks" / "tensorflow.md"
    (text,) = (block.text for block in blocks(page) if "keras_loop.py" in block.text[:40])
    (tmp_path / "keras_loop.py").write_text(CAPTION.sub("", text))

    def run(folder: str, kill_at: int) -> int:
        call = f"{WITHOUT_TENSORFLOW}; keras_loop.main({folder!r}, {kill_at})"
        environment = {**os.environ, "PYTHONPATH": module_path(), "KERAS_BACKEND": backend}
        return subprocess.run(
            [sys.executable, "-c", call], env=environment, cwd=tmp_path, check=False
        ).returncode

    assert run("whole", 0) == 0
    assert [run("run", kill_at) for kill_at in (4, 37)] == [-signal.SIGKILL] * 2
    assert run("run", 0) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "run.npy"), np.load(tmp_path / "whole.npy"))
