"""A copy on a local disk is whole, and one that fails takes no room there."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

import resumable as rs
from resumable.formats.data_files import found_data_files
from resumable.formats.io import local_copies
from resumable.formats.io.local_copies import local_copy

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )

CONTENT = bytes(range(256)) * 9


@pytest.fixture
def file() -> Any:
    """A file in fsspec's file system in memory."""
    import fsspec

    url = f"memory://{uuid.uuid4().hex}/data"
    fsspec.filesystem("memory").pipe_file(url, CONTENT)
    (found,) = found_data_files([url], {})
    return found


def test_a_copy_is_made_once(file: Any) -> None:
    first, second = local_copy(file), local_copy(file)
    assert first == second
    assert Path(first.path).read_bytes() == CONTENT


def test_a_copy_that_fails_leaves_nothing_and_is_made_by_the_next_try(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(spans: object) -> Any:
        raise rs.ReadError("the network is down")

    folder = local_copies._folder_of_process().path
    before = sorted(os.listdir(folder))
    with monkeypatch.context() as patched:
        patched.setattr(local_copies, "read_uncached", fails)
        for _ in range(3):
            with pytest.raises(rs.ReadError):
                local_copy(file)
    assert sorted(os.listdir(folder)) == before
    assert Path(local_copy(file).path).read_bytes() == CONTENT
