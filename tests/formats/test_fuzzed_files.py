"""Damaged files of every format: right items or `MalformedItem`, within limits; the long form is a campaign."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import children
from campaigns.damaged_records import RecordTarget
from campaigns.fuzz_formats import TARGETS, fuzz
from campaigns.lost_items import KINDS, losses
from support.tiers import is_deep

COUNT = 2000 if is_deep() else 150
# A file of records is read in a twentieth of the time that a compressed file or a table takes, most
# of which passes in the libraries that read those.
CASES = [
    (name, seed)
    for name, target in TARGETS.items()
    for seed in range(2 if is_deep() and isinstance(target, RecordTarget) else 1)
]


def skip_if_read(name: str) -> None:
    if name == "array_record" and "array_record.python.array_record_module" in sys.modules:
        pytest.skip("this process has read such files, so its children cannot open damaged ones")


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_each_of_many_damaged_files_gives_right_items_or_malformed_ones(
    name: str, seed: int
) -> None:
    skip_if_read(name)
    counts, failures, _ = fuzz(TARGETS[name], COUNT, seed)
    assert not failures, failures[:3]
    assert counts["files"] == COUNT
    assert min(counts["items"], counts["refused"]) > COUNT // 20


@pytest.mark.parametrize("name", KINDS)
def test_no_damaged_copy_loses_or_gains_items_without_an_error(name: str) -> None:
    skip_if_read(name)
    outcomes, failures = losses(KINDS[name], COUNT // 5, 0)
    assert not failures, failures[:3]
    assert outcomes["refused"]


@pytest.mark.parametrize("name", TARGETS)
def test_the_undamaged_files_are_read_whole(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    assert all(target.read(data, tmp_path)[1] == 0 for data in target.real)


def crash(data: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(data: bytes) -> None:
    while True:
        pass


def take_all_memory(data: bytes) -> None:
    bytearray(1 << 40)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (crash, f"its process ended with {-signal.SIGKILL}: "),
        (hang, f"its process ended with {-signal.SIGPROF}: "),
        (take_all_memory, "MemoryError: : "),
    ],
)
def test_a_file_that_crashes_hangs_or_takes_all_memory_is_named_and_those_after_it_are_read(
    fault: Callable[[bytes], None], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "SECONDS", 0.05)
    target = TARGETS["lines"]

    class Faulty:
        real, damaged = target.real, staticmethod(target.damaged)

        def read(self, data: bytes, folder: Path) -> tuple[int, int]:
            if len(data) % 11 == 0:
                fault(data)
            return target.read(data, folder)

    found = fuzz(Faulty(), 40, 0)
    expected = fuzz(target, 40, 0)
    assert 1 < len(found.failures) < 20
    assert all(failure.startswith(told) for failure in found.failures)
    sizes = [len(bytes.fromhex(failure.rpartition(": ")[2])) for failure in found.failures]
    assert {size % 11 for size in sizes} == {0}
    assert found.counts["files"] == 40
    assert 0 < found.counts["items"] < expected.counts["items"]
