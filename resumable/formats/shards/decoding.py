"""Turn errors of decoders into `MalformedItem` with the place of the damage."""

# The words for the place are made only after an error: making them costs more than most values.

from __future__ import annotations

from typing import NoReturn

from ...errors import InvalidArgument, MalformedItem, MissingDependency


def raise_where(error: Exception, where: str) -> NoReturn:
    """Raise the ``error`` of a decoder, with the place of the damage in words.

    Raises:
      MalformedItem: if the data cannot be decoded.
      MissingDependency: if a package to decode the data is not installed.
      InvalidArgument: if decoding the data is not allowed.
    """
    if isinstance(error, (InvalidArgument, MissingDependency)):
        raise error
    if isinstance(error, MalformedItem):
        raise MalformedItem(f"{where}: {error}") from error
    # Decoders of numbers, text and images raise nearly anything.
    raise MalformedItem(f"{where}: {type(error).__name__}: {error}") from error
