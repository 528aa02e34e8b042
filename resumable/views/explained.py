"""The help of the methods that build stages, and their answer to unknown arguments."""

# The arguments of a stage are explained once, next to the code of the stage. Users call `help()` on
# the builder. A builder has its own sentence, and the examples follow directly, because most users
# need no more.

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from inspect import cleandoc
from typing import Any, Final, TypeVar

from ..errors.foreign_words import with_our_words

B = TypeVar("B", bound=Callable[..., Any])

# The argument filled in by the builder.
UPSTREAM: Final = re.compile(r"^  upstream: .*\n(?:    .*\n)*", re.MULTILINE)

# Shown by editors, which read the source alone: a pointer to the rest.
POINTER: Final = re.compile(r"; see `[\w.]+`|\n\nSee `[\w.]+`[^.]*(?:\.\w+[^.]*)*\.(?=\n|\Z)")

SECTIONS: Final = ("Args", "Returns", "Raises")
SECTION: Final = re.compile(rf"^({'|'.join(SECTIONS)}):\n((?:(?:  .*)?\n)*)", re.MULTILINE)
ENTRY: Final = re.compile(r"^  \S.*\n(?:(?:    .*)?\n)*", re.MULTILINE)
FIRST_LINE: Final = re.compile(r"\A\S.*\.\n(?=\n)")
PROMPT: Final = ">>> "

built_by: Final[dict[type, Callable[..., Any]]] = {}
"""The method or function that first builds a stage, by the class of the stage."""


def explained_by(*stages: type, **renamed: str) -> Callable[[B], B]:
    """Append the docstrings of the built stages to a builder's own, and put examples first.

    An unknown argument is answered with our word for it (`with_our_words`).

    Args:
      stages: the classes of the stages; none, if the docstring of the builder says everything.
      renamed: arguments with another name in the builder, as
        ``name_of_the_stage="name_of_the_builder"``.
    """

    def explain(builder: B) -> B:
        for stage in stages:
            built_by.setdefault(stage, builder)
        if builder.__doc__ is not None:  # None if Python drops docstrings
            own = POINTER.sub("", cleandoc(builder.__doc__))
            sentence, _, rest = own.partition("\n\n")
            texts = [_in_words_of_the_user(stage.__doc__ or "", renamed) for stage in stages]
            if len(texts) == 1:  # the builder's sentence replaces the stage's
                texts = [FIRST_LINE.sub("", texts[0])]
            parameters = builder.__code__.co_varnames
            builder.__doc__ = _joined([sentence, rest], texts, parameters)
        return with_our_words(builder)

    return explain


def _in_words_of_the_user(docstring: str, renamed: dict[str, str]) -> str:
    text = UPSTREAM.sub("", cleandoc(docstring) + "\n")
    for theirs, ours in renamed.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    return text


def _joined(own: list[str], texts: list[str], parameters: Sequence[str]) -> str:
    """The first sentence, all examples, all prose, and the sections of each kind joined.

    Args:
      own: the builder's first sentence, and the rest of its docstring. If several texts explain an
        argument, the first text is used, the builder's before the others.
      texts: the docstrings of stages.
      parameters: of the builder, in order.
    """
    sentence, rest = own
    sections: dict[str, list[str]] = {name: [] for name in SECTIONS}
    for text in (rest, *texts):
        for name, entries in SECTION.findall(text + "\n"):
            sections[name] += [entry.rstrip() for entry in ENTRY.findall(entries)]
    prose, examples = [sentence], list[str]()
    for text in (*texts, rest):
        paragraphs = re.split(r"\n(?:[ ]*\n)+", SECTION.sub("", text + "\n").strip("\n"))
        for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
            leads = paragraph.endswith(":") and following.startswith(PROMPT)
            (examples if leads or paragraph.startswith(PROMPT) else prose).append(paragraph)
    explained = {entry.split(":")[0].strip(): entry for entry in reversed(sections["Args"])}
    sections["Args"] = sorted(explained.values(), key=partial(_place_of, parameters))
    joined = [
        "\n".join([f"{name}:", *dict.fromkeys(entries)])
        for name, entries in sections.items()
        if entries
    ]
    return "\n\n".join([prose[0], *examples, *filter(None, prose[1:]), *joined])


def _place_of(parameters: Sequence[str], entry: str) -> int:
    name = entry.split(":")[0].strip(" *")
    return parameters.index(name) if name in parameters else len(parameters)
