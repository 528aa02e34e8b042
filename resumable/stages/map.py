"""Apply a function to every item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, TypeVar, final

from ..core.arguments import check_callable, check_choice
from ..core.block import Block, Indices, block_items, block_length
from ..core.carried import initial_state, with_carried_state
from ..core.stage import RANK
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform, TransformIterator
from ..errors import InvalidArgument
from ..state.value import State, TakenState, unpack, unpack_count
from ..workers.hiring import Calls, check_calls
from ..workers.parallel_map import ParallelMapIterator

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
      fn: called with one item; returns a new object, since several results may be waiting.
      workers: number of threads or processes that call ``fn``, 0 for none. Results come in order;
        up to twice as many calls, or chunks of them, are in work ahead of the last one handed out.
      executor: where the workers are: ``"thread"``; ``"process"``, with the extra ``parallel``, for
        functions that compute in Python, lambdas too; or a `concurrent.futures.Executor`, such as
        Dask's `client.get_executor()`, which is used and not shut down, and whose workers must
        have this library. Neither enters the state. Processes take items in chunks of about ten
        milliseconds and hand large results back in shared memory; those of a pass end with it.
      on_error: ``"raise"`` passes an exception of ``fn`` on, and the next call tries the same
        item again; ``"skip"`` drops the item and counts it.

    Raises:
      InvalidType: if ``fn`` cannot be called or ``executor`` is none.
      MissingDependency: for processes without the extra ``parallel``.
      WorkerError: while iterating, if a worker dies; the next call tries the same item again.
      InvalidArgument: if ``workers`` is below 0, ``on_error`` is another word, or a function
        with state is given to workers.
    """

    identity: ClassVar[tuple[str, ...]] = ("on_error",)

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
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_calls(self._calls)
        object.__setattr__(self, "initial", initial_state(self.fn))
        if self.workers and self.initial is not None:
            raise InvalidArgument(
                f"workers must be 0 for a function that carries state, got {self.workers}"
            )

    @property
    def _calls(self) -> Calls:
        return Calls(self.fn, self.on_error == "skip", self.workers, self.executor)

    @property
    def relies_on(self) -> frozenset[str]:  # type: ignore[override]
        """Ranks stay in step unless items may be dropped."""
        return frozenset({RANK}) if self.on_error == "skip" else frozenset()

    @property
    def concurrent(self) -> bool:
        return self.workers > 0

    @property
    def alternatives(self) -> tuple[Mapping[str, Any], ...]:
        if not self.workers:
            return ()
        return {"workers": 0, "executor": "thread"}, {"workers": self.workers + 1}

    @property
    def random_access(self) -> bool:
        exact = self.on_error == "raise" and self.initial is None
        return exact and self.upstream.random_access

    @property
    def length(self) -> int | float | None:
        return self.upstream.length if self.on_error == "raise" else None

    @property
    def carries_state(self) -> bool:
        return self.initial is not None

    @property
    def state_cost(self) -> str:
        parts = ["the number of items skipped"] if self.on_error == "skip" else []
        parts += ["the function's state"] if self.carries_state else []
        return " and ".join(parts) or "nothing"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.workers:
            return ParallelMapIterator(self, epoch, self._calls)
        skips = self.on_error == "skip"
        iterator = _SkippingMapIterator(self, epoch) if skips else _MapIterator(self, epoch)
        return with_carried_state(self, iterator, self.fn, self.initial, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        return _mapped(self.fn, self.upstream.gather(indices, epoch))

    def lookup(self, epoch: int) -> Callable[[int], T]:
        fn, item_at = self.fn, self.upstream.lookup(epoch)
        return lambda index: fn(item_at(index))


class _MapIterator(TransformIterator[T]):
    _stage: Map[T]

    def pull(self, count: int) -> Block:
        return _mapped(self._stage.fn, self._upstream.pull(count))

    def blocks(self, size: int) -> Iterator[Block]:
        fn = self._stage.fn
        for block in self._upstream.blocks(size):
            yield _mapped(fn, block)

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    def state_before(self, count: int) -> State | None:
        upstream = self._upstream.state_before(count)
        return None if upstream is None else {"upstream": upstream}

    def items(self) -> Iterator[T]:
        return map(self._stage.fn, self.upstream_items())

    @property
    def exhausted(self) -> bool:
        return self.upstream_exhausted()


class _SkippingMapIterator(TransformIterator[T]):
    """Drops the items that the function fails on."""

    _stage: Map[T]

    def __init__(self, stage: Map[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._skipped = 0

    def pull(self, count: int) -> Block:
        fn = self._stage.fn
        mapped: list[T] = []
        while missing := count - len(mapped):
            block = self._upstream.pull(missing)
            for item in block_items(block):
                try:
                    mapped.append(fn(item))
                except Exception:
                    self._skipped += 1
            if block_length(block) < missing:
                break
        return mapped

    def get_state(self) -> State:
        return {"skipped": self._skipped, "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        skipped, upstream = unpack(self._stage, state, "skipped", "upstream")
        self._skipped = unpack_count(self._stage, "skipped", skipped)
        self._upstream.set_state(upstream)


def _mapped(fn: Callable[[Any], T], block: Block) -> list[T]:
    items = block_items(block)
    mapped = list(map(fn, items))
    if len(mapped) != len(items):  # `map` takes a StopIteration out of `fn` for its end
        raise RuntimeError("a user function raised StopIteration")
    return mapped
