"""How fast files come from a distant store through a cache, and what that takes of the processors.

Run as `python -m benchmarks.workloads.scripts.remote_speed`, in an environment with the extra `remote` and aiohttp. It reads
shards in blocks from a store with a latency of 20 ms and 100 MB/s for each connection, with read-ahead, and compares that
with local files that were read before. Store, fetcher and loader share the processors of the machine, so it says how much of
them each takes.
"""

from __future__ import annotations

import argparse
import email
import json
import multiprocessing
import os
import re
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import resumable as rs
from benchmarks.fresh import end_with_parent
from resumable.formats.io.fetching_process import current_process

SHARDS = 200
SENT_AT_ONCE = 1 << 18


def serve(folder: str, latency: float, rate: float, channel: Any) -> None:
    """Serve the files of a folder over HTTP: each answer after ``latency`` seconds, ``rate`` bytes a second on a connection.

    The bytes go from the files to the sockets within the kernel, so that the store takes little of the processors.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        end_with_parent(os.getppid())
        channel.send(listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            arguments = connection, Path(folder), latency, rate
            threading.Thread(target=answer_requests, args=arguments, daemon=True).start()


def answer_requests(connection: socket.socket, folder: Path, latency: float, rate: float) -> None:
    """Answer the requests that come through a connection."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as lines:
        while line := lines.readline():
            method, path, _ = line.decode().split(" ")
            headers = email.message_from_string(
                "".join(iter(lambda: lines.readline().decode(), "\r\n"))
            )
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("Range", ""))
            with open(folder / path.lstrip("/"), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                start, stop = (int(asked[1]), min(int(asked[2]) + 1, size)) if asked else (0, size)
                time.sleep(latency)
                connection.sendall(
                    f'HTTP/1.1 {206 if asked else 200} OK\r\nETag: "{path}"\r\n'
                    f"Content-Length: {stop - start}\r\nAccept-Ranges: bytes\r\n"
                    f"Content-Range: bytes {start}-{stop - 1}/{size}\r\n\r\n".encode()
                )
                if method == "GET":
                    send(connection, file.fileno(), start, stop, rate)


def send(connection: socket.socket, file: int, start: int, stop: int, rate: float) -> None:
    """Send some bytes of a file, so many a second."""
    began, at = time.perf_counter(), start
    while at < stop:
        at += os.sendfile(connection.fileno(), file, at, min(stop - at, SENT_AT_ONCE))
        if rate:
            time.sleep(max(began + (at - start) / rate - time.perf_counter(), 0))


@contextmanager
def store(folder: Path, latency: float = 0.0, rate: float = 0.0) -> Iterator[tuple[str, int]]:
    """The address of a store in another process, and the number of that."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(str(folder), latency, rate, theirs), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}", server.pid or 0
    finally:
        server.kill()
        server.join()


def measure_speed(
    folder: Path, items: int, size: int, rounds: int, shards: int = SHARDS
) -> Iterator[dict[str, Any]]:
    """Items a second from a distant store with read-ahead, and from local files that are in memory.

    The first round does not count: in it the process that fetches begins.
    """
    total = write_documents(folder, items, size, shards)
    paths = sorted(map(str, folder.glob("*.txt")))
    index = tempfile.mkdtemp()
    with store(folder, latency=0.02, rate=1e8) as (address, server):
        urls = [f"{address}/{Path(path).name}" for path in paths]
        rs.lines(urls, index_dir=index)
        rs.lines(paths, index_dir=index)
        for name, work in WORKS.items():
            runs: dict[str, list[Run]] = {"local": [], "remote": []}
            for _ in range(rounds + 1):
                runs["local"].append(run(rs.lines(paths, index_dir=index), items, work, server))
                place = tempfile.mkdtemp()
                cache = rs.FileCache(place, 1 << 34, read_ahead=1 << 27)
                remote = rs.lines(urls, index_dir=index, cache=cache)
                runs["remote"].append(run(remote, items, work, server))
                shutil.rmtree(place)
            counted = {kind: of_kind[1:] for kind, of_kind in runs.items()}
            pairs = list(zip(counted["local"], counted["remote"], strict=True))
            row: dict[str, Any] = {"work on an item": name}
            for kind, of_kind in counted.items():
                row[f"{kind} MB/s"] = [round(total / each.seconds / 1e6) for each in of_kind]
            for column in ("loader", "fetcher", "store"):
                row[f"processor s/GB {column}"] = [
                    round(
                        statistics.median(getattr(each, column) for each in of_kind) / total * 1e9,
                        2,
                    )
                    for of_kind in counted.values()
                ]
            ratios = [one.seconds / other.seconds for one, other in pairs]
            row["ratios"] = [round(ratio, 2) for ratio in sorted(ratios)]
            row["ratio"] = round(statistics.median(ratios), 2)
            # With a core for the loader, and another for the rest, it cannot be more.
            row["by processor"] = round(
                statistics.median(
                    one.loader / max(other.loader, other.fetcher + other.store)
                    for one, other in pairs
                ),
                2,
            )
            yield row


def measure_streams(
    folder: Path, items: int, size: int, rounds: int, shards: int = SHARDS
) -> Iterator[dict[str, Any]]:
    """How fast shards come from a distant store in order, without an index, and how that depends on what is asked for ahead.

    It is given in MB a second, with the quartiles of some rounds that are taken in turn.
    """
    total = write_documents(folder, items, size, shards)
    names = sorted(path.name for path in folder.glob("*.txt"))
    with store(folder, latency=0.02, rate=1e8) as (address, _):
        streams = {
            f"{ahead >> 20} MiB ahead": rs.lines(
                [f"{address}/{name}" for name in names],
                storage_options={"read": {"ahead": ahead}},
            )
            for ahead in (0, 8 << 20, 32 << 20)
        }
        found: dict[str, list[float]] = {name: [] for name in streams}
        for _ in range(rounds):
            for name, stream in streams.items():
                began = time.perf_counter()
                assert sum(1 for _ in stream) == items * shards
                found[name].append(total / (time.perf_counter() - began) / 1e6)
        for name, rates in found.items():
            low, middle, high = np.percentile(rates, [25, 50, 75]).round(1).tolist()
            yield {"stream": name, "MB/s": middle, "quartiles": [low, high]}


class Run(NamedTuple):
    """An epoch: seconds that it took, and seconds of a processor for each process that took part."""

    seconds: float
    loader: float
    fetcher: float
    store: float


def run(source: Any, items: int, work: Any, server: int) -> Run:
    """Go through all items in an order of blocks."""

    def used() -> tuple[float, float, float, float]:
        fetching = current_process()
        fetcher = 0.0 if fetching is None or fetching.has_ended else seconds_of(fetching.pid)
        return time.perf_counter(), time.process_time(), fetcher, seconds_of(server)

    before = used()
    for _ in source.shuffle(0, block=items).map(work).prefetch(64):
        pass
    return Run(*[after - one for after, one in zip(used(), before, strict=True)])


def seconds_of(process: int) -> float:
    """Seconds of a processor that another process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_documents(folder: Path, items: int, size: int, shards: int) -> int:
    """Write ``shards`` of ``items`` lines of about ``size`` bytes each, in JSON; returns the bytes of all."""
    generator, total = np.random.default_rng(0), 0
    for shard in range(shards):
        lines = []
        for item in range(items):
            tokens = generator.integers(0, 50_000, size // 14).tolist()
            letters = generator.integers(97, 123, size // 2, dtype=np.uint8).tobytes().decode()
            lines.append(json.dumps({"id": item, "text": letters, "tokens": tokens}) + "\n")
        total += (folder / f"{shard:03}.txt").write_text("".join(lines))
    return total


def parsed(item: str) -> Any:
    """The mean of the tokens of a document."""
    return np.asarray(json.loads(item)["tokens"]).mean()


WORKS: dict[str, Any] = {
    "none": len,
    "a pass over the text": lambda item: item.count("a"),
    "four passes": lambda item: sum(map(item.count, "abcd")),
    "JSON and NumPy": parsed,
}


def main() -> None:
    """Print a line of JSON for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=40, help="in a shard")
    parser.add_argument("--size", type=int, default=25_000, help="bytes of an item")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--streams", action="store_true", help="shards in order, without an index and a cache"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = measure_streams if options.streams else measure_speed
        for row in measure(Path(folder), options.items, options.size, options.rounds):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
