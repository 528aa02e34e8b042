"""Functions that carry state of their own: their state travels with the stage that calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import InvalidArgument, UnencodableState
from ..state.value import State, TakenState, freeze, settled, unpack
from .arguments import check_callable
from .block import Block
from .external import Protocol, protocol_of, taken_from
from .stage import Stage
from .stage_iterator import StageIterator

__all__ = ["check_stateless", "initial_state", "with_carried_state"]

T = TypeVar("T")


def initial_state(fn: Any) -> TakenState | None:
    """The state of ``fn`` now, if it carries one."""
    protocol = protocol_of(fn)
    return None if protocol is None else taken_from(fn, protocol)


def check_stateless(name: str, fn: Callable[..., Any]) -> None:
    """Refuse a function that carries state where a resume calls it again.

    Raises:
      InvalidArgument: if it carries state.
      InvalidType: if it cannot be called.
    """
    check_callable(name, fn)
    protocol = protocol_of(fn)
    if protocol is not None:
        raise InvalidArgument(
            f"{name} must not carry state of its own here, because a resume calls it again for "
            f"the item it was inside; got {fn!r} with {protocol}"
        )


def with_carried_state(
    stage: Stage[T], iterator: StageIterator[T], fn: Any, initial: TakenState | None, epoch: int
) -> StageIterator[T]:
    """``iterator``, with the state of ``fn`` added to its own if there is an ``initial`` one."""
    if initial is None:
        return iterator
    return _CarriedIterator(stage, iterator, fn, initial, epoch)


class _CarriedIterator(StageIterator[T]):
    """Another iterator, and the state of the function that it calls.

    A pass that begins at epoch 0 begins with the function as it was when the pipeline was built;
    later epochs go on with it.
    """

    def __init__(
        self, stage: Stage[T], inner: StageIterator[T], fn: Any, initial: TakenState, epoch: int
    ) -> None:
        self._stage = stage
        self._inner = inner
        self._fn = fn
        found = protocol_of(fn)
        assert found is not None
        self._protocol: Protocol = found
        # What the function is to be set to before the first item.
        self._pending: TakenState | None = initial if epoch == 0 else None

    def pull(self, count: int) -> Block:
        self.settle()
        return self._inner.pull(count)

    def settle(self) -> None:
        if self._pending is not None:
            if not isinstance(self._pending, Exception):
                self._protocol.write(self._fn, freeze(self._pending))
            self._pending = None
        self._inner.settle()

    def get_state(self) -> State:
        taken = self._pending
        if taken is None:
            taken = taken_from(self._fn, self._protocol)
        if isinstance(taken, UnencodableState):
            raise UnencodableState(f"{self._stage!r}: state of the function: {taken}")
        return {"function": settled(taken), "stage": self._inner.get_state()}

    def set_state(self, state: State) -> None:
        function, inner = unpack(self._stage, state, "function", "stage")
        self._inner.set_state(inner)
        self._pending = freeze(function)

    def close(self) -> None:
        self._inner.close()

    @property
    def epoch(self) -> int:
        return self._inner.epoch
