"""Lance datasets of the real package: every law, versions, other ranks and processes, remote and damaged."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.lance_datasets import KEPT, write_datasets
from formats.laws_of_sources import check_laws, items_of_two_ranks_then_three
from formats.table_files import rows
from support.command import ROOT
from support.native_forks import called_in_threads, holds_in_a_fork
from support.s3_server import s3_server
from support.tiers import thinned

import resumable as rs
from resumable.core.block import block_items
from resumable.formats.tables import lance_version
from resumable.testing import check_resumes_everywhere
from resumable.testing.comparing import same
from resumable.testing.laws import first_items

lance = pytest.importorskip("lance", reason="pylance is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

# Lance warns at each fork. That a child reads rightly all the same is what some of these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:lance is not fork-safe")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lance")
    write_datasets(folder)
    return folder


def mixed(data: Path, *columns: str) -> rs.Pipeline[dict[str, Any]]:
    return rs.lance(data / "mixed.lance", columns or None)


def identity(row: dict[str, Any]) -> int:
    number: int = row["id"]
    return number


PIPELINES: dict[str, Callable[[Path], rs.Pipeline[Any]]] = {
    "in order": mixed,
    "columns": lambda data: mixed(data, "text", "id").batch(4),
    "shuffled": lambda data: mixed(data, "id", "tokens").shuffle(1).repeat(2),
    "in blocks": lambda data: mixed(data).shuffle(2, block=4),
    "numbers": lambda data: rs.lance(data / "numbers.lance").shuffle(1, block=4).batch(4),
    "numbers in order": lambda data: rs.lance(data / "numbers.lance").batch(3),
    "of a rank": lambda data: mixed(data, "id").shuffle(3).shard(1, 2).repeat(2),
    "window": lambda data: mixed(data, "id").filter(identity).shuffle(4, window=5),
    "prefetch": lambda data: mixed(data).take(8).map(identity).prefetch(3),
    "partitions": lambda data: mixed(data, "id").partition(4, lambda part: part.map(identity)),
    "no row": lambda data: rs.lance(data / "none.lance").repeat(2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_rows_obey_every_law(name: str, data: Path) -> None:
    check_laws(PIPELINES[name](data))


def test_rows_are_those_that_the_package_reads(data: Path) -> None:
    dataset = lance.dataset(data / "mixed.lance")
    assert [row["id"] for row in mixed(data)] == dataset.to_table()["id"].to_pylist() == KEPT
    expected = {row["id"]: row for row in rows(0, 24)}
    # As `rows` of Parquet: a list of numbers is an array.
    for row in mixed(data):
        assert same({**row, "tokens": row["tokens"].tolist()}, expected[row["id"]])
    order = np.random.default_rng(0).integers(0, len(KEPT), 50)
    taken = dataset.take(order.tolist(), columns=["id", "text"]).to_pylist()
    assert block_items(mixed(data, "id", "text").gather(order)) == taken


def test_rows_and_blocks_are_those_of_parquet(data: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name in ("mixed", "numbers"):
        table = lance.dataset(data / f"{name}.lance").to_table()
        pq.write_table(table, tmp_path / f"{name}.parquet")
        ours, theirs = rs.lance(data / f"{name}.lance"), rs.parquet(tmp_path / f"{name}.parquet")
        assert same(list(ours), list(theirs))
        collate = list if name == "mixed" else None
        assert same(list(ours.batch(5, collate=collate)), list(theirs.batch(5, collate=collate)))
        assert kinds(ours) == kinds(theirs)
        order = np.array([7, 2, 2, 11, 0])
        assert same(ours.gather(order), theirs.gather(order))


def kinds(pipeline: rs.Pipeline[dict[str, Any]]) -> list[str]:
    """What a function is given for the blocks."""
    return list(pipeline.map_batches(lambda block: [type(block).__name__], 5))


def test_two_ranks_are_resumed_by_three(data: Path) -> None:
    pipeline = mixed(data, "id").shuffle(5).repeat(2)
    seen = items_of_two_ranks_then_three(pipeline)
    assert sorted(row["id"] for row in seen) == sorted(KEPT * 2)


def test_processes_read_and_compute_the_same(data: Path) -> None:
    source = mixed(data, "id").shuffle(2)
    parts = source.partition(4, _identities, workers=2, executor="process")
    assert first_items(parts) == first_items(source.partition(4, _identities))


def _identities(part: rs.Pipeline[dict[str, Any]]) -> rs.Pipeline[int]:
    return part.map(identity)


def test_a_pipeline_resumes_in_a_fresh_process(data: Path) -> None:
    check_resumes_everywhere(mixed(data).shuffle(1), positions=[0, 9, 19], fresh_process=True)


def test_a_child_opens_the_dataset_anew_also_while_other_threads_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = mixed(data, "id")
    open_dataset, calls = lance_version.LanceVersion._dataset, list[int]()

    def opened(*arguments: Any) -> Any:
        calls.append(os.getpid())
        return open_dataset(*arguments)

    monkeypatch.setattr(lance_version.LanceVersion, "_dataset", opened)
    with called_in_threads(lambda: pipeline.gather(np.arange(18)[::-1])):
        for _ in range(10):
            assert holds_in_a_fork(lambda: ids(pipeline) == KEPT and calls == [os.getpid()])
    assert not calls


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    """A dataset of ten rows, of which only one version is there."""
    path = tmp_path / "a.lance"
    lance.write_dataset(pa.table({"id": range(10)}), path, max_rows_per_file=4)
    return path


def ids(pipeline: rs.Pipeline[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in pipeline]


def test_a_pipeline_reads_the_version_that_it_was_built_with(changing: Path) -> None:
    pipeline = rs.lance(changing)
    with iter(pipeline.shuffle(0)) as iterator:
        first = list(islice(iterator, 3))
        state = rs.dumps(iterator.get_state())
        lance.write_dataset(pa.table({"id": range(10, 20)}), changing, mode="append")
        lance.dataset(changing).delete("id < 5")
        rest = list(iterator)
    assert ids(pipeline) == ids(pickle.loads(pickle.dumps(pipeline))) == list(range(10))
    assert holds_in_a_fork(lambda: ids(pipeline) == list(range(10)))
    assert ids(rs.lance(changing)) == list(range(5, 20))
    again = rs.lance(changing, version=1).shuffle(0)
    assert list(again.resume(rs.loads(state))) == rest
    assert sorted(map(identity, first + rest)) == list(range(10))


def test_a_resume_on_another_version_is_refused_and_told_what_to_write(changing: Path) -> None:
    with iter(rs.lance(changing)) as iterator:
        next(iterator)
        state = iterator.get_state()
    lance.write_dataset(pa.table({"id": range(10, 20)}), changing, mode="append")
    with pytest.raises(rs.StateMismatch, match=r"version 1, 10 rows.*version 2, 20 rows.*version="):
        rs.lance(changing).resume(state)
    again = rs.lance(changing, version=1).resume(state)
    assert list(map(identity, again)) == list(range(1, 10))


def test_a_tag_names_a_version(changing: Path) -> None:
    lance.dataset(changing).tags.create("first", 1)
    state = iter(rs.lance(changing, version=1)).get_state()
    lance.dataset(changing).delete("true")
    tagged = rs.lance(changing, version="first")
    assert ids(tagged) == list(range(10))
    assert len(list(tagged.resume(state))) == 10
    assert len(rs.lance(changing)) == 0


def test_a_dataset_that_was_written_anew_is_refused(changing: Path) -> None:
    state = iter(rs.lance(changing)).get_state()
    shutil.copytree(changing, changing.parent / "copy" / changing.name)
    assert len(list(rs.lance(changing.parent / "copy" / changing.name).resume(state))) == 10
    shutil.rmtree(changing)
    lance.write_dataset(pa.table({"id": range(10)[::-1]}), changing, max_rows_per_file=4)
    with pytest.raises(rs.StateMismatch, match="other content than at the save"):
        rs.lance(changing).resume(state)


def test_a_version_that_was_cleaned_up_is_missed(changing: Path) -> None:
    pipeline = rs.lance(changing)
    fresh = pickle.dumps(pipeline)
    lance.write_dataset(pa.table({"id": range(5)}), changing, mode="overwrite")
    lance.dataset(changing).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(FileNotFoundError, match=r"a.lance, version 1, fragment 0: .*cleaned up"):
        list(pipeline)
    with pytest.raises(FileNotFoundError, match=r"a.lance: .*1.manifest was not found"):
        pickle.loads(fresh)


def test_what_is_not_there_is_told(changing: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.lance"):
        rs.lance(changing.parent / "none.lance")
    with pytest.raises(FileNotFoundError, match=r"a.lance: .*77"):
        rs.lance(changing, version=77)
    with pytest.raises(FileNotFoundError, match="tag nothing does not exist"):
        rs.lance(changing, version="nothing")
    with pytest.raises(rs.InvalidArgument, match=r"columns must be .*'text'.*it has \['id'\]"):
        rs.lance(changing, ["text"])
    with pytest.raises(
        rs.InvalidArgument, match="uri must be one that Lance knows, got 'gopher://a'"
    ):
        rs.lance("gopher://a")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(rs.MissingDependency, match=r"pip install 'resumable-loader\[lance\]'"):
        rs.lance("a.lance")


def test_origins_and_exclusions_name_the_row(data: Path) -> None:
    origin: Any = rs.origins(mixed(data).shuffle(3))[4]
    assert same(mixed(data)[origin.record], mixed(data).shuffle(3)[4])
    assert origin.file == str(data / "mixed.lance")
    stage: Any = mixed(data).stage
    assert stage._numbers_with(origin.record).tolist() == [origin.record]
    excluded = mixed(data).exclude({"mixed.lance": [0, 5]})
    assert [row["id"] for row in excluded] == KEPT[1:5] + KEPT[6:]
    assert list(map(identity, mixed(data).exclude([0, 5]))) == KEPT[1:5] + KEPT[6:]


@pytest.mark.parametrize("part", ["data", "_deletions", "_versions"])
def test_a_file_that_is_cut_short_is_refused_or_not_needed(
    part: str, data: Path, tmp_path: Path
) -> None:
    expected = list(mixed(data))
    path = tmp_path / "mixed.lance"
    shutil.copytree(data / "mixed.lance", path)
    latest = lance.dataset(path).version
    refused = 0
    for file in sorted((path / part).iterdir()):
        whole = file.read_bytes()
        for size in thinned(range(len(whole)), 6, file.name):
            file.write_bytes(whole[:size])
            try:
                assert same(list(rs.lance(path, version=latest)), expected)
            except rs.MalformedItem:
                refused += 1
        file.write_bytes(whole)
    assert refused > 5


def test_a_panic_of_lance_is_a_malformed_item(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        __module__ = "pyo3_runtime"

    def panic(*arguments: Any, **options: Any) -> Any:
        raise PanicException("range end index 8551 out of range")

    pipeline = mixed(data)
    monkeypatch.setattr(lance.LanceFragment, "take", panic)
    with pytest.raises(rs.MalformedItem, match=r"version 3, fragment 0: range end index 8551"):
        pipeline.gather(np.array([1, 0]))
    monkeypatch.setattr(lance_version.LanceVersion, "_dataset", panic)
    with pytest.raises(rs.MalformedItem, match=r"mixed.lance: range end index"):
        mixed(data)


def test_an_error_of_a_signal_handler_passes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(ValueError):
        pass

    def stop(*arguments: Any, **options: Any) -> Any:
        raise Stopped

    pipeline = mixed(data)
    monkeypatch.setattr(lance.LanceFragment, "take", stop)
    with pytest.raises(Stopped):
        pipeline.gather(np.array([1, 0]))


def test_long_runs_of_rows_are_scanned_and_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "long.lance"
    lance.write_dataset(pa.table({"id": range(1000)}), path, max_rows_per_file=400)
    lance.dataset(path).delete("id % 10 = 3")
    expected = [number for number in range(1000) if number % 10 != 3]
    pipeline = rs.lance(path)
    assert ids(pipeline) == expected
    for start, stop in ((0, 900), (7, 700), (300, 420)):
        order = np.arange(start, stop)
        block: Any = pipeline.gather(order[::-1])
        assert block["id"].tolist() == expected[start:stop][::-1]
        block = pipeline.gather(np.repeat(order, 2))
        assert block["id"].tolist() == np.repeat(expected[start:stop], 2).tolist()


@pytest.fixture(scope="module")
def s3(data: Path) -> Iterator[dict[str, str]]:
    """Options of Lance's object store for a server that speaks S3."""
    files = {
        str(path.relative_to(data)): path.read_bytes()
        for path in data.glob("mixed.lance/**/*")
        if path.is_file()
    }
    with s3_server(files) as address:
        yield {"endpoint": address, "allow_http": "true", "region": "us-east-1"}


def test_datasets_of_s3_are_shuffled_and_resumed(s3: dict[str, str], data: Path) -> None:
    remote = rs.lance("s3://bucket/mixed.lance", storage_options=s3)
    local = mixed(data)
    with iter(remote.shuffle(3)) as iterator:
        first = list(islice(iterator, 7))
        state = rs.loads(rs.dumps(iterator.get_state()))
    expected = list(local.shuffle(3))
    assert same(first + list(remote.shuffle(3).resume(state)), expected)
    # A copy elsewhere is as good.
    assert same(list(local.shuffle(3).resume(state)), expected[7:])


def test_what_s3_does_not_have_or_refuses_is_told(s3: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/none.lance"):
        rs.lance("s3://bucket/none.lance", storage_options=s3)
    nobody = {**s3, "endpoint": "http://127.0.0.1:9", "client_max_retries": "0"}
    with pytest.raises(rs.ReadError, match=r"s3://bucket/mixed.lance could not be read"):
        rs.lance("s3://bucket/mixed.lance", storage_options=nobody)


def test_importing_the_library_does_not_import_lance() -> None:
    code = "import sys, resumable as rs; rs.lance; assert 'lance' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
