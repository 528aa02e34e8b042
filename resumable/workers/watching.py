"""Find the call that kills its process, and leave the item out."""

# A dead process cannot report its last work. So once a process has died over a partition, the next
# process notes each call of a function in a file before making the call, and empties the file
# afterwards. The watched process takes item by item, without threads, so each call belongs to one
# item.

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
from ..core.transform import PassThrough, StateForwardingIterator
from ..errors import WorkerError
from .tally import MayDropItems

T = TypeVar("T")

ItemKey: TypeAlias = tuple[int, int, int]
"""The number of a stage in the order of `walk`, an epoch, and an item's number in the epoch."""


class Call(NamedTuple):
    """The work of a process when it died.

    Attributes:
      key: of the item, if the stage may drop the item.
      words: name of the item.
    """

    key: ItemKey | None
    words: str


@final
class CallLog:
    """A file for the call in progress of a process, created when `path` is first used."""

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
        """The call begun and not ended."""
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
    """A pipeline with its functions called under watch.

    Args:
      stage: the last stage of the pipeline.
      dropped: items that kill their process, each with the reported reason.

    Attributes:
      pipeline: delivers the same items from the same states, without the dropped items.
      root: iterator of ``pipeline``, to be set before the first item.
      log: path of the file for noting calls; None to note nothing.
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
        """Note ``call`` during the call."""
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
        """The call about to be made."""
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
    """Items of an upstream that takes one item from its own upstream for each item."""

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _OneByOneIterator(self, epoch)


class _OneByOneIterator(ItemByItem[T], StateForwardingIterator[T]):
    def items(self) -> Items[T]:
        return self._upstream.items()

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)
