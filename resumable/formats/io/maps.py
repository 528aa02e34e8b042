"""Map files into memory, without keeping a descriptor for each map."""

# Before version 3.13, each map of Python holds a descriptor. For earlier versions, `mmap` of the C
# library is called on 64-bit POSIX systems, where its signature is known. Windows does not limit
# descriptors.

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import Any, Final, TypeAlias

FileMap: TypeAlias = Any
"""Read-only bytes: slices are `bytes`, and `numpy.frombuffer` accepts a map."""

FEW_MAPS: Final = 64
KNOWN_LIMIT: Final = 65_530
"""Maps that Linux allows a process by default."""

Mapper: TypeAlias = Callable[[int, int], FileMap]


def map_file(file: FileIO, size: int) -> FileMap | None:
    """The first ``size`` bytes of ``file``, at least one; None if the file has become shorter.

    If the file is cut short later, reading beyond its end kills the process. So check the size
    before each use.
    """
    if os.fstat(file.fileno()).st_size < size:
        return None
    try:
        return _map(file.fileno(), size)
    except ValueError:  # the file was cut short just now
        return None


def _map_with_descriptor(descriptor: int, size: int) -> FileMap:
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)


def _map_of_python(descriptor: int, size: int) -> FileMap:
    options: dict[str, Any] = {"trackfd": False}
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, **options)


def _map_of_c() -> Mapper:
    """A function that maps by the C library.

    Raises:
      ImportError, OSError, AttributeError: if there is no C library, or no `mmap` in the library.
    """
    import ctypes
    import weakref

    library = ctypes.CDLL(None, use_errno=True)
    make, remove = library.mmap, library.munmap
    number = ctypes.c_int
    address_at = ctypes.c_void_p
    make.restype = address_at
    make.argtypes = (address_at, ctypes.c_size_t, number, number, number, ctypes.c_long)
    remove.argtypes = (address_at, ctypes.c_size_t)
    failed = address_at(-1).value

    def mapped(descriptor: int, size: int) -> FileMap:
        address = make(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address == failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        view = (ctypes.c_char * size).from_address(address)
        # Arrays over the view keep it alive; at exit the system removes all maps.
        weakref.finalize(view, remove, address, size).atexit = False
        return view

    return mapped


def _mapper() -> tuple[Mapper, bool]:
    """The function that maps files, and whether each map holds a descriptor."""
    if os.name != "posix":
        return _map_with_descriptor, False
    if sys.version_info >= (3, 13):
        return _map_of_python, False
    if sys.maxsize > 1 << 32:
        with suppress(ImportError, OSError, AttributeError):
            return _map_of_c(), False
    return _map_with_descriptor, True


def _most_maps(holds_descriptors: bool) -> int:
    """How many files of one kind are mapped at once: a quarter of the system's limit.

    Few if each map takes a scarce resource: a descriptor, or limited address space.
    """
    if holds_descriptors or sys.maxsize < 1 << 32 or _address_space_is_limited():
        return FEW_MAPS
    limit = KNOWN_LIMIT
    with suppress(OSError, ValueError), open("/proc/sys/vm/max_map_count") as file:
        limit = int(file.read())
    return max(min(limit, KNOWN_LIMIT) // 4, FEW_MAPS)


def _address_space_is_limited() -> bool:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
    except ImportError:
        return False
    return getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY


_map, _holds_descriptors = _mapper()
MOST_MAPS: Final = _most_maps(_holds_descriptors)
"""Maps of data files at once, and as many of indexes."""
