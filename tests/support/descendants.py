"""The processes that a process has started, and those that they have."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from support.waiting import wait_until

__all__ = ["check_nothing_is_left", "children", "descendants", "is_worker"]

SERVER = "fork_server"
HELPERS = "resource_tracker"


class Process(NamedTuple):
    """What the kernel says of one."""

    parent: int
    status: str
    command: str


def descendants(parent: int) -> dict[int, str]:
    """The command of each that runs, but for helpers that stay: trackers of resources, and servers that fork."""
    known = _processes()
    found: dict[int, str] = {}
    family = [parent]
    for one in family:
        for number, process in known.items():
            if process.parent != one or process.status == "Z":
                continue
            family.append(number)
            is_server = SERVER in process.command and SERVER not in known[one].command
            if not is_server and HELPERS not in process.command:
                found[number] = process.command
    return found


def children() -> set[int]:
    """Workers and other processes that this one has."""
    return set(descendants(os.getpid()))


def check_nothing_is_left(make: Callable[[], Any], workers: int) -> None:
    """However an iterator that ``make`` returns ends, none of its ``workers`` stays, and no descriptor."""

    def started() -> Any:
        iterator = make()
        next(iterator)
        assert len(children() - before) == workers
        return iterator

    before = children()
    started().close()  # starts the trackers, which stay
    gc.collect()
    before = children()
    opened = len(os.listdir("/proc/self/fd"))

    started().close()
    assert children() == before, "after close"

    iterator = started()
    list(iterator)
    assert children() == before, "at exhaustion"

    iterator = started()
    del iterator
    gc.collect()
    wait_until(lambda: children() == before)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= opened)


def is_worker(number: int) -> bool:
    """Whether that process runs, and calls the function of a map."""
    found = _processes().get(number)
    return (
        found is not None
        and found.status != "Z"
        and any(word in found.command for word in (SERVER, "loky"))
    )


def _processes() -> dict[int, Process]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        found[int(folder.name)] = Process(int(parent), status, command)
    return found
