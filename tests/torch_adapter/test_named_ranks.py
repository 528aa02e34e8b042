"""Iterators of pipelines in checkpoints of torch, which know nothing of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.distributed.checkpoint.stateful import Stateful  # noqa: E402
from torch_adapter.named_ranks import COUNT, kept  # noqa: E402
from torch_adapter.processes import gloo  # noqa: E402

import resumable as rs  # noqa: E402

MODULE = "torch_adapter.named_ranks"


def test_an_iterator_and_the_loop_of_a_checkpointer_follow_the_protocol_of_torch() -> None:
    with iter(rs.range(9)) as iterator, rs.Checkpointer(rs.Memory(), rs.AtEnd()) as checkpointer:
        assert isinstance(iterator, Stateful)
        assert isinstance(checkpointer.resume(rs.range(9)), Stateful)
        assert not isinstance(rs.range(9), Stateful)


def test_iterators_go_on_from_distributed_checkpoints_on_two_then_three_then_one_rank(
    tmp_path: Path,
) -> None:
    for ranks, before, steps, after in (
        (2, None, 20, "first"),
        (3, "first", 15, "second"),
        (1, "second", None, None),
    ):
        code = f"import {MODULE} as program; program.go_on({before!r}, {steps}, {after!r})"
        gloo(ranks, code, tmp_path, preloaded=(MODULE,))
    for name in ("order", "parts"):
        taken = [
            number
            for found in tmp_path.glob("*.json")
            for number in json.loads(found.read_text())[name]
        ]
        assert sorted(taken) == [number for number in range(COUNT) if kept(number)], name
