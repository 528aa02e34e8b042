"""Send arrays in mapped files to a process of this machine as places in the file, not as bytes."""

# The kernel says which part of which file a `numpy.memmap` maps. The `filename` of the memmap may
# by now be the name of another file or of none; the kernel knows the present name. Where it cannot
# be asked, or the file was removed, the bytes are sent. So are those of a private map (mode "c"),
# whose changes are in no file.

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from ..errors import InvalidArgument

Array: TypeAlias = np.ndarray[Any, Any]
Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

MAPS: Final = "/proc/self/maps"


@final
@dataclass(frozen=True)
class MappedFile:
    """A part of a file, which is mapped once in every process that it is sent to.

    Attributes:
      path: absolute.
      identity: device and inode; another file of that name is refused.
      offset: of the first byte in the file.
      size: in bytes.
      writable: whether it may be written to, which changes the file.
    """

    path: str
    identity: tuple[int, int]
    offset: int
    size: int
    writable: bool

    @cached_property
    def memory(self) -> Array:
        """The bytes, uint8 of shape (size,).

        Raises:
          InvalidArgument: if the path is now another file's, or the file has become too short.
          OSError: if it cannot be opened.
        """
        with open(self.path, "r+b" if self.writable else "rb") as file:
            found = os.fstat(file.fileno())
            if _identity(found) != self.identity:
                raise InvalidArgument(
                    f"the file {self.path} of a numpy.memmap must stay as long as workers use it, got "
                    "another file of that name"
                )
            _check_size(self.path, found, self.offset + self.size)
            mode: Any = "r+" if self.writable else "r"
            return np.memmap(file, np.uint8, mode, self.offset, (self.size,))


@final
class MappedFiles:
    """Finds where arrays lie in mapped files; one for all that is pickled together."""

    def __init__(self) -> None:
        self._mappings: list[_Mapping] | None = None
        self._files: dict[int, MappedFile | None] = {}  # by the address where a map begins

    def reduced(self, array: Array) -> Reduced | None:
        """What rebuilds ``array`` from its file, for pickle; None if its bytes have to be sent.

        Raises:
          InvalidArgument: if the file has become too short.
        """
        owner = _map_below(array)
        if owner is None or not array.size:
            return None
        begin = _address(owner)
        if begin not in self._files:
            if self._mappings is None:
                self._mappings = _mappings()
            self._files[begin] = _file_at(begin, owner.nbytes, self._mappings)
        file = self._files[begin]
        if file is None:
            return None
        place = (array.shape, array.dtype, _address(array) - begin, array.strides)
        return _array_in, (file, type(array), *place, array.flags.writeable)


def _array_in(
    file: MappedFile,
    kind: type[Array],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int,
    strides: tuple[int, ...],
    writable: bool,
) -> Array:
    array: Array = np.ndarray.__new__(kind, shape, dtype, file.memory.data, offset, strides)
    array.flags.writeable = writable
    return array


def _map_below(array: Array) -> np.memmap[Any, Any] | None:
    """The `numpy.memmap` that ``array`` is a part of, if any."""
    below: Any = array
    while isinstance(below, np.ndarray):
        if type(below) is np.memmap and isinstance(below.base, mmap.mmap):
            return below
        below = below.base
    return None


class _Mapping(NamedTuple):
    """A line of the kernel's list of what is mapped in this process.

    Attributes:
      begin: address of its first byte.
      end: address after its last byte.
      shared: whether writing there changes the file.
      writable: whether it may be written to.
      offset: of the first byte in the file.
      inode: of the file.
      path: of the file; otherwise empty or a name in brackets.
    """

    begin: int
    end: int
    shared: bool
    writable: bool
    offset: int
    inode: int
    path: bytes


def _mappings() -> list[_Mapping]:
    """All of them, by address; an empty list where the kernel does not say."""
    found = []
    with suppress(OSError), open(MAPS, "rb") as lines:
        for line in lines:
            # begin-end permissions offset device inode path
            bounds, permissions, offset, _, inode, *path = line.rstrip(b"\n").split(None, 5)
            begin, end = (int(bound, 16) for bound in bounds.split(b"-"))
            shared, writable = permissions.endswith(b"s"), b"w" in permissions
            place = int(offset, 16), int(inode), path[0] if path else b""
            found.append(_Mapping(begin, end, shared, writable, *place))
    return found


def _file_at(address: int, size: int, mappings: list[_Mapping]) -> MappedFile | None:
    """The file that is mapped at ``address``; None if it is not known, or the map is private."""
    at = bisect_right(mappings, address, key=lambda mapping: mapping.begin) - 1
    if at < 0 or address >= mappings[at].end or not mappings[at].shared:
        return None
    mapping = mappings[at]
    name = os.fsdecode(mapping.path)
    try:
        found = os.stat(name)
    except (OSError, ValueError):
        return None  # removed, or with a name that the kernel escapes
    if found.st_ino != mapping.inode:
        return None
    offset = mapping.offset + address - mapping.begin
    _check_size(name, found, offset + size)
    return MappedFile(name, _identity(found), offset, size, mapping.writable)


def _check_size(name: str, found: os.stat_result, size: int) -> None:
    if found.st_size < size:
        raise InvalidArgument(
            f"the file {name} of a numpy.memmap must keep its {size} bytes, got {found.st_size}; "
            "was it written anew?"
        )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
