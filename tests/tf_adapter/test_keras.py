"""Keras's ``fit``, killed at any batch and continued with the next one."""

from __future__ import annotations

import gc
import json
import math
import os
import random
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
from resumable_tf import ResumeInput
from support.tiers import thinned
from tf_adapter.keras_runs import LABELS, ROWS, SIGNATURE, STEPS, pipeline

import resumable as rs

# Keras 3 warns of its own variables under NumPy 2, and Keras 2 seeds with a float.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]

REPOSITORY = Path(__file__).parents[2]
FREQUENCIES = [
    # Who saves the model, how often, how often the input, and the batches of an execution.
    ("Keras", 1, 1, 1),
    ("ours", 3, 5, 1),
    ("Keras", 3, 5, 1),
    ("Keras", 2, "epoch", 2),
    ("Keras", "epoch", "epoch", 1),
    ("ours", "epoch", "epoch", 1),
    ("ours", 1, 1, 1),
    ("ours", 2, "epoch", 2),
    ("Keras", 4, 3, 4),
    ("Keras", 12, 5, 3),
    ("ours", 12, 5, 3),
]
# After how many batches, and before the model's callback, between the two, or after both.
ALWAYS = [[[12, 2], [4, 2], [7, 1]], [[24, 2]]]


def runs_of(frequencies: Any, seed: int) -> Any:
    """No kill, kills at the end of an epoch, and kills at random batches."""
    drawn = random.Random(f"{frequencies} {seed}")
    some = [[drawn.randint(1, 13), drawn.randrange(3)] for _ in range(3)]
    return [[], *ALWAYS, some]


def weights_after(
    runs: Any,
    frequencies: Any,
    folder: Path,
    *,
    keras_backend: str = "tensorflow",
    scaled: bool = False,
) -> list[str]:
    """The weights at the end of each of ``runs``, which a process of its own makes in ``folder``."""
    names = ["backup", "freq", "input_freq", "per_execution"]
    plan = {**dict(zip(names, frequencies, strict=True)), "runs": runs, "scaled": scaled}
    paths = [REPOSITORY, REPOSITORY / "tests", REPOSITORY / "adapters"]
    python_path = os.pathsep.join(map(str, paths))
    variables = {"PYTHONPATH": python_path, "PYTHONWARNINGS": "", "KERAS_BACKEND": keras_backend}
    completed = subprocess.run(
        [sys.executable, "-m", "tf_adapter.keras_runs", str(folder), json.dumps(plan)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    return [(folder / str(number) / "weights").read_text() for number in range(len(runs))]


@pytest.mark.parametrize("frequencies", thinned(FREQUENCIES, 3, "kills"), ids=str)
def test_a_killed_fit_trains_every_batch_once_and_ends_with_the_same_weights(
    frequencies: tuple[str, Any, Any, int], tmp_path: Path
) -> None:
    runs = runs_of(frequencies, seed=0)
    weights = weights_after(runs, frequencies, tmp_path)
    batches = [batch[0].tolist() for batch in islice(pipeline(), 2 * STEPS)]
    for number, run in enumerate(runs):
        lines = (tmp_path / str(number) / "log").read_text().splitlines()
        log = [json.loads(line) for line in lines]
        # What an iteration was trained with is the same however often it was done.
        assert log == [[iteration, batches[iteration]] for iteration, _ in log], run
        assert {iteration for iteration, _ in log} == set(range(2 * STEPS)), run
        assert weights[number] == weights[0], run


@pytest.mark.skipif(not hasattr(tf.keras, "version"), reason="Keras 2 has no other backend")
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_killed_fit_with_another_backend_ends_with_the_same_weights(
    backend: str, tmp_path: Path
) -> None:
    pytest.importorskip(backend, reason=f"Keras trains with TensorFlow alone: no {backend}")
    runs = [[], [[14, 2], [4, 0]]]
    weights = weights_after(runs, ("ours", 3, 5, 1), tmp_path, keras_backend=backend, scaled=True)
    assert weights[1] == weights[0]


def small_model() -> Any:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    return model


def rows() -> rs.Pipeline[Any]:
    return rs.from_arrays((ROWS, LABELS)).shuffle(0).batch(4).repeat()


def fit(model: Any, resume: ResumeInput, **options: Any) -> Any:
    callbacks = [*options.pop("before", []), resume, *options.pop("after", [])]
    options = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0, **options}
    return model.fit(resume.dataset(SIGNATURE[1:]), callbacks=callbacks, **options)


def test_a_model_loaded_from_any_checkpoint_finds_its_input(tmp_path: Path) -> None:
    """The model is saved at batches of its own; ``epochs`` goes on counting."""
    model = small_model()
    kept = tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}-{batch}.keras"), save_freq=5)
    resume = ResumeInput(rows(), tmp_path / "input", save_freq=4)
    fit(model, resume, epochs=2, before=[kept])
    weights = model.get_weights()
    paths = sorted(tmp_path.glob("*.keras"))
    assert len(paths) >= 4
    for path in paths:
        again = tf.keras.models.load_model(path)
        trained = int(again.optimizer.iterations)
        source = tmp_path / f"copy-{trained}"
        source.mkdir()
        for saved in (tmp_path / "input").glob("*.ckpt"):
            (source / saved.name).write_bytes(saved.read_bytes())
        fit(
            again,
            ResumeInput(rows(), source),
            epochs=2,
            initial_epoch=trained // STEPS,
        )
        for ours, theirs in zip(again.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_fit_that_had_ended_says_so(tmp_path: Path) -> None:
    """As with a backup that stays, or a kill between the last epoch and its removal."""

    def train(epochs: int) -> int:
        backup = tf.keras.callbacks.BackupAndRestore(str(tmp_path / "m"), delete_checkpoint=False)
        history = fit(
            small_model(), ResumeInput(rows(), tmp_path / "i"), epochs=epochs, before=[backup]
        )
        return len(history.epoch)

    assert train(2) == 2
    ended = rf"come to its end at step {2 * STEPS}, .* raise the epochs of fit; .* another folder"
    with pytest.warns(RuntimeWarning, match=ended):
        assert train(2) == 0
    assert train(3) == 1


def test_two_fits_go_on_in_the_same_input(tmp_path: Path) -> None:
    model, parted = small_model(), small_model()
    parted.set_weights(model.get_weights())
    fit(model, ResumeInput(rows(), tmp_path / "a"), epochs=3)
    resume = ResumeInput(rows(), tmp_path / "b")
    fit(parted, resume, epochs=1)
    fit(parted, resume, epochs=2)
    for ours, theirs in zip(parted.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_trained_model_without_its_input_is_refused_unless_the_user_allows_it(
    tmp_path: Path,
) -> None:
    model = small_model()
    fit(model, ResumeInput(rows(), tmp_path / "a"), epochs=1)
    trained = [weights.copy() for weights in model.get_weights()]
    lost = tmp_path / "lost"
    with pytest.raises(
        rs.NoValidCheckpoint, match=rf"step {STEPS}.*'.*lost.*allow_fresh_input=True"
    ):
        fit(model, ResumeInput(rows(), lost), epochs=1)
    for ours, theirs in zip(model.get_weights(), trained, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    resume = ResumeInput(rows(), lost, allow_fresh_input=True)
    with pytest.warns(RuntimeWarning, match="the input begins at its start"):
        fit(model, resume, epochs=1)
    assert int(model.optimizer.iterations) == 2 * STEPS
    fit(model, ResumeInput(rows(), lost), epochs=1)  # there is a checkpoint now


class Stop(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = epoch == 1


def test_what_stops_the_training_stops_it(tmp_path: Path) -> None:
    """Also in the epoch of a resume, which Keras 3 is made to end early."""
    for place in ("before", "after"):
        model = small_model()
        fit(model, ResumeInput(rows(), tmp_path / place, save_freq=1), epochs=1)
        fit(model, ResumeInput(rows(), tmp_path / place), epochs=1, steps_per_epoch=STEPS - 5)
        resume = ResumeInput(rows(), tmp_path / place)
        history = fit(model, resume, epochs=9, **{place: [Stop()]})
        assert len(history.epoch) == 2
        assert int(model.optimizer.iterations) == 3 * STEPS


class CrashAt(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, iteration: int) -> None:
        super().__init__()
        self._iteration = iteration

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) == self._iteration:
            raise KeyboardInterrupt


def test_a_fit_is_tried_again_with_the_same_callback(tmp_path: Path) -> None:
    straight, again = small_model(), small_model()
    weights = straight.get_weights()
    fit(straight, ResumeInput(rows(), tmp_path / "a"), epochs=1)
    resume = ResumeInput(rows(), tmp_path / "b", save_freq=1)

    def backup() -> Any:
        return tf.keras.callbacks.BackupAndRestore(str(tmp_path / "backup"), save_freq=4)

    again.set_weights(weights)
    with pytest.raises(KeyboardInterrupt):
        fit(again, resume, epochs=1, before=[backup()], after=[CrashAt(7)])
    again = small_model()
    fit(again, resume, epochs=1, before=[backup()])
    for ours, theirs in zip(again.get_weights(), straight.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


class NotesKept(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Notes the steps in ``store`` after each batch, by the iterations."""

    def __init__(self, store: rs.Store) -> None:
        super().__init__()
        self.kept: dict[int, list[int]] = {}
        self._store = store

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.kept[int(self.model.optimizer.iterations)] = self._store.steps()


def test_a_retention_keeps_what_is_saved_after_the_model_was_set_back(tmp_path: Path) -> None:
    model, store = small_model(), rs.Directory(tmp_path)
    retention = rs.Retention(latest=2, every_steps=8)
    resume = ResumeInput(rows(), store, save_freq=4, retention=retention)
    fit(model, resume, epochs=3)
    assert store.steps() == [8, 16, 24, 32, 36]
    model.optimizer.iterations.assign(18)
    notes = NotesKept(store)
    fit(model, resume, epochs=3, initial_epoch=1, after=[notes])
    assert notes.kept[19] == [8, 16, 18]
    assert notes.kept[22] == [8, 16, 18, 22]
    assert notes.kept[30] == [8, 16, 26, 30]
    assert store.steps() == [8, 16, 26, 30, 34]


class Elsewhere(tf.keras.Sequential):  # type: ignore[misc]
    """Trains with an optimizer of its own, so many times a batch."""

    times = 1

    def train_step(self, data: Any) -> Any:
        for _ in range(self.times):
            logs = super().train_step(data) if self.times > 1 else {"loss": tf.constant(0.0)}
        return logs


@pytest.mark.parametrize("times", [1, 2])
def test_iterations_that_do_not_count_the_batches_are_refused(times: int, tmp_path: Path) -> None:
    model = Elsewhere([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.times = times
    model.compile(tf.keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    with pytest.raises(rs.InvalidArgument, match="must grow by one with each batch"):
        fit(model, ResumeInput(rows(), tmp_path), epochs=1)


def test_a_damaged_checkpoint_is_set_aside_for_an_earlier_one(tmp_path: Path) -> None:
    model, again = small_model(), small_model()
    fit(model, ResumeInput(rows(), tmp_path, save_freq=4), epochs=1)
    again.set_weights(model.get_weights())
    (tmp_path / "input-000000000012.ckpt").write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="step 12 is damaged.*set aside"):
        fit(model, ResumeInput(rows(), tmp_path), epochs=1)
    assert int(model.optimizer.iterations) == 2 * STEPS
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as checkpointer:
        checkpointer.resume(rows())
        assert checkpointer.step == 2 * STEPS


def test_the_core_resumes_what_keras_has_trained(tmp_path: Path) -> None:
    fit(small_model(), ResumeInput(rows(), tmp_path, save_freq=5), epochs=1)
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as checkpointer:
        batch = next(iter(checkpointer.resume(rows())))
        assert checkpointer.step == 11
    np.testing.assert_array_equal(batch[0], next(islice(rows(), 10, None))[0])


def test_a_filtered_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    def odd(row: Any) -> bool:
        return bool(np.asarray(row[0]).size)

    def filtered() -> rs.Pipeline[Any]:
        return rows().filter(odd).repeat()

    assert filtered().length == math.inf
    fit(small_model(), ResumeInput(filtered(), tmp_path, save_freq=5), epochs=1)
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as checkpointer:
        batch = next(iter(checkpointer.resume(filtered())))
    np.testing.assert_array_equal(batch[0], next(islice(filtered(), 10, None))[0])


def test_bad_arguments_are_told(tmp_path: Path) -> None:
    with pytest.raises(rs.InvalidType, match="pipeline must be a pipeline"):
        ResumeInput([1], tmp_path)  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match=r"pipeline must not end.*add .repeat"):
        ResumeInput(rs.range(3), tmp_path)
    with pytest.raises(rs.InvalidArgument, match=r"pipeline must not end.*add .repeat"):
        ResumeInput(rs.range(3).filter(bool), tmp_path)
    with pytest.raises(rs.InvalidArgument, match="save_freq must be at least 1, got 0"):
        ResumeInput(rows(), tmp_path, save_freq=0)
    with pytest.raises(rs.InvalidType, match="save_freq"):
        ResumeInput(rows(), tmp_path, save_freq="step")  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidType, match="allow_fresh_input must be True or False"):
        ResumeInput(rows(), tmp_path, allow_fresh_input=1)  # type: ignore[arg-type]
    resume = ResumeInput(rows(), tmp_path)
    with pytest.raises(rs.InvalidArgument, match="steps_per_epoch"):
        fit(small_model(), resume, steps_per_epoch=None, epochs=1)


def test_the_order_of_callbacks_is_told_where_it_matters(tmp_path: Path) -> None:
    """Keras 3 takes the epoch for unfinished whose last batch the model was saved with."""

    def backup() -> Any:
        return tf.keras.callbacks.BackupAndRestore(str(tmp_path / "backup"), save_freq=STEPS)

    class InEvaluation(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_test_begin(self, logs: Any = None) -> None:
            raise KeyboardInterrupt

    validation: Any = {"validation_data": (ROWS, LABELS), "epochs": 2}
    before = [backup(), InEvaluation()]
    with pytest.raises(KeyboardInterrupt):
        fit(small_model(), ResumeInput(rows(), tmp_path), before=before, **validation)
    if int(tf.__version__.split(".")[1]) > 15:
        with pytest.raises(
            rs.InvalidArgument, match="must come after ModelBackup or BackupAndRestore"
        ):
            fit(small_model(), ResumeInput(rows(), tmp_path), after=[backup()], **validation)
    model = small_model()
    history = fit(model, ResumeInput(rows(), tmp_path), before=[backup()], **validation)
    assert history.epoch == [1]
    assert int(model.optimizer.iterations) == 2 * STEPS


def test_steps_that_no_execution_fits_are_told(tmp_path: Path) -> None:
    """Keras 3 trains more steps than an epoch has."""
    model = small_model()
    model.compile(
        tf.keras.optimizers.SGD(0.01), "mse", jit_compile=False, steps_per_execution=STEPS - 2
    )
    resume = ResumeInput(rows(), tmp_path)
    if int(tf.__version__.split(".")[1]) > 15:
        with pytest.raises(rs.InvalidArgument, match="must be a multiple of steps_per_execution"):
            fit(model, resume, epochs=2)
    else:
        fit(model, resume, epochs=2)
        assert int(model.optimizer.iterations) == 2 * STEPS


def test_another_pipeline_is_refused(tmp_path: Path) -> None:
    model = small_model()
    fit(model, ResumeInput(rows(), tmp_path), epochs=1)
    other = rs.from_arrays((ROWS, LABELS)).shuffle(1).batch(4).repeat()
    with pytest.raises(rs.StateMismatch, match="saved seed=0, this pipeline has seed=1"):
        fit(model, ResumeInput(other, tmp_path), epochs=1)


REFUSED: dict[str, Any] = {
    "batch": lambda d: d.batch(2),
    "filter": lambda d: d.filter(lambda *batch: True),
    "shard": lambda d: d.shard(2, 0),
    "take": lambda d: d.prefetch(2).take(5),
    "unbatch": lambda d: d.apply(lambda each: each.unbatch()),
    "shuffle": lambda d: d.map(lambda *batch: batch).shuffle(3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_keep_the_batches_is_refused(name: str, tmp_path: Path) -> None:
    dataset = ResumeInput(rows(), tmp_path).dataset(SIGNATURE[1:])
    with pytest.raises(rs.InvalidArgument, match=f"got {name}: fit must train each batch"):
        REFUSED[name](dataset)


def test_what_keeps_the_batches_is_trained(tmp_path: Path) -> None:
    straight, mapped = small_model(), small_model()
    mapped.set_weights(straight.get_weights())
    fit(straight, ResumeInput(rows(), tmp_path / "a"), epochs=1)
    resume = ResumeInput(rows(), tmp_path / "b")
    dataset = resume.dataset(SIGNATURE[1:]).map(lambda x, y: (x, y)).prefetch(2)
    mapped.fit(dataset, callbacks=[resume], steps_per_epoch=STEPS, shuffle=False, verbose=0)
    for ours, theirs in zip(mapped.get_weights(), straight.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_callback_that_was_left_out_is_noticed(tmp_path: Path) -> None:
    def fit_without(resume: ResumeInput) -> None:
        model = small_model()
        options: Any = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
        model.fit(resume.dataset(SIGNATURE[1:]), **options)
        gc.collect()

    with pytest.warns(RuntimeWarning, match="not among the callbacks: nothing of the input was"):
        fit_without(ResumeInput(rows(), tmp_path))
    assert not list(tmp_path.iterdir())
    resume = ResumeInput(rows(), tmp_path)
    fit(small_model(), resume, epochs=1)
    with pytest.warns(RuntimeWarning, match="not among the callbacks: nothing of the input was"):
        fit_without(resume)


@pytest.mark.parametrize("per_execution", [1, 2])
def test_an_error_of_the_input_begins_with_its_reason(
    per_execution: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(tf.get_logger(), "error", logged.append)

    def fail(number: int) -> Any:
        if number == 6:
            raise KeyError("a missing row")
        return ROWS[number : number + 1], LABELS[number : number + 1]

    model = small_model()
    model.compile("sgd", "mse", jit_compile=False, steps_per_execution=per_execution)
    resume = ResumeInput(rs.range(9).map(fail).repeat(), tmp_path)
    reason = "item 7 of the input failed in Map at pipeline.upstream: KeyError: 'a missing row'"
    with pytest.raises(tf.errors.OpError) as caught:
        fit(model, resume, epochs=1)
    assert str(caught.value).startswith(reason)
    assert logged == [reason]


class Overflows(tf.keras.Model):  # type: ignore[misc]
    """Notes the rows of each batch, whose loss is not finite for some of them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: list[list[int]] = []

    def train_step(self, data: Any) -> Any:
        numbers, inputs, labels = data
        noted = tf.numpy_function(self._note, [numbers], tf.int64)
        with tf.control_dependencies([noted]):
            return super().train_step((tf.identity(inputs), labels))

    def _note(self, numbers: Any) -> Any:
        self.seen.append(numbers.tolist())
        return np.int64(0)


def scaled(folder: Path, kill: int | None, save_freq: Any, backup_freq: Any) -> Any:
    """A training whose optimizer leaves out some batches: the rows of each batch, and the model."""
    labels = LABELS.copy()
    labels[::11] = np.inf
    numbered = (np.arange(len(ROWS)), ROWS, labels)
    pipeline = rs.from_arrays(numbered).shuffle(0).batch(4).repeat()
    tf.keras.utils.set_random_seed(0)
    inputs = tf.keras.Input((3,))
    model = Overflows(inputs, tf.keras.layers.Dense(1)(inputs))
    inner = tf.keras.optimizers.Adam(0.01)
    model.compile(tf.keras.mixed_precision.LossScaleOptimizer(inner), "mse", jit_compile=False)
    resume = ResumeInput(pipeline, folder / "input", save_freq=save_freq)
    backup = tf.keras.callbacks.BackupAndRestore(str(folder / "backup"), save_freq=backup_freq)
    callbacks = [backup, resume, *([] if kill is None else [CrashAfter(kill)])]
    options: Any = {"steps_per_epoch": STEPS, "epochs": 2, "shuffle": False, "verbose": 0}
    with suppress(KeyboardInterrupt):
        model.fit(resume.dataset(SIGNATURE), callbacks=callbacks, **options)
    return model


class CrashAfter(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("save_freq", "backup_freq"), [(1, 1), (5, 3), ("epoch", 4)])
def test_batches_that_a_scaled_loss_leaves_out_are_counted(
    save_freq: Any, backup_freq: Any, tmp_path: Path
) -> None:
    straight = scaled(tmp_path / "straight", None, save_freq, backup_freq)
    assert len(straight.seen) == 2 * STEPS
    if int(tf.__version__.split(".")[1]) > 15:
        assert int(straight.optimizer.iterations) < 2 * STEPS - 3
    for kill in (4, 9, 15):
        folder = tmp_path / str(kill)
        killed = scaled(folder, kill, save_freq, backup_freq)
        assert killed.seen == straight.seen[:kill]
        resumed = scaled(folder, None, save_freq, backup_freq)
        assert resumed.seen == straight.seen[-len(resumed.seen) :]
        assert len(resumed.seen) == 2 * STEPS - kill // backup_freq * backup_freq
        for ours, theirs in zip(resumed.get_weights(), straight.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
