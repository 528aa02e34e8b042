"""Turn whatever a decoder raises into `MalformedItem`, which says where the damage is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InvalidArgument, MalformedItem, MissingDependency


def decoded(decode: Callable[[Any], Any], data: Any, where: str) -> Any:
    """What ``decode`` makes of ``data``; errors say that this is ``where``.

    Raises:
      MalformedItem: if it cannot be decoded.
      MissingDependency: if that needs a package that is not installed.
      InvalidArgument: if that is not allowed.
    """
    try:
        return decode(data)
    except (InvalidArgument, MissingDependency):
        raise
    except MalformedItem as error:
        raise MalformedItem(f"{where}: {error}") from error
    except Exception as error:  # what decodes numbers, text and images raises nearly anything
        raise MalformedItem(f"{where}: {type(error).__name__}: {error}") from error
