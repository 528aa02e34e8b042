"""A job goes on with another number of tasks: their files are joined, and no others ever are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
from resumable_tf import (
    AsyncCheckpointInputPipelineHook,
    CheckpointInputPipelineHook,
    ResumeInput,
)
from resumable_tf.feed import Feed
from resumable_tf.tasks import TaskFiles
from tf_adapter.jobs import run_job, until
from tf_adapter.sessions import saved

import resumable as rs
from resumable.checkpoint.envelope import encode

PARTITIONS = 12


def is_wanted(number: int) -> bool:
    return number // PARTITIONS % 2 == 0


def partitioned(task: int, tasks: int) -> rs.Pipeline[Any]:
    """Ten items in each partition."""
    whole = rs.range(240).partition(PARTITIONS, lambda part: part.filter(is_wanted))
    return whole.shard(task, tasks)


def dealt(task: int, tasks: int) -> rs.Pipeline[Any]:
    return rs.range(120).shuffle(2).shard(task, tasks)


def numbers(pipeline: Callable[[int, int], rs.Pipeline[Any]]) -> list[int]:
    return sorted(pipeline(0, 1))


@pytest.mark.parametrize(
    ("pipeline", "hook"),
    [(partitioned, CheckpointInputPipelineHook), (dealt, AsyncCheckpointInputPipelineHook)],
)
def test_a_job_goes_on_with_two_tasks_and_then_with_three(
    pipeline: Callable[[int, int], rs.Pipeline[Any]], hook: Any, tmp_path: Path
) -> None:
    """Each job before the last is killed two steps after its model was saved."""
    items = until(6, run_job(tmp_path, 4, pipeline, hook, last_step=99, killed_at=8))
    items += until(9, run_job(tmp_path, 2, pipeline, hook, last_step=99, killed_at=11))
    items += until(39, run_job(tmp_path, 3, pipeline, hook, last_step=39))
    assert sorted(items) == numbers(pipeline)


def test_what_tasks_that_are_gone_have_saved_later_is_set_aside(tmp_path: Path) -> None:
    """The model was lost after its input was saved, and then the job shrinks and grows again."""
    hook = CheckpointInputPipelineHook
    items = until(6, run_job(tmp_path, 4, dealt, hook, last_step=99, killed_at=10))
    for path in tmp_path.glob("model.ckpt-9*"):
        path.unlink()
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-6"\n')
    items += until(9, run_job(tmp_path, 2, dealt, hook, last_step=99, killed_at=10))
    aside = r"input_worker_3-0*([0-9]+)\.ckpt\.superseded"
    assert saved(tmp_path, aside) == [9]
    items += until(14, run_job(tmp_path, 4, dealt, hook, last_step=14))
    assert sorted(items) == sorted(list(dealt(0, 1))[: 4 * 6 + 2 * 3 + 4 * 5])


def reader(folder: Path, name: str, pipeline: rs.Pipeline[Any], leads: bool = False) -> TaskFiles:
    return TaskFiles(rs.Directory(folder, name), Feed(pipeline), leads)


def save(folder: Path, name: str, step: int, pipeline: rs.Pipeline[Any], taken: int) -> None:
    """What a task saves at ``step`` that has consumed so many items."""
    with iter(pipeline) as iterator:
        iterator.skip(taken)
        state = iterator.get_state()
    rs.Directory(folder, name).save(step, encode(rs.Checkpoint(step, 0.0, state)))


def save_job(folder: Path, tasks: int, step: int, taken: int) -> None:
    for task in range(tasks):
        save(folder, rs.task_name("worker", task), step, partitioned(task, tasks), taken)


@given(
    before=st.integers(1, 6),
    now=st.integers(1, 6),
    taken=st.integers(0, 40),
    name=st.sampled_from(["", "_1"]),
)
def test_any_number_of_tasks_takes_over_from_any_other(
    before: int, now: int, taken: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("job")

    def name_of(task: int, tasks: int) -> str:
        return (rs.task_name("worker", task) if tasks > 1 else "input") + name

    done = []
    for task in range(before):
        pipeline = partitioned(task, before)
        save(folder, name_of(task, before), 7, pipeline, taken)
        done += list(pipeline)[:taken]
    for task in range(now):
        pipeline = partitioned(task, now)
        files = reader(folder, name_of(task, now), pipeline)
        state = files.joined(7, exactly=True)
        if state is None:
            state = rs.Checkpointer(files.store, rs.EverySteps(1)).load(7).state
        with pipeline.resume(state) as iterator:
            done += list(iterator)
    assert sorted(done) == numbers(partitioned)


def test_files_of_another_step_or_input_are_never_joined(tmp_path: Path) -> None:
    save_job(tmp_path, 4, 5, 5)
    save_job(tmp_path, 4, 7, 7)
    for name in ("input_1", "validation_worker_0", "input_worker_0_1", "input_left_0"):
        save(tmp_path, name, 6, partitioned(0, 1), 6)
    assert reader(tmp_path, "input_worker_0", partitioned(0, 2)).joined(6, True) is None


def test_a_state_that_fits_alone_is_used_alone(tmp_path: Path) -> None:
    save_job(tmp_path, 4, 5, 5)
    assert reader(tmp_path, "input_worker_1", partitioned(1, 4)).joined(5, True) is None


@pytest.mark.parametrize("lost", ["removed", "damaged"])
def test_a_missing_file_is_told_with_its_partitions(lost: str, tmp_path: Path) -> None:
    """Also to a task that needs none of them: all tasks resume or none."""
    save_job(tmp_path, 4, 5, 5)
    path = tmp_path / "input_worker_3-000000000005.ckpt"
    path.unlink() if lost == "removed" else path.write_bytes(b"")
    for task in range(2):
        with pytest.raises(
            rs.StateMismatch,
            match=r"(?s)at step 5,.* input_worker_0, input_worker_1, input_worker_2 were read"
            r".*but not 3, 7, 11",
        ):
            reader(tmp_path, f"input_worker_{task}", partitioned(task, 2)).joined(5, True)


def test_files_of_two_lives_of_a_job_contradict_each_other(tmp_path: Path) -> None:
    save_job(tmp_path, 2, 5, 8)
    for task in (2, 3):  # of an earlier life, which had come to this step with fewer items
        save(tmp_path, f"input_worker_{task}", 5, partitioned(task, 4), 5)
    with pytest.raises(rs.StateMismatch, match=r"step 5.*the states of the ranks differ"):
        reader(tmp_path, "input_worker_0", partitioned(0, 3)).joined(5, True)


def test_a_worker_that_comes_back_takes_what_the_others_have_done_since(tmp_path: Path) -> None:
    save_job(tmp_path, 4, 5, 5)
    save_job(tmp_path, 2, 9, 8)
    back = reader(tmp_path, "input_worker_3", partitioned(3, 4)).joined(9, exactly=False)
    assert back is not None
    with partitioned(3, 4).resume(back) as rest, iter(partitioned(1, 2)) as before:
        before.skip(8)
        assert {*rest} <= {*before}


def test_a_worker_at_its_own_pace_goes_on_from_its_own_file(tmp_path: Path) -> None:
    """Its step is not the model's, and what others have saved at that is not its place."""
    for pipeline in (partitioned, dealt):
        folder = tmp_path / pipeline.__name__
        save(folder, "input_worker_1", 5, pipeline(1, 2), 3)
        save(folder, "input_worker_0", 7, pipeline(0, 2), 6)
        assert reader(folder, "input_worker_1", pipeline(1, 2)).joined(7, False) is None


def test_a_worker_that_comes_back_takes_the_common_place_of_the_others(tmp_path: Path) -> None:
    save(tmp_path, "input_worker_2", 5, dealt(2, 4), 5)
    for task in range(2):
        save(tmp_path, f"input_worker_{task}", 9, dealt(task, 2), 12)
    state = reader(tmp_path, "input_worker_2", dealt(2, 4)).joined(9, exactly=False)
    assert state is not None
    assert list(dealt(2, 4).resume(state)) == list(dealt(0, 1))[26::4]


def test_a_new_worker_takes_the_place_of_another(tmp_path: Path) -> None:
    save(tmp_path, "input_worker_0", 7, dealt(0, 1), 6)
    state = reader(tmp_path, "input_worker_1", dealt(1, 2)).joined(7, exactly=False)
    assert state is not None
    assert list(dealt(1, 2).resume(state)) == list(dealt(0, 1))[7::2]


def test_only_the_chief_sets_aside_what_others_have_saved(tmp_path: Path) -> None:
    save_job(tmp_path, 3, 5, 5)
    save_job(tmp_path, 3, 9, 9)
    save(tmp_path, "validation", 9, partitioned(0, 1), 9)
    reader(tmp_path, "input_worker_1", partitioned(1, 2)).supersede_after(5)
    assert rs.Directory(tmp_path).steps_by_name() == {
        "input_worker_0": [5, 9],
        "input_worker_1": [5],
        "input_worker_2": [5, 9],
        "validation": [9],
    }
    chief = reader(tmp_path, "input_worker_0", partitioned(0, 2), leads=True)
    assert chief.has_after(5)
    chief.supersede_after(5)
    assert not chief.has_after(5)
    assert rs.Directory(tmp_path).steps_by_name()["input_worker_2"] == [5]


def test_a_store_of_the_users_own_has_no_other_tasks() -> None:
    store = rs.Memory()
    files = TaskFiles(store, Feed(partitioned(0, 2)), leads=True)
    assert files.joined(5, exactly=True) is None
    assert not files.has_after(0)


# Keras's own: Keras 3 warns of its variables under NumPy 2, and Keras 2 seeds with a float.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning")
def test_keras_takes_over_from_two_tasks_at_the_batch_of_its_model(tmp_path: Path) -> None:
    def fit(task: int, tasks: int, epochs: int) -> list[int]:
        """The numbers of the batches of one task, whose model is its own."""
        seen: list[int] = []

        def pair(number: int) -> Any:
            seen.append(number)
            return np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)

        pipeline = rs.range(40).partition(4, lambda part: part.repeat()).shard(task, tasks)
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        name = rs.task_name("worker", task)
        resume = ResumeInput(pipeline.map(pair), tmp_path / "inputs", name=name)
        model.fit(
            resume.dataset((tf.TensorSpec((1, 1)), tf.TensorSpec((1, 1)))),
            steps_per_epoch=3,
            epochs=epochs,
            shuffle=False,
            verbose=0,
            callbacks=[
                tf.keras.callbacks.BackupAndRestore(tmp_path / name, delete_checkpoint=False),
                resume,
            ],
        )
        return seen[: 3 * epochs]

    for task in range(2):
        fit(task, 2, epochs=1)
    # Each of the two has handed out three, in the order of the partitions 0, 2 and 1, 3.
    assert fit(0, 1, epochs=2)[:3] == [6, 7, 8]


def test_other_tasks_are_found_in_a_remote_store() -> None:
    import fsspec

    url = "memory://tasks"
    for task in range(2):
        with iter(partitioned(task, 2)) as iterator:
            iterator.skip(3)
            data = encode(rs.Checkpoint(3, 0.0, iterator.get_state()))
        rs.Remote(url, rs.task_name("worker", task)).save(3, data)
    files = TaskFiles(rs.Remote(url), Feed(partitioned(0, 1)))
    state = files.joined(3, exactly=True)
    assert state is not None
    assert list(partitioned(0, 1).resume(state)) == list(partitioned(0, 1))[6:]
    fsspec.filesystem("memory").rm("/tasks", recursive=True)
