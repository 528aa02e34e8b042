"""Pickle a function for a process of this machine; arrays in mapped files go by their place."""

# A `numpy.memmap` has the name of its file. Meanwhile another file or none may have the name, and a
# map does not identify its file. So the name is only sent if the size and the bytes at both ends
# agree; otherwise the array's bytes are sent. The bytes of a private map (mode "c") are sent too,
# since its changes are in no file.

from __future__ import annotations

import io
import mmap
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, final

import cloudpickle
import numpy as np

from ..errors import InvalidArgument

Array: TypeAlias = np.ndarray[Any, Any]
Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

COMPARED: Final = 1 << 12
"""How many bytes at each end of a map are compared with the file."""


def dumps(fn: Any) -> bytes:
    """``fn`` as bytes, by value if not importable; arrays in mapped files as their place."""
    written = io.BytesIO()
    _FunctionPickler(written, protocol=pickle.HIGHEST_PROTOCOL).dump(fn)
    return written.getvalue()


@final
class _FunctionPickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._files: dict[int, MappedFile | None] = {}  # by the address where a map begins

    def reducer_override(self, obj: Any) -> Any:
        # No other subclass: its instances may hold more than their place.
        if type(obj) in (np.ndarray, np.memmap):
            return self._reduced(obj) or NotImplemented
        return super().reducer_override(obj)

    def _reduced(self, array: Array) -> Reduced | None:
        """A pickle reduction of ``array`` as a place in its file; None if the bytes must be sent.

        Raises:
          InvalidArgument: if the file has become too short.
        """
        owner = _map_below(array)
        if owner is None or not array.size:
            return None
        begin = _address(owner)
        if begin not in self._files:
            self._files[begin] = _file_of(owner)
        file = self._files[begin]
        if file is None:
            return None
        place = (array.shape, array.dtype, _address(array) - begin, array.strides)
        return _array_in, (file, type(array), *place, array.flags.writeable)


@final
@dataclass(frozen=True)
class MappedFile:
    """A part of a file, mapped once in every process that receives it.

    Attributes:
      path: absolute.
      identity: device and inode; another file of the same name is refused.
      offset: of the first byte in the file.
      size: in bytes.
      writable: whether writes are allowed; a write changes the file.
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
          InvalidArgument: if the path now belongs to another file, or the file has become too
            short.
          OSError: if the file cannot be opened.
        """
        with open(self.path, "r+b" if self.writable else "rb") as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self.identity:
                raise InvalidArgument(
                    f"the file {self.path} of a numpy.memmap must stay as long as workers use it, got "
                    "another file of that name"
                )
            _check_size(self.path, found.st_size, self.offset + self.size)
            mode: Any = "r+" if self.writable else "r"
            return np.memmap(file, np.uint8, mode, self.offset, (self.size,))


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
    """The `numpy.memmap` containing ``array``, if any."""
    below: Any = array
    while isinstance(below, np.ndarray):
        if type(below) is np.memmap and isinstance(below.base, mmap.mmap):
            return below
        below = below.base
    return None


def _file_of(owner: np.memmap[Any, Any]) -> MappedFile | None:
    """The file mapped by ``owner``; None if unsure, or for a private map."""
    memory: Any = owner.base
    if owner.filename is None or owner.mode == "c":
        return None
    name = os.fspath(owner.filename)
    with suppress(OSError), open(name, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_size != memory.size():
            return None
        _check_size(name, found.st_size, owner.offset + owner.nbytes)
        mapped = memoryview(memory)[owner.offset % mmap.ALLOCATIONGRANULARITY :][: owner.nbytes]
        for start in (0, max(owner.nbytes - COMPARED, 0)):
            compared = mapped[start : start + COMPARED]
            file.seek(owner.offset + start)
            if file.read(len(compared)) != compared:
                return None
        identity = (found.st_dev, found.st_ino)
        return MappedFile(name, identity, owner.offset, owner.nbytes, owner.mode != "r")
    return None


def _check_size(name: str, found: int, size: int) -> None:
    if found < size:
        raise InvalidArgument(
            f"the file {name} of a numpy.memmap must keep its {size} bytes, got {found}; "
            "was it written anew?"
        )


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
