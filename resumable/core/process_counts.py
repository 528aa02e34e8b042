"""Counts of this process: reads from remote file systems, and restarts of workers."""

# Plain numbers without a lock, since a signal handler may raise while a lock is taken. The first
# two are counted in the single thread in which fsspec makes its calls; the last in the threads that
# start workers, where a restart could be missed only if two pools restarted at the same moment.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, final


@final
class ProcessCounts:
    """Counts of this process; worker processes are not included.

    Attributes:
      bytes_read: bytes received from remote file systems.
      requests: requests to remote file systems, failed requests included.
      cache_hits: parts of files found in an `rs.FileCache`.
      cache_misses: parts of files not found.
      worker_restarts: how often a pool of processes was restarted after a process had died.
    """

    _building: ClassVar[Counter[str]] = Counter()  # of the class, so not part of `now`

    def __init__(self) -> None:
        self.bytes_read = 0
        self.requests = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.worker_restarts = 0

    def start_run(self) -> Mapping[str, int]:
        """All counts before a run, without the reads for the run while its pipeline was built."""
        before = Counter(self.now())
        before.subtract(self._building)
        self._building.clear()
        return before

    @contextmanager
    def building(self) -> Iterator[None]:
        """Add the counts made within this context to the run that starts next."""
        self._building.subtract(self.now())
        try:
            yield
        finally:
            self._building.update(self.now())

    def now(self) -> Mapping[str, int]:
        """All counts, as a new dict."""
        return dict(vars(self))


process_counts: Final = ProcessCounts()
