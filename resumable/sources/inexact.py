"""Recognise foreign objects with a saved state known to lose items."""

# Objects are recognised by the names of their class and package, since no such package is imported
# here. A new class is a new line in `KNOWN`. If other objects read the class through an attribute
# with another name, the name is a new entry of `PARTS`.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple


class Inexact(NamedTuple):
    """A class with an incomplete state.

    Attributes:
      package: the top-level package of the class.
      name: of the class.
      loses: whether the state of a given object is incomplete.
      reason: what is lost, then what to do instead.
    """

    package: str
    name: str
    loses: Callable[[Any], bool]
    reason: str


KNOWN: Final = (
    Inexact(
        "datasets",
        "BufferShuffledExamplesIterable",
        lambda shuffled: shuffled.buffer_size > 1,
        "the state of a Hugging Face data set leaves out the items in the buffer of its shuffle, "
        "so a resume would lose them; instead of dataset.shuffle(seed, buffer_size=n) use "
        "rs.from_iterable(dataset).shuffle(seed, window=n), which is exact",
    ),
)
PARTS: Final = ("_ex_iterable", "ex_iterable", "ex_iterables", "dataset", "_stateful")
"""The attributes in which an object keeps its data source: an object, or a list of objects."""


def known_inexact(target: Any) -> Inexact | None:
    """The entry of `KNOWN` for ``target``, or for an object in `parts_of`; None if missing."""
    for part in parts_of(target):
        for kind in type(part).__mro__:
            package = kind.__module__.partition(".")[0]
            for known in KNOWN:
                if (package, kind.__name__) == (known.package, known.name) and known.loses(part):
                    return known
    return None


def parts_of(target: Any) -> Iterator[Any]:
    """``target`` and the objects read by ``target``, each once."""
    seen: dict[int, Any] = {}
    waiting = [target]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        # Not `getattr`: it may compute something.
        attributes = getattr(part, "__dict__", {})
        for name in PARTS:
            held = attributes.get(name)
            if held is not None:
                waiting += held if isinstance(held, list) else [held]
