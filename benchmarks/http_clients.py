"""Processor time for ranges of a web server: aiohttp, by which fsspec reads, and `http.client` in threads.

Run it as ``python -m benchmarks.http_clients --rounds 5``, with the extra ``remote`` and aiohttp. The
server is another process of the machine, and its processor time does not count.

Of five rounds the quartiles were, in seconds of the processor for a GB:

| range | aiohttp | ``http.client`` in threads |
| --- | --- | --- |
| 64 KiB | 5.90, 5.91, 6.37 | 4.32, 4.34, 4.67 |
| 1 MiB | 1.12, 1.29, 1.39 | 0.60, 0.64, 0.66 |

So threads take 0.7 and 0.5 of the time. Web servers are read by aiohttp all the same: its options
(headers, a password, proxies, certificates), redirects and errors are what users pass and see through
fsspec, and to do the same with ``http.client`` would take more code than the time is worth.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import numpy as np

CONTENT: Final = bytes(range(256)) * (1 << 16)
AT_ONCE: Final = 16
SIZES: Final = {"64 KiB": (1 << 16, 2048), "1 MiB": (1 << 20, 256)}
"""Bytes of a range, and ranges of a round."""


class Ranges(BaseHTTPRequestHandler):
    """Answers each request with the range that it asks for."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one write

    def do_GET(self) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found is not None
        body = CONTENT[int(found[1]) : int(found[2]) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        """Nothing is printed."""


def serve(ports: Any) -> None:
    """Serve `CONTENT`, at a port that is put into ``ports``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    ports.put(server.server_port)
    server.serve_forever()


def ranges_of(size: int, count: int) -> list[str]:
    """Headers that ask for ``count`` ranges of ``size`` bytes, one after another."""
    starts = [number * size % len(CONTENT) for number in range(count)]
    return [f"bytes={start}-{start + size - 1}" for start in starts]


def by_aiohttp(port: int, ranges: list[str]) -> int:
    """In the loop and by the session of fsspec, as remote files are read."""
    import fsspec
    from fsspec.asyn import sync

    system = fsspec.filesystem("http", skip_instance_cache=True)

    async def read_all() -> int:
        session, gate = await system.set_session(), asyncio.Semaphore(AT_ONCE)

        async def read(asked: str) -> int:
            async with (
                gate,
                session.get(f"http://127.0.0.1:{port}/", headers={"Range": asked}) as answer,
            ):
                return len(await answer.read())

        return sum(await asyncio.gather(*map(read, ranges)))

    total: int = sync(system.loop, read_all)
    return total


def by_threads(port: int, ranges: list[str]) -> int:
    """Each thread has a connection of its own."""
    own = threading.local()

    def read(asked: str) -> int:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection("127.0.0.1", port)
        own.connection.request("GET", "/", headers={"Range": asked})
        return len(own.connection.getresponse().read())

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return sum(threads.map(read, ranges))


WAYS: Final[dict[str, Callable[[int, list[str]], int]]] = {"aiohttp": by_aiohttp, "http.client in threads": by_threads}  # fmt: skip


def main() -> None:
    """Print quartiles of the seconds of the processor for a GB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ports = multiprocessing.get_context("spawn").SimpleQueue()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(ports,), daemon=True)
    server.start()
    port = ports.get()
    print("| range | client | quartiles: seconds of the processor for a GB |\n| --- | --- | --- |")
    for label, (size, count) in SIZES.items():
        ranges = ranges_of(size, count)
        taken: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(rounds + 1):  # the first opens connections and is not counted
            for name, read in WAYS.items():
                began = time.process_time()
                assert read(port, ranges) == size * count
                taken[name] += [(time.process_time() - began) / (size * count) * 1e9] * bool(number)
        for name, seconds in taken.items():
            quartiles = ", ".join(
                f"{value:.2f}" for value in np.quantile(seconds, (0.25, 0.5, 0.75))
            )
            print(f"| {label} | {name} | {quartiles} |", flush=True)
    server.kill()


if __name__ == "__main__":
    main()
