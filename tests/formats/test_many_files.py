"""Thousands of files with large indexes need few descriptors, however many they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.command import run_python

import resumable as rs
from resumable.formats.index import record_index
from resumable.formats.index.pages import loaded_pages
from resumable.formats.index.record_index import short_indexes
from resumable.formats.io import open_files


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="Linux tells the descriptors")
def test_thousands_of_files_are_opened_and_shuffled_with_256_descriptors() -> None:
    # An index of 140,000 lines is mapped; each batch maps those of some 250 files.
    size = ["--files", "3000", "--lines", "140000", "--width", "1", "--batches", "5"]
    ran = run_python("-m", "campaigns.many_files", *size, PYTHONPATH=".:tests")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["files"] == 3000
    assert found["descriptors at open"] == 0
    assert found["descriptors after reading"] == 0


def test_what_small_files_keep_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").write_text(f"{number}\n" * 200)
    for cache, most in ((short_indexes, 5000), (open_files.read_files, 2000)):
        cache.clear()
        monkeypatch.setattr(cache, "most", most)
    lines = rs.lines(tmp_path / "*")
    assert sorted(lines.shuffle(0).batch(16).unbatch()) == sorted(
        str(number) for number in range(20) for _ in range(200)
    )
    assert len(short_indexes) == 3
    assert 3 <= len(open_files.read_files) <= 5


def test_what_indexes_keep_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_index, "SMALLEST_CACHED", 0)
    monkeypatch.setattr("resumable.formats.record_file.FEWEST_PACKED", 100)
    for number in range(20):
        (tmp_path / f"{number:02}").write_text(f"{number}\n" * 200)
    loaded_pages.clear()
    monkeypatch.setattr(loaded_pages, "most", 5000)
    lines = rs.lines(tmp_path / "*")
    assert sorted(lines.shuffle(0).batch(16).unbatch()) == sorted(
        str(number) for number in range(20) for _ in range(200)
    )
    assert len(loaded_pages) == 3
