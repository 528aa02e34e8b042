"""Apply a function to every item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar, final

from ..core.arguments import check_callable, check_choice
from ..core.block import Block, block_items, block_length
from ..core.carried import CallsFunction
from ..core.derived import derived
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, NOTHING, RANK, Reliance, Stage
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import SteadyIterator, TransformIterator
from ..errors import InvalidArgument
from ..state.value import State
from ..workers.hiring import Calls, check_calls
from ..workers.parallel_map import ParallelMapIterator
from ..workers.tally import OnSkip, Tally

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class CallsPerItem(CallsFunction[T]):
    """A stage that calls a function once for each item, in workers if there are any.

    Its arguments are those of `Map`.
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"on_error": ALWAYS}

    fn: Callable[..., T]
    _: KW_ONLY
    workers: int = 0
    executor: str | Executor = "thread"
    on_error: str = "raise"
    on_skip: OnSkip | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_calls(self._calls)
        if self.on_skip is not None:
            check_callable("on_skip", self.on_skip)
            if self.on_error != "skip":
                raise InvalidArgument(
                    f"on_skip needs on_error='skip', got on_error={self.on_error!r}"
                )
        if self.workers and self.carries_state:
            raise InvalidArgument(
                f"workers must be 0 for a function that carries state, got {self.workers}"
            )

    @property
    def read(self) -> Stage[Any]:
        """Whose items `called` is called with: upstream, unless a subclass makes others of them."""
        return self.upstream

    @property
    def called(self) -> Callable[[Any], T]:
        """What is called with each item of `read`: ``fn``, or what a subclass wraps it in."""
        return self.fn

    @property
    def _calls(self) -> Calls:
        drop = self.on_error == "skip"
        return Calls(self.called, drop, self.workers, self.executor, self.on_skip)

    @property
    def version(self) -> int:  # type: ignore[override]
        """The count of items tried came with the second one."""
        return 2 if self.on_error == "skip" else 1

    @property
    def relies_on(self) -> Reliance:  # type: ignore[override]
        """Ranks stay in step unless items may be dropped."""
        return RANK if self.on_error == "skip" else NOTHING

    @property
    def alternatives(self) -> tuple[Mapping[str, Any], ...]:
        if not self.workers:
            return ()
        return {"workers": 0, "executor": "thread"}, {"workers": self.workers + 1}

    @derived
    def length(self) -> int | float | None:
        return self.upstream.length if self.on_error == "raise" else None

    @property
    def state_cost(self) -> str:
        parts = ["the numbers of items tried and skipped"] if self.on_error == "skip" else []
        parts += ["the function's state"] if self.carries_state else []
        return " and ".join(parts) or "nothing"

    def start_calling(self, epoch: int) -> StageIterator[T]:
        if self.workers:
            return ParallelMapIterator(self, epoch, self._calls, self.read)
        if self.on_error == "skip":
            return _DroppingMapIterator(self, epoch)
        return _MapIterator(self, epoch, self.read)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        fn, upstream = self.called, self.read.indexed(epoch)
        if upstream is None or self.carries_state or self.on_error == "skip":
            return None
        blocks, items = partial(_mapped, fn), partial(map, fn)
        return Indexed.joined([upstream], blocks, items, every_epoch=upstream.every_epoch)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Map(CallsPerItem[T]):
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
        milliseconds and hand large results back in shared memory; they end with the pass, or with the
        last one of a `repeat`. Under Linux they map the file of a `numpy.memmap` that ``fn`` refers to, rather than get a copy of
        it: what they write goes to the file if it was opened for that. Mode ``"c"`` is copied.
      on_error: ``"raise"`` passes an exception of ``fn`` on, and the next call tries the same
        item again; ``"skip"`` drops the item and counts it.
      on_skip: with ``"skip"``, called as ``on_skip(number, error)`` for each item dropped when it is passed, in
        order and by the thread that iterates the map: with upstream's number of it, counted from 0 in the
        pass and on over resumes, and its exception. What an error or an interrupt makes this iterator draw again
        is passed again. After a resume from a state of a version that counted no items tried, of a
        stream, numbers count from that resume.

    When a process worker dies, what was in work is tried again by new ones, and the loop hears
    nothing of it. What it happens to twice is tried item by item, with nothing beside it. An item
    that ends its worker then too raises `WorkerError` with its number, after about three starts of processes, and so does
    the next call; with ``"skip"`` it is dropped once it has done so twice. Somebody else's
    executor stays broken: `WorkerError` names the first item not handed out.

    Raises:
      InvalidType: if ``fn`` cannot be called or ``executor`` is no executor.
      MissingDependency: for processes without the extra ``parallel``.
      WorkerError: while iterating, if an item ends its worker, or somebody else's executor is broken; the
        next call tries the same item again.
      InvalidArgument: if ``workers`` is below 0, ``on_error`` is another word, ``on_skip`` is
        given without ``"skip"``, or a function with state is given to workers.

    >>> list(rs.range(3).map(lambda item: item * 10))
    [0, 10, 20]
    >>> list(rs.from_sequence("12x4").map(int, on_error="skip"))
    [1, 2, 4]
    """


class _MapIterator(SteadyIterator[T]):
    _stage: CallsPerItem[T]

    def pull(self, count: int) -> Block:
        return _mapped(self._stage.called, self._upstream.pull(count))

    def blocks(self, size: int) -> Iterator[Block]:
        fn = self._stage.called
        for block in self._upstream.blocks(size):
            yield _mapped(fn, block)

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        found = self._upstream.state_at(offset)
        return found and ({"upstream": found[0]}, found[1])

    def items(self) -> Items[T]:
        return self._upstream.items().through(partial(map, self._stage.called))


class _DroppingMapIterator(TransformIterator[T]):
    """Drops the items that the function fails on."""

    _stage: CallsPerItem[T]

    def __init__(self, stage: CallsPerItem[T], epoch: int) -> None:
        super().__init__(stage, epoch, stage.read)
        self._tally = Tally(stage.on_skip)

    def pull(self, count: int) -> Block:
        mapped: list[T] = []
        while missing := count - len(mapped):
            block = self._upstream.pull(missing)
            mapped += self._kept(block_items(block))
            if block_length(block) < missing:
                break
        return mapped

    def items(self) -> Items[T]:
        return Items(self._kept(self._upstream.items()))

    def _kept(self, items: Iterable[Any]) -> Iterator[T]:
        fn, tally = self._stage.called, self._tally
        for item in items:
            try:
                result = fn(item)
            except Exception as error:
                tally.drop(error)
            else:
                tally.pass_over(1)
                yield result

    @property
    def skipped(self) -> int:
        """How many items were dropped in this pass."""
        return self._tally.skipped

    def get_state(self) -> State:
        return self._tally.get_state(self._upstream.get_state())

    def set_state(self, state: State) -> None:
        self._tally.set_state(self._stage, state, self._upstream)


def _mapped(fn: Callable[[Any], T], block: Block) -> list[T]:
    items = block_items(block)
    mapped = list(map(fn, items))
    if len(mapped) != len(items):  # `map` takes a StopIteration out of `fn` for its end
        raise RuntimeError("a user function raised StopIteration")
    return mapped
