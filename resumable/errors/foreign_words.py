"""The words used here for terms of other loaders, in errors of unknown calls and attributes."""

# Users of tf.data, Grain, PyTorch, Hugging Face datasets, Ray Data or WebDataset know what to do,
# but not the names used here. A call with valid arguments costs one more function call, and access
# to an existing attribute costs nothing.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from . import InvalidType

C = TypeVar("C", bound=Callable[..., Any])

BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class OurWord(NamedTuple):
    """The counterpart of an argument of another loader.

    Args:
      arguments: arguments here with the same meaning; a function has at most one.
      elsewhere: advice for functions without an argument of that meaning.
    """

    arguments: str
    elsewhere: str = ""


@cache
def words_for(kind: str) -> Mapping[str, Any]:
    """The words for terms of other loaders, read from ``foreign_words.json`` when first needed.

    Args:
      kind: ``arguments``, each an `OurWord`, ``methods`` of a pipeline, ``functions`` of the
        package, or ``values`` that a state cannot hold, by type.
    """
    rows = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))[kind]
    return {
        word: OurWord(*ours) if isinstance(ours, list) else ours
        for words, ours in rows.items()
        for word in words.split()
    }


def with_our_words(called: C) -> C:
    """Make errors about arguments unknown to ``called`` suggest the word used here.

    Args:
      called: a function without ``**options``, or a class, whose ``__init__`` is changed.
    """
    if isinstance(called, type):
        called.__init__ = with_our_words(called.__init__)  # type: ignore[misc]
        return cast(C, called)

    @wraps(called)
    def answering(*args: Any, **options: Any) -> Any:
        try:
            return called(*args, **options)
        except TypeError:
            if (message := _message_in_our_words(called, options)) is None:
                raise
        raise InvalidType(message)

    return cast(C, answering)


def _message_in_our_words(called: Callable[..., Any], options: dict[str, Any]) -> str | None:
    """The message for the first of ``options`` that is no argument; None if all are arguments."""
    parameters = signature(called).parameters.values()
    ours = [one.name for one in parameters if one.kind in BY_NAME and one.name != "self"]
    name = called.__name__
    if name == "__init__":
        name = called.__qualname__.split(".")[-2]
    for given in options:
        if given not in ours:
            return f"{name}() has no argument {given!r}; {_argument_for(given, ours)}"
    return None


def _argument_for(given: str, ours: list[str]) -> str:
    word: OurWord = words_for("arguments").get(given, OurWord(""))
    for known in word.arguments.split():
        if known in ours:
            return f"use {known}="
    if near := get_close_matches(given, ours, 1):
        return f"did you mean {near[0]}=?"
    return word.elsewhere or (f"it has {', '.join(ours)}" if ours else "it has none with a name")


def no_attribute(owner: str, name: str, kind: str) -> str:
    """The message of an `AttributeError`, with the word used here for a foreign ``name``.

    Args:
      owner: the object without the attribute, as in ``'Pipeline' object``.
      name: of the attribute.
      kind: ``methods`` or ``functions``.
    """
    message, words = f"{owner} has no attribute {name!r}", words_for(kind)
    return f"{message}; write {words[name]}" if name in words else message
