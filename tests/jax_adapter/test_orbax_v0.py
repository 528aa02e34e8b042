"""An input in the checkpoints of version 0 of Orbax, and what one version saved read by the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

import orbax.checkpoint as ocp
from jax_adapter.orbax_folders import ORBAX_WARNS, damage, input_files, type_strings
from jax_adapter.orbax_inputs import BATCHES, MISTAKEN, PIPELINES, WRAPPED, at, kept, rest
from orbax.checkpoint import v1
from resumable_jax import (
    InputCheckpointHandler,
    InputMetadata,
    InputRestore,
    InputSave,
    arguments,
    folder,
)

import resumable as rs

pytestmark = ORBAX_WARNS
STATE = {"weights": np.arange(3.0)}
Composite = ocp.args.Composite


def manager(folder: Path, **options: Any) -> Any:
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(**options))


def saved_at(folder: Path, step: int, iterator: Any, **options: Any) -> None:
    """Save ``iterator`` and a state as ``step``."""
    arguments = Composite(state=ocp.args.StandardSave(STATE), input=InputSave(iterator))
    with manager(folder, **options) as saving:
        assert saving.save(step, args=arguments)
        saving.wait_until_finished()


def restored(folder: Path, step: int, iterator: Any) -> Any:
    with manager(folder) as reading:
        return reading.restore(step, args=Composite(input=InputRestore(iterator)))["input"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", PIPELINES)
def test_an_iterator_goes_on_where_it_was_saved(
    name: str, asynchronous: bool, tmp_path: Path
) -> None:
    iterator = at(PIPELINES[name], 5)
    saved_at(tmp_path, 40, iterator, enable_async_checkpointing=asynchronous)
    other = at(PIPELINES[name], 2)
    assert restored(tmp_path, 40, other) is other
    assert rest(other) == rest(iterator)


def test_an_asynchronous_save_has_the_state_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, write = threading.Event(), folder.write_file

    def later(*values: Any) -> None:
        assert may_write.wait(60)
        write(*values)

    monkeypatch.setattr(arguments, "write_file", later)
    iterator = at(BATCHES, 5)
    with manager(tmp_path) as saving:
        saving.save(40, args=Composite(input=InputSave(iterator)))
        expected = rest(iterator)
        assert not (tmp_path / "40").exists()
        may_write.set()
        saving.wait_until_finished()
    other = iter(BATCHES)
    restored(tmp_path, 40, other)
    assert rest(other) == expected


def test_orbax_says_which_steps_are_saved_and_kept(tmp_path: Path) -> None:
    iterator = iter(BATCHES)
    with manager(tmp_path, max_to_keep=2, save_interval_steps=3) as saving:
        for step, _ in enumerate(islice(iterator, 10), 1):
            arguments = Composite(input=InputSave(iterator))
            assert saving.should_save(step) == saving.save(step, args=arguments)
        saving.wait_until_finished()
        assert saving.all_steps() == [6, 9]
        assert saving.latest_step() == 9
    for step in (6, 9):
        other = iter(BATCHES)
        restored(tmp_path, step, other)
        assert rest(other) == rest(at(BATCHES, step))


def test_without_arguments_the_state_is_returned(tmp_path: Path) -> None:
    iterator = at(BATCHES, 5)
    saved_at(tmp_path, 40, iterator)
    with manager(tmp_path) as reading:
        for loaded in (
            reading.restore(40),
            reading.restore(40, args=Composite(input=InputRestore())),
        ):
            assert loaded["input"] == iterator.get_state()
            assert rest(BATCHES.resume(loaded["input"])) == rest(at(BATCHES, 5))


def test_the_metadata_say_where_the_input_stands(tmp_path: Path) -> None:
    saved_at(tmp_path, 40, at(BATCHES, 5))
    (size,) = map(len, input_files(tmp_path / "40").values())
    registry = registry_with(InputCheckpointHandler())
    with ocp.CheckpointManager(tmp_path, handler_registry=registry) as reading:
        assert reading.item_metadata(40)["input"] == InputMetadata(step=5, parts=1, bytes=size)


def registry_with(handler: InputCheckpointHandler) -> Any:
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add("input", InputSave, handler)
    registry.add("input", InputRestore, handler)
    return registry


@pytest.mark.parametrize("primary", [0, None])
def test_a_handler_may_be_registered_for_a_storage_of_each_process(
    primary: int | None, tmp_path: Path
) -> None:
    multiprocessing = ocp.options.MultiprocessingOptions(primary_host=primary)
    handler = InputCheckpointHandler(multiprocessing_options=multiprocessing)
    options = ocp.CheckpointManagerOptions(multiprocessing_options=multiprocessing)
    with ocp.CheckpointManager(
        tmp_path, options=options, handler_registry=registry_with(handler)
    ) as saving:
        assert saving.save(40, args=Composite(input=InputSave(at(BATCHES, 5))))
        saving.wait_until_finished()
        assert saving.restore(40)["input"]["step"] == 5
        other = iter(BATCHES)
        saving.restore(40, args=Composite(input=InputRestore(other)))
        assert rest(other) == rest(at(BATCHES, 5))


def test_a_handler_may_be_given_for_an_item(tmp_path: Path) -> None:
    with ocp.CheckpointManager(
        tmp_path, item_handlers={"input": InputCheckpointHandler()}
    ) as saving:
        saving.save(40, args=Composite(input=InputSave(at(BATCHES, 5))))
        saving.wait_until_finished()
        assert saving.restore(40)["input"]["step"] == 5
        assert saving.item_metadata(40)["input"].step == 5


CHECKPOINTERS: dict[str, Callable[[Any], Any]] = {
    "at once": ocp.Checkpointer,
    "asynchronous": ocp.AsyncCheckpointer,
}


@pytest.mark.parametrize("name", CHECKPOINTERS)
def test_a_checkpointer_of_orbax_saves_an_input_alone_or_among_others(
    name: str, tmp_path: Path
) -> None:
    train, evaluation = at(BATCHES, 5), at(PIPELINES["packed"], 2)
    with CHECKPOINTERS[name](InputCheckpointHandler()) as alone:
        alone.save(tmp_path / "alone", args=InputSave(train))
        if name == "asynchronous":
            next(train)
            alone.wait_until_finished()
        other = iter(BATCHES)
        assert alone.restore(tmp_path / "alone", args=InputRestore(other)) is other
        assert rest(other) == rest(at(BATCHES, 5))
        assert alone.restore(tmp_path / "alone")["step"] == 5
        assert alone.metadata(tmp_path / "alone").item_metadata.step == 5
    with CHECKPOINTERS[name](ocp.CompositeCheckpointHandler()) as both:
        step = train.step
        both.save(
            tmp_path / "both", args=Composite(train=InputSave(train), eval=InputSave(evaluation))
        )
        if name == "asynchronous":
            both.wait_until_finished()
        others = {"train": iter(BATCHES), "eval": iter(PIPELINES["packed"])}
        both.restore(
            tmp_path / "both",
            args=Composite(**{key: InputRestore(other) for key, other in others.items()}),
        )
    assert rest(others["train"]) == rest(at(BATCHES, step))
    assert rest(others["eval"]) == rest(evaluation)


def test_the_older_call_with_an_item_works_too(tmp_path: Path) -> None:
    iterator, other = at(BATCHES, 5), iter(BATCHES)
    handler = InputCheckpointHandler()
    handler.save(tmp_path, iterator)
    assert handler.restore(tmp_path, other) is other
    assert rest(other) == rest(iterator)
    assert handler.typestr() == "resumable_jax.InputHandler"


@pytest.mark.parametrize("how", WRAPPED)
def test_each_version_reads_what_the_other_saved(how: str, tmp_path: Path) -> None:
    expected = rest(at(BATCHES, 5))
    saved_at(tmp_path / "v0", 40, at(BATCHES, 5))
    with v1.training.Checkpointer(tmp_path / "v1") as saving:
        saving.save_checkpointables(40, {"state": STATE, "input": WRAPPED[how](at(BATCHES, 5))})
    by_v0, by_v1 = iter(BATCHES), iter(BATCHES)
    restored(tmp_path / "v1", 40, by_v0)
    v1.load_checkpointables(tmp_path / "v0" / "40", {"input": WRAPPED[how](by_v1)})
    assert rest(by_v0) == rest(by_v1) == expected
    assert v1.load_checkpointables(tmp_path / "v0" / "40")["input"]["step"] == 5
    with manager(tmp_path / "v1") as reading:
        assert reading.restore(40, args=Composite(input=InputRestore()))["input"]["step"] == 5
        assert reading.item_metadata(40)["input"].step == 5
    assert v1.checkpointables_metadata(tmp_path / "v0" / "40").metadata["input"].step == 5


def test_both_versions_write_the_same_files_and_name_the_same_handler(tmp_path: Path) -> None:
    saved_at(tmp_path / "v0", 40, at(BATCHES, 5))
    v1.save_checkpointables(tmp_path / "v1", {"input": at(BATCHES, 5)})
    for checkpoint in (tmp_path / "v0" / "40", tmp_path / "v1"):
        assert type_strings(checkpoint)["input"] == "resumable_jax.InputHandler"
        assert list(input_files(checkpoint)) == ["input-000000000005.ckpt"]
        with rs.Checkpointer(checkpoint / "input", rs.AtEnd()) as checkpointer:
            assert rest(checkpointer.resume(BATCHES)) == rest(at(BATCHES, 5))


@pytest.mark.parametrize("make", [InputSave, InputRestore])
@pytest.mark.parametrize("name", MISTAKEN)
def test_what_is_no_running_input_is_refused_in_clear_words(
    name: str, make: Callable[[Any], Any]
) -> None:
    value, words = MISTAKEN[name]
    with pytest.raises(rs.InvalidType, match="item must be an iterator of a pipeline") as found:
        make(value())
    assert words in str(found.value)


def test_to_save_nothing_is_refused_and_an_iterator_of_grain_too() -> None:
    grain = pytest.importorskip("grain", reason="grain is not installed")
    theirs = iter(grain.MapDataset.range(10).to_iter_dataset())
    for value in (None, theirs):
        with pytest.raises(rs.InvalidType, match="item must be an iterator of a pipeline"):
            InputSave(value)


def test_a_loop_of_a_checkpointer_is_saved_and_restored_where_it_stands(tmp_path: Path) -> None:
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(2)) as checkpointer:
        loop = checkpointer.resume(BATCHES)
        for _ in islice(loop, 5):
            pass
        saved_at(tmp_path, 5, loop)
        assert restored(tmp_path, 5, loop) is loop
        next(loop)
        with pytest.raises(rs.StateMismatch, match=r"resume\(pipeline, step=5\)"):
            restored(tmp_path, 5, loop)
        assert rest(loop) == rest(at(BATCHES, 6))
    other = iter(BATCHES)
    restored(tmp_path, 5, other)
    assert rest(other) == rest(at(BATCHES, 5))


def test_a_checkpoint_without_an_input_is_an_error_of_orbax(tmp_path: Path) -> None:
    with manager(tmp_path) as saving:
        saving.save(40, args=Composite(state=ocp.args.StandardSave(STATE)))
        saving.wait_until_finished()
    with kept(at(BATCHES, 3)) as iterator, pytest.raises(KeyError, match="input"):
        restored(tmp_path, 40, iterator)


def test_another_pipeline_damage_and_loss_are_refused_in_our_words(tmp_path: Path) -> None:
    saved_at(tmp_path, 40, at(BATCHES, 5))
    with (
        kept(at(rs.range(100).shuffle(2).batch(4), 3)) as other,
        pytest.raises(rs.StateMismatch, match=r"seed=1.*seed=2"),
    ):
        restored(tmp_path, 40, other)
    path = damage(tmp_path / "40")
    with kept(at(BATCHES, 3)) as iterator:
        for target in (iterator, None):
            with pytest.raises(rs.CorruptCheckpoint, match=f"{path}: its digest"):
                restored(tmp_path, 40, target)
        path.unlink()
        for target in (iterator, None):
            with pytest.raises(rs.NoValidCheckpoint, match=f"{path.parent}, which holds"):
                restored(tmp_path, 40, target)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_state_that_cannot_be_saved_is_refused_and_no_thread_waits_for_the_folder(
    asynchronous: bool, tmp_path: Path
) -> None:
    def numbers() -> Any:
        yield from range(9)

    iterator = at(rs.from_iterable(numbers()).batch(2), 1)
    both = Composite(state=ocp.args.StandardSave(STATE), input=InputSave(iterator))
    with (  # noqa: PT012
        manager(tmp_path, enable_async_checkpointing=asynchronous) as saving,
        pytest.raises(rs.ExternalStateError),
    ):
        saving.save(40, args=both)
        saving.wait_until_finished()
    # `conftest.py` sees to the threads.
    with manager(tmp_path) as reading:
        assert reading.all_steps() == []
