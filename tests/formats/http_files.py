"""A loopback HTTP server of files that fails in the ways that networks do."""

from __future__ import annotations

import random
import re
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

CAUSES = {
    "reset": "Disconnected|reset",
    "503": "503",
    "short": "the body has .* bytes instead of",
    "cut": "Payload",
    "slow": "no answer within 0.2 seconds",
}
"""A pattern of what an error says after each fault."""
FAULTS = tuple(CAUSES)
SLOW_SECONDS = 20.0
AT_ONCE = {"attempts": 12, "timeout": 0.2, "wait": 0.001, "longest_wait": 0.004}
"""What to do about faults, as `storage_options["retry"]`."""


def twice(fault: str) -> dict[str, Any]:
    """The same with two attempts, and no time limit that a busy machine could break in the place of ``fault``."""
    return AT_ONCE | {"attempts": 2} | ({} if fault == "slow" else {"timeout": SLOW_SECONDS})


class FileServer(ThreadingHTTPServer):
    """Serves what stands in `files`, by ranges.

    Attributes:
      files: contents by path.
      tags: ETags by path, or by method and path, as far as there are any.
      faults: which ones happen, each as likely as the others.
      often: how likely a request fails, from 0 to 1.
      requests: what was asked for: method, path, and range.
      authorizations: the headers of that name.
      encodings: which encodings of a range were allowed.
      sizes: whether it tells the size of files.
      ranges: whether it knows what a range is.
      conditions: whether it looks at `If-Match`, and else whether it refuses all of them.
      tags_of_bodies: whether it tells the ETag with what it sends, and not only for a HEAD.
      refusal: a status and a body that answer every request, if any.
    """

    daemon_threads = True
    request_queue_size = 64  # as a client asks for several ranges at once

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.faults: tuple[str, ...] = FAULTS
        self.often = 0.0
        self.requests: list[tuple[str, str, tuple[int, int] | None]] = []
        self.authorizations = set[str | None]()
        self.encodings = set[str | None]()
        self.sizes = self.ranges = True
        self.conditions: Literal["kept", "unknown", "refused"] = "kept"
        self.tags_of_bodies = True
        self.refusal: tuple[int, str] | None = None
        self.dice = random.Random(0)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no error."""


class Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, with_body: bool) -> None:
        server = self.server
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        span = (int(asked[1]), int(asked[2]) + 1) if asked and server.ranges else None
        server.authorizations.add(self.headers.get("Authorization"))
        if span is not None:
            server.encodings.add(self.headers.get("Accept-Encoding"))
        server.requests.append((self.command, self.path, span))
        if server.refusal is not None:
            self._refuse(*server.refusal, with_body)
            return
        fault = ""
        if server.dice.random() < server.often:
            fault = server.dice.choice(server.faults)
        if fault == "reset":
            # With nothing to linger for, closing sends a reset.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            return
        content = server.files.get(self.path.split("?")[0])
        if fault == "503" or content is None:
            self.send_error(503 if fault else 404)
            return
        expected = self.headers.get("If-Match")
        tag = server.tags.get(f"{self.command} {self.path}", server.tags.get(self.path))
        met = expected in (None, tag) and server.conditions != "refused"
        if expected is not None and server.conditions != "unknown" and not met:
            self.send_error(412)
            return
        body = content if span is None else content[slice(*span)]
        shown = body[: len(body) // 2] if fault == "short" and with_body else body
        self.send_response(200 if span is None else 206)
        if server.sizes:
            self.send_header("Content-Length", str(len(shown)))
        if span is not None:
            self.send_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{len(content)}")
        if tag is not None and (server.tags_of_bodies or not with_body):
            self.send_header("ETag", tag)
        self.end_headers()
        if fault == "slow":
            # Until the client hangs up, so that no test depends on how fast either of them is.
            select.select([self.connection], [], [], SLOW_SECONDS)
        if with_body:
            self.wfile.write(shown[: len(shown) // 2] if fault == "cut" else shown)

    def _refuse(self, status: int, text: str, with_body: bool) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[FileServer]:
    """A server that runs in a thread."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="file server")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
