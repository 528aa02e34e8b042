"""Whoever saves the input of a model holds the name; a training that failed gives way."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from checkpoint.saving_loops import unfinished_in

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

from resumable_tf.checkpoints import InputCheckpoints
from resumable_tf.feed import Feed
from resumable_tf.tasks import TaskFiles

import resumable as rs


def checkpoints(folder: Path) -> InputCheckpoints:
    files = TaskFiles(rs.Directory(folder), Feed(rs.range(9)))
    return InputCheckpoints({"input": files}, lambda: {"input": {"position": 1}})


def test_another_writer_is_refused_until_the_end(tmp_path: Path) -> None:
    saving = checkpoints(tmp_path)
    saving.restore(0)
    saving.save(1)
    with pytest.raises(rs.NameInUse, match="'input'"):
        rs.Directory(tmp_path).lock()
    saving.close()
    (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"being written")
    lock = rs.Directory(tmp_path).lock()
    with pytest.raises(rs.NameInUse, match="'input'"):
        saving.restore(0)
    assert rs.Directory(tmp_path).steps() == [1]
    assert unfinished_in(tmp_path)
    lock.close()
    saving.restore(1)
    assert not unfinished_in(tmp_path)


def test_a_restore_that_fails_holds_nothing(tmp_path: Path) -> None:
    saving = checkpoints(tmp_path)
    saving.restore(0)
    saving.save(1)
    with pytest.raises(rs.NoValidCheckpoint):
        saving.restore(7)
    rs.Directory(tmp_path).lock().close()


def test_one_that_failed_gives_way_to_the_next_of_its_process(tmp_path: Path) -> None:
    failed, second = checkpoints(tmp_path), checkpoints(tmp_path)
    failed.restore(0)
    second.restore(0)
    with pytest.raises(rs.InvalidArgument, match="before restore"):
        failed.save(1)
    second.save(1)
    assert rs.Directory(tmp_path).steps() == [1]


def test_one_that_is_dropped_lets_go(tmp_path: Path) -> None:
    checkpoints(tmp_path).restore(0)
    gc.collect()
    rs.Directory(tmp_path).lock().close()
