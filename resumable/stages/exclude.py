"""Leave out records of the source, from some item on."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast, final

import numpy as np

from ..core import (
    ALWAYS,
    NOTHING,
    Block,
    Flow,
    IdentityField,
    IdentityFields,
    Indexed,
    IndexedIterator,
    Indices,
    Items,
    Length,
    LookedUp,
    Origin,
    PassThroughIterator,
    Reliance,
    Stage,
    StageIterator,
    Transform,
    blocks_of,
    check_int,
    derived,
    known_length,
)
from ..core.lookup import looks_up
from ..core.reliance import SO_FAR
from ..core.stage import MOST_ITEMS
from ..core.timeline import UNBOUNDED, ByPosition, Timeline
from ..errors import InvalidArgument, InvalidType, shorten
from ..order.remaining import KEPT_EPOCHS, ChangingRemaining, Remaining
from ..state.value import State, unpack, unpack_count, unpack_position
from .repeat import Repeat

T = TypeVar("T")

Records: TypeAlias = "Iterable[int] | Mapping[int, Iterable[int]]"

MOST_SHOWN: Final = 32
"""So many numbers stand in the fingerprint as they are; of more, it has the digest."""
NONE: Final[Indices] = np.empty(0, np.int64)
NOTHING_LEFT_OUT: Final[Timeline] = ((0, ()),)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Exclude(LookedUp[T], Transform[T]):
    """All items but those made of some records of the source.

    The order of the rest is as it was. It may stand where every record comes once in each epoch:
    behind the source, its `shuffle`, of the whole epoch or of blocks, and what makes one item of each.
    Behind `repeat` the records are left out in all epochs.

    State: O(1), the position. Random access is kept. Opening an epoch with k left-out records takes
    O(k log k), and reads nothing: where a record comes follows from the inverse of the permutation.

    Args:
      upstream: stage with random access, or the `repeat` of one.
      records: numbers of records of the source, from 0, or a dict such as
        ``{0: [], 41_000: [12, 977]}``, which gives those that are left out from each item of this
        stage on. At a resume it must say the same of the items that were read; the error for another
        one says what to write.

    Raises:
      InvalidArgument: if a record is not among those of the source, if all are left out, or if
        ``upstream`` has items of which the record is not known, or some records only.
      InvalidType: if ``records`` are not integers.

    >>> list(rs.range(6).exclude([1, 4]))
    [0, 2, 3, 5]
    >>> list(rs.range(6).repeat(2).exclude({0: [], 7: [1]}))
    [0, 1, 2, 3, 4, 5, 0, 2, 3, 4, 5]
    """

    flow = Flow.SUBSET
    identity: ClassVar[IdentityFields] = {
        "changes": IdentityField(ALWAYS | SO_FAR, shown_as="records")
    }
    relies_on: ClassVar[Reliance] = NOTHING  # the number of items of an epoch is fixed
    state_cost = "the position"
    _may_begin = True

    records: Records
    # From which item on which records are left out: `known_as` of them.
    changes: Timeline = field(init=False, repr=False, default=())
    # Whether upstream is looked up by index even if nothing is left out.
    looks_up: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        records = _records_by_item(self.records)
        object.__setattr__(self, "records", records)
        changes = tuple((first, _known_as(each)) for first, each in records.items())
        object.__setattr__(self, "changes", changes if changes != NOTHING_LEFT_OUT else ())
        inner = self._epochs_of
        if (
            not self.upstream.random_access
            or inner.length == math.inf
            or _places(inner, 0, NONE) is None
        ):
            raise InvalidArgument(
                "exclude needs items by their index, each made of one record of the source, and every "
                f"record once in each epoch, got {self.upstream!r}; put it after the source or its "
                "shuffle, and before stages that drop, add or join items"
            )
        count = len(inner)
        for left_out in records.values():
            if len(left_out) and int(left_out[-1]) >= count:
                raise InvalidArgument(
                    f"records must be less than the number of those of the source, {count}, got "
                    f"{int(left_out[-1])}"
                )
            if count and len(left_out) == count:
                raise InvalidArgument(
                    f"records must leave some of the source, got all {count} of them"
                )

    @property
    def _by_item(self) -> Mapping[int, Indices]:
        """The records that are left out, ascending, from each item at which they change."""
        return cast("Mapping[int, Indices]", self.records)

    @property
    def _repeat(self) -> Repeat[Any] | None:
        """The repeat whose epochs upstream has, if what follows it makes one item of each."""
        stage: Stage[Any] = self.upstream
        while stage.flow.one_for_each and len(stage.inputs) == 1:
            (stage,) = stage.inputs
        return stage if isinstance(stage, Repeat) else None

    @property
    def _epochs_of(self) -> Stage[Any]:
        """The stage each epoch of which has every record once."""
        repeat = self._repeat
        return self.upstream if repeat is None else repeat.upstream

    @property
    def _first_epoch_only(self) -> str | None:
        if set(self._by_item) == {0}:
            return None
        return (
            "exclude counts the items of one epoch where other records are left out from some item on, "
            "so it must stand behind repeat"
        )

    @derived
    def length(self) -> Length:
        return self._remaining_in(0).length

    def start(self, epoch: int = 0) -> StageIterator[T]:
        by_index = self.changes or self.looks_up
        return _ExcludeIterator(self, epoch) if by_index else _NothingLeftOut(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream = self.upstream.indexed(epoch)
        return upstream and Indexed.reordered(
            upstream, lambda indices: self._remaining_in(epoch).indices_of(indices)
        )

    @derived
    def _remaining_in(self) -> Callable[[int], ChangingRemaining]:
        """What remains of upstream's items in an epoch; kept for the last epochs."""
        return lru_cache(KEPT_EPOCHS)(self._computed_in)

    def _computed_in(self, epoch: int) -> ChangingRemaining:
        # Only when an item is asked for: who has come to the end may have begun another epoch.
        if epoch and self._first_epoch_only:
            raise InvalidArgument(f"{self._first_epoch_only}, got epoch {epoch}")
        inner, repeat = self._epochs_of, self._repeat
        number = epoch.__add__ if repeat is None else partial(repeat.epoch_of, epoch)
        length = len(inner)
        remaining = [
            Remaining(length, len(left_out), partial(_places_in, inner, number, left_out))
            for left_out in self._by_item.values()
        ]
        return ChangingRemaining(known_length(self.upstream), list(self._by_item), remaining)

    def _inputs_reached(self, count: float) -> Sequence[float]:
        if count in (0, UNBOUNDED):
            return [count]
        remaining = self._remaining_in(0)
        return [
            remaining.index_of(int(min(count, remaining.length)) - 1)
            + 1
            + (count > remaining.length)
        ]

    @classmethod
    def _argument_by_position(cls, fields: Mapping[str, Any], inputs: int) -> ByPosition:
        return ByPosition("records", _timeline_of, _shown)

    def _with_timeline(self, timeline: Timeline) -> Exclude[T]:
        own = {value: self._by_item[first] for first, value in self.changes}
        # Of many records that are not ours only the digest is known. They come later than what was read,
        # or the timelines do not agree.
        known = {
            first: own.get(value, NONE if _is_digest(value) else value) for first, value in timeline
        }
        return replace(self, records=known, looks_up=True)


def read_exclusions(path: str | Path) -> dict[int, list[int]]:
    """The records to `exclude`, from a JSON file.

    Args:
      path: of a file with a list of numbers, or with an object such as ``{"0": [], "41000": [12, 977]}``.

    Raises:
      InvalidArgument: if it holds neither, naming the file.
      OSError: if it cannot be read.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bad.json")
    ...     _ = path.write_text('{"0": [], "3": [4, 8]}')
    ...     rs.read_exclusions(path)
    {0: [], 3: [4, 8]}
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        by_item = found if isinstance(found, dict) else {0: found}
        return {int(first): [operator.index(each) for each in by_item[first]] for first in by_item}
    except (ValueError, TypeError) as error:
        raise InvalidArgument(
            f"{path} must hold a JSON list of numbers, or an object of such lists, got {error}"
        ) from error


class _NothingLeftOut(PassThroughIterator[T]):
    """Motion of upstream, so that records can be left out of a run that was begun without this stage."""

    def __init__(self, stage: Exclude[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._start_epoch = epoch

    def pull(self, count: int) -> Block:
        return self._upstream.pull(count)

    def items(self) -> Items[T]:
        return self._upstream.items()

    def blocks(self, size: int) -> Iterator[Block]:
        return blocks_of(self._upstream, size)

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    def origin(self, back: int) -> Origin | None:
        return self._upstream.origin(back)

    def set_state(self, state: State) -> None:
        upstream = self._stage.upstream
        if looks_up(upstream) or not isinstance(state, dict) or state.keys() != {"position"}:
            self._upstream.set_state(state)
            return
        # It was saved where something was to be left out later.
        position = unpack_position(self._stage, state["position"], upstream.length)
        self._upstream = upstream.start(self._start_epoch)
        self._upstream.skip(position)


class _ExcludeIterator(IndexedIterator[T]):
    _stage: Exclude[T]

    def set_state(self, state: State) -> None:
        super().set_state({"position": _position_of(self._stage.upstream, state)})


def _position_of(stage: Stage[Any], state: Any) -> int:
    """The position in ``state``, which may be one of ``stage``, from before something was left out."""
    if isinstance(stage, Repeat) and isinstance(state, dict) and "pass" in state:
        number, _, upstream = unpack(stage, state, "pass", "delivered", "upstream")
        finished = unpack_count(stage, "pass", number)
        return finished * len(stage.upstream) + _position_of(stage.upstream, upstream)
    if isinstance(state, dict) and set(state) == {"upstream"} and isinstance(stage, Transform):
        return _position_of(stage.upstream, state["upstream"])
    (position,) = unpack(stage, state, "position")
    return unpack_count(stage, "position", position)


def _places(stage: Stage[Any], epoch: int, records: Indices) -> Indices | None:
    """Where ``records`` of the source come in an epoch of ``stage``; None if that is not known."""
    if not stage.inputs:
        return records
    if len(stage.inputs) > 1:
        return None
    before = _places(stage.inputs[0], epoch, records)
    return None if before is None else stage._places(epoch, before)


def _places_in(stage: Stage[Any], number: Any, records: Indices, epoch: int) -> Indices:
    places = _places(stage, number(epoch), records)
    assert places is not None
    return places


def _records_by_item(records: Any) -> dict[int, Indices]:
    """The records that are left out, each a sorted array, from each item at which they change."""
    if not isinstance(records, Mapping):
        records = {0: records}
    by_item = {
        check_int("keys of records", first, minimum=0, maximum=MOST_ITEMS): _numbers(each)
        for first, each in records.items()
    }
    found = {0: by_item.get(0, NONE)}
    for first in sorted(by_item):
        if not np.array_equal(by_item[first], found[max(found)]):
            found[first] = by_item[first]
    return found


def _numbers(records: Any) -> Indices:
    if isinstance(records, (str, bytes)) or not isinstance(records, Iterable):
        raise InvalidType(f"records must be several integers, got {shorten(records)}")
    if isinstance(records, np.ndarray) and records.dtype.kind in "iu":
        given = records.astype(np.int64).ravel()
    else:
        given = np.array([check_int("records", each, minimum=0) for each in records], np.int64)
    if len(given) and int(given.min()) < 0:
        raise InvalidArgument(f"records must be at least 0, got {int(given.min())}")
    return np.unique(given)


def _known_as(records: Indices) -> tuple[Any, ...]:
    """What the fingerprint says of ``records``: the numbers, or of many how many and their digest."""
    if len(records) <= MOST_SHOWN:
        return tuple(records.tolist())
    return f"{len(records)} records", hashlib.sha256(records.astype("<i8").tobytes()).hexdigest()


def _shown(value: tuple[Any, ...]) -> str:
    return f"<{value[0]}>" if _is_digest(value) else str(list(value))


def _is_digest(value: tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], str)


def _timeline_of(fields: Mapping[str, Any]) -> Timeline | None:
    changes = fields.get("changes", ())
    try:
        pairs = [(check_int("changes", first), value) for first, value in changes]
    except (TypeError, ValueError):
        return None
    firsts = [first for first, _ in pairs]
    if firsts != sorted(set(firsts)) or firsts[:1] not in ([0], []):
        return None
    if not all(_is_known_as(value) for _, value in pairs):
        return None
    return tuple((first, tuple(value)) for first, value in pairs) or NOTHING_LEFT_OUT


def _is_known_as(value: Any) -> bool:
    """Whether ``value``, from a state, may be something that `_known_as` has returned."""
    if not isinstance(value, (list, tuple)):
        return False
    if all(type(one) is str for one in value):
        return len(value) in (0, 2)
    are_numbers = all(type(one) is int and one >= 0 for one in value)
    return are_numbers and list(value) == sorted(set(value))
