"""What kind of iterable an object is, and a copy of one whose position can be set."""

from __future__ import annotations

import copy
import inspect
import io
from typing import Any, Final

POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def shallow_copy(source: Any) -> Any:
    """A copy of ``source`` with attributes of its own, to restore a position in."""
    copied = copy.copy(source)
    attributes = getattr(source, "__dict__", None)
    # Some classes (Hugging Face's among them) restore a copy by taking over this very dict.
    if attributes is not None and copied is not source and copied.__dict__ is attributes:
        copied.__dict__ = dict(attributes)
    return copied


def is_factory(target: Any) -> bool:
    """Whether it is a function, or a class, that is called for each epoch."""
    if isinstance(target, type):
        return True
    return callable(target) and not hasattr(target, "__iter__")


def takes_epoch(factory: Any) -> bool:
    """Whether it is a function that cannot be called without one positional argument."""
    if isinstance(factory, type):
        return False
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # of something built in
        return False
    required = [each for each in parameters if each.default is each.empty]
    positional = [each for each in required if each.kind in POSITIONAL]
    named = [each for each in required if each.kind is inspect.Parameter.KEYWORD_ONLY]
    return len(positional) == 1 and not named


def is_old_sequence(target: Any) -> bool:
    """Whether it is iterated by its indices; NumPy's scalars have ``__getitem__`` and are not."""
    try:
        iter(target)  # asks for no item
    except TypeError:
        return False
    return True


def is_seekable(target: Any) -> bool:
    """Whether it is a file whose position can be asked for and set."""
    # Some other objects with these methods read ahead of what `tell` says.
    file = getattr(target, "file", target)  # inside a temporary file
    return isinstance(file, io.IOBase) and file.readable() and file.seekable()
