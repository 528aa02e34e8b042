"""Find the call that ends its process, and leave it out."""

# A process that dies cannot say what it was doing. So once one has died over a partition, the next one
# notes each call of a function in a file before it makes the call, and empties the file after it. Such a
# process goes from item to item, without threads, so that each call belongs to one item.

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, final

from ..core.callables import StandIn
from ..core.failed_item import described_item, key_in
from ..core.graph import rebuilt, without_threads
from ..core.relation import one_by_one
from ..core.skipped import iterators
from ..core.stage import Stage
from ..core.stage_iterator import ItemByItem, Items, StageIterator, item_in_work
from ..core.transform import PassThrough, PassThroughIterator
from ..errors import WorkerError
from .tally import MayDropItems

T = TypeVar("T")

ItemKey: TypeAlias = tuple[int, int, int]
"""A stage by its number in the order of `walk`, an epoch, and the number of an item in that epoch."""


class Call(NamedTuple):
    """What a process was doing when it died.

    Attributes:
      key: of the item, if the stage may drop it.
      words: name the item.
    """

    key: ItemKey | None
    words: str


@final
class CallLog:
    """A file for the call that a process is making, which there is once `path` has been asked for."""

    _path = ""

    @property
    def path(self) -> str:
        """The path of the file."""
        if not self._path:
            descriptor, self._path = tempfile.mkstemp(prefix="resumable-call-")
            os.close(descriptor)
            self._finalizer = weakref.finalize(self, _remove, self._path, os.getpid())
        return self._path

    def read(self) -> Call | None:
        """The call that was begun and not ended."""
        try:
            key, words = json.loads(Path(self._path).read_bytes())
        except (OSError, ValueError):
            return None
        return Call(key and tuple(key), words)

    def close(self) -> None:
        """Remove the file; may be called again."""
        if self._path:
            self._finalizer()


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


@final
class CallWatch:
    """A pipeline whose functions are called under watch.

    Args:
      stage: the last stage of the pipeline.
      dropped: items that end their process, each with the reason that is told.

    Attributes:
      pipeline: delivers the same items from the same states, without the dropped ones.
      root: its iterator, to be set before the first item.
      log: path of the file where calls are noted; None if they are not.
    """

    root: StageIterator[Any]

    def __init__(self, stage: Stage[Any], dropped: Mapping[ItemKey, str], log: str | None) -> None:
        self.pipeline = rebuilt(without_threads(stage), self._watched)
        self.dropped = dropped
        self.log = log

    def _watched(self, number: int, stage: Stage[Any]) -> Stage[Any]:
        field = getattr(stage, "calls", "fn")
        fn = getattr(stage, field, None)
        if fn is None:
            return stage
        watched = _WatchedFunction(self, number, stage, fn)
        changed = dataclasses.replace(stage, **{field: watched})
        return _OneByOne(changed) if one_by_one(stage) else changed

    @contextmanager
    def noted(self, call: Call) -> Iterator[None]:
        """Note ``call`` while it is made."""
        assert self.log is not None
        Path(self.log).write_bytes(json.dumps(call).encode())
        try:
            yield
        finally:
            Path(self.log).write_bytes(b"")


@final
class _WatchedFunction(StandIn[Callable[..., Any]]):
    """Calls a function of the user, unless the item is to be dropped."""

    def __init__(
        self, watch: CallWatch, number: int, stage: Stage[Any], fn: Callable[..., Any]
    ) -> None:
        super().__init__(fn)
        self._watch = watch
        self._number = number
        self._stage = stage

    def __call__(self, *arguments: Any) -> Any:
        call = self._call(arguments)
        if call.key is not None and (reason := self._watch.dropped.get(call.key)):
            raise WorkerError(reason)
        if self._watch.log is None:
            return self.fn(*arguments)
        with self._watch.noted(call):
            return self.fn(*arguments)

    def _call(self, arguments: tuple[Any, ...]) -> Call:
        """What is about to be called."""
        item_key = next((key for one in arguments if (key := key_in(one)) is not None), None)
        moving = [
            one
            for one in iterators(self._watch.root)
            if one._stage and any(value is self for value in vars(one._stage).values())
        ]
        if not moving:  # nothing moves where items are looked up by index
            return Call(None, described_item(self._stage, None, None, item_key))
        iterator = moving[-1]
        number = getattr(iterator, "number", None)
        origin = item_in_work(iterator)
        drops = isinstance(self._stage, MayDropItems) and self._stage.drops
        key = (self._number, iterator.epoch, number) if drops and number is not None else None
        return Call(key, described_item(self._stage, number, origin, item_key))


@final
@dataclass(frozen=True, eq=False, repr=False)
class _OneByOne(PassThrough[T]):
    """Upstream's items, for each of which upstream takes one item from the stage before it."""

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _OneByOneIterator(self, epoch)


class _OneByOneIterator(ItemByItem[T], PassThroughIterator[T]):
    def items(self) -> Items[T]:
        return self._upstream.items()

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)
