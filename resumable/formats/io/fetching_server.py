"""Fetch and write parts of remote files, in the process that `fetching_process` starts."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from ...core.process_counts import process_counts
from ...file_cache.fetches import FetchJob
from ...file_cache.part_file import Identity
from .fetching import Request, begin
from .fetching_process import FetchReport
from .remote_content import request_for

IDLE: Final = 60.0
"""Seconds without a job after which the process ends."""


def serve(connection: Connection) -> None:
    """Do the jobs from ``connection`` until it is closed or idle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when to end
    lock, under_way = threading.Lock(), set[int]()
    gates = dict[int, asyncio.Semaphore]()

    def answer(number: int, written: list[Identity]) -> None:
        counts = process_counts
        with lock, suppress(OSError):
            connection.send(FetchReport(number, written, counts.requests, counts.bytes_read))
        under_way.discard(number)

    def start(number: int, job: FetchJob, request: Request) -> None:
        def done(_: int, content: bytes | None) -> None:
            answer(number, [] if content is None else job.write(content))

        patience = job.file.system.patience
        gate = gates.setdefault(patience.at_once, asyncio.Semaphore(patience.at_once))
        begin([request], patience, done, gate)

    answer(0, [])
    with suppress(EOFError, OSError):
        while (has_job := connection.poll(IDLE)) or under_way:
            if not has_job:
                continue
            number, job = connection.recv()
            under_way.add(number)
            try:
                request = request_for(job)
            except Exception:  # the parent process asks itself, and gets the error
                answer(number, [])
                continue
            start(number, job, request)
    os._exit(0)
