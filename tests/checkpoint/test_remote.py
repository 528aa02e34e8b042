"""Remote stores: fsspec's own in memory, and S3 as a real server speaks it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checkpoint.saving_loops import run_loop
from support.s3_server import s3_server

import resumable as rs
from resumable.checkpoint.ranks.survey import survey

pytest.importorskip(
    "fsspec", reason="fsspec is not installed: pip install resumable-loader[remote]"
)

NUMBERS = rs.range(100).shuffle(0)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server that speaks S3, with a bucket called `bucket`."""
    with s3_server() as address:
        yield address


@pytest.fixture(params=["memory", "s3"])
def open_store(request: pytest.FixtureRequest) -> Callable[..., rs.Remote]:
    """Opens a store of a given name, every time in the same new folder."""
    folder = uuid.uuid4().hex
    if request.param == "memory":
        return lambda name="input": rs.Remote(f"memory://{folder}/run", name)
    address = request.getfixturevalue("s3")
    return lambda name="input": rs.Remote(
        f"s3://bucket/{folder}/run", name, endpoint_url=address, skip_instance_cache=True
    )


def test_a_loop_saves_and_resumes(open_store: Callable[..., rs.Remote]) -> None:
    first = run_loop(NUMBERS, open_store(), rs.EverySteps(4), 10)
    assert open_store().steps() == [4, 8, 10]
    rest = run_loop(
        NUMBERS, open_store(), rs.EverySteps(4), retention=rs.Retention(2), asynchronous=True
    )
    assert first + rest == list(NUMBERS)
    assert open_store().steps() == [96, 100]


def test_it_obeys_the_rules_of_a_store(open_store: Callable[..., rs.Remote]) -> None:
    store = open_store()
    assert (store.steps(), store.has_damaged()) == ([], False)
    for step in (7, 0, 10**13):
        assert f"input-{step:012d}.ckpt" in store.save(step, b"%d" % step)
    with pytest.raises(FileExistsError, match="a checkpoint for step 7 already"):
        store.save(7, b"other")
    assert store.save(7, b"7") == open_store().save(7, b"7")
    assert not store.lock().is_held
    assert [open_store().load(step) for step in store.steps()] == [b"0", b"7", b"10000000000000"]
    store.remove(7)
    for missing in (store.load, store.remove):
        with pytest.raises(FileNotFoundError):
            missing(7)
    for _ in range(2):
        store.set_aside(0, "superseded")
        store.save(0, b"again")
    assert not store.has_damaged()
    assert "damaged" in store.set_aside(0, "damaged")
    assert open_store().has_damaged()
    assert open_store().steps() == [10**13]


def test_names_share_a_folder(open_store: Callable[..., rs.Remote]) -> None:
    open_store("training").save(1, b"a")
    open_store(rs.task_name("worker", 3)).save(2, b"b")
    assert open_store("training").steps() == [1]
    assert open_store("input_worker_3").steps() == [2]
    assert open_store().steps() == []


def test_another_process_sees_what_was_saved_since(open_store: Callable[..., rs.Remote]) -> None:
    reader, writer = open_store(), open_store()
    for step in (1, 2):
        writer.save(step, b"x")
        assert reader.steps()[-1] == step
        assert reader.load(step) == b"x"


def test_a_put_is_create_only_also_against_one_who_comes_between(
    open_store: Callable[..., rs.Remote], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store().save(1, b"theirs")
    store = open_store()
    real = store._system.exists

    def none_yet(path: str) -> bool:
        monkeypatch.setattr(store._system, "exists", real)
        return False

    monkeypatch.setattr(store._system, "exists", none_yet)
    with pytest.raises(FileExistsError, match="step 1 already"):
        store.save(1, b"ours")
    assert open_store().load(1) == b"theirs"
    monkeypatch.setattr(store._system, "exists", none_yet)
    assert store.save(1, b"theirs"), "an answer that was lost: the same bytes are there"


def test_damaged_ones_are_set_aside(open_store: Callable[..., rs.Remote]) -> None:
    run_loop(NUMBERS, open_store(), rs.EverySteps(4), 10)
    store = open_store()
    data = store.load(10)
    store.remove(10)
    store.save(10, data[:-1])
    with pytest.warns(RuntimeWarning, match="step 10 is damaged: .*set aside"):
        assert run_loop(NUMBERS, open_store(), rs.EverySteps(4), 3) == NUMBERS[8:11]


def test_what_is_no_checkpoint_is_not_read_whole(open_store: Callable[..., rs.Remote]) -> None:
    store = open_store()
    store.save(1, bytes(3 << 20))
    with pytest.raises(rs.CorruptCheckpoint, match="not with the mark of a checkpoint"):
        store.load(1)


def test_a_checkpointer_takes_a_url(tmp_path: Path) -> None:
    checkpointer = rs.Checkpointer(f"memory://{tmp_path.name}", rs.AtEnd(), name="training")
    assert isinstance(checkpointer.store, rs.Remote)
    assert checkpointer.store.name == "training"
    assert list(survey(tmp_path)) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///tmp/run", "url must not be local, got 'file:///tmp/run'"),
        ("/tmp/run", "url must not be local"),
        ("nope://run", "url must be one that fsspec knows, got 'nope://run'"),
    ],
)
def test_urls_that_cannot_be_are_refused(url: str, message: str) -> None:
    with pytest.raises(rs.InvalidArgument, match=message):
        rs.Remote(url)


def test_a_missing_backend_is_named() -> None:
    with pytest.raises(ImportError, match="'gcs://run' needs fsspec and its backend"):
        rs.Remote("gcs://run")
