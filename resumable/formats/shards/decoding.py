"""Turn whatever a decoder raises into `MalformedItem`, which says where the damage is."""

# The words that name the place are made only once there is damage: they would cost more than most values.

from __future__ import annotations

from typing import NoReturn

from ...errors import InvalidArgument, MalformedItem, MissingDependency


def raise_where(error: Exception, where: str) -> NoReturn:
    """Raise what a decoder has raised, as an error that says ``where`` the damage is.

    Raises:
      MalformedItem: if the data cannot be decoded.
      MissingDependency: if that needs a package that is not installed.
      InvalidArgument: if that is not allowed.
    """
    if isinstance(error, (InvalidArgument, MissingDependency)):
        raise error
    if isinstance(error, MalformedItem):
        raise MalformedItem(f"{where}: {error}") from error
    # What decodes numbers, text and images raises nearly anything.
    raise MalformedItem(f"{where}: {type(error).__name__}: {error}") from error
