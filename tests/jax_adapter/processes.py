"""Start processes that use JAX: one, or several that find each other on the loopback address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from support.command import WITH_ADAPTERS

WAITS = 240
"""Seconds after which processes that do not end are killed."""


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def start(
    module: str, *arguments: object, processes: int, devices: int
) -> list[subprocess.Popen[bytes]]:
    """Start ``module`` in so many processes, with so many devices each.

    Each gets its number, the number of processes, a port for their coordinator, and ``arguments``.
    """
    port = free_port()
    environment = os.environ | {
        "PYTHONPATH": WITH_ADAPTERS,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "OMP_NUM_THREADS": "1",
    }
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                str(number),
                str(processes),
                str(port),
                *map(str, arguments),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for number in range(processes)
    ]


def run(module: str, *arguments: object, processes: int = 1, devices: int = 1) -> None:
    """Run ``module`` as `start` does, to its end.

    Raises:
      AssertionError: if one fails, with what it says; the others, which may wait for it, are killed.
    """
    started = start(module, *arguments, processes=processes, devices=devices)
    said: dict[int, str] = {}

    def listen(number: int) -> None:
        said[number] = started[number].communicate()[0].decode(errors="replace")
        if started[number].returncode:
            for other in started:
                other.kill()

    threads = [threading.Thread(target=listen, args=[number]) for number in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAITS)
    late = [number for number, process in enumerate(started) if process.poll() is None]
    for process in started:
        process.kill()
    for thread in threads:
        thread.join()
    assert not late, f"processes {late} did not end"
    failed = {number: process.returncode for number, process in enumerate(started)}
    assert not any(failed.values()), f"{failed}:\n" + "\n".join(
        said[number][-4000:] for number, code in failed.items() if code
    )
