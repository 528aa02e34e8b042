"""Map with a carried value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar, final

from ..core.block import Block, block_items
from ..core.carried import CallsFunction
from ..core.stage import ALWAYS, Reliance
from ..core.stage_iterator import StageIterator
from ..core.transform import IndexedTransform, TransformIterator
from ..errors import UnencodableState
from ..state.encoding import dumps
from ..state.value import State, freeze, unpack

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Scan(CallsFunction[T], IndexedTransform[T]):
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

    identity: ClassVar[Mapping[str, Reliance]] = {"initial_digest": ALWAYS}
    state_cost = "the carry"

    fn: Callable[[Any, Any], tuple[Any, T]]
    _: KW_ONLY
    initial: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "initial", freeze(self.initial, "initial"))

    @property
    def initial_digest(self) -> str:
        """What identifies ``initial``."""
        return hashlib.blake2b(dumps({"initial": self.initial}), digest_size=6).hexdigest()

    def start_calling(self, epoch: int) -> StageIterator[T]:
        return _ScanIterator(self, epoch)


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
