"""The shards of tokens are those of an uninterrupted run, whatever happened to the job."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from examples.lives import Program
from support.tiers import examples

DOCUMENTS = 40
SIZES = ("--documents", str(DOCUMENTS), "--rows", "4")


def shards(folder: Path) -> dict[str, bytes]:
    """All that lies beside the checkpoints."""
    return {
        path.name: path.read_bytes()
        for path in (folder / "shards").iterdir()
        if path.suffix != ".ckpt" and path.name[0] != "."
    }


def test_the_shards_hold_every_document_once(tmp_path: Path) -> None:
    Program("tokenize_shards.py", *SIZES).whole(tmp_path / "whole")
    (corpus,) = (tmp_path / "whole").glob("corpus-*/*.jsonl")
    written = [np.load(path) for path in sorted(tmp_path.glob("whole/shards/*.npy"))]
    assert len(written) > 5
    assert {rows.shape[1] for rows in written} == {1024}
    tokens = np.concatenate(written).reshape(-1).tolist()
    documents = "".join(map(chr, tokens)).rstrip(chr(256)).split(chr(256))
    assert sorted(documents) == sorted(
        json.loads(line)["text"] for line in corpus.read_text().splitlines()
    )


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.deep)])
def test_kills_at_any_moments_leave_the_same_bytes(workers: int, tmp_path: Path) -> None:
    program = Program("tokenize_shards.py", *SIZES, "--workers", str(workers))
    program.check_kills(tmp_path, shards, runs=max(3, examples() // 12))
