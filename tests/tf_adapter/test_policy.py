"""What a resume would not repeat is refused, warned of or ignored, as the policy says."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import getmembers, isfunction, signature
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
from resumable_tf import (
    AsyncCheckpointInputPipelineHook,
    AsyncCheckpointSaverHook,
    CheckpointableInput,
    CheckpointInputPipelineHook,
    ResumeInput,
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from resumable_tf.randomness import hidden_randomness, random_names
from support.graphs import catalogue
from tf_adapter.sessions import SCALAR

import resumable as rs
from resumable.testing.samples import stream

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


class Chain:
    """Calls one function after another."""

    def __init__(self, *functions: Any) -> None:
        self.functions = functions

    def __call__(self, item: Any) -> Any:
        for function in self.functions:
            item = function(item)
        return item


CHAIN = Chain(abs, lambda n: n + random.random())


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
    "of a chain": (Chain(abs, lambda n: n + random.random()), "random.random"),
    "of a chain of partials": (Chain(partial(given, SEEDED), abs), "Generator"),
    "of a shared chain": (lambda n: CHAIN(n), "random.random"),
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


def noise(*arguments: Any) -> Any:
    return random.random()


TAKERS: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "map fn": lambda: rs.range(9).map(noise, on_error="skip", on_skip=print),
    "random_map fn": lambda: rs.range(9).random_map(noise, 0),
    "filter predicate": lambda: rs.range(9).filter(noise),
    "flat_map fn": lambda: rs.range(9).flat_map(lambda n: [n] * random.randint(1, 3)),
    "interleave_map fn": lambda: rs.range(9).interleave_map(noise, cycle_length=2),
    "scan fn": lambda: rs.range(9).scan(noise, 0),
    "scan finish": lambda: rs.range(9).scan(lambda carry, item: (carry, item), 0, finish=noise),
    "batch collate": lambda: rs.range(9).batch(2, collate=noise),
    "map_batches fn": lambda: rs.range(9).map_batches(noise, 3),
    "bucket length": lambda: rs.range(9).bucket(noise, batch_size=2),
    "bucket collate": lambda: rs.range(9).bucket(abs, batch_size=2, collate=noise),
    "take_while predicate": lambda: rs.range(9).take_while(noise),
    "partition fn": lambda: rs.range(9).partition(3, lambda part: part.map(noise)),
    "from_iterable iterable": lambda: rs.from_iterable(lambda: iter([random.random()])),
}
"""A pipeline for each parameter that is a function, of the stages that need no files."""


def functions_taken() -> Iterator[str]:
    """The parameters of `rs.Pipeline` and of the sources that are functions which decide on items."""
    sources = {name: getattr(rs, name) for name in rs.__all__}
    for name, taker in [*getmembers(rs.Pipeline, isfunction), *sources.items()]:
        if isfunction(taker) and not name.startswith("_"):
            for parameter in signature(taker).parameters.values():
                is_function = "Callable" in str(parameter.annotation)
                if is_function and parameter.name not in ("on_skip", "stage"):
                    yield f"{name} {parameter.name}"


def test_there_is_a_pipeline_for_each_function_that_is_taken() -> None:
    of_files = {"image_folder decode", "tfrecord decode"}  # which become a map
    assert set(functions_taken()) - of_files == set(TAKERS)


@pytest.mark.parametrize("kind", TAKERS)
@pytest.mark.parametrize("behind", [False, True])
def test_whatever_function_draws_is_found_wherever_it_stands(kind: str, behind: bool) -> None:
    pipeline = TAKERS[kind]()
    if behind:
        pipeline = rs.zip(stream(3), rs.mix(pipeline.repeat(), rs.range(3))).batch(2).prefetch(1)
    assert len([*hidden_randomness(pipeline)]) == 1


def test_a_sequence_and_an_iterable_that_draw_are_found() -> None:
    class Noisy:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> float:
            return index + random.random()

        def __iter__(self) -> Iterator[float]:
            return iter([random.random()])

    noisy: Any = Noisy()
    (found,) = hidden_randomness(rs.from_sequence(noisy))
    assert "FromSequence at pipeline: its sequence.__getitem__ draws by random.random" in found
    assert [*hidden_randomness(rs.from_iterable(noisy))]


def test_no_pipeline_of_the_catalogue_is_suspected(catalogue_data: Path) -> None:
    for name, make in catalogue(catalogue_data).items():
        assert not [*hidden_randomness(make())], name


def test_the_decoders_of_archives_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").write_bytes(bytes(10240))
    pipeline = rs.tar(tmp_path / "empty.tar", decode={"png": lambda data: random.random()})
    assert [*hidden_randomness(pipeline)]


@dataclass(frozen=True, eq=False, repr=False)
class OfAUser(rs.Transform[Any]):
    """A stage that keeps functions of any number."""

    steps: tuple[Any, ...] = ()

    def start(self, epoch: int = 0) -> Any:
        return self.upstream.start(epoch)


def test_the_fields_of_a_users_stage_are_looked_into() -> None:
    (found,) = hidden_randomness(rs.range(3).apply(OfAUser, (abs, noise)))
    assert found.startswith("OfAUser at pipeline: its steps[1] draws by random.random")


class Sums:
    """Draws from a generator, whose state it carries."""

    rng = random.Random(0)

    def __call__(self, *arguments: Any) -> Any:
        return self.rng.random(), 0

    def get_state(self) -> Any:
        return self.rng.getstate()

    def set_state(self, state: Any) -> None:
        self.rng.setstate(state)


def test_a_function_whose_state_is_saved_passes_and_no_other_of_its_stage() -> None:
    assert not [*hidden_randomness(rs.range(3).scan(Sums(), 0))]
    (found,) = hidden_randomness(rs.range(3).scan(Sums(), 0, finish=noise))
    assert "its finish draws" in found


def saveable_of(pipeline: rs.Pipeline[Any], folder: Path, policy: str | None) -> None:
    with tf.Graph().as_default():
        iterator = make_initializable_iterator(make_dataset(pipeline, SCALAR))
        make_saveable_from_iterator(iterator, policy)


def session_with(hook: Any, pipeline: rs.Pipeline[Any], folder: Path, policy: str | None) -> None:
    """Begin a session of a graph with an input of ``pipeline``."""
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        make_initializable_iterator(make_dataset(pipeline, SCALAR))
        made = hook(str(folder), save_steps=1, external_state_policy=policy)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[made]):
            pass


HOLDERS: dict[str, Callable[[rs.Pipeline[Any], Path, str | None], Any]] = {
    "hook": lambda pipeline, folder, policy: CheckpointInputPipelineHook(
        folder, pipeline=pipeline, save_steps=1, external_state_policy=policy
    ),
    "hook in a thread": lambda pipeline, folder, policy: AsyncCheckpointInputPipelineHook(
        folder, pipeline=pipeline, save_steps=1, external_state_policy=policy
    ),
    "checkpointable": lambda pipeline, folder, policy: CheckpointableInput(
        pipeline, external_state_policy=policy
    ),
    "Keras": lambda pipeline, folder, policy: ResumeInput(
        pipeline, folder, external_state_policy=policy
    ),
    "saveable": saveable_of,
    "hook of all inputs": partial(session_with, CheckpointInputPipelineHook),
    "hook with the model": partial(session_with, AsyncCheckpointSaverHook),
}
INEXACT: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "draws": lambda: rs.range(9).flat_map(lambda n: [n] * random.randint(1, 3)).repeat(),
    "is read once": lambda: rs.from_iterable(iter(range(9))).repeat(),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", INEXACT)
def test_whoever_saves_an_input_refuses_what_a_resume_would_not_repeat(
    holder: str, kind: str, tmp_path: Path
) -> None:
    hold = HOLDERS[holder]
    for policy in (None, "fail"):
        with pytest.raises(rs.ExternalStateError, match="an external_state_policy of"):
            hold(INEXACT[kind](), tmp_path, policy)
    with pytest.warns(RuntimeWarning, match="random_map|read once"):
        hold(INEXACT[kind](), tmp_path, "warn")
    hold(INEXACT[kind](), tmp_path, "ignore")
    with pytest.raises(rs.InvalidArgument, match="external_state_policy"):
        hold(INEXACT[kind](), tmp_path, "never")


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
