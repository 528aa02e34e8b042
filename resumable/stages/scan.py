"""Map items with a value that is carried from item to item."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    Block,
    CallsFunction,
    Held,
    IdentityField,
    IdentityFields,
    Items,
    Relation,
    Same,
    SavedState,
    Stage,
    StageIterator,
    TransformIterator,
    block_items,
)
from ..core.callables import StandIn
from ..core.expansion import close_expansion
from ..core.function_state import check_stateless
from ..core.function_version import FunctionVersion
from ..core.origin import UnknownOrigin
from ..core.replay_point import skip_outputs
from ..core.stage import InputShadows
from ..errors import InvalidType, UnencodableState, shorten
from ..shadows.traced import ScansTraced, Traced, calling
from ..state.encoding import dumps
from ..state.value import (
    State,
    TakenState,
    freeze,
    take_state,
    taken_state,
    unpack,
    unpack_count,
    unpack_flag,
)

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scan(FunctionVersion[T], CallsFunction[T]):
    """The outputs of ``carry, output = fn(carry, item)``, with the carry handed on.

    The carry begins as a copy of ``initial`` in every epoch, as in `tf.data.Dataset.scan`.
    ``finish`` delivers the content of an epoch's last carry, such as the rest in a packer.

    State: upstream's, that of ``fn``, and a copy of the carry, which must be encodable as state.
    With ``finish``, also whether upstream has ended, and an offset. A resume among the items of
    ``finish`` calls ``finish`` again and skips the items already handed out.

    Args:
      upstream: stage whose items are scanned.
      fn: called with the carry and an item; returns the next carry and an output.
      initial: the first carry.
      finish: called with the last carry after the last item of each epoch; returns an iterable of
        further outputs, the same in every run. With ``finish`` the length is unknown.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      UnencodableState: if ``initial`` cannot be saved; by `get_state`, if the current carry
        cannot.
      InvalidType: if ``fn`` or ``finish`` cannot be called; while iterating, if ``fn`` returns no
        pair, or ``finish`` no iterable.
      InvalidArgument: if ``finish`` carries state.

    >>> list(rs.range(5).scan(lambda total, item: (total + item, total + item), 0))
    [0, 1, 3, 6, 10]
    """

    identity: ClassVar[IdentityFields] = {
        **FunctionVersion.identity,
        "initial_digest": IdentityField(ALWAYS, shown_as="digest of initial"),
        "finishes": IdentityField(ALWAYS, shown_as="a finish"),
    }

    fn: Callable[[Any, Any], tuple[Any, T]]
    _: KW_ONLY
    initial: Any
    finish: Callable[[Any], Iterable[T]] | None = None
    finishes: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "initial", freeze(self.initial, "initial"))
        if self.finish is not None:
            check_stateless("finish", self.finish)
            object.__setattr__(self, "finishes", True)

    @property
    def state_cost(self) -> SavedState:
        own = "the carry" if self.finish is None else "the carry, and an offset after the end"
        return super().state_cost._replace(text=own)

    @property
    def initial_digest(self) -> str:
        """A digest of ``initial``, for the fingerprint."""
        return hashlib.blake2b(dumps({"initial": self.initial}), digest_size=6).hexdigest()

    def relation(self, epoch: int) -> Relation:
        if self.finish is not None:
            return Held(self, epoch)
        return Held(self, epoch, items=self.upstream.length, like=Same)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        finish = None if self.finish is None else _FinishTraced(self.finish)
        return calling(self, ScansTraced, upstream=inputs.pairs[0], finish=finish)

    def start_calling(self, epoch: int) -> StageIterator[T]:
        if self.finish is None:
            return _ScanIterator(self, epoch)
        return _FinishingScanIterator(self, epoch, self.finish)


class _ScanIterator(TransformIterator[T]):
    _stage: Scan[T]

    def __init__(self, stage: Scan[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._carry = freeze(stage.initial)

    def pull(self, count: int) -> Block:
        fn, carry = self._stage.fn, self._carry
        outputs: list[T] = []
        for item in block_items(self._upstream.pull(count)):
            made = fn(carry, item)
            if type(made) is not tuple or len(made) != 2:
                _check_pair(made)
            carry, output = made
            outputs.append(output)
        self._carry = carry
        return outputs

    def items(self) -> Items[T]:
        return Items(self._outputs(self._upstream.items()))

    def _outputs(self, items: Iterable[Any]) -> Iterator[T]:
        fn = self._stage.fn
        for item in items:
            made = fn(self._carry, item)
            if type(made) is not tuple or len(made) != 2:
                _check_pair(made)
            self._carry, output = made
            yield output

    def get_state(self) -> State:
        return {"carry": self._saved_carry(), "upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        carry, upstream = unpack(self._stage, state, "carry", "upstream")
        self._carry = freeze(carry)
        self._upstream.set_state(upstream)

    def _saved_carry(self) -> Any:
        try:
            return freeze(self._carry, "carry")
        except UnencodableState as error:
            raise UnencodableState(f"{self._stage!r}: {error}") from None


@final
class _FinishTraced(StandIn[Callable[[Any], Iterable[Any]]]):
    """Calls the function that delivers the content of the last carry."""

    def __call__(self, carry: Any) -> Iterator[Traced[Any]]:
        for item in self.fn(carry):
            yield Traced(item, UnknownOrigin("what the last carry of a scan was made of"))


def _check_pair(made: Any) -> None:
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise InvalidType(
            "the function of Scan must return a pair of the next carry and an output, "
            f"got {shorten(made)}"
        )


class _FinishingScanIterator(_ScanIterator[T]):
    """Continues after upstream's end with the items of ``finish``."""

    def __init__(self, stage: Scan[T], epoch: int, finish: Callable[[Any], Iterable[T]]) -> None:
        super().__init__(stage, epoch)
        self._finish = finish
        self._ended = False  # upstream has no further item
        # Items of `_rest` that were handed out; while `_rest` is None, items to skip.
        self._offset = 0
        self._rest: Iterator[T] | None = None
        # The last carry, taken before `finish` got it and could change it.
        self._last: TakenState | None = None

    def pull(self, count: int) -> Block:
        outputs: list[T] = [] if self._ended else block_items(super().pull(count))
        if len(outputs) < count:
            outputs += islice(self._further(), count - len(outputs))
        return outputs

    def items(self) -> Items[T]:
        outputs = iter(()) if self._ended else iter(super().items())
        return Items(chain(outputs, self._further()))

    def _further(self) -> Iterator[T]:
        """The items of ``finish``, from the offset on."""
        self._ended = True
        if self._rest is None:
            self._last = take_state(lambda: {"carry": self._saved_carry()})
            self._rest = self._opened()
        for item in self._rest:
            self._offset += 1
            yield item

    def _opened(self) -> Iterator[T]:
        made = self._finish(self._carry)
        try:
            rest = iter(made)
        except TypeError:
            raise InvalidType(
                f"finish of Scan must return an iterable, got {shorten(made)}"
            ) from None
        outputs = "items that finish gives; does it return the same items in every run?"
        skip_outputs(rest, self._offset, outputs, self._stage)
        return rest

    def close(self) -> None:
        if self._rest is not None:
            close_expansion(self._rest)
        super().close()

    def get_state(self) -> State:
        carry = self._saved_carry() if self._last is None else taken_state(self._last)["carry"]
        return {
            "carry": carry,
            "ended": self._ended,
            "offset": self._offset,
            "upstream": self._upstream.get_state(),
        }

    def set_state(self, state: State) -> None:
        carry, ended, offset, upstream = unpack(
            self._stage, state, "carry", "ended", "offset", "upstream"
        )
        self._ended = unpack_flag(self._stage, "ended", ended)
        most = None if ended else 0
        self._offset = unpack_count(self._stage, "offset", offset, most, "an end not yet reached")
        super().set_state({"carry": carry, "upstream": upstream})
