"""What a process of its own fetches ahead is what this one would have fetched, and comes before it is asked for."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import FileServer

import resumable as rs
from resumable.core.process_counts import process_counts
from resumable.file_cache.part_file import HEADER
from resumable.formats.io import fetching, fetching_process, remote_content
from resumable.formats.io.fetching_process import FetchingProcess

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )
pytestmark = pytest.mark.skipif(os.name != "posix", reason="it is for systems with pipes of POSIX")

PART = 1 << 16
LINES = [f"{number:07} {'x' * 992}" for number in range(256)]  # four parts
TEXT = "".join(f"{line}\n" for line in LINES).encode()
LONG = 60.0
"""Seconds in which even a busy machine starts an interpreter."""


@pytest.fixture
def server(http_server: FileServer) -> FileServer:
    http_server.files = {f"/{name}.txt": TEXT.replace(b"x", name.encode()) for name in "abcd"}
    http_server.tags = {path: f'"{path}"' for path in http_server.files}
    return http_server


@pytest.fixture
def own_requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What this process begins to fetch ahead itself."""
    begun: list[Any] = []
    begin = fetching.begin

    def noting(requests: Any, *arguments: Any) -> None:
        begun.extend(requests)
        begin(requests, *arguments)

    monkeypatch.setattr(remote_content, "begin", noting)
    return begun


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FetchingProcess:
    """The other process, which is ready."""
    monkeypatch.setattr(fetching_process, "WORTH_A_PROCESS", 0)
    return started()


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    current = fetching_process.current_process()
    if current is not None and not current.has_ended:
        current.close()


def started() -> FetchingProcess:
    deadline = time.monotonic() + LONG
    while (found := fetching_process.fetching_process(0)) is None and time.monotonic() < deadline:
        # A process that earlier tests have ended may be noticed only now; one that never answered is not replaced.
        fetching_process._process = None
    assert found is not None
    while not found.answered and time.monotonic() < deadline:
        found.collect(0.1)
    assert found.answered
    return found


def lines(server: FileServer, folder: Path, **options: Any) -> Any:
    urls = [server.address + path for path in sorted(server.files)]
    cache = rs.FileCache(folder / "parts", 100 * (PART + HEADER.size), PART, read_ahead=16 * PART)
    found = rs.lines(urls, index_dir=folder / "index", cache=cache, storage_options=options or None)
    server.requests.clear()
    return found


def orders(source: Any) -> dict[str, Any]:
    return {
        "in order": source,
        "blocks": source.shuffle(3, block=64).batch(7),
        "rank": source.shuffle(1, block=16).shard(1, 2),
        "prefetch": source.shuffle(2, block=32).prefetch(4),
        "parts": source.partition(3, lambda part: part.map(str.upper)),
    }


def clear(folder: Path) -> None:
    for path in (folder / "parts").rglob("*.part"):
        path.unlink()


@pytest.mark.parametrize("order", ["in order", "blocks", "rank", "prefetch", "parts"])
def test_the_items_are_the_same_each_part_comes_once_and_hardly_any_is_waited_for_by_fetching_it(
    server: FileServer,
    tmp_path: Path,
    process: FetchingProcess,
    own_requests: list[Any],
    order: str,
) -> None:
    pipeline = orders(lines(server, tmp_path))[order]
    expected = list(map(repr, orders(rs.lines(list(map(server.address.__add__, sorted(server.files))), index_dir=tmp_path / "index"))[order]))  # fmt: skip
    clear(tmp_path)
    server.requests.clear()
    before = process_counts.now()
    iterator = iter(pipeline)
    found, at_first = [repr(next(iterator))], process_counts.cache_misses
    found += map(repr, iterator)
    assert found == expected
    process.collect()
    after = process_counts.now()
    gets = [span for method, _, span in server.requests if method == "GET" and span]
    assert sum(stop - start for start, stop in gets) <= 4 * len(TEXT)
    assert not own_requests
    # The first item is read before anything is fetched ahead; that of each partition, too.
    assert after["cache_misses"] - at_first <= {"prefetch": 2, "parts": 6}.get(order, 0)
    assert after["bytes_read"] - before["bytes_read"] == sum(stop - start for start, stop in gets)


def test_a_resume_in_the_middle_is_exact_and_an_iterator_may_be_closed_at_any_time(
    server: FileServer, tmp_path: Path, process: FetchingProcess
) -> None:
    pipeline = lines(server, tmp_path).shuffle(3, block=64)
    expected = list(pipeline)
    for count in (0, 1, 63, 64, 300, 1023, 1024):
        clear(tmp_path)
        with iter(pipeline) as iterator:
            for _ in range(count):
                next(iterator)
            state = iterator.get_state()
        with pipeline.resume(pickle.loads(pickle.dumps(state))) as rest:
            assert list(rest) == expected[count:]


def test_a_process_that_is_killed_takes_nothing_with_it_and_another_one_begins(
    server: FileServer, tmp_path: Path, process: FetchingProcess
) -> None:
    pipeline = lines(server, tmp_path).shuffle(3, block=64)
    expected = list(pipeline)
    clear(tmp_path)
    found = []
    for place, item in enumerate(pipeline):
        if place == 1:
            os.kill(process.pid, signal.SIGKILL)
        found.append(item)
    assert found == expected
    process.collect(LONG)
    assert process.has_ended
    assert not list(tmp_path.rglob("*.part.tmp")), "nothing is claimed"
    assert started() is not process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_has_no_part_in_it(
    server: FileServer, tmp_path: Path, process: FetchingProcess
) -> None:
    pipeline = lines(server, tmp_path)
    expected = list(pipeline)
    clear(tmp_path)
    iterator = iter(pipeline)
    found = [next(iterator) for _ in range(100)]
    child = os.fork()
    if not child:
        os._exit(0 if fetching_process.current_process() is None and process.has_ended else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not process.has_ended
    assert found + list(iterator) == expected


def test_the_error_of_a_file_that_is_gone_comes_at_its_turn(
    server: FileServer, tmp_path: Path, process: FetchingProcess
) -> None:
    pipeline = lines(server, tmp_path, retry={"attempts": 1})
    expected = list(pipeline)
    clear(tmp_path)
    gone = server.files.pop("/c.txt")
    iterator = iter(pipeline)
    assert [next(iterator) for _ in range(2 * len(LINES))] == expected[: 2 * len(LINES)]
    with pytest.raises(FileNotFoundError, match=r"/c.txt"):
        next(iterator)
    server.files["/c.txt"] = gone
    assert list(iterator) == expected[2 * len(LINES) :]


def test_options_that_cannot_go_to_another_process_are_used_here(
    server: FileServer, tmp_path: Path, process: FetchingProcess, own_requests: list[Any]
) -> None:
    async def client(**options: Any) -> Any:
        import aiohttp

        return aiohttp.ClientSession(**options)

    pipeline = lines(server, tmp_path, get_client=client)
    list(pipeline)
    clear(tmp_path)
    assert list(pipeline) == [line.replace("x", name) for name in "abcd" for line in LINES]
    assert own_requests


def test_what_is_fetched_ahead_is_read_part_by_part(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    read = remote_content.read_pieces

    def noting(spans: Any, **options: Any) -> Any:
        sizes.append(sum(span.end - span.start for span in spans))
        return read(spans, **options)

    monkeypatch.setattr("resumable.formats.read_planner.read_pieces", noting)
    list(lines(server, tmp_path).shuffle(3, block=128))
    assert sizes
    assert max(sizes) <= PART + len(LINES[0]) + 1


SCRIPT = """
import sys, time
from resumable.formats.io import fetching_process
fetching_process.WORTH_A_PROCESS = 0
process = fetching_process.fetching_process(0)
deadline = time.monotonic() + 60
while not process.answered and time.monotonic() < deadline:
    process.collect(0.1)
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["at the end", "killed"])
def test_it_ends_with_the_process_that_it_fetches_for(how: str) -> None:
    loader = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with loader:
        assert loader.stdout is not None
        pid = int(loader.stdout.readline())
        if how == "killed":
            loader.kill()
    deadline = time.monotonic() + LONG
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(pid)


def is_there(pid: int) -> bool:
    """Whether a process with this number runs; one that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
