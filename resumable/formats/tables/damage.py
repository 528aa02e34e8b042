"""Turn errors of pyarrow about damaged files into `MalformedItem` with the place of the damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...errors import MalformedItem, ReadError
from .file_access import TableFileAccess

DAMAGED: Final = (
    OSError, ValueError, UnicodeDecodeError, KeyError, OverflowError, NotImplementedError,
)  # fmt: skip
"""Exact classes, besides the classes of pyarrow and our own: a signal handler may raise a derived class."""


@contextmanager
def malformed_if_damaged(access: TableFileAccess, where: str) -> Iterator[None]:
    """Turn errors about the content of a file into a `MalformedItem`.

    Args:
      access: to the file.
      where: in the file, such as "row group 3".

    Raises:
      MalformedItem: for damaged content; or, as the likely cause, if the file has changed.
      OSError: if the system, or the network, cannot read the file.
    """
    import pyarrow as pa

    try:
        yield
    except (MalformedItem, ReadError):
        raise
    except (pa.ArrowException, *DAMAGED) as error:
        if not is_damage(error):
            raise
        access.check_unchanged()
        raise MalformedItem(f"{access.path}, {where}: {error}") from error


def is_damage(error: Exception) -> bool:
    """Whether pyarrow raised ``error`` because of the content of a file, and no signal handler did."""
    if isinstance(error, OSError) and error.errno:  # errors of pyarrow's decoders have none
        return False
    return type(error) in DAMAGED or type(error).__module__.startswith(("pyarrow", "resumable"))
