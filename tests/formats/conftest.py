"""Servers for the tests of remote files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from formats.http_files import FAULTS, FileServer, serving


@pytest.fixture(scope="module")
def one_http_server() -> Iterator[FileServer]:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with serving() as server:
        yield server


@pytest.fixture
def http_server(one_http_server: FileServer) -> FileServer:
    """A server without files and faults."""
    one_http_server.files, one_http_server.tags = {}, {}
    one_http_server.faults, one_http_server.often = FAULTS, 0.0
    one_http_server.sizes = one_http_server.ranges = True
    one_http_server.requests.clear()
    one_http_server.authorizations.clear()
    one_http_server.dice.seed(0)
    return one_http_server
