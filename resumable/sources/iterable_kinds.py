"""Tell kinds of iterables apart, and copy an iterable with a position."""

from __future__ import annotations

import copy
import io
from inspect import Parameter, signature
from typing import Any, Final

from ..core.foreign_protocol import protocol_of
from .inexact import PARTS

POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
NEVER_REQUIRED: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def has_epochs(source: Any) -> bool:
    """Whether ``source`` takes the number of an epoch, to decide its order."""
    return callable(getattr(source, "set_epoch", None))


def copies_apart(source: Any) -> bool:
    """Whether `copy_to_read` makes independent copies."""
    return "_ex_iterable" in getattr(source, "__dict__", {})


def copy_to_read(source: Any, copies: dict[int, Any] | None = None) -> Any:
    """A copy of ``source`` with separate attributes, to set a position or an epoch in.

    The objects read by a Hugging Face data set note the position too, and are shared by data sets
    made of each other.

    Args:
      source: an object.
      copies: the copies of the parts of ``source`` made so far, by the address of the part.
    """
    copies = {} if copies is None else copies
    if id(source) in copies:
        return copies[id(source)]
    copied = copies[id(source)] = copy.copy(source)
    attributes = getattr(source, "__dict__", None)
    if attributes is None or copied is source:
        return copied
    # Some classes (of Hugging Face too) restore a copy by taking over this very dict.
    if copied.__dict__ is attributes:
        copied.__dict__ = dict(attributes)
    for name in PARTS:
        held = attributes.get(name)
        if isinstance(held, list):
            copied.__dict__[name] = [copy_to_read(part, copies) for part in held]
        elif protocol_of(held) is not None:
            copied.__dict__[name] = copy_to_read(held, copies)
    if "_epoch" in attributes:  # may lie in memory that processes share
        copied.__dict__["_epoch"] = copy.deepcopy(attributes["_epoch"])
    return copied


def is_factory(target: Any) -> bool:
    """Whether ``target`` is a function or a class, called for each epoch."""
    if isinstance(target, type):
        return True
    return callable(target) and not hasattr(target, "__iter__")


def takes_epoch(factory: Any) -> bool:
    """Whether ``factory`` is a function with exactly one required positional argument."""
    if isinstance(factory, type):
        return False
    try:
        parameters = signature(factory).parameters.values()
    except (TypeError, ValueError):  # of something built in
        return False
    kinds = [each.kind for each in parameters if each.default is each.empty]
    required = [kind for kind in kinds if kind not in NEVER_REQUIRED]
    return len(required) == 1 and required[0] in POSITIONAL


def is_old_sequence(target: Any) -> bool:
    """Whether ``target`` is iterated by index; NumPy's scalars, with ``__getitem__``, are not."""
    try:
        iter(target)  # asks for no item
    except TypeError:
        return False
    return True


def is_seekable(target: Any) -> bool:
    """Whether ``target`` is a readable file whose position can be set."""
    # Some other objects with these methods read ahead of `tell`.
    file = getattr(target, "file", target)  # inside a temporary file
    return isinstance(file, io.IOBase) and file.readable() and file.seekable()
