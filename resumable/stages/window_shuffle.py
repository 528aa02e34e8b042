"""Shuffle a stream through a window whose state is O(1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    ITEMS,
    NOTHING,
    PARTS,
    RANK,
    SEED,
    Dependence,
    Held,
    IdentityFields,
    Permuted,
    Relation,
    SavedState,
    StageIterator,
    Transform,
    check_int,
    check_seed,
)
from ..core.arguments import check_bool, check_field
from ..windows.carrying import CarryingIterator
from ..windows.snapshots import SnapshotIterator

T = TypeVar("T")

LARGEST_WINDOW = 2**31


@final
@dataclass(frozen=True, eq=False, repr=False)
class WindowShuffle(Transform[T]):
    """The items in an order drawn from (``seed``, epoch) within a moving window.

    An item leaves the window after at most ``8 * window`` steps.

    State: O(1), the position and one snapshot of upstream's state. A resume goes over at most ``9 *
    window + 256`` items of upstream again. Where upstream has random access, or passes over items
    without making them, a resume makes only items that are still in the window, and calls functions
    at most ``1.1 * window`` times.

    With ``carry`` the state holds the items in the window instead, and a resume reads nothing
    again. Taking a state then costs O(window). A `prefetch` takes a state for every item, so put a
    `batch` before the prefetch.

    Args:
      upstream: any stage.
      seed: in [0, 2**64).
      window: number of items held back, from 1 to 2**31.
      carry: put the items in the state, for a source too slow to read ``9 * window + 256`` items
        again, or functions too slow for ``1.1 * window`` calls.

    Raises:
      UnencodableState: by `get_state` under ``carry``, if an item cannot be saved.
      InvalidArgument: if ``seed`` or ``window`` is out of range.
      InvalidType: if an argument has the wrong type.

    >>> stream = rs.from_iterable(lambda: iter(range(5)))
    >>> sorted(stream.shuffle(seed=0, window=3))
    [0, 1, 2, 3, 4]
    """

    unchanged = True
    identity: ClassVar[IdentityFields] = {"seed": SEED, "window": ALWAYS, "carry": ALWAYS}

    seed: int
    _: KW_ONLY
    window: int
    carry: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "seed", check_seed)
        check_field(self, "window", check_int, minimum=1, maximum=LARGEST_WINDOW)
        check_bool("carry", self.carry)

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        """Ranks are at the same position in their items, unless the state holds items."""
        return ITEMS | PARTS | (RANK if self.carry else NOTHING)

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch, items=self.upstream.length, like=Permuted)

    @property
    def state_cost(self) -> SavedState:
        if self.carry:
            return SavedState(f"the position and up to {self.window} items", resumes_before=True)
        again = 9 * self.window + 256
        return SavedState(
            f"the position; a resume reads at most {again} items again", resumes_before=True
        )

    def start(self, epoch: int = 0) -> StageIterator[T]:
        kind = CarryingIterator if self.carry else SnapshotIterator
        return kind(self, epoch, self.seed, self.window)
