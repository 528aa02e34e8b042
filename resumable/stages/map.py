"""Apply a function to every item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, TypeVar, final

from ..arguments import check_callable, check_choice, check_int, shorten
from ..block import Block, Indices, block_items, block_length
from ..errors import InvalidArgument, InvalidType, UnencodableState
from ..external import Protocol, protocol_of, taken_from
from ..stage import StageIterator, Transform, TransformIterator
from ..state import State, TakenState, freeze, settled, unpack, unpack_count
from .parallel_map import ParallelMapIterator

__all__ = ["Map"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Map(Transform[T]):
    """The result of ``fn`` for every item.

    A function that carries state of its own (``get_state/set_state``,
    ``state_dict/load_state_dict`` or ``getstate/setstate``) has it saved and restored; such a
    function belongs to one running iterator at a time. A pass that begins at epoch 0 begins
    with the function as it was when the pipeline was built; later epochs go on with it.

    State: upstream's, plus the function's own and the count of items dropped, if there are
    any. Random access is kept unless items may be dropped or the function carries state.

    Args:
      upstream: stage whose items are mapped.
      fn: called with one item.
      workers: number of threads that call ``fn``, 0 for none. Results come in order; up to
        twice as many items are in work ahead of the last one handed out.
      executor: where the workers are: ``"thread"``, or a `concurrent.futures.Executor`,
        which is used and not shut down. Neither enters the state.
      on_error: ``"raise"`` passes an exception of ``fn`` on, and the next call tries the same
        item again; ``"skip"`` drops the item and counts it.

    Raises:
      InvalidType: if ``fn`` cannot be called or ``executor`` is none.
      InvalidArgument: if ``workers`` is below 0, ``on_error`` is another word, or a function
        with state is given to workers.
    """

    identity: ClassVar[tuple[str, ...]] = ("on_error",)
    counts_items: ClassVar[bool] = False

    fn: Callable[[Any], T]
    _: KW_ONLY
    workers: int = 0
    executor: str | Executor = "thread"
    on_error: str = "raise"
    # The state of a function that carries one, as it was when the pipeline was built.
    initial: TakenState | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_callable("fn", self.fn)
        check_int("workers", self.workers, minimum=0)
        check_choice("on_error", self.on_error, ("raise", "skip"))
        if not isinstance(self.executor, Executor) and self.executor != "thread":
            raise InvalidType(
                f"executor must be 'thread' or a concurrent.futures.Executor, "
                f"got {shorten(self.executor)}"
            )
        if self.workers and self.carried is not None:
            raise InvalidArgument(
                f"workers must be 0 for a function that carries state, got {self.workers}"
            )
        if self.carried is not None:
            object.__setattr__(self, "initial", taken_from(self.fn, self.carried))

    @property
    def carried(self) -> Protocol | None:
        """How the function's own state is read and restored, if it has any."""
        return protocol_of(self.fn)

    @property
    def random_access(self) -> bool:
        exact = self.on_error == "raise" and self.carried is None
        return exact and self.upstream.random_access

    @property
    def length(self) -> int | float | None:
        return self.upstream.length if self.on_error == "raise" else None

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.workers:
            return ParallelMapIterator(self, epoch)
        if self.on_error == "skip" or self.carried is not None:
            return _StatefulMapIterator(self, epoch)
        return _MapIterator(self, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        return _mapped(self.fn, self.upstream.gather(indices, epoch))

    def lookup(self, epoch: int) -> Callable[[int], T]:
        fn, item_at = self.fn, self.upstream.lookup(epoch)
        return lambda index: fn(item_at(index))


class _MapIterator(TransformIterator[T]):
    _stage: Map[T]

    def pull(self, count: int) -> Block:
        return _mapped(self._stage.fn, self._upstream.pull(count))

    def items(self) -> Iterator[T]:
        return map(self._stage.fn, self._upstream.items())

    @property
    def exhausted(self) -> bool:
        return self._upstream.exhausted


class _StatefulMapIterator(TransformIterator[T]):
    """With items that may be dropped, or a function whose state is saved."""

    _stage: Map[T]

    def __init__(self, stage: Map[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._skipped = 0
        self._carried = stage.carried
        # The function's state, until the first item is asked for.
        self._saved: TakenState | None = stage.initial if epoch == 0 else None
        self._restored = self._saved is None

    def pull(self, count: int) -> Block:
        if not self._restored:
            assert self._carried is not None
            if not isinstance(self._saved, Exception):
                self._carried.write(self._stage.fn, freeze(self._saved))
            self._restored, self._saved = True, None
        if self._stage.on_error == "raise":
            return _mapped(self._stage.fn, self._upstream.pull(count))
        mapped: list[T] = []
        while missing := count - len(mapped):
            block = self._upstream.pull(missing)
            for item in block_items(block):
                try:
                    mapped.append(self._stage.fn(item))
                except Exception:
                    self._skipped += 1
            if block_length(block) < missing:
                break
        return mapped

    def get_state(self) -> State:
        state = super().get_state()
        if self._stage.on_error == "skip":
            state["skipped"] = self._skipped
        if self._carried is not None:
            own = self._saved
            if self._restored or own is None:
                own = taken_from(self._stage.fn, self._carried)
            if isinstance(own, UnencodableState):
                raise UnencodableState(f"{self._stage!r}: state of fn: {own}")
            state["function"] = settled(own)
        return state

    def set_state(self, state: State) -> None:
        names = ["upstream"]
        if self._stage.on_error == "skip":
            names.append("skipped")
        if self._carried is not None:
            names.append("function")
        values = dict(zip(names, unpack(self._stage, state, *names), strict=True))
        self._skipped = unpack_count(self._stage, "skipped", values.get("skipped", 0))
        if self._carried is not None:
            self._saved, self._restored = freeze(values["function"]), False
        self._upstream.set_state(values["upstream"])


def _mapped(fn: Callable[[Any], T], block: Block) -> list[T]:
    items = block_items(block)
    mapped = list(map(fn, items))
    if len(mapped) != len(items):  # `map` takes a StopIteration out of `fn` for its end
        raise RuntimeError("a user function raised StopIteration")
    return mapped
