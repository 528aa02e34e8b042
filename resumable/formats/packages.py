"""Import optional packages where they are used, with advice if one is missing."""

from __future__ import annotations

from importlib import import_module
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
        import_module(module.partition(".")[0])  # a module within it may be loaded without it
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{purpose}: pip install 'resumable-loader[{extra}]' ({error})"
        ) from error
