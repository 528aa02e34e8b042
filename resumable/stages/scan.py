"""Map with a carried value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, TypeVar, final

from ..core.arguments import check_callable
from ..core.block import Block, block_items
from ..core.carried import initial_state, with_carried_state
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform, TransformIterator
from ..errors import UnencodableState
from ..state.encoding import dumps
from ..state.value import State, TakenState, freeze, unpack

__all__ = ["Scan"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scan(Transform[T]):
    """The outputs of ``carry, output = fn(carry, item)``, with the carry handed on.

    The carry begins as a copy of ``initial`` in every epoch, as in `tf.data.Dataset.scan`.

    State: upstream's and a copy of the carry, which must be encodable as state.

    Args:
      upstream: stage whose items are scanned.
      fn: called with the carry and an item; returns the next carry and an output.
      initial: the first carry.

    Raises:
      UnencodableState: if ``initial`` cannot be saved; later, by `get_state`, if a carry
        cannot.
    """

    identity: ClassVar[tuple[str, ...]] = ("initial_digest",)

    fn: Callable[[Any, Any], tuple[Any, T]]
    _: KW_ONLY
    initial: Any
    # The state of a function that carries one, as it was when the pipeline was built.
    function: TakenState | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_callable("fn", self.fn)
        object.__setattr__(self, "function", initial_state(self.fn))
        object.__setattr__(self, "initial", freeze(self.initial, "initial"))

    @property
    def length(self) -> int | float | None:
        return self.upstream.length

    @property
    def initial_digest(self) -> str:
        """What identifies ``initial``."""
        return hashlib.blake2b(dumps({"initial": self.initial}), digest_size=6).hexdigest()

    @property
    def carries_state(self) -> bool:
        return self.function is not None

    @property
    def state_cost(self) -> str:
        return "the carry"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        iterator = _ScanIterator(self, epoch)
        return with_carried_state(self, iterator, self.fn, self.function, epoch)


class _ScanIterator(TransformIterator[T]):
    _stage: Scan[T]

    def __init__(self, stage: Scan[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._carry = freeze(stage.initial)

    def pull(self, count: int) -> Block:
        outputs: list[T] = []
        for item in block_items(self._upstream.pull(count)):
            self._carry, output = self._stage.fn(self._carry, item)
            outputs.append(output)
        return outputs

    def get_state(self) -> State:
        try:
            return {"carry": freeze(self._carry, "carry"), "upstream": self._upstream.get_state()}
        except UnencodableState as error:
            raise UnencodableState(f"{self._stage!r}: {error}") from None

    def set_state(self, state: State) -> None:
        carry, upstream = unpack(self._stage, state, "carry", "upstream")
        self._carry = freeze(carry)
        self._upstream.set_state(upstream)
