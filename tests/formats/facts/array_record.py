"""What the tests of every format know of `array_record`; its pipeline with a golden state is in `tests/golden/write.py`."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from campaigns.damaged_files import written as damaged_file
from campaigns.damaged_records import check_named, damaged_anywhere
from formats.array_records import OPTIONS, records
from formats.array_records import write as write_array_record
from formats.records_of_formats import files_in
from support.format_facts import FormatFacts

import resumable as rs
from resumable.workers.fork_server import fork


class ArrayRecordTarget:
    """Files of records that the package `array_record` reads; their checksums tell all damage."""

    damaged = staticmethod(damaged_anywhere)

    def __init__(self) -> None:
        self._expected = [records(0, 40), [number.to_bytes(2, "big") * 900 for number in range(70)]]

    @cached_property
    def real(self) -> list[bytes]:
        """Records one by one, in groups, compressed or not; short ones and long ones."""
        found = [(each, way) for each in self._expected for way in OPTIONS]
        with TemporaryDirectory() as folder:
            paths = [Path(folder) / str(number) for number in range(len(found))]
            # In a fork, since a process that has written or read some cannot fork children that open
            # damaged ones: the package kills these by a signal.
            child = fork()
            if not child:
                for path, each in zip(paths, found, strict=True):
                    write_array_record(path, *each)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            return [path.read_bytes() for path in paths]

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as a file: how many records it gave, and whether one was refused.

        Raises:
          AssertionError: if one is not what was written.
        """
        items = list[bytes]()
        with damaged_file(data, folder) as path:
            try:
                pipeline = rs.array_record(path)
                for item in pipeline:
                    items.append(item)
                backwards = pipeline.gather(np.arange(len(items))[::-1])
            except rs.MalformedItem as error:
                check_named(error, str(path))
                assert any(items == whole[: len(items)] for whole in self._expected)
                return len(items), 1
        assert items in self._expected, "other records than were written"
        assert backwards == items[::-1], "records that are looked up are others"
        return len(items), 0


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".array_record"):
        write_array_record(path, [data] * 4)
    return rs.array_record(folder / "*.array_record")


FACTS = FormatFacts(
    damaged=lambda: {"array_record": ArrayRecordTarget()},
    one_size={},  # the package alone writes such files
    removed={"array_record": written},
    package="array_record",
)
