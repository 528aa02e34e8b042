"""Find the pipeline that a command line names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.stage import Stage
from ..errors import shorten
from ..pipeline import Pipeline


class TargetError(Exception):
    """What was named is no pipeline, or cannot be loaded."""


def load_pipeline(target: str) -> Pipeline[Any]:
    """The pipeline ``module:attribute`` or ``path/to/file.py:attribute``.

    The attribute is a pipeline, or a function without arguments that returns one; dots reach
    into objects.

    Raises:
      TargetError: saying what is wrong, with the user's own error as its cause if there is one.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise TargetError(
            f"a pipeline is named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, got {target!r}"
        )
    try:
        found: Any = _module(place)
        for part in name.split("."):
            found = getattr(found, part)
        if callable(found) and not isinstance(found, (Pipeline, Stage)):
            found = found()
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(f"{target} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(found, Stage):
        found = Pipeline(found)
    if not isinstance(found, Pipeline):
        raise TargetError(f"{target} must be a pipeline, got {shorten(found)}")
    return found


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` does
        return importlib.import_module(place)
    path = Path(place).absolute()
    if not path.is_file():
        raise TargetError(f"{place}: no such file")
    sys.path.insert(0, str(path.parent))  # as `python FILE` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
