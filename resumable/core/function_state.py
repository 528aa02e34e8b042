"""Functions with state, saved by the stage that calls the function."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, TypeVar, final

from ..errors import InvalidArgument, UnencodableState
from ..state.value import State, TakenState, freeze, taken_state, unpack
from .arguments import check_callable
from .block import Block
from .foreign_protocol import Protocol, protocol_of, taken_from
from .graph import walk
from .reach import Reach
from .saved_state import SavedState
from .stage import Stage
from .stage_iterator import Items, StageIterator
from .transform import Transform

T = TypeVar("T")
S = TypeVar("S", bound="CallsFunction[Any]")

FUNCTION, STAGE = "function", "stage"


class _Taken(NamedTuple):
    """The state of a function, which may be None."""

    state: TakenState


@dataclass(frozen=True, eq=False, repr=False)
class CallsFunction(Transform[T]):
    """A stage with one upstream that calls a function, and saves the state of the function, if any.

    A subclass has the function as a field, and implements `start_calling`.
    """

    calls: ClassVar[str] = "fn"
    """The name of the field with the function."""

    # The state of the function when the pipeline was built, if the function carries state.
    first_state: _Taken | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        (default,) = [one.default for one in fields(self) if one.name == self.calls]
        if self.function is not default:
            check_callable(self.calls, self.function)
        protocol = _protocol_of_function(self.function)
        if protocol is not None:
            taken = _Taken(taken_from(self.function, protocol))
            object.__setattr__(self, "first_state", taken)

    @property
    def function(self) -> Any:
        """The function called by the stage."""
        return getattr(self, self.calls)

    @abstractmethod
    def start_calling(self, epoch: int) -> StageIterator[T]:
        """The iterator for a function without state."""

    def start(self, epoch: int = 0) -> StageIterator[T]:
        iterator = self.start_calling(epoch)
        return _FunctionStateIterator(self, iterator, epoch) if self.carries_state else iterator

    @property
    def carries_state(self) -> bool:
        """Whether the function's own state is saved."""
        return self.first_state is not None

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        found = dict(super().user_functions)
        if self.carries_state:
            del found[self.calls]
        return found

    @property
    def state_cost(self) -> SavedState:
        return (
            SavedState("the function's state", 2) if self.carries_state else SavedState("nothing")
        )


def check_stateless(name: str, fn: Callable[..., Any]) -> None:
    """Refuse a function that carries state, for a stage that calls the function again on a resume.

    Raises:
      InvalidArgument: if ``fn`` carries state.
      InvalidType: if ``fn`` cannot be called.
    """
    check_callable(name, fn)
    protocol = _protocol_of_function(fn)
    if protocol is not None:
        raise InvalidArgument(
            f"{name} must not carry state of its own here, because a resume between the items it "
            f"returned calls it again; got {fn!r} with {protocol}"
        )


def _protocol_of_function(fn: Any) -> Protocol | None:
    """How to save the state of ``fn``; None without state.

    Every ``torch.nn.Module`` has a `state_dict`. Without parameters and buffers, as in most
    transforms of images, the `state_dict` is an empty `OrderedDict`, and stays empty.
    """
    protocol = protocol_of(fn)
    if protocol is not None and protocol.get == "state_dict":
        with suppress(Exception):
            state = protocol.read(fn)
            if type(state) is OrderedDict and not state:
                return None
    return protocol


def restore_functions(iterator: StageIterator[Any]) -> None:
    """If ``iterator`` has made no item, reset its functions to the start of the epoch."""
    # Costs less than `isinstance`, and an epoch may be short.
    if type(iterator) is _FunctionStateIterator:
        iterator.restore_function()
    for upstream in iterator.inputs:
        restore_functions(upstream)


def calling_with_state(stage: Stage[Any]) -> Iterator[CallsFunction[Any]]:
    """The stages of a pipeline that call a function with state."""
    for found, _ in walk(stage):
        if isinstance(found, CallsFunction) and found.carries_state:
            yield found


def with_function(stage: S, function: Any, **changes: Any) -> S:
    """``stage`` with ``function``, the first state of the former function, and ``changes``."""
    made = replace(stage, **{stage.calls: function, **changes})
    object.__setattr__(made, "first_state", stage.first_state)
    return made


@contextmanager
def functions_kept(stage: Stage[Any]) -> Iterator[None]:
    """On exit, reset the functions of ``stage`` to earlier states, where states can be taken."""
    kept = list[tuple[Any, Protocol, State]]()
    for found in calling_with_state(stage):
        protocol = protocol_of(found.function)
        assert protocol is not None
        taken = taken_from(found.function, protocol)
        if not isinstance(taken, Exception):
            kept.append((found.function, protocol, taken))
    try:
        yield
    finally:
        for function, protocol, state in kept:
            protocol.write(function, state)


def split_carried(saved: State) -> tuple[State, Any]:
    """Split a stage's state into the function's part, a dict, and the rest."""
    if saved.keys() == {FUNCTION, STAGE}:
        return {FUNCTION: saved[FUNCTION]}, saved[STAGE]
    return {}, saved


@final
class _FunctionStateIterator(StageIterator[T]):
    """Wraps another iterator and saves the state of the function called by that iterator.

    Epoch 0 starts with the state of the function when the pipeline was built. In later epochs the
    function continues with its current state.
    """

    _stage: CallsFunction[T]

    def __init__(self, stage: CallsFunction[T], inner: StageIterator[T], epoch: int) -> None:
        self._stage = stage
        self._inner = inner
        self._function = stage.function
        found = protocol_of(self._function)
        assert found is not None
        self._protocol: Protocol = found
        # The state to set before the first item.
        self._pending: _Taken | None = stage.first_state if epoch == 0 else None

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._inner,)

    @property
    def _items_delivered(self) -> int | None:
        return self._inner._items_delivered

    def _reached(self) -> Iterator[Reach]:
        return self._inner._reached()

    def pull(self, count: int) -> Block:
        self.restore_function()
        return self._inner.pull(count)

    def items(self) -> Items[T]:
        self.restore_function()
        return self._inner.items()

    def restore_function(self) -> None:
        """Set the function to its state at the start of this epoch, once."""
        if self._pending is not None:
            if not isinstance(self._pending.state, Exception):
                self._protocol.write(self._function, freeze(self._pending.state))
            self._pending = None

    def get_state(self) -> State:
        if self._pending is None:
            taken = taken_from(self._function, self._protocol)
        else:
            taken = self._pending.state
        if isinstance(taken, UnencodableState):
            raise UnencodableState(f"{self._stage!r}: state of the function: {taken}")
        return {FUNCTION: taken_state(taken), STAGE: self._inner.get_state()}

    def set_state(self, state: State) -> None:
        function, inner = unpack(self._stage, state, FUNCTION, STAGE)
        self._inner.set_state(inner)
        self._pending = _Taken(freeze(function))
