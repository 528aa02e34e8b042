"""What this process has read from remote file systems, and how often its workers were started again."""

# Plain numbers without a lock, since a signal handler may raise where one is taken. The first two are
# counted in the one thread in which fsspec makes its calls; the last in the threads that start workers,
# where two pools would have to be restarted at the same moment for one to be missed.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, final


@final
class ProcessCounts:
    """Counts of this process; what runs in worker processes is not among them.

    Attributes:
      bytes_read: bytes that requests to remote file systems have brought.
      requests: requests to remote file systems, those that failed too.
      cache_hits: parts of files that were found in an `rs.FileCache`.
      cache_misses: parts that were not.
      worker_restarts: how often a pool of processes was started again because one of them had died.
    """

    _building: ClassVar[Counter[str]] = Counter()  # of the class, so that `now` does not return it

    def __init__(self) -> None:
        self.bytes_read = 0
        self.requests = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.worker_restarts = 0

    def start_run(self) -> Mapping[str, int]:
        """All of them before a run, without what was read for it while its pipeline was built."""
        before = Counter(self.now())
        before.subtract(self._building)
        self._building.clear()
        return before

    @contextmanager
    def building(self) -> Iterator[None]:
        """Add what is counted meanwhile to the run that starts next."""
        self._building.subtract(self.now())
        try:
            yield
        finally:
            self._building.update(self.now())

    def now(self) -> Mapping[str, int]:
        """All of them, as a new dict."""
        return dict(vars(self))


process_counts: Final = ProcessCounts()
