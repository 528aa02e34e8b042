"""Keras's model is backed up in files that are whole at every moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
from resumable_tf import ModelBackup, ResumeInput
from resumable_tf.eager.model_files import ModelFiles
from support.damaged import flip_last_bit
from tf_adapter.keras_runs import LABELS, ROWS, SIGNATURE, STEPS

import resumable as rs

# Keras 3 warns of its own variables under NumPy 2, and Keras 2 seeds with a float.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]
CALLS = ("open", "fsync", "replace", "rename", "unlink", "mkdir", "link")


def writing(content: bytes) -> Callable[[str], None]:
    """What writes ``content`` in pieces, as HDF5 does."""

    def write(path: str) -> None:
        with open(path, "wb", buffering=0) as file:
            for piece in (content[:3], content[3:]):
                os.fsync(file.fileno())  # a moment at which a kill may come
                file.write(piece)

    return write


@contextmanager
def watched(before: Callable[[str], object]) -> Iterator[None]:
    """Call ``before`` with the name of each call to the system that may change a folder, before it."""
    busy = False
    with pytest.MonkeyPatch.context() as patches:
        for name in CALLS:
            original = getattr(os, name)

            def call(*arguments: Any, name: str = name, do: Any = original, **options: Any) -> Any:
                nonlocal busy
                if not busy:
                    busy = True
                    before(name)
                    busy = False
                return do(*arguments, **options)

            patches.setattr(os, name, call)
        yield


def test_a_kill_at_any_moment_leaves_a_whole_file_of_the_last_save_or_this_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    files = ModelFiles(folder, "model", 2)
    moments: list[tuple[Path, int, int]] = []
    before = 0

    def note(call: str) -> None:
        left = tmp_path / "left" / str(len(moments))
        if folder.exists():
            shutil.copytree(folder, left)
        moments.append((left, before, step))

    with watched(note):
        for step in (10, 20, 30, 30, 40):
            files.save(step, writing(b"weights of %d" % step))
            before = step
    assert len(moments) > 25
    for left, last, now in moments:
        found = ModelFiles(left, "model", 2).newest()
        assert (0 if found is None else found.step) in (last, now)
        if found is not None:
            assert found.path.read_bytes() == b"weights of %d" % found.step


def test_a_file_is_on_the_disk_before_it_has_its_name_and_that_before_an_older_one_goes(
    tmp_path: Path,
) -> None:
    files = ModelFiles(tmp_path, "model", 1)
    files.save(1, writing(b"1"))
    calls: list[str] = []
    with watched(calls.append):
        files.save(2, writing(b"2"))
    assert calls[-5:] == ["fsync", "replace", "open", "fsync", "unlink"]


def test_what_killed_processes_left_is_removed_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".model-000000000007.123.weights.h5").touch()
    (tmp_path / "model-7.weights.h5").touch()  # not ours
    files = ModelFiles(tmp_path, "model", 2)
    files.remove_unfinished()
    for step in (1, 2, 12):
        files.save(step, writing(b"%d" % step))
    assert [one.step for one in files.found()] == [2, 12]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_files_as_they_were(call: str, tmp_path: Path) -> None:
    files = ModelFiles(tmp_path, "model", 1)
    files.save(1, writing(b"1"))

    def fail(*arguments: Any) -> None:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(os, call, fail)
        with pytest.raises(OSError, match="full"):
            files.save(2, writing(b"2"))
    assert [path.name.partition("-")[2][:12] for path in tmp_path.iterdir()] == ["000000000001"]


def test_a_damaged_file_is_set_aside_and_the_one_before_taken(tmp_path: Path) -> None:
    files = ModelFiles(tmp_path, "model", 3)
    for step in (1, 2):
        files.save(step, writing(b"%d of many" % step))
    first, second = (one.path for one in files.found())
    flip_last_bit(second)
    with pytest.warns(RuntimeWarning, match=r"is damaged; it was set aside as .*\.damaged"):
        assert [files.newest()] == files.found()
    first.write_bytes(b"")
    with (
        pytest.warns(RuntimeWarning, match="is damaged"),
        pytest.raises(rs.NoValidCheckpoint, match="all 1 files of the model"),
    ):
        files.newest()
    assert files.newest() is None


def small_model(**compiled: Any) -> Any:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse", jit_compile=False, **compiled)
    return model


class Crash(Exception):
    pass


class CrashAfter(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Raises after a batch, and notes how many began."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches
        self.begun = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begun += 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.begun == self.batches:
            raise Crash


def train(
    folder: Path, crash: int = 10**9, epochs: int = 2, model: Any = None, **options: Any
) -> Any:
    """The model after a training, and the number of batches."""
    tf.keras.utils.set_random_seed(0)
    model = model or small_model()
    rows = rs.from_arrays((ROWS, LABELS)).shuffle(0).batch(4).repeat()
    resume = ResumeInput(rows, folder / "input", save_freq=5)
    backup = ModelBackup(folder / "model", **{"save_freq": 5, **options})
    counted = CrashAfter(crash)
    with suppress(Crash):
        model.fit(
            resume.dataset(SIGNATURE[1:]),
            epochs=epochs,
            steps_per_epoch=STEPS,
            shuffle=False,
            verbose=0,
            callbacks=[backup, resume, counted],
        )
    return model, counted.begun


def weights(model: Any) -> list[Any]:
    return [weight.tolist() for weight in model.get_weights()]


def test_a_fresh_model_goes_on_where_the_last_save_was(tmp_path: Path) -> None:
    straight, _ = train(tmp_path / "straight")
    assert train(tmp_path / "run", crash=3)[1] == 3  # before the first save
    assert train(tmp_path / "run", crash=17)[1] == 17
    resumed, begun = train(tmp_path / "run")
    assert begun == 2 * STEPS - 15
    assert weights(resumed) == weights(straight)
    # It is over, and its end was saved, at a step that is no multiple.
    with pytest.warns(RuntimeWarning, match=f"step {2 * STEPS}"):
        again, begun = train(tmp_path / "run")
    assert begun == 0
    assert weights(again) == weights(straight)


def test_a_model_in_mid_epoch_is_not_trained_without_its_input(tmp_path: Path) -> None:
    train(tmp_path, crash=7)
    steps = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
    model = small_model()
    line = r"saved after 5 batches, perhaps within an epoch.*callbacks=\[backup, resume\]"
    with pytest.raises(rs.InvalidArgument, match=line):
        model.fit(ROWS, LABELS, 4, callbacks=[ModelBackup(tmp_path / "model")], **steps)
    assert int(model.optimizer.iterations) == 5
    train(tmp_path, epochs=1)
    history = model.fit(ROWS, LABELS, 4, 2, callbacks=[ModelBackup(tmp_path / "model")], **steps)
    assert history.epoch == [1], "at the end of an epoch, nothing is repeated"


def test_a_damaged_model_goes_back_with_its_input(tmp_path: Path) -> None:
    straight, _ = train(tmp_path / "straight")
    train(tmp_path / "run", crash=17)
    newest = max((tmp_path / "run" / "model").iterdir())
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        resumed, begun = train(tmp_path / "run")
    assert begun == 2 * STEPS - 10
    assert weights(resumed) == weights(straight)


def test_a_model_that_is_further_than_its_backup_stays_as_it_is(tmp_path: Path) -> None:
    straight, _ = train(tmp_path / "straight")
    model, _ = train(tmp_path / "run", crash=STEPS + 5)
    model, begun = train(tmp_path / "run", model=model, epochs=1)  # the rest of the epoch
    assert begun == STEPS - 5
    assert weights(model) == weights(straight)


def test_what_cannot_be_restored_is_refused_before_the_first_batch(tmp_path: Path) -> None:
    unbuilt = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    unbuilt.compile("sgd", "mse", jit_compile=False)
    with pytest.raises(rs.InvalidArgument, match="must be built before fit"):
        train(tmp_path, model=unbuilt)
    with pytest.raises(rs.InvalidType, match="directory must be a path"):
        ModelBackup(3)  # type: ignore[arg-type]
    wrong: list[dict[str, Any]] = [{"save_freq": 0}, {"max_to_keep": 0}, {"name": "a/b"}]
    for options in wrong:
        with pytest.raises(rs.InvalidArgument):
            ModelBackup(tmp_path, **options)
