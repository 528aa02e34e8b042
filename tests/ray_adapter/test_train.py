"""What workers report with Ray Train's checkpoints brings any number of workers on exactly, or is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("ray.train", reason="ray.train is not installed")
import resumable_ray
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray.train import Checkpoint, CheckpointUploadMode
from ray_adapter.stand_in import StandIn, checkpoint_of
from support import graphs
from support.behind_deals import leaves
from support.command import WITH_ADAPTERS, call_command, run_python
from support.samples import is_no_third

import resumable as rs
from resumable.core.ended import ended_runs_expected
from resumable.errors import UnencodableState
from resumable.state.value import State

ASYNC, NO_UPLOAD = CheckpointUploadMode.ASYNC, CheckpointUploadMode.NO_UPLOAD
NUMBERS = rs.range(97).shuffle(2)
Deal = Callable[[int, int], rs.Pipeline[Any]]


def batched(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.shard(rank, ranks, uneven="keep").map(graphs.double, workers=2).prefetch(2)


def in_partitions(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return (
        NUMBERS.partition(8, lambda part: part.filter(is_no_third)).shard(rank, ranks).prefetch(3)
    )


def not_dealt(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return NUMBERS.filter(is_no_third)


DEALS: dict[str, Deal] = {"shard": batched, "partitions": in_partitions}


@pytest.fixture
def run(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


def resumed(run: StandIn, made: Deal, workers: int) -> list[rs.PipelineIterator[Any]]:
    """The loops of as many workers."""
    loops = []
    for rank in range(workers):
        with run.worker(rank, workers):
            loops.append(resumable_ray.resume(made(rank, workers)))
    return loops


def reported(
    run: StandIn, loops: list[rs.PipelineIterator[Any]], cut: int, **how: Any
) -> list[Any]:
    """The next ``cut`` items of each worker, which then reports; Ray commits, and all are closed."""
    seen: list[Any] = []
    for rank, loop in enumerate(loops):
        with run.worker(rank, len(loops)), loop:
            seen += islice(loop, cut)
            resumable_ray.report({"loss": 1.0}, loop, **how)
    run.commit()
    return seen


def files_of(run: StandIn) -> list[str]:
    assert run.newest is not None
    return sorted(path.name for path in Path(run.newest.path, "input").iterdir())


@pytest.mark.parametrize("deal", DEALS)
@given(data=st.data())
def test_any_number_of_workers_goes_on_from_the_report_of_any_other(
    deal: str, data: st.DataObject
) -> None:
    made = DEALS[deal]
    seen: list[Any] = []
    with ended_runs_expected(), tempfile.TemporaryDirectory() as folder:
        run = StandIn(folder)
        for workers in data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3)):
            how: dict[str, Any] = {
                "checkpoint_upload_mode": data.draw(
                    st.sampled_from([CheckpointUploadMode.SYNC, ASYNC])
                )
            }
            loops = resumed(run, made, workers)
            seen += reported(run, loops, data.draw(st.integers(1, 12), "cut"), **how)
            assert len(files_of(run)) == (workers if deal == "partitions" else 1)
        for loop in resumed(run, made, data.draw(st.sampled_from([1, 2, 4, 8]), "last")):
            with loop:
                seen += loop
    assert leaves(seen) == leaves(made(0, 1))


def modes(run: StandIn, folder: Path) -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Ways in which a model of two workers, or of rank 0 alone, gets into the checkpoint."""
    storage = run.storage
    assert storage is not None

    def model(rank: int) -> Checkpoint:
        return checkpoint_of(folder / f"local-{rank}", **{f"model-{rank}": str(rank)})

    def there(rank: int) -> Checkpoint:
        place = Path(storage.build_checkpoint_path_from_name("mine"))
        checkpoint_of(place, **{f"model-{rank}": str(rank)})
        return Checkpoint(str(place), storage.storage_filesystem)

    def upload(given: Checkpoint, name: str) -> Checkpoint:
        """Takes only the files that it knows."""
        place = Path(storage.build_checkpoint_path_from_name(f"{name}-mine"))
        place.mkdir(exist_ok=True)
        for path in Path(given.path).glob("model-*"):
            (place / path.name).write_bytes(path.read_bytes())
        return Checkpoint(str(place), storage.storage_filesystem)

    yield "each its own", lambda rank: {"checkpoint": model(rank)}
    yield "rank 0 only", lambda rank: {"checkpoint": model(0)} if rank == 0 else {}
    yield "the last rank only", lambda rank: {"checkpoint": model(1)} if rank else {}
    yield (
        "in the background",
        lambda rank: {"checkpoint": model(rank), "checkpoint_upload_mode": ASYNC},
    )
    yield "by a function", lambda rank: {"checkpoint": model(rank), "checkpoint_upload_fn": upload}
    yield (
        "nothing to upload",
        lambda rank: {
            "checkpoint": there(rank),
            "checkpoint_upload_mode": NO_UPLOAD,
        },
    )


@pytest.mark.parametrize("deal", DEALS)
def test_the_model_s_files_are_next_to_the_state_however_they_get_there(
    deal: str, tmp_path: Path
) -> None:
    made = DEALS[deal]
    for number, (name, how) in enumerate(modes(run := StandIn(tmp_path), tmp_path / "local")):
        for rank in range(2):
            with run.worker(rank, 2), iter(made(rank, 2)) as loop:
                next(loop)
                resumable_ray.report({}, loop, **how(rank))
        run.commit()
        assert run.newest is not None
        there = {path.name for path in Path(run.newest.path).glob("model-*")}
        saving = {"rank 0 only": {"model-0"}, "the last rank only": {"model-1"}}
        assert there == saving.get(name, {"model-0", "model-1"}), (number, name)
        assert len(files_of(run)) == (2 if deal == "partitions" else 1)
        for rank, loop in enumerate(resumed(run, made, 2)):
            with loop:
                assert list(loop) == list(made(rank, 2))[1:]
        local = tmp_path / "local" / "local-0"
        if name == "in the background":
            assert not local.exists()  # as Ray does by default
        elif local.exists():
            assert [path.name for path in local.iterdir()] == ["model-0"]  # nothing was added


def test_a_worker_without_anything_to_write_uploads_nothing(run: StandIn) -> None:
    reported(run, resumed(run, batched, 4), 3)
    assert run.uploads == 1
    assert files_of(run) == ["input-000000000003.ckpt"]


def test_without_a_checkpoint_of_ray_s_it_begins_at_the_beginning(run: StandIn) -> None:
    for rank, loop in enumerate(resumed(run, in_partitions, 3)):
        with loop:
            assert list(loop) == list(in_partitions(rank, 3))


def test_a_checkpoint_without_a_state_of_an_input_is_refused_and_not_begun_anew(
    run: StandIn, tmp_path: Path
) -> None:
    run.newest = checkpoint_of(tmp_path / "run" / "other", model="1", optimizer="2")
    with run.worker(), pytest.raises(rs.NoValidCheckpoint) as found:
        resumable_ray.resume(batched(0, 1))
    assert f"{tmp_path}/run/other has no state of an input, it holds model, optimizer" in str(
        found.value
    )
    assert "loop over iter(pipeline)" in str(found.value)
    run.newest = checkpoint_of(tmp_path / "run" / "other" / "input", **{"input-7.ckpt": "x"})
    run.newest = checkpoint_of(tmp_path / "run" / "other")
    with run.worker(), pytest.raises(rs.NoValidCheckpoint, match="no state of an input"):
        resumable_ray.resume(batched(0, 1))


def test_a_missing_part_and_a_damaged_one_are_named(run: StandIn) -> None:
    reported(run, resumed(run, in_partitions, 3), 4)
    assert run.newest is not None
    folder = Path(run.newest.path, "input")
    first, second, third = sorted(folder.iterdir())
    second.rename(second.with_suffix(".gone"))
    for workers in (1, 3):
        with (
            run.worker(0, workers),
            pytest.raises(
                rs.NoValidCheckpoint, match=rf"the part of rank 1 of 3 ranks is missing in {folder}"
            ),
        ):
            resumable_ray.resume(in_partitions(0, workers))
    second.with_suffix(".gone").rename(second)
    third.write_bytes(first.read_bytes()[:50])
    with run.worker(0, 2), pytest.raises(rs.CorruptCheckpoint, match=third.name):
        resumable_ray.resume(in_partitions(0, 2))


def test_another_pipeline_is_refused_with_the_place_of_the_checkpoint(run: StandIn) -> None:
    reported(run, resumed(run, batched, 2), 4)
    assert run.newest is not None
    for other in (batched(0, 2).map(graphs.double), rs.range(96).shuffle(2).shard(0, 2)):
        with (
            run.worker(0, 2),
            pytest.raises(
                rs.StateMismatch, match=rf"the state in {run.newest.path}/input does not fit: "
            ),
        ):
            resumable_ray.resume(other)


def test_what_only_tunes_may_change(run: StandIn) -> None:
    reported(run, resumed(run, batched, 2), 4)

    def tuned(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return NUMBERS.shard(rank, ranks, uneven="keep").map(graphs.double)

    for rank, loop in enumerate(resumed(run, tuned, 2)):
        with loop:
            assert list(loop) == list(batched(rank, 2))[4:]


def test_items_that_would_reach_no_worker_are_refused(run: StandIn) -> None:
    for made in (batched, in_partitions):
        with (
            run.worker(0, 2),
            pytest.raises(
                rs.InvalidArgument, match="as many ranks as there are workers, 2, got 4 ranks"
            ),
        ):
            resumable_ray.resume(made(0, 4))


def test_resume_comes_before_the_first_report_unless_it_is_told_the_checkpoint(
    run: StandIn,
) -> None:
    with run.worker():
        with resumable_ray.resume(not_dealt(0, 1)) as loop:
            next(loop)
            resumable_ray.report({}, loop)
        with pytest.raises(
            rs.InvalidArgument, match=r"resume\(\) must come before the first report"
        ):
            resumable_ray.resume(not_dealt(0, 1))
        with resumable_ray.resume(not_dealt(0, 1), run.commit()) as loop:
            assert list(loop) == list(not_dealt(0, 1))[1:]


# --- The same folder twice.


def test_what_workers_left_that_died_before_the_commit_is_in_nobody_s_way(run: StandIn) -> None:
    seen = reported(run, resumed(run, in_partitions, 2), 3)
    for rank, loop in enumerate(resumed(run, in_partitions, 2)):
        with run.worker(rank, 2), loop:
            assert len(list(islice(loop, 5))) == 5  # will be lost
            resumable_ray.report({}, loop, checkpoint_dir_name="second")
    run.reported.clear()  # Ray's controller has died
    seen += reported(run, resumed(run, in_partitions, 4), 2, checkpoint_dir_name="second")
    assert len(files_of(run)) == 4
    for loop in resumed(run, in_partitions, 1):
        with loop:
            seen += loop
    assert leaves(seen) == leaves(in_partitions(0, 1))


def test_the_name_of_the_newest_checkpoint_is_not_taken_again(run: StandIn) -> None:
    reported(run, resumed(run, in_partitions, 2), 3, checkpoint_dir_name="last")
    before = files_of(run)
    with pytest.raises(
        rs.InvalidArgument, match="must be a new one for each checkpoint, got 'last'"
    ):
        reported(run, resumed(run, in_partitions, 2), 2, checkpoint_dir_name="last")
    assert files_of(run) == before


@pytest.mark.parametrize("made", [batched, in_partitions])
def test_a_folder_with_the_state_of_another_checkpoint_is_refused(
    made: Deal, run: StandIn, tmp_path: Path
) -> None:
    reported(run, resumed(run, made, 2), 3)
    assert run.newest is not None
    with pytest.raises(rs.StateMismatch, match="is of another checkpoint than input-000000000005"):
        reported(run, resumed(run, made, 2), 2, checkpoint=Checkpoint(run.newest.path))
    for workers, cut in ((2, 2), (4, 0)):
        with pytest.raises(rs.StateMismatch, match="the folder of a checkpoint must be a new one"):
            reported(
                run,
                resumed(run, made, workers),
                cut if made is in_partitions else 2,
                checkpoint=run.newest,
                checkpoint_upload_mode=NO_UPLOAD,
            )


def test_workers_that_share_a_rank_write_one_part_which_must_be_the_same(run: StandIn) -> None:
    def made(process: int, _: int) -> rs.Pipeline[Any]:
        return in_partitions(process % 2, 2)

    reported(run, resumed(run, made, 4), 3)
    assert len(files_of(run)) == 2
    loops = resumed(run, made, 4)
    with ExitStack() as stack:
        for rank, loop in enumerate(loops):
            stack.enter_context(loop)
            loop.skip(2)
            with run.worker(rank, 4):
                if rank == 3:
                    next(loop)
                    with pytest.raises(rs.StateMismatch, match="another checkpoint than"):
                        resumable_ray.report({}, loop)
                else:
                    resumable_ray.report({}, loop)


def test_workers_with_one_rank_that_read_other_items_are_noticed(run: StandIn) -> None:
    def in_a_grid(process: int) -> rs.Pipeline[Any]:
        return rs.zip(in_partitions(process // 2, 2), in_partitions(process % 2, 2))

    refusal = "another state of rank 0 of 2 at step 3, saved by another process"
    for process in range(2):
        with run.worker(process, 4), iter(in_a_grid(process)) as loop:
            loop.skip(3)
            if process == 0:
                resumable_ray.report({}, loop)
            else:
                with pytest.raises(rs.StateMismatch, match=refusal):
                    resumable_ray.report({}, loop)


# --- What is passed in, and when.


def test_nothing_is_uploaded_and_a_worker_has_nowhere_to_put_its_part(
    run: StandIn, tmp_path: Path
) -> None:
    refusal = "checkpoint must be given by rank 1"
    with (
        run.worker(1, 2),
        iter(in_partitions(1, 2)) as loop,
        pytest.raises(rs.InvalidArgument, match=refusal),
    ):
        resumable_ray.report({}, loop, checkpoint_upload_mode=NO_UPLOAD)
    with run.worker(1, 2), iter(batched(1, 2)) as loop:
        resumable_ray.report({}, loop, checkpoint_upload_mode=NO_UPLOAD)  # rank 0 writes
    assert run.reported == [({}, None)]


def test_without_a_model_there_is_nothing_to_validate(run: StandIn, tmp_path: Path) -> None:
    with run.worker(), iter(not_dealt(0, 1)) as loop:
        with pytest.raises(rs.InvalidArgument, match="validation needs a checkpoint with a model"):
            resumable_ray.report({}, loop, validation=True)
        assert run.reported == []
        resumable_ray.report({}, loop, checkpoint_of(tmp_path / "model", m="1"), validation=True)
    assert len(run.reported) == 1


@pytest.mark.parametrize("mistaken", [not_dealt(0, 1), enumerate(NUMBERS), {"state": 1}])
def test_what_has_no_state_is_refused_before_ray_hears_of_it(run: StandIn, mistaken: Any) -> None:
    with (
        run.worker(),
        pytest.raises(rs.InvalidType, match="loop must be an iterator of a pipeline"),
    ):
        resumable_ray.report({}, mistaken)
    assert run.reported == []
    with run.worker(), pytest.raises(rs.InvalidType, match="pipeline must be a pipeline"):
        resumable_ray.resume(mistaken if not isinstance(mistaken, rs.Pipeline) else iter)  # type: ignore[arg-type]


def divided(workers: int) -> rs.Pipeline[Any]:
    return rs.range(97).shard(0, workers).map(lambda number: 1 // (number - 66))


def test_a_state_right_after_an_error_is_refused_where_other_workers_need_it(run: StandIn) -> None:
    for workers in (2, 1):
        with run.worker(0, workers), iter(divided(workers)) as loop:
            with pytest.raises(ZeroDivisionError):
                list(loop)
            if workers == 1:
                resumable_ray.report({}, loop)
                continue
            with pytest.raises(UnencodableState, match="right after an error"):
                resumable_ray.report({}, loop)
            assert run.reported == []
    run.commit()
    (loop,) = resumed(run, lambda *_: divided(1), 1)
    with loop, pytest.raises(ZeroDivisionError):
        next(loop)


class Ahead:
    """Keeps two items ahead of the loop, as an adapter for devices does."""

    def __init__(self, iterator: rs.PipelineIterator[Any]) -> None:
        self.iterator = iterator
        self.states: list[State] = []
        self.items: list[Any] = []
        self.here = iterator.get_state()

    def __next__(self) -> Any:
        while len(self.items) < 3:
            self.items.append(next(self.iterator))
            self.states.append(self.iterator.get_state())
        self.here = self.states.pop(0)
        return self.items.pop(0)

    @property
    def step(self) -> int:
        return int(self.here["step"])

    def get_state(self) -> State:
        return self.here

    def set_state(self, state: State) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("made", [batched, in_partitions])
def test_batches_ahead_of_the_loop_do_not_count(made: Deal, run: StandIn) -> None:
    with run.worker(), iter(made(0, 1)) as iterator:
        loop = Ahead(iterator)
        assert [next(loop), next(loop)] == list(made(0, 1))[:2]
        resumable_ray.report({}, loop)
    run.commit()
    (rest,) = resumed(run, made, 1)
    with rest:
        assert list(rest) == list(made(0, 1))[2:]


def test_the_loop_of_a_checkpointer_is_one_too(run: StandIn) -> None:
    with rs.Checkpointer(rs.Memory(), rs.AtEnd()) as checkpointer, run.worker():
        loop = checkpointer.resume(batched(0, 1))
        assert list(islice(loop, 4)) == list(batched(0, 1))[:4]
        resumable_ray.report({}, loop)
    run.commit()
    (rest,) = resumed(run, batched, 1)
    with rest:
        assert list(rest) == list(batched(0, 1))[4:]


# --- Where it is kept.


def test_with_no_workers_ray_keeps_nothing_and_that_is_said(run: StandIn, tmp_path: Path) -> None:
    run.storage = None
    model = checkpoint_of(tmp_path / "model", weights="1")
    with run.worker(), resumable_ray.resume(not_dealt(0, 1)) as loop:
        next(loop)
        with pytest.warns(RuntimeWarning, match="num_workers=0.*the input is not saved"):
            resumable_ray.report({"loss": 2}, loop, model)
    assert run.reported == [({"loss": 2}, model)]


def test_a_run_that_had_ended_says_so(run: StandIn) -> None:
    for made in (batched, in_partitions):
        loops = resumed(run, made, 2)
        reported(run, loops, 100)
        if made is in_partitions:
            rest = resumed(run, made, 2)
        else:
            with pytest.warns(
                RuntimeWarning, match=r"had come to its end at step 49.*RunConfig\(name\)"
            ):
                rest = resumed(run, made, 2)
        for loop in rest:
            with loop:
                assert list(loop) == []
        run.newest = None


def test_a_worker_that_has_nothing_left_of_a_last_round_does_not_say_that_all_had_ended(
    run: StandIn,
) -> None:
    reported(run, resumed(run, batched, 2), 48)
    left = []
    for loop in resumed(run, batched, 2):
        with loop:
            left.append(len(list(loop)))
    assert left == [1, 0]


def test_the_files_are_those_of_a_directory(run: StandIn, tmp_path: Path) -> None:
    reported(run, resumed(run, in_partitions, 3), 4)
    assert run.newest is not None
    found = rs.Checkpointer(f"{run.newest.path}/input", rs.AtEnd()).latest()
    assert found is not None
    with in_partitions(0, 1).resume(found.state) as rest:
        assert len(list(rest)) == len(list(in_partitions(0, 1))) - 12
    said = call_command(tmp_path, "inspect", f"{run.newest.path}/input")
    assert "-*-of-00003.ckpt" in said.stdout
    assert "valid" in said.stdout


@pytest.mark.parametrize("deal", DEALS)
def test_any_file_system_of_arrow_s_will_do(deal: str) -> None:
    MemoryFileSystem.store.clear()
    run = StandIn("/bucket", PyFileSystem(FSSpecHandler(MemoryFileSystem())))
    made = DEALS[deal]
    seen: list[Any] = []
    for workers in (2, 4):
        seen += reported(run, resumed(run, made, workers), 5)
    assert run.newest is not None
    names = MemoryFileSystem().ls(f"{run.newest.path}/input", detail=False)
    assert len(names) == (4 if deal == "partitions" else 1)
    seen += chain.from_iterable(resumed(run, made, 1))
    assert leaves(seen) == leaves(made(0, 1))
    with pytest.raises(rs.StateMismatch, match="is of another checkpoint"):
        reported(run, resumed(run, made, 2), 2, checkpoint=run.newest)


def test_the_first_version_of_ray_train_s_interface_is_refused_by_name() -> None:
    code = "import resumable_ray; resumable_ray.RayExecutor; resumable_ray.report"
    said = run_python("-c", code, PYTHONPATH=WITH_ADAPTERS, RAY_TRAIN_V2_ENABLED="0")
    assert "need version 2 of Ray Train's interface: Ray 2.51 or later" in said.stderr
