"""Import optional packages where they are used, with advice if one is missing."""

from __future__ import annotations

from importlib import import_module
from itertools import accumulate
from typing import Any

from ..errors import MissingDependency


def imported(module: str, purpose: str, extra: str) -> Any:
    """The ``module``.

    Args:
      module: name of the module.
      purpose: the use and the package, such as ``"images need Pillow"``.
      extra: of this library, which installs the package.

    Raises:
      MissingDependency: if the module cannot be imported.
    """
    try:
        # Each package first: a loaded module is returned even where its package is missing.
        for name in accumulate(module.split("."), "{}.{}".format):
            found = import_module(name)
        return found
    except ImportError as error:
        raise MissingDependency(
            f"{purpose}: pip install 'resumable-loader[{extra}]' ({error})"
        ) from error
