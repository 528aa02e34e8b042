"""An input in the checkpoints of version 1 of Orbax: saved as of the call, loaded exactly, or refused in clear words."""

from __future__ import annotations

import asyncio
import re
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("orbax.checkpoint", reason="orbax.checkpoint is not installed")

import jax.numpy as jnp
import resumable_jax
from etils import epath
from jax_adapter.orbax_folders import ORBAX_WARNS, damage, input_files, type_strings
from jax_adapter.orbax_inputs import BATCHES, MISTAKEN, PIPELINES, WRAPPED, at, kept, rest
from orbax.checkpoint import v1
from orbax.checkpoint.experimental.v1._src.handlers.stateful_checkpointable_handler import (
    StatefulCheckpointableHandler,
)
from orbax.checkpoint.experimental.v1._src.path import async_utils
from resumable_jax import InputCheckpointable, InputHandler, InputMetadata
from resumable_jax.folder import read_state, take_file, write_file
from support.command import call_command
from support.graphs import SHARE_AN_OBJECT, catalogue
from support.samples import is_no_third
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint.input_folder import input_file
from resumable.checkpoint.saveable_input import as_saveable

pytestmark = ORBAX_WARNS
STATE = {"weights": np.arange(3.0)}


@pytest.mark.parametrize("how_loaded", WRAPPED)
@pytest.mark.parametrize("how_saved", WRAPPED)
@pytest.mark.parametrize("name", PIPELINES)
def test_an_iterator_goes_on_where_it_was_saved(
    name: str, how_saved: str, how_loaded: str, tmp_path: Path
) -> None:
    iterator = at(PIPELINES[name], 5)
    saved = {"state": STATE, "input": WRAPPED[how_saved](iterator)}
    v1.save_checkpointables(tmp_path / "40", saved)
    expected = rest(iterator)
    assert expected
    with at(PIPELINES[name], 2) as other:
        target = WRAPPED[how_loaded](other)
        loaded = v1.load_checkpointables(tmp_path / "40", {"input": target})
        assert loaded == {"input": target}
        assert (other.step, rest(other)) == (5, expected)


@pytest.mark.parametrize("how", WRAPPED)
def test_the_state_is_that_of_the_call_though_the_folder_is_made_later(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_create, create = threading.Event(), async_utils._create_paths

    async def later(*arguments: Any, **options: Any) -> None:
        assert await asyncio.to_thread(may_create.wait, 60)
        await create(*arguments, **options)

    monkeypatch.setattr(async_utils, "_create_paths", later)
    iterator = at(BATCHES, 5)
    saving = v1.save_checkpointables_async(
        tmp_path / "40", {"state": STATE, "input": WRAPPED[how](iterator)}
    )
    expected = rest(iterator)
    assert not list(tmp_path.iterdir())
    may_create.set()
    saving.result()
    other = iter(BATCHES)
    v1.load_checkpointables(tmp_path / "40", {"input": other})
    assert rest(other) == expected


def test_the_iterator_may_be_closed_before_the_save_is_done(tmp_path: Path) -> None:
    with at(BATCHES, 5) as iterator:
        saving = v1.save_checkpointables_async(tmp_path / "40", {"input": iterator})
    saving.result()
    with iter(BATCHES) as other:
        v1.load_checkpointables(tmp_path / "40", {"input": other})
        assert other.step == 5


class NotYetThere:
    """A folder that is made when it is waited for."""

    def __init__(self, path: Path) -> None:
        self.path = epath.Path(path)

    async def await_creation(self) -> epath.Path:
        self.path.mkdir()
        return self.path


def test_the_first_phase_takes_the_state_and_touches_no_file(tmp_path: Path) -> None:
    iterator = at(BATCHES, 5)
    folder = NotYetThere(tmp_path / "input")
    for path, phases in {
        "wrapped": InputCheckpointable(iterator).save(folder),
        "handler": InputHandler().save(NotYetThere(tmp_path / "other"), iterator),
    }.items():
        writing = asyncio.run(phases)
        assert not (tmp_path / ("input" if path == "wrapped" else "other")).exists()
        next(iterator)

        async def second(writing: Any = writing) -> None:
            await writing

        asyncio.run(second())
    names = [path.name for path in sorted(tmp_path.glob("*/*"))]
    assert names == ["input-000000000005.ckpt", "input-000000000006.ckpt"]


@pytest.mark.parametrize("how", WRAPPED)
def test_without_an_iterator_the_state_is_loaded(how: str, tmp_path: Path) -> None:
    iterator = at(BATCHES, 5)
    state = iterator.get_state()
    v1.save_checkpointables(tmp_path / "40", {"input": WRAPPED[how](iterator), "state": STATE})
    described = v1.checkpointables_metadata(tmp_path / "40")
    for abstract in (None, {"input": None}, described, {"input": described.metadata["input"]}):
        loaded = v1.load_checkpointables(tmp_path / "40", abstract)["input"]
        assert loaded == state
        assert rest(BATCHES.resume(loaded)) == rest(at(BATCHES, 5))


def test_the_metadata_say_where_the_input_stands(tmp_path: Path) -> None:
    v1.save_checkpointables(tmp_path / "40", {"input": at(BATCHES, 4)})
    (size,) = (len(data) for data in input_files(tmp_path / "40").values())
    found = v1.checkpointables_metadata(tmp_path / "40").metadata
    assert found == {"input": InputMetadata(step=4, parts=1, bytes=size)}


def test_only_what_is_asked_for_is_loaded(tmp_path: Path) -> None:
    v1.save_checkpointables(tmp_path / "40", {"state": STATE, "input": at(BATCHES, 5)})
    loaded = v1.load_checkpointables(tmp_path / "40", {"state": None})
    assert list(loaded) == ["state"]
    assert jnp.array_equal(loaded["state"]["weights"], STATE["weights"])


def registries() -> dict[str, Any]:
    local = v1.handlers.local_registry
    return {
        "that of all": local(),
        "only this handler": local(include_global_registry=False).add(InputHandler),
        "this handler by the name": local(include_global_registry=False).add(
            InputHandler, checkpointable_name="input"
        ),
        "this handler again, by the name": local().add(InputHandler, checkpointable_name="input"),
    }


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("name", registries())
def test_any_registry_with_the_handler_will_do(name: str, how: str, tmp_path: Path) -> None:
    options = v1.options.CheckpointablesOptions(registry=registries()[name])
    with v1.Context(checkpointables_options=options):
        v1.save_checkpointables(tmp_path / "40", {"input": WRAPPED[how](at(BATCHES, 5))})
        assert v1.load_checkpointables(tmp_path / "40")["input"]["step"] == 5
        other = iter(BATCHES)
        v1.load_checkpointables(tmp_path / "40", {"input": WRAPPED[how](other)})
    assert rest(other) == rest(at(BATCHES, 5))
    assert type_strings(tmp_path / "40") == {"input": "resumable_jax.InputHandler"}


def test_without_the_handler_what_is_wrapped_is_saved_by_the_protocol_of_orbax(
    tmp_path: Path,
) -> None:
    registry = v1.handlers.local_registry(include_global_registry=False)
    registry.add(StatefulCheckpointableHandler)
    options = v1.options.CheckpointablesOptions(registry=registry)
    with v1.Context(checkpointables_options=options):
        wrapped = {"input": InputCheckpointable(at(BATCHES, 5))}
        v1.save_checkpointables(tmp_path / "40", wrapped)
        other = iter(BATCHES)
        v1.load_checkpointables(tmp_path / "40", {"input": InputCheckpointable(other)})
        assert other.step == 5
    iterator = iter(BATCHES)
    v1.load_checkpointables(tmp_path / "40", {"input": iterator})
    assert rest(iterator) == rest(other) == rest(at(BATCHES, 5))


def test_several_inputs_go_into_one_checkpoint_under_any_names(tmp_path: Path) -> None:
    train, evaluation = at(BATCHES, 7), at(PIPELINES["packed"], 3)
    saved = {"train": train, "eval_data": InputCheckpointable(evaluation), "state": STATE}
    v1.save_checkpointables(tmp_path / "40", saved)
    assert list(input_files(tmp_path / "40", "train")) == ["input-000000000007.ckpt"]
    assert list(input_files(tmp_path / "40", "eval_data")) == ["input-000000000003.ckpt"]
    others = {"train": iter(BATCHES), "eval_data": iter(PIPELINES["packed"])}
    v1.load_checkpointables(tmp_path / "40", dict(others))
    assert rest(others["train"]) == rest(train)
    assert rest(others["eval_data"]) == rest(evaluation)
    with pytest.raises(rs.StateMismatch):
        v1.load_checkpointables(tmp_path / "40", {"train": iter(PIPELINES["packed"])})


def test_the_handler_has_a_name_that_never_changes(tmp_path: Path) -> None:
    v1.save_checkpointables(
        tmp_path / "40", {"a": at(BATCHES, 1), "b": InputCheckpointable(at(BATCHES, 1))}
    )
    ours = "resumable_jax.InputHandler"
    assert type_strings(tmp_path / "40") == {"a": ours, "b": ours}
    module, _, name = ours.rpartition(".")
    assert (module, getattr(resumable_jax, name)) == ("resumable_jax", InputHandler)


def test_the_files_are_those_of_a_directory(tmp_path: Path) -> None:
    v1.save_checkpointables(tmp_path / "40", {"input": at(BATCHES, 5)})
    folder = tmp_path / "40" / "input"
    shown = call_command(tmp_path, "inspect", str(folder))
    assert re.search("input-000000000005.ckpt +5 .* valid", shown.stdout)
    assert rs.Directory(folder).steps() == [5]
    with rs.Checkpointer(folder, rs.AtEnd()) as checkpointer:
        assert rest(checkpointer.resume(BATCHES)) == rest(at(BATCHES, 5))


def test_what_a_directory_holds_is_loaded(tmp_path: Path) -> None:
    v1.save_checkpointables(tmp_path / "40", {"input": at(BATCHES, 5)})
    (path,) = (tmp_path / "40" / "input").iterdir()
    path.unlink()
    with rs.Checkpointer(tmp_path / "40" / "input", rs.EverySteps(9), save_at_end=False) as other:
        for _ in islice(other.resume(BATCHES), 10):
            pass
    iterator = iter(BATCHES)
    v1.load_checkpointables(tmp_path / "40", {"input": iterator})
    assert iterator.step == 9


@pytest.mark.parametrize("name", MISTAKEN)
def test_what_is_no_saveable_input_is_refused_in_clear_words(name: str) -> None:
    make, words = MISTAKEN[name]
    with pytest.raises(rs.InvalidType, match="target must be an iterator of a pipeline") as found:
        InputCheckpointable(make())
    assert words in str(found.value)


@pytest.mark.parametrize("name", ["a pipeline", "a Checkpointer"])
def test_what_is_passed_by_mistake_is_refused_and_nothing_is_committed(
    name: str, tmp_path: Path
) -> None:
    make, words = MISTAKEN[name]
    for save in (v1.save_checkpointables, v1.save_checkpointables_async):
        path = tmp_path / save.__name__
        with pytest.raises(rs.InvalidType, match="iterator of a pipeline") as found:
            save(path, {"state": STATE, "input": make()})
        assert words in str(found.value)
        assert not path.exists()
    v1.save_checkpointables(tmp_path / "40", {"input": at(BATCHES, 5)})
    with pytest.raises(rs.InvalidType, match="iterator of a pipeline") as found:
        v1.load_checkpointables(tmp_path / "40", {"input": make()})
    assert words in str(found.value)


def test_an_iterator_of_grain_is_saved_by_grain_and_never_taken_for_ours(tmp_path: Path) -> None:
    grain = pytest.importorskip("grain", reason="grain is not installed")
    theirs = iter(grain.MapDataset.range(10).to_iter_dataset())
    assert not InputHandler().is_handleable(theirs)
    assert not InputHandler().is_abstract_handleable(theirs)
    with pytest.raises(rs.InvalidType, match="target must be an iterator of a pipeline"):
        InputCheckpointable(theirs)
    v1.save_checkpointables(tmp_path / "theirs", {"input": theirs})
    with kept(at(BATCHES, 3)) as iterator, pytest.raises(rs.NoValidCheckpoint) as found:
        v1.load_checkpointables(tmp_path / "theirs", {"input": iterator})
    assert "which holds process_0-of-1.json" in str(found.value)


def test_a_loop_of_a_checkpointer_is_saved_as_it_stands(tmp_path: Path) -> None:
    with rs.Checkpointer(tmp_path / "ours", rs.EverySteps(2)) as checkpointer:
        loop = checkpointer.resume(BATCHES)
        for number, _ in enumerate(loop, 1):
            if number in (4, 7):
                v1.save_checkpointables(tmp_path / str(number), {"input": loop})
    for step in (4, 7):
        iterator = iter(BATCHES)
        v1.load_checkpointables(tmp_path / str(step), {"input": iterator})
        assert rest(iterator) == rest(at(BATCHES, step))


@pytest.mark.parametrize("how", WRAPPED)
def test_a_loop_of_a_checkpointer_is_loaded_where_it_stands_and_nowhere_else(
    how: str, tmp_path: Path
) -> None:
    v1.save_checkpointables(tmp_path / "4", {"input": at(BATCHES, 4)})
    v1.save_checkpointables(tmp_path / "5", {"input": at(BATCHES, 5)})
    with rs.Checkpointer(tmp_path / "ours", rs.EverySteps(2)) as checkpointer:
        for _ in islice(checkpointer.resume(BATCHES), 5):
            pass
    with rs.Checkpointer(tmp_path / "ours", rs.EverySteps(2)) as checkpointer:
        loop = checkpointer.resume(BATCHES)
        step = loop.iterator.step
        other = 9 - step
        v1.load_checkpointables(tmp_path / str(step), {"input": WRAPPED[how](loop)})
        with pytest.raises(rs.StateMismatch, match=rf"resume\(pipeline, step={other}\)"):
            v1.load_checkpointables(tmp_path / str(other), {"input": WRAPPED[how](loop)})
        assert rest(loop) == rest(at(BATCHES, step))


@pytest.mark.parametrize("how", WRAPPED)
def test_a_checkpoint_without_an_input_is_an_error_of_orbax(how: str, tmp_path: Path) -> None:
    v1.save_checkpointables(tmp_path / "40", {"state": STATE})
    with kept(at(BATCHES, 3)) as iterator, pytest.raises(KeyError, match="input"):
        v1.load_checkpointables(tmp_path / "40", {"input": WRAPPED[how](iterator)})


@pytest.mark.parametrize("how", WRAPPED)
def test_the_checkpoint_of_another_pipeline_is_refused_in_our_words(
    how: str, tmp_path: Path
) -> None:
    v1.save_checkpointables(tmp_path / "40", {"state": STATE, "input": at(BATCHES, 5)})
    with kept(at(rs.range(100).shuffle(2).batch(4), 3)) as iterator:
        asked = {"state": None, "input": WRAPPED[how](iterator)}
        with pytest.raises(rs.StateMismatch, match=r"seed=1.*seed=2"):
            v1.load_checkpointables(tmp_path / "40", asked)


@pytest.mark.parametrize("how", WRAPPED)
def test_damage_and_loss_are_named_and_leave_the_iterator_where_it_is(
    how: str, tmp_path: Path
) -> None:
    v1.save_checkpointables(tmp_path / "40", {"input": at(BATCHES, 5)})
    path = damage(tmp_path / "40")
    with kept(at(BATCHES, 3)) as iterator:
        target = {"input": WRAPPED[how](iterator)}
        for asked in (target, None):
            with pytest.raises(rs.CorruptCheckpoint, match=f"{path}: its digest"):
                v1.load_checkpointables(tmp_path / "40", asked)
        path.unlink()
        (path.parent / "left.txt").write_text("")
        for asked in (target, None):
            with pytest.raises(rs.NoValidCheckpoint, match=f"{path.parent}, which holds left.txt"):
                v1.load_checkpointables(tmp_path / "40", asked)


def test_a_state_that_cannot_be_saved_is_refused_and_no_thread_waits_for_the_folder(
    tmp_path: Path,
) -> None:
    def numbers() -> Any:
        yield from range(9)

    with iter(rs.from_iterable(numbers()).batch(2)) as iterator:
        next(iterator)
        for how, wrap in WRAPPED.items():
            saved = {"state": STATE, "input": wrap(iterator)}
            # `conftest.py` sees to the threads.
            with pytest.raises(rs.ExternalStateError):
                v1.save_checkpointables(tmp_path / how, saved)
            assert not (tmp_path / how).exists()


@pytest.mark.parametrize("name", PIPELINES)
def test_a_run_cut_anywhere_goes_on_exactly(name: str, tmp_path: Path) -> None:
    pipeline = PIPELINES[name]
    whole = rest(pipeline)
    for cut in thinned(range(len(whole) + 1), 4, name):
        v1.save_checkpointables(tmp_path / str(cut), {"input": at(pipeline, cut)})
        iterator = iter(pipeline)
        v1.load_checkpointables(tmp_path / str(cut), {"input": iterator})
        assert rest(iterator) == whole[cut:]


def test_every_pipeline_of_the_catalogue_goes_on_from_its_file(
    catalogue_data: Path, tmp_path: Path
) -> None:
    tried = 0
    for name, make in catalogue(catalogue_data).items():
        if name in SHARE_AN_OBJECT:
            continue
        with make().start() as iterator:
            whole = rest(islice(iterator, 40))
        for cut in thinned(range(len(whole) + 1), 3, name)[1:-1]:
            folder = epath.Path(tmp_path / name / str(cut))
            folder.mkdir(parents=True)
            with make().start() as iterator:
                for _ in islice(iterator, cut):
                    pass
                try:
                    file = take_file(as_saveable("input", iterator), 0)
                except rs.ExternalStateError:
                    break
                write_file(folder, file)
            with make().start() as iterator:
                iterator.set_state(read_state(folder, iterator._stage, 0))
                assert rest(islice(iterator, 40 - cut)) == whole[cut:], (name, cut)
                tried += 1
    assert tried > 80


@pytest.mark.parametrize("offset", [0, 1])
def test_processes_that_share_a_rank_write_one_file_unless_their_states_differ(
    offset: int, tmp_path: Path
) -> None:
    folder, files = epath.Path(tmp_path), []
    for rank in (0, offset):
        joined = rs.zip(*(rs.range(60).shard(one, 2).filter(is_no_third) for one in (0, rank)))
        iterator = at(joined, 5)
        files.append(input_file(iterator, iterator.get_state, 5, rank, 4))
    first, second = files
    assert first.name == second.name
    write_file(folder, first)
    if offset:
        with pytest.raises(rs.StateMismatch, match="another state of rank 0 of 2 at step 5, saved"):
            write_file(folder, second)
    else:
        write_file(folder, second)
    assert [path.name for path in folder.iterdir()] == [first.name]
    assert (folder / first.name).read_bytes() == first.data


@pytest.mark.parametrize("how", WRAPPED)
def test_with_a_storage_of_its_own_the_only_process_saves_the_same(
    how: str, tmp_path: Path
) -> None:
    v1.save_checkpointables(tmp_path / "shared", {"input": at(BATCHES, 5)})
    options = v1.options.MultiprocessingOptions(primary_host=None)
    with v1.Context(multiprocessing_options=options):
        v1.save_checkpointables(tmp_path / "own", {"input": WRAPPED[how](at(BATCHES, 5))})
        iterator = iter(BATCHES)
        v1.load_checkpointables(tmp_path / "own", {"input": WRAPPED[how](iterator)})
    assert rest(iterator) == rest(at(BATCHES, 5))
    assert list(input_files(tmp_path / "own")) == list(input_files(tmp_path / "shared"))


def test_the_checkpointer_of_orbax_keeps_one_input_a_step(tmp_path: Path) -> None:
    keep = v1.training.preservation_policies.LatestN(2)
    with v1.training.Checkpointer(tmp_path, preservation_policy=keep) as checkpointer:
        iterator = iter(BATCHES)
        for step, _ in enumerate(islice(iterator, 6), 1):
            saved = {"state": STATE, "input": iterator}
            if step % 2:
                assert checkpointer.save_checkpointables(step, saved)
            else:
                assert checkpointer.save_checkpointables_async(step, saved).result()
        assert [one.step for one in checkpointer.checkpoints] == [5, 6]
        assert checkpointer.checkpointables_metadata(5).metadata["input"].step == 5
        for asked, step in ((None, 6), (5, 5)):
            other = iter(BATCHES)
            checkpointer.load_checkpointables(asked, {"input": other})
            assert rest(other) == rest(at(BATCHES, step))
