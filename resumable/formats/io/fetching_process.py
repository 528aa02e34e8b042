"""Fetch parts of remote files in a separate process, which writes them into a cache."""

# Data comes through a socket in pieces, and the receiving thread needs the interpreter's lock for
# each piece. A computing thread releases the lock only every 5 ms. So a process that works on items
# receives some 50 MB/s, however fast the network is; a separate process is not held up. The
# fetching process takes a second to start, so only a run that fetches much ahead starts one. The
# fetching process ends with its parent, even if the parent is killed, and after a while without
# jobs.
#
# The claims of the parts stay with the parent, so if either process is killed, nobody waits for
# the parts. All threads of the parent share one fetching process.

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final

from ...core.home_process import in_forked_children
from ...core.process_counts import process_counts
from ...file_cache.fetches import FetchJob
from ...file_cache.part_file import Identity

WORTH_A_PROCESS: Final = 1 << 26
"""Bytes fetched ahead by this process before the fetching process is started."""

GRACE: Final = 5.0
"""Seconds that a thread waits while another thread sends a job."""

PROGRAM: Final = (
    "import sys; from multiprocessing.connection import Connection; "
    "connection = Connection(int(sys.argv[1])); sys.path[:] = connection.recv(); "
    "from resumable.formats.io.fetching_server import serve; serve(connection)"
)

Written = Callable[[Sequence[Identity]], None]


class FetchOrder(NamedTuple):
    """A job for the fetching process."""

    number: int
    job: FetchJob


class FetchReport(NamedTuple):
    """The parts written for a job, and the counts of all requests and bytes so far."""

    number: int
    written: list[Identity]
    requests: int
    bytes_read: int


@final
class FetchingProcess:
    """The fetching process, seen from the parent.

    Attributes:
      answered: whether the process has ever been ready.
      has_ended: whether the process has ended.
      pid: process number.
    """

    def __init__(self) -> None:
        from multiprocessing import Pipe

        self.answered = self.has_ended = False
        self._requests = self._bytes_read = self._last = 0
        # Two locks, so that a thread sends a job while other threads wait for answers.
        self._sends, self._receives = threading.Lock(), threading.Lock()
        self._ends = (
            threading.Lock()
        )  # taken by the first thread that ends the process, never released
        # The thread that removes a function from the dict calls the function.
        self._written: dict[int, Written] = {}
        # The connection is not closed before this object is deleted, since other threads may be
        # about to use the descriptor.
        ours, theirs = Pipe(duplex=True)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.pid = self._process.pid
        self._connection: Any = ours
        self._connection.send(sys.path)

    def begin(self, job: FetchJob, written: Written) -> bool:
        """Send ``job``; False if sending fails. `collect` and `wait` call ``written``."""
        if not self.answered or self.has_ended or not self._sends.acquire(timeout=GRACE):
            return False
        try:
            return self._send(job, written)
        finally:
            self._sends.release()

    def _send(self, job: FetchJob, written: Written) -> bool:
        self._last += 1
        number = self._last
        try:
            data = pickle.dumps(FetchOrder(number, job))
        except (pickle.PicklingError, TypeError, AttributeError):  # of the storage options
            return False
        self._written[number] = written
        try:
            self._connection.send_bytes(data)
        except OSError:
            self.close()
        except BaseException:
            self.close()  # a signal handler has raised in the middle of a job
            raise
        # Another thread may have ended the process since `begin` looked.
        return not self.has_ended or self._written.pop(number, None) is None

    def collect(self, seconds: float = 0.0) -> None:
        """Wait up to ``seconds`` for the first answer, and take all answers that have come."""
        if self.has_ended or not self._receives.acquire(timeout=seconds):
            return
        try:
            while not self.has_ended and self._connection.poll(seconds):
                self._note(self._connection.recv())
                seconds = 0.0
        except (EOFError, OSError):
            self.close()
        except BaseException:
            self.close()  # a signal handler has raised in the middle of an answer
            raise
        finally:
            self._receives.release()

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait up to ``seconds`` for ``event``, set by a function ``written`` or another thread."""
        deadline = time.monotonic() + seconds
        while not event.is_set() and (left := deadline - time.monotonic()) > 0:
            if self._written and not self.has_ended:
                self.collect(min(left, 0.05))
            else:
                event.wait(min(left, 0.05))

    def abandon(self) -> None:
        """Release the connection in a forked child."""
        self.has_ended = True
        self._connection.close()
        self._process.returncode = 0  # the process is no child of a forked child

    def _note(self, answer: FetchReport) -> None:
        self.answered = True
        process_counts.requests += answer.requests - self._requests
        process_counts.bytes_read += answer.bytes_read - self._bytes_read
        self._requests, self._bytes_read = answer.requests, answer.bytes_read
        written = self._written.pop(answer.number, None)
        if written is not None:
            written(answer.written)

    def close(self) -> None:
        """End the process."""
        if not self._ends.acquire(blocking=False):
            return
        self.has_ended = True
        self._process.kill()
        self._process.wait()
        for number in list(self._written):
            if (written := self._written.pop(number, None)) is not None:
                written([])


_process: FetchingProcess | None = None
_bytes_begun = 0
# Reentrant, since a signal handler may read.
_starts = threading.RLock()


def fetching_process(size: int) -> FetchingProcess | None:
    """The process to fetch ``size`` more bytes; None if not worth its start, or ended."""
    global _process, _bytes_begun
    with _starts:
        _bytes_begun += size
        if _bytes_begun < WORTH_A_PROCESS or os.name != "posix" or not sys.executable:
            return None
        if _process is None or (_process.has_ended and _process.answered):
            try:
                _process = FetchingProcess()
            except OSError:  # no more processes, or no more memory for a process
                return None
        process = _process
    process.collect()
    return None if process.has_ended else process


def current_process() -> FetchingProcess | None:
    """The fetching process, if it was started."""
    return _process


def _close() -> None:
    if _process is not None and not _process.has_ended:
        _process.close()


@in_forked_children
def _in_child() -> None:
    global _process, _starts
    if _process is not None:
        _process.abandon()
    _process, _starts = None, threading.RLock()


atexit.register(_close)
