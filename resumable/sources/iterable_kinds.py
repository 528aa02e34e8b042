"""What kind of iterable an object is, and a copy of one whose position can be set."""

from __future__ import annotations

import copy
import inspect
import io
from typing import Any, Final

from ..core.foreign_protocol import protocol_of
from .inexact import PARTS

POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def has_epochs(source: Any) -> bool:
    """Whether ``source`` takes the number of an epoch, from which its order follows."""
    return callable(getattr(source, "set_epoch", None))


def copies_apart(source: Any) -> bool:
    """Whether `copy_to_read` makes copies that know nothing of each other."""
    return "_ex_iterable" in getattr(source, "__dict__", {})


def copy_to_read(source: Any, copies: dict[int, Any] | None = None) -> Any:
    """A copy of ``source`` with attributes of its own, to set a position or an epoch in.

    What a Hugging Face data set reads notes the position too, and data sets made of each other share it.

    Args:
      source: an object.
      copies: the copies of its parts made so far, by the address of the part.
    """
    copies = {} if copies is None else copies
    if id(source) in copies:
        return copies[id(source)]
    copied = copies[id(source)] = copy.copy(source)
    attributes = getattr(source, "__dict__", None)
    if attributes is None or copied is source:
        return copied
    # Some classes (Hugging Face's among them) restore a copy by taking over this very dict.
    if copied.__dict__ is attributes:
        copied.__dict__ = dict(attributes)
    for name in PARTS:
        held = attributes.get(name)
        if isinstance(held, list):
            copied.__dict__[name] = [copy_to_read(part, copies) for part in held]
        elif protocol_of(held) is not None:
            copied.__dict__[name] = copy_to_read(held, copies)
    if "_epoch" in attributes:  # it may lie in memory that processes share
        copied.__dict__["_epoch"] = copy.deepcopy(attributes["_epoch"])
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
