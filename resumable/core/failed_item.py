"""Name the item for which a user function failed, in a note on the error."""

# Nothing is counted for the note while items flow. Where a function is called for a whole block,
# the place of the error in the block is seen at once. Where items flow one by one, no line of
# Python runs between two functions; the frames of the error then identify the function, and its
# iterator knows the item.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, final

from ..errors import ResumableError
from .block import Block, block_items
from .callables import StandIn
from .combine import TurnsIterator
from .graph import walk
from .relation import Joined
from .source_item import SourceItem
from .stage import Stage
from .stage_iterator import StageIterator, item_in_work

KEY: Final = "__key__"
LIBRARY: Final = str(Path(__file__).parent.parent)
RAISED_BY_LIBRARY: Final = (ResumableError, OSError)
"""Errors of the library itself, as for a missing file. No function without a frame is blamed."""


@final
class ItemNote(str):
    """A note that names an item; at most one per error."""

    __slots__ = ()


def described_item(
    stage: Stage[Any], number: int | None, origin: SourceItem | None, key: Any = None
) -> str:
    """The words for an item given to ``stage``; numbers count from 0.

    Args:
      stage: the stage whose function gets the item.
      number: of the item, in the order of arrival at ``stage``, if known.
      origin: where the item comes from, if known.
      key: the ``__key__`` of the item, if any.
    """
    if number is None and origin is not None:
        number = origin.place
    words = f"an item of {stage}" if number is None else f"item {number:,} of {stage}"
    if origin is not None:
        words += f", item {origin.number:,} of {type(origin.source).__name__}"
    if key is not None:
        words += f", {KEY} {key!r}"
    return words if number is None and origin is None else f"{words}, counted from 0"


def note_item(
    error: BaseException,
    stage: Stage[Any],
    number: int | None,
    origin: SourceItem | None,
    item: Any = None,
) -> None:
    """Add a note to ``error`` that names the item, unless ``error`` already has such a note.

    Args:
      error: raised by the function of ``stage``.
      stage: the stage.
      number: of the item, as for `described_item`.
      origin: of the item, as for `described_item`.
      item: the item, if at hand.
    """
    notes = getattr(error, "__notes__", [])
    if any(isinstance(note, ItemNote) for note in notes):
        return
    given = chain([item], _arguments(error))
    key = next((found for one in given if (found := key_in(one)) is not None), None)
    note = ItemNote(f"raised for {described_item(stage, number, origin, key)}")
    with suppress(Exception):  # an exception may forbid attributes
        if sys.version_info >= (3, 11):
            error.add_note(note)
        else:
            error.__dict__["__notes__"] = [*notes, note]


def map_items(fn: Callable[[Any], Any], items: list[Any], caller: Any = None) -> list[Any]:
    """The results of ``fn`` for ``items``; an error names the item if ``caller`` just pulled it."""
    made: list[Any] = []
    try:
        made.extend(map(fn, items))
        if len(made) != len(items):  # `map` ends at a StopIteration out of `fn`
            raise RuntimeError("a user function raised StopIteration")
    except Exception as error:
        # A signal handler may also raise after the last item was made.
        if caller is not None and len(made) < len(items):
            (upstream,) = caller.inputs
            origin = upstream.origin(len(items) - len(made))
            note_item(error, caller._stage, None, origin, items[len(made)])
        raise
    return made


def each(fn: Callable[[Any], Any]) -> Joined:
    """``fn`` applied to each item, or to the items of all inputs, as the ``make`` of a relation."""

    def blocks(block: Block, *more: Block) -> Block:
        if not more:
            return map_items(fn, block_items(block))
        rows = zip(*map(block_items, (block, *more)), strict=True)
        return map_items(lambda row: fn(*row), list(rows))

    return Joined(blocks, partial(map, fn))


def note_failed_item(error: BaseException, root: StageIterator[Any]) -> None:
    """If a function of the user raised ``error``, add a note naming the item.

    Args:
      error: raised out of ``root``.
      root: the last iterator of a pipeline, as left by the error.
    """
    if not isinstance(error, Exception):
        return
    callers = _callers_of(error, list(_callers(root)))
    if not callers:
        return
    stage, iterator = callers[-1]
    origin = None if iterator is None else item_in_work(iterator)
    if origin is not None and len(callers) > 1:  # one function in several stages
        origin = origin._replace(place=None)
    note_item(error, stage, None, origin)


class _Caller(NamedTuple):
    """A stage that calls a function, and the iterator of the stage, if any."""

    stage: Stage[Any]
    iterator: StageIterator[Any] | None

    @property
    def code(self) -> CodeType | None:
        return called_code(self.stage)


def _callers(root: StageIterator[Any]) -> Iterator[_Caller]:
    """The stages that may have called a function for the next item of ``root``."""
    moving = {id(one._stage): one for one in _being_read(root) if one._stage}
    for one in moving.values():
        # A stage looked up by index has no iterators for earlier stages.
        for stage, _ in [(one._stage, "")] if one.inputs else walk(one._stage):
            if _function_of(stage) is not None:
                yield _Caller(stage, moving.get(id(stage)))


def _being_read(root: StageIterator[Any]) -> Iterator[StageIterator[Any]]:
    yield root
    for upstream in root.being_read if isinstance(root, TurnsIterator) else root.inputs:
        yield from _being_read(upstream)


def _callers_of(error: BaseException, callers: list[_Caller]) -> list[_Caller]:
    """The possible ``callers`` of the function that raised ``error``."""
    codes = [frame.f_code for frame in _frames(error)]
    found = next((code for code in codes if any(one.code is code for one in callers)), None)
    if found is not None:
        return [one for one in callers if one.code is found]
    if isinstance(error, RAISED_BY_LIBRARY):
        return []
    without = [one for one in callers if one.code is None]
    return without if len(without) == 1 and all(map(_is_ours, codes)) else []


def _function_of(stage: Stage[Any]) -> Any:
    return getattr(stage, getattr(stage, "calls", "fn"), None)


def called_code(stage: Stage[Any]) -> CodeType | None:
    """The code of the function of ``stage``, as in frames; None if not written in Python."""
    fn = _function_of(stage)
    while isinstance(fn, (partial, StandIn)):
        fn = fn.func if isinstance(fn, partial) else fn.fn
    fn = getattr(fn, "__func__", fn)
    found = getattr(fn, "__code__", None)
    if found is None:
        found = getattr(getattr(type(fn), "__call__", None), "__code__", None)  # noqa: B004
    return found if isinstance(found, CodeType) else None


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(LIBRARY)


def _frames(error: BaseException) -> Iterator[FrameType]:
    return (frame for frame, _ in walk_tb(error.__traceback__))


def _arguments(error: BaseException) -> Iterator[Any]:
    """The arguments of the functions outside this library, the outermost function first."""
    for frame in _frames(error):
        code = frame.f_code
        if not _is_ours(code):
            yield from map(frame.f_locals.get, code.co_varnames[: code.co_argcount])


def key_in(item: Any) -> Any:
    """The ``__key__`` of an item; for a tuple, the key of its last item."""
    if isinstance(item, tuple) and item:
        item = item[-1]
    return item.get(KEY) if isinstance(item, Mapping) else None
