"""The processes that a process has started, and those that they have."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["descendants", "is_worker"]

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
