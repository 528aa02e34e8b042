"""The session hooks: exact whatever ends the run, and whoever saves the model."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    AsyncCheckpointInputPipelineHook,
    AsyncCheckpointSaverHook,
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
)
from support.tiers import thinned
from tf_adapter.sessions import (
    SCALAR,
    UNOPTIMIZED,
    Crash,
    Raise,
    Told,
    aborted,
    models,
    recorded,
    saved,
    train,
)
from tf_adapter.versions import dealt

import resumable as rs

HOOKS = [CheckpointInputPipelineHook, AsyncCheckpointInputPipelineHook]
STEPS = 20


def numbers() -> Any:
    return iter(range(40))


def shuffled() -> rs.Pipeline[Any]:
    return rs.range(40).shuffle(3)


def stream() -> rs.Pipeline[Any]:
    """Read in order, with a window and a filter, and ahead by a thread of its own."""
    return rs.from_iterable(numbers).shuffle(1, window=6).filter(is_wanted).prefetch(2)


def is_wanted(number: int) -> bool:
    return number % 5 != 0


PIPELINES = {"random access": shuffled, "stream": stream}


def check(steps: Any, pipeline: rs.Pipeline[Any], growth: int = 1) -> None:
    """Each step has consumed the item of its number."""
    reference = list(pipeline)
    assert steps == [(step, reference[step // growth - 1]) for step, _ in steps]


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("crash", dealt(thinned(range(1, STEPS + 1), 5, "crashes")))
def test_a_crash_at_any_step_three_times_in_a_row_loses_and_repeats_nothing(
    crash: int, kind: str, tmp_path: Path
) -> None:
    """The three crashes lie apart by different numbers of steps."""
    steps: Any = []
    pipeline = PIPELINES[kind]
    hook = HOOKS[crash % 2]
    for at in (crash, crash + crash % 4, crash + crash % 7 + 1, None):
        train(
            tmp_path,
            pipeline(),
            last_step=STEPS,
            error=None if at is None else (at, Crash()),
            hook=hook(tmp_path, save_steps=3),
            prepare=lambda dataset: dataset.prefetch(8),
            steps=steps,
            config=UNOPTIMIZED if crash > 1 else None,
        )
    check(steps, pipeline())
    # Each resume began after the last checkpoint, and the model's are the input's.
    assert {step for step, _ in steps} >= set(range(1, STEPS + 1))
    assert models(tmp_path) == saved(tmp_path)


@pytest.mark.parametrize("kind", PIPELINES)
def test_the_global_step_is_the_one_at_which_origins_are_found(kind: str, tmp_path: Path) -> None:
    pipeline = PIPELINES[kind]()
    steps: Any = []
    for last in (8, STEPS):
        hook = CheckpointInputPipelineHook(tmp_path, save_steps=3)
        train(tmp_path, pipeline, last_step=last, hook=hook, steps=steps)
    checkpointer = rs.Checkpointer(tmp_path, rs.EverySteps(3))
    assert checkpointer.steps()
    for step, item in steps:
        assert [one.record for one in checkpointer.origins(pipeline, step).records()] == [item]


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("at", dealt(range(1, STEPS + 1)))
def test_a_session_that_recovers_continues_at_the_step_of_its_model(
    at: int, kind: str, tmp_path: Path
) -> None:
    pipeline = PIPELINES[kind]()
    steps = train(
        tmp_path,
        pipeline,
        last_step=STEPS,
        error=(at, aborted()),
        hook=HOOKS[at % 2](tmp_path, save_steps=3),
        prepare=lambda dataset: dataset.prefetch(8),
        config=UNOPTIMIZED if at > 1 else None,
    )
    check(steps, pipeline)
    # Those since the last checkpoint were trained again.
    assert STEPS <= len(steps) <= STEPS + 3
    assert steps[-1][0] == STEPS
    assert models(tmp_path) == saved(tmp_path)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_crash_after_the_inputs_save_and_before_the_models_loses_nothing(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = tf1.train.Saver.save
    crashes = iter([Crash()])

    def crash_at_six(self: Any, session: Any, path: str, *args: Any, **options: Any) -> Any:
        if options["global_step"] == 6:
            for crash in crashes:
                raise crash
        return save(self, session, path, *args, **options)

    monkeypatch.setattr(tf1.train.Saver, "save", crash_at_six)
    steps: Any = []
    for _ in range(2):
        pipeline = shuffled()
        made = hook(tmp_path, save_steps=3)
        train(tmp_path, pipeline, last_step=9, hook=made, steps=steps)
    check(steps, shuffled())
    assert [step for step, _ in steps] == [1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9]
    assert models(tmp_path) == saved(tmp_path) == [0, 3, 6, 9]


def test_a_slow_stream_is_not_asked_for_its_state_in_the_middle_of_an_item(
    tmp_path: Path,
) -> None:
    def slowly(number: int) -> int:
        time.sleep(0.01)
        return number

    steps: Any = []
    for at in (4, 7, None):
        pipeline = rs.from_iterable(numbers).map(slowly)
        error = None if at is None else (at, Crash())
        train(tmp_path, pipeline, last_step=9, error=error, save_steps=1, steps=steps)
    assert steps == [(step, step - 1) for step, _ in steps]


@pytest.mark.parametrize("hook", HOOKS)
def test_an_exhausted_input_is_over_and_stays_so(hook: Any, tmp_path: Path) -> None:
    pipeline = rs.range(7)
    steps = train(tmp_path, pipeline, hook=hook(tmp_path, save_steps=3))
    assert steps == [(n + 1, n) for n in range(7)]
    ended = r"come to its end at step 7, .*raise the number in its take, or in a repeat.*use another folder"
    with pytest.warns(RuntimeWarning, match=ended) as warned:
        assert train(tmp_path, pipeline, hook=hook(tmp_path, save_steps=3)) == []
    assert len(warned) == 1
    assert saved(tmp_path) == [0, 3, 6, 7]


def test_runs_that_need_no_data_consume_none(tmp_path: Path) -> None:
    def between(session: Any, global_step: Any) -> None:
        for _ in range(3):
            session.run(global_step)

    steps: Any = []
    for at in (5, 11, None):
        error = None if at is None else (at, Crash())
        pipeline = shuffled()
        train(tmp_path, pipeline, last_step=STEPS, error=error, between=between, steps=steps)
    check(steps, shuffled())


def test_the_global_step_may_grow_by_two_a_run(tmp_path: Path) -> None:
    steps: Any = []
    for at in (6, 14, None):
        error = None if at is None else (at, Crash())
        train(tmp_path, shuffled(), last_step=STEPS - 1, error=error, growth=2, steps=steps)
    check(steps, shuffled(), growth=2)
    assert {step for step, _ in steps} == set(range(2, STEPS + 1, 2))


def test_items_may_be_batched_and_filtered_by_tf_data(tmp_path: Path) -> None:
    def prepare(dataset: Any) -> Any:
        return dataset.filter(lambda number, item: item % 3 > 0).batch(2).prefetch(3)

    signature = SCALAR
    wanted = [item for item in shuffled() if item % 3]
    batches = [wanted[n : n + 2] for n in range(0, 20, 2)]
    steps: Any = []
    for at in (4, 5, None):
        error = None if at is None else (at, Crash())
        train(
            tmp_path,
            shuffled(),
            last_step=10,
            error=error,
            save_steps=2,
            signature=signature,
            prepare=prepare,
            steps=steps,
        )
    assert steps == [(step, batches[step - 1]) for step, _ in steps]
    assert [step for step, _ in steps[-6:]] == [5, 6, 7, 8, 9, 10]


def test_structures_of_items_come_as_they_are(tmp_path: Path) -> None:
    pipeline = rs.range(9).map(described).batch(2)
    signature = {
        "number": tf.TensorSpec((None,), tf.int64),
        "pair": (tf.TensorSpec((None,), tf.float64), tf.TensorSpec((None,), tf.string)),
    }
    steps = train(tmp_path, pipeline, last_step=2, signature=signature)
    assert steps[1][1] == {"number": [2, 3], "pair": ([1.0, 1.5], [b"2", b"3"])}


def described(number: int) -> Any:
    return {"number": number, "pair": (number / 2, str(number))}


STATEFUL: dict[str, Any] = {
    "ShuffleDataset": lambda d: d.shuffle(20, seed=1),
    "RepeatDataset": lambda d: d.repeat(),
    "ShardDataset": lambda d: d.shard(2, 0),
    "SkipDataset": lambda d: d.skip(5),
    "TakeDataset": lambda d: d.take(5),
    "ZipDataset": lambda d: d.enumerate().map(lambda n, pair: pair),
    "ConcatenateDataset": lambda d: d.concatenate(d),
    "UnbatchDataset": lambda d: d.batch(2).unbatch(),
    "IgnoreErrorsDataset": lambda d: d.apply(tf.data.experimental.ignore_errors()),
}


@pytest.mark.parametrize("operation", STATEFUL)
def test_what_has_a_position_in_tf_data_is_refused(operation: str, tmp_path: Path) -> None:
    with pytest.raises(rs.InvalidArgument, match=f"got {operation}"):
        train(tmp_path, rs.range(12), prepare=lambda d: STATEFUL[operation](d).prefetch(2))


def test_a_function_that_is_no_method_of_the_data_set_is_refused() -> None:
    with tf.Graph().as_default():
        made = make_dataset(rs.range(3), SCALAR).apply(tf.data.experimental.assert_cardinality(3))
        with pytest.raises(rs.InvalidType, match="as its methods, got <_PrefetchDataset"):
            make_initializable_iterator(made.prefetch(2))


def test_two_data_sets_zipped_are_refused() -> None:
    first, second = rs.range(3), rs.range(3)
    with tf.Graph().as_default():
        zipped = tf.data.Dataset.zip((make_dataset(first, SCALAR), make_dataset(second, SCALAR)))
        with pytest.raises(rs.InvalidType, match="as its methods, got <_ZipDataset"):
            make_initializable_iterator(zipped, first)


def test_another_order_of_a_map_is_told(tmp_path: Path) -> None:
    """As a parallel map may give it that need not keep the order."""

    def reverse(number: Any, item: Any) -> Any:
        return 100 - number, item

    with pytest.raises(tf.errors.InvalidArgumentError, match="must come in their order"):
        train(tmp_path, rs.range(12), prepare=lambda d: d.map(reverse))


@pytest.mark.parametrize("crash", [7, 13])
def test_several_items_may_be_taken_at_once(crash: int, tmp_path: Path) -> None:
    """As by several towers, which run beside each other."""
    pipeline = rs.range(400).shuffle(1)
    reference = list(pipeline)
    steps: Any = []
    for error in ((crash, Crash()), (crash + 3, Crash()), None):
        with tf.Graph().as_default():
            step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
            dataset = make_dataset(pipeline, SCALAR).prefetch(50)
            iterator = make_initializable_iterator(dataset)
            items = tf.stack([iterator.get_next() for _ in range(4)])
            done = recorded(step, items, steps)
            hooks = [
                CheckpointInputPipelineHook(tmp_path, save_steps=1),
                tf1.train.StopAtStepHook(last_step=40),
                *([] if error is None else [Raise(*error)]),
            ]
            try:
                with tf1.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), save_checkpoint_steps=1, hooks=hooks
                ) as session:
                    while not session.should_stop():
                        session.run(done)
            except Crash:
                pass
    expected = [(n, sorted(reference[4 * n - 4 : 4 * n])) for n, _ in steps]
    assert [(n, sorted(items)) for n, items in steps] == expected
    assert len(steps) >= 40


def train_with_scaffold(folder: Path, **options: Any) -> None:
    """Train with a Saver that stands in no collection."""
    pipeline = rs.range(12)
    with tf.Graph().as_default():
        item = make_initializable_iterator(make_dataset(pipeline, SCALAR)).get_next()
        with tf.control_dependencies([item]):
            step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
        scaffold = tf1.train.Scaffold(saver=tf1.train.Saver(max_to_keep=3))
        given = {name: {"scaffold": scaffold, "saver": scaffold.saver}[name] for name in options}
        hooks = [
            CheckpointInputPipelineHook(folder, save_steps=100, **given),
            tf1.train.StopAtStepHook(last_step=8),
        ]
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), scaffold=scaffold, save_checkpoint_steps=2, hooks=hooks
        ) as session:
            while not session.should_stop():
                session.run(step)


def test_a_saver_that_is_not_known_is_told_of_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(rs.InvalidArgument, match="by a Saver that is not known"):
        train_with_scaffold(tmp_path)


@pytest.mark.parametrize("option", ["saver", "scaffold"])
def test_a_saver_that_is_given_is_followed(option: str, tmp_path: Path) -> None:
    train_with_scaffold(tmp_path, **{option: True})
    assert models(tmp_path) == saved(tmp_path) == [4, 6, 8]


def test_a_saver_of_a_hook_after_ours_is_told_of_at_its_first_save(tmp_path: Path) -> None:
    """It saves when the session was created, or later."""
    pipeline = rs.range(30)
    own: list[Any] = []

    class Saves(tf1.train.SessionRunHook):  # type: ignore[misc]
        """Of the model at step 4, by a Saver of its own."""

        def begin(self) -> None:
            own.append(tf1.train.Saver(name="own"))
            self.step = tf1.train.get_global_step()

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_context.session.run(self.step) == 4:
                own[-1].save(run_context.session, str(tmp_path / "b" / "model"), self.step)

    class Late(tf1.train.CheckpointSaverHook):  # type: ignore[misc]
        def begin(self) -> None:
            super().begin()
            self._saver = tf1.train.Saver(name="late")

    for folder, hook, noticed in (("a", Late(str(tmp_path / "a"), save_steps=4), 0),
                                  ("b", Saves(), 4)):  # fmt: skip
        steps: Any = []
        made = CheckpointInputPipelineHook(tmp_path / folder, save_steps=3)
        with pytest.raises(rs.InvalidArgument, match="by a Saver that is not known"):
            train(
                tmp_path / folder,
                pipeline,
                hook=made,
                hooks=[hook],
                model=False,
                last_step=20,
                steps=steps,
            )
        assert max((step for step, _ in steps), default=0) <= noticed + 2


def test_a_model_exported_elsewhere_takes_no_input_away(tmp_path: Path) -> None:
    class Exports(tf1.train.SessionRunHook):  # type: ignore[misc]
        def after_run(self, run_context: Any, run_values: Any) -> None:
            saver = tf1.get_collection(tf1.GraphKeys.SAVERS)[0]
            saver.save(run_context.session, str(tmp_path / "export" / "final"))

    (tmp_path / "export").mkdir()
    train(tmp_path / "run", rs.range(30), last_step=9, hooks=[Exports()])
    assert set(models(tmp_path / "run")) <= set(saved(tmp_path / "run"))


class Worker:
    """An Estimator of a task that is not the chief, as far as a hook looks at it."""

    class config:  # noqa: N801
        num_worker_replicas = 2
        task_type, task_id = "worker", 1
        is_chief = False
        save_checkpoints_steps, save_checkpoints_secs = 3, None
        keep_checkpoint_max = 2

    def __init__(self, folder: Path) -> None:
        self.model_dir = str(folder)


def test_a_saver_that_deletes_nothing_keeps_every_input(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        pipeline = rs.range(30)
        item = make_initializable_iterator(make_dataset(pipeline, SCALAR)).get_next()
        with tf.control_dependencies([item]):
            step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
        graph.add_to_collection(tf1.GraphKeys.SAVERS, tf1.train.Saver(max_to_keep=0))
        hooks = [
            CheckpointInputPipelineHook(tmp_path, save_steps=100),
            tf1.train.StopAtStepHook(last_step=16),
        ]
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), save_checkpoint_steps=2, hooks=hooks
        ) as session:
            while not session.should_stop():
                session.run(step)
    assert models(tmp_path) == saved(tmp_path) == list(range(0, 17, 2))


def test_another_task_saves_at_its_own_steps_under_its_own_name(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    estimator = Worker(tmp_path)
    hook = CheckpointInputPipelineHook(estimator)
    train(tmp_path, pipeline, last_step=10, hook=hook, model=False)
    pattern = r"input_worker_1-0*([0-9]+)\.ckpt"
    assert saved(tmp_path, pattern) == [0, 9, 10]
    # The chief has saved the model at step 9 only: the newest that is not after it is taken.
    train(tmp_path / "chief", rs.range(30), last_step=9)
    for path in (tmp_path / "chief").iterdir():
        path.rename(tmp_path / path.name)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    hook = CheckpointInputPipelineHook(estimator)
    assert train(tmp_path, pipeline, last_step=11, hook=hook) == [(10, 9), (11, 10)]


def test_the_timer_keeps_the_input_of_each_model_in_the_folder(tmp_path: Path) -> None:
    pipeline = rs.range(100)
    (tmp_path / "mine-4.index").touch()
    hook = CheckpointInputPipelineHook(tmp_path, save_steps=2)
    train(tmp_path, pipeline, last_step=30, model=False, hook=hook)
    # The step that was restored, that of a model, and the five newest.
    assert saved(tmp_path) == [0, 4, 22, 24, 26, 28, 30]


def test_two_inputs_under_one_name_are_refused(tmp_path: Path) -> None:
    first, second = rs.range(3), rs.range(3)
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        for pipeline in (first, second):
            make_initializable_iterator(make_dataset(pipeline, SCALAR), pipeline)
        CheckpointInputPipelineHook(tmp_path, pipeline=first, save_steps=1).begin()
        with pytest.raises(rs.InvalidArgument, match="give each hook a name"):
            CheckpointInputPipelineHook(tmp_path, pipeline=second, save_steps=1).begin()
        CheckpointInputPipelineHook(tmp_path, pipeline=second, save_steps=1, name="second").begin()


@pytest.mark.parametrize("hook", HOOKS)
def test_without_a_saver_of_the_model_the_hooks_own_timer_decides(
    hook: Any, tmp_path: Path
) -> None:
    pipeline = rs.range(30)
    made = hook(tmp_path, save_steps=4)
    train(tmp_path, pipeline, last_step=10, model=False, hook=made)
    assert saved(tmp_path) == [0, 4, 8, 10]
    # The model begins at step 0 again, and so does its input.
    steps = train(tmp_path, pipeline, last_step=5, model=False, save_steps=4)
    assert steps[0] == (1, 0)
    assert saved(tmp_path) == [0, 4, 5]
    assert saved(tmp_path, r"input-0*([0-9]+)\.ckpt\.superseded") == [4, 8, 10]


def test_the_timer_of_seconds_saves_too(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    hook = CheckpointInputPipelineHook(tmp_path, save_secs=0.000001)
    train(tmp_path, pipeline, last_step=4, model=False, hook=hook)
    assert saved(tmp_path) == [0, 1, 2, 3, 4]


def test_the_input_follows_the_model_and_not_its_own_timer(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    hook = CheckpointInputPipelineHook(tmp_path, save_steps=1)
    train(tmp_path, pipeline, last_step=8, hook=hook, save_steps=4)
    assert saved(tmp_path) == models(tmp_path) == [0, 4, 8]


def test_files_go_with_those_of_the_model(tmp_path: Path) -> None:
    train(tmp_path, rs.range(30), last_step=25, save_steps=3)
    assert models(tmp_path) == saved(tmp_path) == [15, 18, 21, 24, 25]
    # No meta graph and nothing else is written for the input.
    assert {path.suffix for path in tmp_path.glob("input*")} == {".ckpt"}
    assert max(path.stat().st_size for path in tmp_path.glob("input*")) < 400


def test_the_core_resumes_what_the_hook_has_saved(tmp_path: Path) -> None:
    pipeline = shuffled()
    train(tmp_path, pipeline, last_step=7)
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as checkpointer:
        assert list(checkpointer.resume(pipeline)) == list(pipeline)[7:]


@pytest.mark.parametrize("hook", HOOKS)
def test_the_hook_resumes_what_the_core_has_saved(hook: Any, tmp_path: Path) -> None:
    pipeline = shuffled()
    train(tmp_path, pipeline, last_step=7)
    for path in tmp_path.glob("input*"):
        path.unlink()
    with rs.Checkpointer(tmp_path, rs.EverySteps(100)) as checkpointer:
        for _ in itertools.islice(checkpointer.resume(pipeline), 7):
            pass
    steps = train(tmp_path, pipeline, last_step=9, hook=hook(tmp_path, save_steps=3))
    assert steps == [(8, list(pipeline)[7]), (9, list(pipeline)[8])]


def test_a_model_without_its_input_is_refused(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    train(tmp_path, pipeline, last_step=7)
    (tmp_path / "input-000000000007.ckpt").unlink()
    with pytest.raises(rs.NoValidCheckpoint, match=r"the model is at step 7.*\[0, 3, 6\]"):
        train(tmp_path, pipeline, last_step=9)
    anew = r"to begin the input anew, remove them and pass allow_fresh_input=True"
    hook = CheckpointInputPipelineHook(tmp_path, save_steps=3, allow_fresh_input=True)
    with pytest.raises(rs.NoValidCheckpoint, match=anew):
        train(tmp_path, pipeline, last_step=9, hook=hook)
    for path in tmp_path.glob("input-*"):
        path.unlink()
    with pytest.warns(RuntimeWarning, match="the input begins at its start"):
        assert train(tmp_path, pipeline, last_step=9, hook=hook) == [(8, 0), (9, 1)]


@pytest.mark.parametrize("make", [*HOOKS, AsyncCheckpointSaverHook])
def test_a_hook_in_an_evaluation_is_told_to_be_left_out(make: Any, tmp_path: Path) -> None:
    with tf.Graph().as_default():
        make_initializable_iterator(make_dataset(rs.range(3), SCALAR))
        tf1.train.get_or_create_global_step()
        tf1.add_to_collection(tf1.GraphKeys.EVAL_STEP, tf1.get_variable("evaluated", ()))
        with pytest.raises(rs.InvalidArgument, match=rf"{make.__name__} .*leave it out there"):
            make(tmp_path, save_steps=1).begin()


def test_a_model_whose_inputs_name_is_another_does_not_begin(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    train(tmp_path, pipeline, last_step=7)
    hook = CheckpointInputPipelineHook(tmp_path, name="renamed", save_steps=3)
    with pytest.raises(rs.NoValidCheckpoint, match=r"step 7.*'renamed'.*allow_fresh_input=True"):
        train(tmp_path, pipeline, last_step=9, hook=hook)
    for path in tmp_path.glob("input*"):
        path.unlink()
    with pytest.raises(rs.NoValidCheckpoint, match="was the input renamed, or its files removed"):
        train(tmp_path, pipeline, last_step=9)


def test_an_old_model_may_get_an_input_on_demand(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    train(tmp_path, pipeline, last_step=7)
    for path in tmp_path.glob("input*"):
        path.unlink()
    hook = CheckpointInputPipelineHook(tmp_path, save_steps=3, allow_fresh_input=True)
    with pytest.warns(RuntimeWarning, match="the input begins at its start"):
        assert train(tmp_path, pipeline, last_step=9, hook=hook) == [(8, 0), (9, 1)]
    assert train(tmp_path, pipeline, last_step=10) == [(10, 2)]


def test_an_input_of_tf_data_is_named_as_what_cannot_be_continued(tmp_path: Path) -> None:
    pipeline = rs.range(30)
    train(tmp_path, pipeline, last_step=7)
    for path in tmp_path.glob("input*"):
        path.unlink()
    for step in (3, 12, 7):
        (tmp_path / f"input.ckpt-{step}.index").touch()
    with pytest.raises(
        rs.NoValidCheckpoint, match=r"input\.ckpt-12\.index is there, written by tf\."
    ):
        train(tmp_path, pipeline, last_step=9)


def test_another_pipeline_is_refused(tmp_path: Path) -> None:
    train(tmp_path, rs.range(30).shuffle(1), last_step=7)
    with pytest.raises(rs.StateMismatch, match=r"saved seed=1, this pipeline has seed=2"):
        train(tmp_path, rs.range(30).shuffle(2), last_step=9)


def test_a_model_saved_in_another_thread_is_told(tmp_path: Path) -> None:
    """TensorFlow's own asynchronous hook gives it the label of another step."""
    from concurrent.futures import ThreadPoolExecutor

    pipeline = rs.range(30)

    class SavesElsewhere(tf1.train.SessionRunHook):  # type: ignore[misc]
        def after_run(self, run_context: Any, run_values: Any) -> None:
            saver = tf1.get_collection(tf1.GraphKeys.SAVERS)[0]
            with ThreadPoolExecutor(1) as pool:
                pool.submit(
                    saver.save, run_context.session, str(tmp_path / "elsewhere")
                ).exception()

    with pytest.raises(rs.InvalidArgument, match="in the thread that trains it"):
        train(tmp_path, pipeline, last_step=9, hooks=[SavesElsewhere()])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_failed_save_is_raised_once_and_nothing_is_lost(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = rs.range(30)
    store_save = rs.Directory.save
    failures = iter([OSError(28, "no space left on device")])

    def save(self: Any, step: int, data: bytes) -> str:
        if step == 6:
            for failure in failures:
                raise failure
        return store_save(self, step, data)

    monkeypatch.setattr(rs.Directory, "save", save)
    with pytest.raises(rs.SaveError, match=r"step 6 could not be saved: .*no space left"):
        train(tmp_path, pipeline, last_step=15, hook=hook(tmp_path, save_steps=3))
    if hook is CheckpointInputPipelineHook:
        assert 6 not in models(tmp_path)  # the model is not ahead of its input
        steps = train(tmp_path, pipeline, last_step=15, hook=hook(tmp_path, save_steps=3))
        assert steps[0] == (4, 3)


def test_the_originals_errors_are_raised(tmp_path: Path) -> None:
    make: Any = CheckpointInputPipelineHook
    with pytest.raises(ValueError, match="every_secs"):
        make(tmp_path)
    with pytest.raises(ValueError, match="every_secs"):
        make(tmp_path, save_steps=1, save_secs=1)
    with pytest.raises(ValueError, match="one of saver and scaffold"):
        make(tmp_path, save_steps=1, saver=object(), scaffold=tf1.train.Scaffold())
    with pytest.raises(ValueError, match="external_state_policy"):
        make(tmp_path, "perhaps", save_steps=1)


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"pipeline": [1, 2]}, rs.InvalidType, "pipeline must be a pipeline"),
    ({"estimator": 7}, rs.InvalidType, "an Estimator, a RunConfig or a path, got 7"),
    ({"listeners": [object()]}, rs.InvalidType, "CheckpointSaverListener objects"),
    ({"listeners": Told([])}, rs.InvalidType, "a list of listeners"),
    ({"saver": 1}, rs.InvalidType, r"saver must be a tf\.compat\.v1\.train\.Saver, got 1"),
    ({"scaffold": 1}, rs.InvalidType, r"scaffold must be a tf\.compat\.v1\.train\.Scaffold, got 1"),
    ({"save_steps": "3"}, rs.InvalidType, "save_steps must be an integer, got '3'"),
    ({"save_steps": 1.5}, rs.InvalidType, r"save_steps must be an integer, got 1\.5"),
    ({"save_steps": -1}, rs.InvalidArgument, "save_steps must be at least 1, got -1"),
    (
        {"save_steps": None, "save_secs": "3"},
        rs.InvalidType,
        "save_secs must be a number of seconds",
    ),
    (
        {"save_steps": None, "save_secs": -1},
        rs.InvalidArgument,
        "save_secs must be finite and above 0",
    ),
    ({"name": "a/b"}, rs.InvalidArgument, "name"),
    ({"allow_fresh_input": 1}, rs.InvalidType, "allow_fresh_input must be True or False"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: "-".join(each[0]))
def test_wrong_arguments_are_refused(wrong: Any, tmp_path: Path) -> None:
    arguments, error, message = wrong
    make: Any = CheckpointInputPipelineHook
    with pytest.raises(error, match=message):
        make(**{"estimator": tmp_path, "save_steps": 1, **arguments})


def test_a_graph_without_its_parts_is_refused(tmp_path: Path) -> None:
    pipeline = rs.range(3)
    hook = CheckpointInputPipelineHook(tmp_path, save_steps=1)
    with tf.Graph().as_default():
        with pytest.raises(RuntimeError, match="Global step should be created"):
            hook.begin()
        tf1.train.get_or_create_global_step()
        with pytest.raises(rs.InvalidArgument, match="make its data set by resumable_tf"):
            hook.begin()
        given = CheckpointInputPipelineHook(tmp_path, pipeline=pipeline, save_steps=1)
        with pytest.raises(rs.InvalidArgument, match="the graph has 0 other ones"):
            given.begin()
        dataset = make_dataset(pipeline, SCALAR)
        with pytest.raises(rs.InvalidArgument, match="in one data set of a graph only"):
            make_dataset(pipeline, SCALAR)
        with pytest.raises(rs.InvalidType, match="pairs of a number and an item"):
            make_initializable_iterator(dataset.map(lambda number, item: item))
        with pytest.raises(rs.InvalidArgument, match="call make_dataset in the same graph"):
            make_initializable_iterator(dataset, rs.range(3))
        make_initializable_iterator(dataset)
        with pytest.raises(rs.InvalidArgument, match="one iterator over a pipeline"):
            make_initializable_iterator(dataset)
    with pytest.raises(rs.InvalidArgument, match="eager"):
        make_dataset(pipeline, SCALAR)


def test_a_source_that_is_read_once_follows_the_policy(tmp_path: Path) -> None:
    with pytest.raises(rs.ExternalStateError, match="can only be read once"):
        train(tmp_path, rs.from_iterable(numbers()), last_step=STEPS)
    with pytest.raises(rs.ExternalStateError, match="can only be read once"):
        CheckpointInputPipelineHook(tmp_path, pipeline=rs.from_iterable(numbers()), save_steps=1)
    steps: Any = []
    for at, policy in (
        (5, "warn"),
        (11, tf.data.experimental.ExternalStatePolicy.WARN),
        (None, "warn"),
    ):
        pipeline = rs.from_iterable(numbers())
        hook = CheckpointInputPipelineHook(tmp_path, policy, save_steps=3)
        error = None if at is None else (at, Crash())
        with pytest.warns(RuntimeWarning, match="can only be read once"):
            train(tmp_path, pipeline, last_step=STEPS, error=error, hook=hook, steps=steps)
    assert steps == [(step, step - 1) for step, _ in steps]


def test_a_hook_for_each_input_of_a_graph_keeps_to_its_own(tmp_path: Path) -> None:
    first, second = rs.range(30).shuffle(1), rs.range(100, 130).shuffle(2)
    steps = []
    for last_step in (5, 9):
        with tf.Graph().as_default():
            datasets = [make_dataset(first, SCALAR), make_dataset(second, SCALAR)]
            pipelines = [first, second]
            items = [
                make_initializable_iterator(dataset, pipeline).get_next()
                for dataset, pipeline in zip(datasets, pipelines, strict=True)
            ]
            with tf.control_dependencies(items):
                step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
            hooks = [
                CheckpointInputPipelineHook(tmp_path / name, pipeline=pipeline, save_steps=100)
                for name, pipeline in zip(["first", "second"], pipelines, strict=True)
            ]
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=2,
                hooks=[*hooks, tf1.train.StopAtStepHook(last_step=last_step)],
            ) as session:
                while not session.should_stop():
                    steps.append([int(got) for got in session.run([step, *items])])
    expected = zip(range(1, 10), first, second, strict=False)
    assert steps == [list(each) for each in expected]


@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize("hook", HOOKS)
def test_one_hook_saves_all_inputs_of_the_graph(hook: Any, model: bool, tmp_path: Path) -> None:
    """Each under a name of its own, and listeners are called once for all of them."""
    events: list[str] = []
    steps = []
    for last_step, error in ((5, None), (8, Crash()), (9, None)):
        first, second = rs.range(30).shuffle(1), rs.range(100, 130).shuffle(2)
        with tf.Graph().as_default():
            items = [
                make_initializable_iterator(make_dataset(each, SCALAR), each).get_next()
                for each in (first, second)
            ]
            with tf.control_dependencies(items):
                step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
            hooks = [
                hook(str(tmp_path), save_steps=2, listeners=[Told(events)]),
                tf1.train.StopAtStepHook(last_step=last_step),
                *([] if error is None else [Raise(8, error)]),
            ]
            try:
                with tf1.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path),
                    save_checkpoint_steps=2,
                    hooks=hooks,
                ) as session:
                    while not session.should_stop():
                        steps.append([int(got) for got in session.run([step, *items])])
            except Crash:
                pass
    reference = [list(each) for each in zip(range(1, 10), first, second, strict=False)]
    assert [row for row in reference if row in steps] == reference
    assert all(row in reference for row in steps)
    assert saved(tmp_path) == saved(tmp_path, r"input_1-0*([0-9]+)\.ckpt") == models(tmp_path)
    assert sum(event == "before_save 4" for event in events) == 1


class Answers(tf1.train.CheckpointSaverListener):  # type: ignore[misc]
    """Returns something true that is not True."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        return "/tmp/the-file-that-was-written"


@pytest.mark.parametrize("make", [*HOOKS, AsyncCheckpointSaverHook])
def test_a_listener_stops_the_training_by_true_alone(make: Any, tmp_path: Path) -> None:
    hook = make(tmp_path, save_steps=3, listeners=[Answers()])
    steps = train(tmp_path, rs.range(30), last_step=8, hook=hook, model=False)
    assert steps == [(step, step - 1) for step in range(1, 9)]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("model", [True, False])
def test_listeners_are_told_in_order_and_can_stop_the_training(
    model: bool, hook: Any, tmp_path: Path
) -> None:
    pipeline = rs.range(30)
    events: list[str] = []
    made = hook(tmp_path, save_steps=3, listeners=[Told(events, stop_at=6)])
    steps = train(tmp_path, pipeline, last_step=20, model=model, hook=made)
    last = steps[-1][0]
    # A save that is written beside the training is known of a little later.
    assert last == 6 if hook is CheckpointInputPipelineHook else 6 <= last <= 20
    told = [f"{event} {step}" for step in (0, 3, 6) for event in ("before_save", "after_save")]
    assert events[:7] == ["begin", *told]
    assert events[-1] == f"end {last}"
