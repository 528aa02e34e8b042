"""Weights and inputs of a mix change between two runs of an input, which goes on exactly or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    CheckpointableInput,
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from support.advised import advised
from tf_adapter.sessions import SCALAR

import resumable as rs

Weights = Mapping[int, Mapping[str, int]]
BEFORE: Weights = {0: {"web": 3, "code": 1}}
ENTERING = {"web": 1, "math": 2}
STARTS = {"web": 0, "code": 100, "math": 200}


def numbers_from(start: int) -> rs.Pipeline[int]:
    return rs.from_iterable(lambda: iter(range(start, start + 40)))


def mixed(kind: str, weights: Weights) -> rs.Pipeline[int]:
    """A mix of those inputs that have weights."""
    names = [name for name in STARTS if any(name in each for each in weights.values())]
    if kind == "stream":
        return rs.mix({name: numbers_from(STARTS[name]) for name in names}, weights=weights)
    inputs = {
        name: rs.range(STARTS[name], STARTS[name] + 40).shuffle(number)
        for number, name in enumerate(names)
    }
    return rs.mix(inputs, weights=weights, seed=1)


@pytest.mark.parametrize("kind", ["random access", "stream"])
def test_a_checkpoint_is_restored_by_what_the_error_says_to_write(
    kind: str, tmp_path: Path
) -> None:
    source = CheckpointableInput(mixed(kind, BEFORE))
    passed = list(islice(source, 10))
    path = tf.train.Checkpoint(source=source).save(str(tmp_path / "model"))
    other = CheckpointableInput(mixed(kind, {0: {"code": 1}, 1: ENTERING}))
    with pytest.raises(rs.StateMismatch, match=r"items before 1[01] were read") as refused:
        tf.train.Checkpoint(source=other).restore(path)
    told = advised(refused.value)
    assert told is not None
    assert told == {**BEFORE, 10 + (kind == "stream"): ENTERING}
    changed = CheckpointableInput(mixed(kind, told))
    tf.train.Checkpoint(source=changed).restore(path)
    assert passed + list(changed) == list(mixed(kind, told))


@pytest.mark.parametrize("kind", ["random access", "stream"])
def test_a_session_counts_what_the_graph_has_consumed_before_a_change(
    kind: str, tmp_path: Path
) -> None:
    def flow(weights: Weights, count: int, restored: str | None = None) -> tuple[list[int], str]:
        """The next items, and the checkpoint after them; the graph takes some ahead."""
        with tf.Graph().as_default():
            dataset = make_dataset(mixed(kind, weights), SCALAR).prefetch(4)
            iterator = make_initializable_iterator(dataset)
            item = iterator.get_next()
            saver = tf1.train.Saver([make_saveable_from_iterator(iterator)])
            with tf1.Session() as session:
                session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
                if restored is not None:
                    saver.restore(session, restored)
                items = [int(session.run(item)) for _ in range(count)]
                return items, str(saver.save(session, str(tmp_path / f"model-{count}")))

    passed, path = flow(BEFORE, 10)
    with pytest.raises(
        (rs.StateMismatch, tf.errors.OpError), match=r"items before 1[01] were read"
    ):
        flow({**BEFORE, 9: ENTERING}, 1, path)
    changed = {**BEFORE, 11: ENTERING}
    passed += flow(changed, 25, path)[0]
    assert passed == list(islice(mixed(kind, changed), 35))
