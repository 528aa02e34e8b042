"""What a resume would not repeat is refused, warned of or ignored, as the policy says."""

from __future__ import annotations

import os
import random
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
from resumable_tf import (
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from resumable_tf.randomness import random_names
from tf_adapter.sessions import SCALAR

import resumable as rs

SHARED = random.Random(0)
SEEDED = np.random.default_rng(0)


def helper(number: int) -> float:
    return number + np.random.rand()


def seeds(number: int) -> float:
    random.seed(number)
    return random.random()


def imports(number: int) -> float:
    import random as other

    return number + other.gauss(0, 1)


def default(number: int, rng: Any = SEEDED) -> float:
    return number + float(rng.random())


def given(rng: Any, number: int) -> float:
    return number + float(rng.random())


class Augments:
    def __init__(self) -> None:
        self.rng = np.random.RandomState(0)

    def __call__(self, number: int) -> float:
        return number + self.rng.rand()

    def method(self, number: int) -> float:
        return self(number) + number

    def drawn(self, number: int) -> float:
        return float(self.rng.rand()) + number


RANDOM: dict[str, tuple[Any, str]] = {
    "a module": (lambda n: n + random.random(), "random.random"),
    "NumPy's": (lambda n: n + np.random.randint(3), "np.random.randint"),
    "in a helper": (lambda n: helper(n), "np.random.rand"),
    "in an inner function": (lambda n: (lambda m: m + random.random())(n), "random.random"),
    "imported": (imports, "other.gauss"),
    "shared": (lambda n: n + SHARED.random(), "SHARED"),
    "a default": (default, "Generator"),
    "of a partial": (partial(given, SEEDED), "Generator"),
    "without a seed": (lambda n: n + np.random.default_rng().random(), r"default_rng\(\)"),
    "of an object": (Augments(), "self.rng"),
    "of a method": (Augments().drawn, "self.rng"),
    "the system's": (lambda n: (n, os.urandom(2), uuid.uuid4()), "os.urandom"),
    "TensorFlow's": (lambda n: tf.random.uniform(()) + n, "tf.random.uniform"),
    "built in": (random.expovariate, "expovariate"),
}
EXACT: dict[str, Any] = {
    "plain": lambda n: n + 1,
    "seeded by the item": lambda n: np.random.default_rng(n).random(),
    "seeding": seeds,
    "stateless": lambda n: tf.random.stateless_uniform((), seed=[n, n]),
    "built in": abs,
    "a class": str,
    "a word": lambda random: random.random,
}


@pytest.mark.parametrize("kind", RANDOM)
def test_a_function_that_draws_is_named(kind: str, tmp_path: Path) -> None:
    function, name = RANDOM[kind]
    pipeline = rs.range(9).map(function).batch(2)
    with pytest.raises(
        rs.ExternalStateError, match=f"Map at pipeline.upstream.*{name}.*random_map"
    ):
        CheckpointInputPipelineHook(tmp_path, pipeline=pipeline, save_steps=1)
    options: Any = {"save_steps": 1, "external_state_policy": "warn"}
    with pytest.warns(RuntimeWarning, match=f"draws by .*{name}"):
        CheckpointInputPipelineHook(tmp_path, pipeline=pipeline, **options)
    CheckpointInputPipelineHook(
        tmp_path, pipeline=pipeline, **{**options, "external_state_policy": "ignore"}
    )


@pytest.mark.parametrize("kind", EXACT)
def test_a_function_that_does_not_draw_passes(kind: str, tmp_path: Path) -> None:
    assert random_names(EXACT[kind]) == set()
    CheckpointInputPipelineHook(tmp_path, pipeline=rs.range(9).map(EXACT[kind]), save_steps=1)


def test_random_map_passes(tmp_path: Path) -> None:
    pipeline = rs.range(9).random_map(lambda number, rng: number + rng.random(), 1)
    CheckpointInputPipelineHook(tmp_path, pipeline=pipeline, save_steps=1)


def conditionally(number: Any) -> Any:
    return tf.cond(number > 3, lambda: tf.random.uniform(()), lambda: 0.0)


@tf.function  # type: ignore[untyped-decorator]
def called(number: Any) -> Any:
    return tf.random.uniform(()) + tf.cast(number, tf.float32)


STATEFUL: dict[str, tuple[Any, str]] = {
    "random": (lambda n: tf.random.uniform(()), "RandomUniform"),
    "shuffle": (lambda n: tf.random.shuffle(tf.stack([n, n])), "RandomShuffle"),
    "in a branch": (conditionally, "RandomUniform"),
    "in a function": (called, "RandomUniform"),
    "py_function": (lambda n: tf.py_function(abs, [n], tf.int64), "EagerPyFunc"),
    "numpy_function": (lambda n: tf.numpy_function(abs, [n], tf.int64), "PyFunc"),
}


def asserted(number: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(number, np.int64(100))]):
        return tf.identity(number)


def printed(number: Any) -> Any:
    tf.print(number)
    return number


STATELESS: dict[str, Any] = {
    "plain": lambda n: n + 1,
    "stateless random": lambda n: tf.random.stateless_uniform((), seed=[n, n]),
    "assert": asserted,
    "print": printed,
    "a loop": lambda n: tf.map_fn(lambda m: m + 1, tf.stack([n, n])),
    "stateless numpy_function": lambda n: tf.numpy_function(abs, [n], tf.int64, stateful=False),
}


def check(function: Any, policy: str, stage: str = "map") -> None:
    """What a hook and a saveable do about a function of tf.data."""
    pipeline = rs.range(9)
    dataset = make_dataset(pipeline, SCALAR)
    if stage == "filter":
        made = dataset.filter(lambda n, item: tf.cast(function(item), tf.float32) > 0)
    else:
        made = dataset.map(lambda n, item: (n, function(item)))
    make_saveable_from_iterator(make_initializable_iterator(made.prefetch(2)), policy)


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_stateful_operation_in_a_function_of_tf_data_is_named(kind: str) -> None:
    function, operation = STATEFUL[kind]
    with tf.Graph().as_default():
        with pytest.raises(rs.ExternalStateError, match=f"MapDataset.* {operation},"):
            check(function, "fail")
        with pytest.warns(RuntimeWarning, match=f"MapDataset.* {operation},"):
            check(function, "warn")
        check(function, "ignore")


def test_a_filter_is_looked_into_too() -> None:
    with (
        tf.Graph().as_default(),
        pytest.raises(rs.ExternalStateError, match="FilterDataset"),
    ):
        check(lambda n: tf.random.uniform(()), "fail", "filter")


@pytest.mark.parametrize("kind", STATELESS)
def test_what_tf_data_itself_lets_pass_passes(kind: str) -> None:
    with tf.Graph().as_default():
        check(STATELESS[kind], "fail")


def test_lookups_in_a_table_pass() -> None:
    with tf.Graph().as_default():
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64)
        )
        check(tf.lookup.StaticHashTable(entries, -1).lookup, "fail")
