"""The docstring of a stage, shown in the help of the method that builds it."""

# What a stage does with its arguments is written once, next to its code. Users call `help()` on the
# builder, which has a sentence of its own and this text below it.

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, Final, TypeVar

B = TypeVar("B", bound=Callable[..., Any])

# The argument that the builder fills in.
UPSTREAM: Final = re.compile(r"^  upstream: .*\n(?:    .*\n)*", re.MULTILINE)
NO_ARGUMENTS: Final = re.compile(r"^Args:\n(?!  )", re.MULTILINE)


def explained_by(*stages: type, **renamed: str) -> Callable[[B], B]:
    """Append the docstrings of the stages that a builder makes to its own docstring.

    Args:
      stages: their classes.
      renamed: arguments with another name in the builder, as ``name_of_the_stage="name_of_the_builder"``.
    """

    def explain(builder: B) -> B:
        if builder.__doc__ is not None:  # as it is where Python drops docstrings
            texts = [_in_words_of_the_user(stage.__doc__ or "", renamed) for stage in stages]
            builder.__doc__ = "\n\n".join([cleandoc(builder.__doc__), *texts])
        return builder

    return explain


def _in_words_of_the_user(docstring: str, renamed: dict[str, str]) -> str:
    text = NO_ARGUMENTS.sub("", UPSTREAM.sub("", cleandoc(docstring) + "\n"))
    for theirs, ours in renamed.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    return text.strip()
