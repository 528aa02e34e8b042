"""What a function of processes refers to in a mapped file is not copied to them."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resumable as rs

pytest.importorskip("loky", reason="loky is not installed: pip install resumable-loader[parallel]")
if sys.platform != "linux":
    pytest.skip("looks into /proc", allow_module_level=True)

from resumable.workers import processes
from resumable.workers.function_pickler import dumps

pickled: Callable[[Any], bytes] = processes.pickled
SMALL = 10_000  # bytes
LARGE = 1 << 26


def loaded(value: Any) -> Any:
    return pickle.loads(pickled(value))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    np.arange(6000, dtype=np.int16).tofile(path)
    return path


@pytest.fixture
def large(tmp_path: Path) -> np.memmap[Any, Any]:
    """64 MiB, most of it a hole."""
    filled: Any = np.memmap(tmp_path / "large.bin", np.float32, "w+", shape=(1 << 14, 1 << 10))
    filled[::100, 0] = np.arange(len(filled[::100]))
    filled.flush()
    return np.memmap(tmp_path / "large.bin", np.float32, "r", shape=filled.shape)


class Table:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def first(self, index: int) -> float:
        return float(self.rows[index, 0])


def first_of(rows: Any, index: int) -> float:
    return float(rows[index, 0])


def in_a_closure(rows: Any) -> Callable[[int], float]:
    return lambda index: float(rows[index, 0])


def in_a_default(rows: Any) -> Callable[[int], float]:
    def first(index: int, rows: Any = rows) -> float:
        return float(rows[index, 0])

    return first


WAYS: dict[str, Callable[[Any], Callable[[int], float]]] = {
    "closure": in_a_closure,
    "partial": lambda rows: partial(first_of, rows),
    "bound method": lambda rows: Table(rows).first,
    "default": in_a_default,
    "view": lambda rows: in_a_closure(rows[:, 0:5]),
    "plain array": lambda rows: in_a_closure(np.asarray(rows)),
    "pipeline": lambda rows: in_a_closure(rs.from_arrays(rows).stage.arrays),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_over_a_mapped_file_is_sent_without_its_bytes(way: str, large: Any) -> None:
    assert len(pickled(WAYS[way](large))) < SMALL < LARGE == large.nbytes


def test_processes_over_a_mapped_file_give_the_right_results(large: Any) -> None:
    expected = [float(number) for number in range(len(large[::100]))]
    fn = in_a_closure(large)
    pipeline = rs.range(0, len(large), 100).map(fn, workers=2, executor="process")
    assert list(pipeline) == expected


SHOWN: dict[str, Callable[[Any], Any]] = {
    "all": lambda data: data,
    "rows": lambda data: data[10:20],
    "one row": lambda data: data[7],
    "columns": lambda data: data[:, 1::3],
    "backwards": lambda data: data[::-1, ::-2],
    "transposed": lambda data: data.T,
    "reshaped": lambda data: data.reshape(-1, 30),
    "of another dtype": lambda data: data.view(np.uint8),
    "dates": lambda data: data.view("datetime64[s]"),
    "a field": lambda data: data.view([("a", "i2"), ("b", "f2")])["b"],
    "repeated": lambda data: np.broadcast_to(data[0], (9, 60)),
    "plain": np.asarray,
    "rows of plain": lambda data: np.asarray(data)[3:][::2],
    "nothing": lambda data: data[0:0],
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0, 4100])
def test_what_arrives_is_what_was_sent(shown: str, order: Any, offset: int, path: Path) -> None:
    shape = (100, 60) if not offset else (65, 60)
    data = np.memmap(path, np.int16, "r", offset, shape, order)
    try:
        sent = SHOWN[shown](data)
    except ValueError:
        pytest.skip("NumPy has no such view")
    arrived = loaded(sent)
    assert type(arrived) is type(sent)
    assert arrived.dtype == sent.dtype
    assert arrived.flags.writeable == sent.flags.writeable
    np.testing.assert_array_equal(arrived, sent)


def test_a_file_is_mapped_once_however_many_views_arrive(path: Path) -> None:
    rows = list(np.memmap(path, np.int16, "r", shape=(2000, 3)))
    assert len(pickled(rows)) < 200 * len(rows)
    before = len(os.listdir("/proc/self/fd"))
    arrived = loaded(rows)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    np.testing.assert_array_equal(arrived, rows)


def test_what_a_worker_writes_into_a_shared_map_is_in_the_file(path: Path) -> None:
    for mode in ("w+", "r+"):
        data: Any = np.memmap(path, np.int16, mode, shape=(40, 2))
        data[:] = 5
        fn = _writing(data)
        assert list(rs.range(40).map(fn, workers=2, executor="process")) == [5] * 40
        assert data[:, 0].tolist() == list(range(40)), mode
        assert path.stat().st_size == data.nbytes


def _writing(data: Any) -> Callable[[int], int]:
    def write(index: int) -> int:
        before = int(data[index, 1])
        data[index, 0] = index
        return before

    return write


def test_private_changes_arrive(path: Path) -> None:
    data: Any = np.memmap(path, np.int16, "c")
    data[3] = -9
    assert loaded(data)[3] == loaded(data[2:])[1] == -9
    assert np.memmap(path, np.int16, "r")[3] == 3


@pytest.mark.parametrize("change", ["another size", "first", "last", "nothing"])
def test_the_bytes_are_sent_if_another_file_has_the_name_of_the_map(
    change: str, path: Path
) -> None:
    data = np.memmap(path, np.int16, "r")
    expected = data.copy()
    path.rename(path.with_suffix(".renamed"))
    assert len(pickled(data)) > data.nbytes, "no file has that name"
    other = expected.copy() if change != "another size" else expected[:-1]
    if change in ("first", "last"):
        other[0 if change == "first" else -1] += 1
    other.tofile(path)
    assert (len(pickled(data)) > data.nbytes) == (change != "nothing")
    np.testing.assert_array_equal(loaded(data), expected)


def test_a_map_that_begins_within_the_file_is_compared_at_its_place(path: Path) -> None:
    for offset, count in ((0, 6000), (2, 5), (4096, 100), (4100, 2000), (8192, 1904)):
        data = np.memmap(path, np.int16, "r", offset, (count,))
        assert len(pickled(data)) < 1000
        np.testing.assert_array_equal(loaded(data), data)


def test_a_file_that_is_replaced_on_the_way_is_refused(path: Path) -> None:
    sent = pickled(np.memmap(path, np.int16, "r"))
    other = path.with_suffix(".other")
    np.zeros(6000, np.int16).tofile(other)
    os.replace(other, path)
    with pytest.raises(rs.InvalidArgument, match=r"data.bin of a numpy.memmap must stay"):
        pickle.loads(sent)


def test_a_file_that_was_cut_short_is_refused_rather_than_read(path: Path) -> None:
    data = np.memmap(path, np.int16, "r", offset=10, shape=(100,))
    os.truncate(path, 209)
    with pytest.raises(rs.InvalidArgument, match=r"must keep its 210 bytes, got 209; was it writ"):
        pickled(data)


def test_a_map_without_a_name_is_sent(path: Path) -> None:
    with open(os.open(path, os.O_RDONLY), "rb") as file:  # its name is a number
        data = np.memmap(file, np.int16, "r")
    assert data.filename is None
    assert len(pickled(data)) > data.nbytes
    np.testing.assert_array_equal(loaded(data), data)


class Elsewhere(Executor):
    """An executor of another machine: everything goes through bytes."""

    sent = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        data = pickle.dumps((fn, args, options))
        self.sent = max(self.sent, len(data))
        future: Future[Any] = Future()
        function, given, named = pickle.loads(data)
        future.set_result(function(*given, **named))
        return future


def test_no_path_of_this_machine_goes_to_somebody_elses_executor(path: Path) -> None:
    data = np.memmap(path, np.int16, "r", shape=(600, 10))
    elsewhere = Elsewhere()
    fn = partial(first_of, data)
    assert list(rs.range(3).map(fn, workers=1, executor=elsewhere)) == [0, 10, 20]
    assert elsewhere.sent > data.nbytes


@pytest.mark.deep
def test_processes_over_a_mapped_file_keep_no_copy_of_it(large: Any) -> None:
    def private_bytes(rows: Any) -> Callable[[int], int]:
        def measured(index: int) -> int:
            float(np.add.reduce(rows[index : index + 4096], axis=None))
            lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
            (line,) = [line for line in lines if line.startswith("Anonymous:")]
            return int(line.split()[1]) * 1024

        return measured

    starts = rs.range(0, len(large), 4096)
    of_the_interpreter, used = (
        max(starts.map(private_bytes(rows), workers=2, executor="process"))
        for rows in (np.zeros((1, 1)), large)
    )
    assert used < of_the_interpreter + LARGE // 4


def test_a_file_that_has_become_too_short_is_refused_where_it_is_opened(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "data", np.uint8, "w+", shape=(8192,))
    pickled = dumps(array)
    os.truncate(tmp_path / "data", 10)
    with pytest.raises(rs.InvalidArgument, match="must keep its 8192 bytes, got 10"):
        pickle.loads(pickled)
    assert (tmp_path / "data").stat().st_size == 10
