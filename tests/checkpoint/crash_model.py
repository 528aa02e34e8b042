"""What a POSIX file system may hold after a power cut, at every moment of a recorded run."""

# Written data is on the disk once its file was synced, a name once its folder was. Until then the
# disk holds any subset of the changes. A write may have come through, not at all, as a part, or as
# zeros. A rename is two changes, the new name appears and the old one disappears; the disk may
# have both, either or neither of them. To sync a file does nothing for its name.

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from posixpath import dirname
from types import ModuleType
from typing import Any, Final, Generic, TypeAlias, TypeVar

__all__ = ["Event", "Recorder", "State", "build", "power_cuts", "recording", "scan"]

P = TypeVar("P")

State: TypeAlias = tuple[tuple[str, "bytes | None"], ...]
"""Each path below the root, ascending, and the content of the file; None for a folder."""

FOLDER: Final = -1
READ_ONLY: Final = frozenset(
    {"PathLike", "fspath", "fstat", "listdir", "lseek", "lstat", "name", "path", "read", "stat"}
)


@dataclass(frozen=True)
class Write:
    """``data`` was written to ``file``; or, if it is None, the file was cut to nothing."""

    file: int
    offset: int
    data: bytes | None

    def outcomes(self, content: bytes) -> Iterator[bytes]:
        """What the disk may hold in place of ``content``."""
        if self.data is None:
            yield b""
            return
        size = len(self.data)
        start = content[: self.offset].ljust(self.offset, b"\0")
        for reached in (0, size // 2, size):
            for data in (self.data[:reached], self.data[:reached].ljust(size, b"\0")):
                yield start + data + content[self.offset + len(data) :]


@dataclass(frozen=True)
class Name:
    """``path`` leads to ``node`` from now on: a file, FOLDER, or None."""

    path: str
    node: int | None


@dataclass(frozen=True)
class SyncFile:
    file: int


@dataclass(frozen=True)
class SyncFolder:
    path: str


Operation: TypeAlias = "Write | Name | SyncFile | SyncFolder"


@dataclass(frozen=True)
class Event(Generic[P]):
    """A moment of the run: what was done last, and what is promised from then on."""

    operation: Operation | None
    promise: P


def nodes_of(start: State) -> dict[str, int]:
    return {
        path: FOLDER if content is None else number for number, (path, content) in enumerate(start)
    }


class Disk:
    """All that the disk may hold.

    Invariant: of each file a content that is on the disk and the writes after it; of each name
    where it may lead, and last where it does lead.
    """

    def __init__(self, start: State) -> None:
        self._content = {number: content or b"" for number, (_, content) in enumerate(start)}
        self._writes: dict[int, list[Write]] = {}
        self._names: dict[str, list[int | None]] = {
            path: [node] for path, node in nodes_of(start).items()
        }

    def apply(self, operation: Operation) -> None:
        match operation:
            case Write(file):
                self._writes.setdefault(file, []).append(operation)
            case Name(path, node):
                self._names.setdefault(path, [None]).append(node)
            case SyncFile(file):
                content = self._content.get(file, b"")
                for write in self._writes.pop(file, []):
                    *_, content = write.outcomes(content)  # the last is the whole write
                self._content[file] = content
            case SyncFolder(folder):
                for path, nodes in self._names.items():
                    if dirname(path) == folder:
                        del nodes[:-1]

    def states(self) -> Iterator[State]:
        paths = sorted(self._names)
        versions: dict[int, list[bytes]] = {}
        for nodes in product(*(dict.fromkeys(self._names[path]) for path in paths)):
            # What stands in a folder that is not there is lost with it.
            tree = {"": FOLDER}
            for path, node in zip(paths, nodes, strict=True):
                if node is not None and dirname(path) in tree:
                    tree[path] = node
            del tree[""]
            files = sorted(set(tree.values()) - {FOLDER})
            for file in files:
                versions.setdefault(file, self._versions(file))
            for contents in product(*(versions[file] for file in files)):
                content = dict(zip(files, contents, strict=True))
                yield tuple((path, content.get(node)) for path, node in tree.items())

    def _versions(self, file: int) -> list[bytes]:
        found = {self._content.get(file, b"")}
        for write in self._writes.get(file, []):
            found |= {outcome for content in found for outcome in write.outcomes(content)}
        return sorted(found)


def power_cuts(start: State, log: list[Event[P]], after: int = 0) -> Iterator[tuple[P, State]]:
    """What a power cut at any moment ``after`` that may leave, with the promise of the moment."""
    disk = Disk(start)
    seen: set[tuple[P, State]] = set()
    for moment, event in enumerate(log):
        if event.operation is not None:
            disk.apply(event.operation)
        for state in disk.states() if moment >= after else ():
            if (event.promise, state) not in seen:
                seen.add((event.promise, state))
                yield event.promise, state


class Recorder(Generic[P]):
    """In place of `os`: makes the calls, and logs what they change below ``root``.

    Only the sync is not made, which changes nothing that a running system shows. What is neither
    recorded nor known to change nothing is refused.

    Args:
      root: a folder.
      start: what is in it, all of it on the disk.
      promise: what a power cut must leave at first.
      longest_write: bytes that one call of `write` takes.

    Attributes:
      before: called before each call with the number of those made; it may raise.
      links: whether the file system has them.
    """

    def __init__(self, root: Path, start: State, promise: P, longest_write: int = 50) -> None:
        self.log: list[Event[P]] = [Event(None, promise)]
        self.before: Callable[[int], None] = lambda calls: None
        self.links = True
        self._longest_write = longest_write
        self._calls = 0
        self._root = root
        self._nodes = nodes_of(start)
        self._files = len(start)
        self._opened: dict[int, tuple[str, int]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in READ_ONLY or name.isupper():
            return getattr(os, name)
        raise NotImplementedError(f"the crash model does not know os.{name}")

    def promise(self, promise: P) -> None:
        """From now on a power cut must leave what ``promise`` says."""
        self.log.append(Event(None, promise))

    def open(self, path: str | Path, flags: int, mode: int = 0o777) -> int:
        if self._root.is_relative_to(Path(path)) and self._root != Path(path):
            return os.open(path, flags, mode)  # a folder above; nothing is recorded of it
        place = self._begin(path)
        descriptor = os.open(path, flags, mode)
        if place not in self._nodes and place:
            self._files += 1
            self._name(place, self._files)
        elif flags & os.O_TRUNC:
            self._add(Write(self._nodes[place], 0, None))
        self._opened[descriptor] = place, self._nodes.get(place, FOLDER)
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        self._begin()
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        written = os.write(descriptor, data[: self._longest_write])
        self._add(Write(self._opened[descriptor][1], offset, bytes(data[:written])))
        return written

    def fsync(self, descriptor: int) -> None:
        if descriptor not in self._opened:
            return
        self._begin()
        place, node = self._opened[descriptor]
        self._add(SyncFolder(place) if node == FOLDER else SyncFile(node))

    def close(self, descriptor: int) -> None:
        # A close that fails has closed nevertheless.
        os.close(descriptor)
        if self._opened.pop(descriptor, None) is not None:
            self._begin()

    def rename(self, old: str | Path, new: str | Path) -> None:
        source, target = self._begin(old), self._place(new)
        assert self._nodes[source] != FOLDER, "the crash model does not move folders"
        os.rename(old, new)
        self._name(target, self._nodes[source])
        self._name(source, None)

    def link(self, old: str | Path, new: str | Path, *, follow_symlinks: bool = True) -> None:
        source = self._begin(old)
        if not self.links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        os.link(old, new, follow_symlinks=follow_symlinks)
        self._name(self._place(new), self._nodes[source])

    def unlink(self, path: str | Path) -> None:
        place = self._begin(path)
        os.unlink(path)
        self._name(place, None)

    def mkdir(self, path: str | Path) -> None:
        place = self._begin(path)
        os.mkdir(path)
        self._name(place, FOLDER)

    def rmdir(self, path: str | Path) -> None:
        place = self._begin(path)
        os.rmdir(path)
        self._name(place, None)

    def _begin(self, path: str | Path | None = None) -> str:
        self.before(self._calls)
        self._calls += 1
        return self._place(path or self._root)

    def _place(self, path: str | Path) -> str:
        place = os.path.relpath(path, self._root)
        assert not place.startswith(".."), f"{path} is not recorded"
        return "" if place == "." else place

    def _name(self, place: str, node: int | None) -> None:
        if node is None:
            del self._nodes[place]
        else:
            self._nodes[place] = node
        self._add(Name(place, node))

    def _add(self, operation: Operation) -> None:
        self.log.append(Event(operation, self.log[-1].promise))


@contextmanager
def recording(recorder: Recorder[P], modules: tuple[ModuleType, ...]) -> Iterator[Recorder[P]]:
    """Within, `os` in ``modules`` is ``recorder``; what is left open is closed at the end."""
    before = [vars(module)["os"] for module in modules]
    for module in modules:
        vars(module)["os"] = recorder
    try:
        yield recorder
    finally:
        for module, real in zip(modules, before, strict=True):
            vars(module)["os"] = real
        for descriptor in recorder._opened:
            os.close(descriptor)


def scan(root: Path) -> State:
    """What is below ``root``, all of it taken to be on the disk."""
    return tuple(
        (path.relative_to(root).as_posix(), None if path.is_dir() else path.read_bytes())
        for path in sorted(root.rglob("*"), key=lambda path: path.relative_to(root).as_posix())
    )


def build(root: Path, state: State) -> None:
    """Make ``root``, and what ``state`` has below it."""
    root.mkdir(parents=True)
    for path, content in state:
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)
