"""Apply a function to every item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    NOTHING,
    PARTS,
    RANK,
    Block,
    CallsFunction,
    Dependence,
    Held,
    IdentityFields,
    InputItems,
    Items,
    OwnStateIterator,
    Relation,
    Same,
    SavedState,
    SourceItem,
    Stage,
    StageIterator,
    TransformIterator,
    block_items,
    each,
    map_items,
)
from ..core.arguments import check_callable, check_choice
from ..core.function_version import FunctionVersion
from ..core.relation import endless
from ..core.skipped import CountsSkipped
from ..core.stage import InputShadows, RunsAhead
from ..errors import InvalidArgument
from ..shadows.traced import Each, MapsTraced, calling, made_with_state, unchanged
from ..state.value import State
from ..workers.parallel_map import ParallelMapIterator
from ..workers.tally import MayDropItems, OnSkip, Tally
from ..workers.worker_call import check_call
from ..workers.workers import WorkerCall

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class CallsInWorkers(RunsAhead[T], FunctionVersion[T], CallsFunction[T], MayDropItems[T]):
    """A stage that calls a function with each item of `read`, in workers if given.

    The arguments are as in `Map`.
    """

    identity: ClassVar[IdentityFields] = {**FunctionVersion.identity, "on_error": ALWAYS}

    unchanged = False

    fn: Callable[..., T]
    _: KW_ONLY
    workers: int = 0
    executor: str | Executor = "thread"
    on_error: str = "raise"
    on_skip: OnSkip | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_call(self._calls)
        if self.on_skip is not None:
            check_callable("on_skip", self.on_skip)
            if not self.drops:
                raise InvalidArgument(
                    f"on_skip needs on_error='skip', got on_error={self.on_error!r}"
                )
        if self.workers and self.carries_state:
            raise InvalidArgument(
                f"workers must be 0 for a function that carries state, got {self.workers}"
            )

    @property
    def read(self) -> Stage[Any]:
        """The stage whose items `called` gets: upstream, or a stage that a subclass adds."""
        return self.upstream

    @property
    def called(self) -> Callable[[Any], T]:
        """The function called with each item of `read`: ``fn``, or a subclass's wrapper."""
        return self.fn

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        """Without an executor, and without ``on_skip``: it only receives reports."""
        found = dict(super().user_functions)
        for name in ("on_skip", "executor"):
            found.pop(name, None)
        return found

    @property
    def _calls(self) -> WorkerCall:
        return WorkerCall(self.called, self.drops, self.workers, self.executor, self.skip_listener)

    @property
    def version(self) -> int:  # type: ignore[override]
        """Version 2 added the number of items tried, for maps that may drop items."""
        return 2 if self.drops else 1

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        """Ranks stay in step unless items may be dropped: the state counts dropped items too."""
        return PARTS | RANK if self.drops else NOTHING

    def relation(self, epoch: int) -> Relation:
        if self.drops:
            return Held(self, epoch, items=endless(self), like=Same)
        return Same(
            self,
            epoch,
            make=each(self.called),
            input_at=lambda _: InputItems(self.read, epoch),
            in_order=self.carries_state,
        )

    @property
    def state_cost(self) -> SavedState:
        parts = ["the numbers of items tried and skipped"] if self.drops else []
        parts += ["the function's state"] if self.carries_state else []
        return super().state_cost._replace(text=" and ".join(parts) or "nothing")

    def start_calling(self, epoch: int) -> StageIterator[T]:
        if self.workers:
            return ParallelMapIterator(self, epoch, self._calls, self.read)
        if self.drops:
            return _DroppingMapIterator(self, epoch)
        return _MapIterator(self, epoch, self.read)


@dataclass(frozen=True, eq=False, repr=False)
class CallsPerItem(CallsInWorkers[T]):
    """A stage with one item for each of upstream's, unless items may be dropped."""

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        if not (inputs.paired or self.drops or self.carries_state or self._needs_pairs):
            return replace(self, upstream=inputs.alike[0], fn=unchanged)
        made = calling(self, MapsTraced, upstream=inputs.pairs[0], on_skip=None)
        return Each(made, made_with_state) if self.carries_state else made

    @property
    def _needs_pairs(self) -> bool:
        """Whether the shadow needs items too, for another reason than the checks above."""
        return False

    @property
    def alone(self) -> bool:  # type: ignore[override]
        """A map that may drop items counts all items tried."""
        return not self.drops


# When a worker dies for the second time during the same work, the work is tried item by item, with
# nothing else in progress. So the fatal item is found after about three starts of processes. An
# executor with replacement workers reports a death by a future that fails with `BrokenExecutor`, or
# with Dask's own error.
@final
@dataclass(frozen=True, eq=False, repr=False)
class Map(CallsPerItem[T]):
    """The result of ``fn`` for every item.

    A function may carry state (``get_state/set_state``, ``state_dict/load_state_dict`` or
    ``getstate/setstate``), saved and restored with the pipeline. The function then belongs to one
    running iterator at a time. Epoch 0 begins with the function in its state at the time the
    pipeline was built. Later epochs continue with the function's current state.

    State: upstream's and the function's. If items may be dropped, also the numbers of items tried
    and dropped. Random access is kept unless items may be dropped or the function carries state.

    Args:
      upstream: stage whose items are mapped.
      fn: called with an item; must return a new object each time, since several results may be
        waiting.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.
      workers: number of threads or processes for ``fn``, 0 for none. Results come in order. Random
        access ignores workers: ``pipeline[i]`` calls ``fn`` in the calling thread. Up to twice as
        many calls, or chunks of calls, run ahead of the last result handed out. May differ between
        save and resume, as may ``executor``.
      executor: where the workers run. ``"process"`` suits functions that compute in Python,
        including lambdas, and needs the extra ``parallel``. ``"thread"`` suits all other functions.
        A `concurrent.futures.Executor` works too, such as Dask's `client.get_executor()`; the
        executor is not shut down, and its workers must have this library. Processes and executors
        take items in chunks of about ten milliseconds, and of about 8 MB at most. Processes end
        with the epoch, or with the last epoch of a `repeat`. If ``fn`` refers to a `numpy.memmap`,
        processes map the file without a copy, and write to a file opened for writing. A file opened
        with mode ``"c"``, or renamed or replaced since, is copied.
      on_error: ``"raise"`` passes an exception of ``fn`` on, and the next call tries the same item
        again; ``"skip"`` drops and counts the item. The same items must then fail in every run:
        later stages that read items again on a resume, such as ``flat_map``, ``window``, ``pack``
        and ``shuffle(window=n)``, would otherwise lose or repeat items unnoticed.
      on_skip: with ``"skip"``, called as ``on_skip(number, error)`` for each item dropped, in order
        and by the thread that iterates the map; as ``on_skip(number, error, item)`` if the function
        has a third argument without a default. ``number`` counts from 0. It is the item's number in
        the source if the pipeline has one source, all stages before the map have random access, and
        none is a `prefetch`. Otherwise it is the number in upstream's epoch, counted on over
        resumes. Use ``item`` to identify the item in every case. ``error`` is the exception. An
        item drawn again after an error, an interrupt or a resume is reported again.

    When a worker process dies, new processes repeat the work, and the loop notices nothing. An item
    that ends every worker raises `WorkerError` with the number of the item; with ``"skip"`` the
    item is dropped. The same holds for an executor that replaces dead workers, as Dask and Ray do.
    If an executor stays broken, `WorkerError` names the first item not handed out.

    Raises:
      InvalidType: if ``fn`` or ``on_skip`` cannot be called, ``workers`` is not an integer, or
        ``executor`` is no executor.
      MissingDependency: for processes without the extra ``parallel``.
      WorkerError: while iterating, if an item ends the worker, or a passed executor is broken. The
        next call tries the same item again.
      InvalidArgument: if ``workers`` is below 0, or 0 with an executor of another library, if
        ``on_error`` is another word, if ``on_skip`` is given without ``"skip"``, if workers would
        call a function with state, or if processes would call an unpicklable function.

    >>> list(rs.range(3).map(lambda item: item * 10))
    [0, 10, 20]
    >>> list(rs.from_sequence("12x4").map(int, on_error="skip"))
    [1, 2, 4]
    """


class _MapIterator(OwnStateIterator[T]):
    _stage: CallsInWorkers[T]
    _items_held = 0  # also where it maps the groups of a stage that holds items

    def pull(self, count: int) -> Block:
        return map_items(self._stage.called, block_items(self._upstream.pull(count)), self)

    def blocks(self, size: int) -> Iterator[Block]:
        fn = self._stage.called
        for block in self._upstream.blocks(size):
            yield map_items(fn, block_items(block), self)

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        found = self._upstream.state_at(offset)
        return found and ({"upstream": found[0]}, found[1])

    def items(self) -> Items[T]:
        self.one_by_one = True
        return self._upstream.items().through(partial(map, self._stage.called))


class _DroppingMapIterator(TransformIterator[T], CountsSkipped[T]):
    """Drops an item if the function raises."""

    _stage: CallsInWorkers[T]
    _items_held = 0

    def __init__(self, stage: CallsInWorkers[T], epoch: int) -> None:
        super().__init__(stage, epoch, stage.read)
        self._tally = Tally(stage.skip_listener, by_index=stage.upstream.random_access)
        self._read = 0  # the number of the item that the next `pull` of upstream would return

    def pull(self, count: int) -> Block:
        self.one_by_one = False
        mapped: list[T] = []
        while missing := count - len(mapped):
            items = block_items(self._upstream.pull(missing))
            self._read = self._tally.number + len(items)
            mapped += self._kept(items)
            if len(items) < missing:
                break
        return mapped

    def items(self) -> Items[T]:
        self.one_by_one, self._read = True, 0
        return Items(self._kept(self._upstream.items()))

    def _kept(self, items: Iterable[Any]) -> Iterator[T]:
        fn, tally = self._stage.called, self._tally
        for item in items:
            try:
                result = fn(item)
            except Exception as error:
                tally.drop(error, self._origin_of_last, partial(_same, item))
            else:
                tally.pass_over(1)
                yield result

    def _origin_of_last(self) -> SourceItem | None:
        """The origin of the last counted item."""
        return self._upstream.origin(max(self._read - self._tally.number + 1, 1))

    def origin(self, back: int) -> SourceItem | None:
        found = self._upstream.origin(1) if self.one_by_one and back == 1 else None
        return found and found._replace(place=None)

    @property
    def number(self) -> int | None:
        """The next item's number in upstream's epoch, if known."""
        return self._tally.known_number

    @property
    def skipped(self) -> int:
        return self._tally.skipped

    def get_state(self) -> State:
        return self._tally.get_state(self._upstream.get_state())

    def set_state(self, state: State) -> None:
        self._tally.set_state(self._stage, state, self._upstream)


def _same(item: T) -> T:
    return item
