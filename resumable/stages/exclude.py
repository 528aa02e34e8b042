"""Leave out records of the source, from a given item on."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast, final

from ..core import (
    ALWAYS,
    NOTHING,
    Dependence,
    IdentityField,
    IdentityFields,
    IndexedIterator,
    Kept,
    LookedUp,
    Relation,
    Repeated,
    Stage,
    StageIterator,
    Transform,
    check_int,
    computed_once,
)
from ..core.epochs import in_epoch
from ..core.exclusion import left_out_of, stream_without
from ..core.graph import walk
from ..core.identity import OVER_EPOCHS, SO_FAR
from ..core.left_out import KEPT_EPOCHS, LeftOut
from ..core.lookup import looks_up
from ..core.orders import MOST_ITEMS
from ..core.reach import Reach
from ..core.records import (
    RecordNumbers,
    Records,
    read_known_as,
    records_known_as,
    shown_records,
)
from ..core.relation import kind_of
from ..core.run_changes import RunChanges
from ..core.stage import known_length
from ..core.timeline import UNBOUNDED, ByPosition, Timeline
from ..core.transform import ForwardingIterator
from ..errors import InvalidArgument, InvalidType, StateMismatch
from ..order.remaining import Remaining
from ..state.value import State, unpack_position
from .mix import Mix
from .part import over_all_parts

T = TypeVar("T")

RecordsByItem: TypeAlias = "RecordNumbers | Mapping[int, RecordNumbers]"

NOTHING_LEFT_OUT: Final[Timeline] = ((0, ()),)


class _ExcludeChanges(RunChanges):
    def saved_argument(self, fields: Mapping[str, Any], inputs: int) -> ByPosition:
        return RECORDS

    def argument(self, stage: Any) -> ByPosition:
        first = first_record(stage.upstream).known_as
        return replace(RECORDS, another=lambda left_out: () if left_out else first)

    def with_timeline(self, stage: Any, timeline: Timeline) -> Any:
        example = first_record(stage.upstream)
        own = {example.known_as: example}
        own |= {value: stage.by_item[first] for first, value in stage.changes}
        # Of many records from another run only the digest is known. They come later than the items
        # read, or the timelines do not agree.
        known = {first: own.get(value, records_known_as(value)) for first, value in timeline}
        if stage.by_item[0].may_lack:
            known = {first: each.lenient for first, each in known.items()}
        return replace(stage, records=known, looks_up=True)


RECORDS_MAY_CHANGE: Final = _ExcludeChanges(
    may_begin=True,
    if_removed="was exclude removed? Keep it, and let it leave out nothing from some item on",
)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Exclude(LookedUp[T], Transform[T]):
    """The items that are not made of given records of the source.

    The remaining items keep their order. This stage may stand where each item is made of one
    record: after a source, a `mix`, `concatenate` or `zip` of sources, a `shuffle` of the whole
    epoch or of blocks, and stages that make one item of each. After `repeat` the records are left
    out of all epochs. After `by_epoch` the records are left out of each pipeline with such records.

    The stage may also stand over a stream: `from_iterable`, compressed files, and remote files
    without an index. Over a stream, only `prefetch`, and maps that drop nothing and carry no state,
    may stand between the source and this stage. Maps are not called for left-out records. The
    number of records is known only at the end, so numbers beyond the end are ignored. The records
    of `from_iterable` are its items. A damaged compressed file still raises, whatever is left out.

    State: O(1), the position; over a stream, upstream's state. Random access is kept. Opening an
    epoch with k left-out records takes O(k log k) and reads nothing: the inverse of the permutation
    gives the index of a record.

    Args:
      upstream: stage with random access, or a stream.
      records: numbers of records of the source, from 0. After inputs with names, as of a `mix`, a
        dict by name, such as ``{"web": [12, 977]}``. For a source of files, also a dict by file,
        such as ``{"a.jsonl": [12]}``; the end of a path suffices. To leave out other records from a
        later item on, a dict by item, such as ``{0: [], 41_000: [12, 977]}``. The keys count the
        items of this stage in one epoch. Over a stream the keys hold for the first epoch, and later
        epochs have the last entry from the start. At a resume the records must equal the saved
        records for all items already read; otherwise the error shows the right argument.

    Raises:
      InvalidArgument: if the source has no such record, input or file, if no record of the source
        would remain, if none would in a partition that is repeated without end, or if ``upstream``
        has items that are not each made of one record.
      InvalidType: if ``records`` are not integers, or names are not strings.

    >>> list(rs.range(6).exclude([1, 4]))
    [0, 2, 3, 5]
    >>> list(rs.range(6).repeat(2).exclude({0: [], 7: [1]}))
    [0, 1, 2, 3, 4, 5, 0, 2, 3, 4, 5]
    """

    identity: ClassVar[IdentityFields] = {
        "changes": IdentityField(ALWAYS | SO_FAR, shown_as="records")
    }
    _run_changes = RECORDS_MAY_CHANGE

    records: RecordsByItem
    # The left-out records (as `Records.known_as`), by the first item after each change.
    changes: Timeline = field(init=False, repr=False, default=())
    # Whether upstream is looked up by index even if nothing is left out.
    looks_up: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        records = _records_by_item(self.records)
        object.__setattr__(self, "records", records)
        changes = tuple((first, each.known_as) for first, each in records.items())
        object.__setattr__(self, "changes", changes if changes != NOTHING_LEFT_OUT else ())
        if not self.upstream.random_access:
            self.stream_in(0)
            return
        self._check_remaining()

    def relation(self, epoch: int) -> Relation:
        return Kept(
            self,
            epoch,
            remaining=partial(self.remaining_in, epoch),
            keeps_all=not self.changes,
        )

    def _check_remaining(self) -> None:
        """Refuse to leave out the whole source; a partition may be left without records."""
        for left_out, records in zip(self._at_first, self.by_item.values(), strict=True):
            if not _is_all(left_out, self.upstream):
                continue
            source = over_all_parts(self.upstream)
            of_source = left_out if source is self.upstream else left_out_of(source, 0, records)
            if of_source and _is_all(of_source, source):
                raise InvalidArgument(
                    f"records must leave some of the source, got all {source.length} of them"
                )

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        """After a repeat the position counts over all epochs, so it depends on their lengths."""
        if not self.changes or not self.upstream.random_access:
            return NOTHING
        repeats = any(kind_of(found) is Repeated for found, _ in walk(self.upstream))
        return OVER_EPOCHS if repeats else NOTHING

    @property
    def state_cost(self) -> str:
        return "the position" if self.upstream.random_access else "nothing"

    @property
    def by_item(self) -> Mapping[int, Records]:
        """The left-out records by the item from which on they are left out."""
        return cast("Mapping[int, Records]", self.records)

    @property
    def _first_epoch_only(self) -> str | None:
        if not self.upstream.random_access:
            return None
        if set(self.by_item) != {0}:
            return (
                "exclude with item numbers counts the items of one epoch, so it must stand after repeat; before "
                "repeat, leave records out from an epoch on, as rs.by_epoch({0: data, 3: data.exclude([12])})"
            )
        if not all(one.alike for one in self._at_first):
            return (
                "exclude would leave out another number of items in each epoch, since not every record comes in "
                "every epoch; put it before the take, skip, mix or partition that has only some of them"
            )
        return None

    @computed_once
    def _at_first(self) -> Sequence[LeftOut]:
        """The left-out items in the first epoch, one entry for each key of `by_item`."""
        return self._left_out_in(0)

    def stream_in(self, epoch: int) -> Stage[T]:
        """Upstream, a stream, without the records left out in ``epoch``."""
        if self.upstream._changes:
            return self._streams(epoch)
        # One stage for all epochs that leave out the same records, as workers are kept by their
        # stage.
        return self._streams(min(epoch, len(self.by_item) - 1, 1))

    @computed_once
    def _streams(self) -> Callable[[int], Stage[T]]:
        return lru_cache(KEPT_EPOCHS)(self._stream_without)

    def _stream_without(self, epoch: int) -> Stage[T]:
        # Items are counted in the first epoch, so a later epoch has the last records throughout.
        records = {0: self.by_item[max(self.by_item)]} if epoch else self.by_item
        found: Stage[T] | None = stream_without(self.upstream, epoch, records)
        if found is None:
            raise InvalidArgument(
                "exclude needs items by their index, or those of a stream as its source delivers them, with nothing "
                "in between but prefetch, and maps that drop nothing and have no state of their own, got "
                f"{self.upstream!r}; put it after the source, in each input of a mix or concatenate, and before "
                "repeat"
            )
        return found

    def _left_out_in(self, epoch: int) -> Sequence[LeftOut]:
        upstream, records = self.upstream, self.by_item.values()
        found = [left_out_of(upstream, epoch, each) for each in records]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            raise InvalidArgument(
                "exclude needs items by their index, each made of one record of the source, and before a "
                f"repeat as many of them in every epoch, got {upstream!r}; put it after the source, its "
                "shuffle or a mix, and before stages that drop, add or join items"
            )
        return known

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if not self.changes and not self.looks_up:
            return _NothingLeftOut(self, epoch)
        kind = _ExcludeIterator if self.upstream.random_access else _StreamIterator
        return kind(self, epoch)

    @computed_once
    def remaining_in(self) -> Callable[[int], Remaining]:
        """Upstream's remaining items in an epoch; cached for the last epochs."""
        return lru_cache(KEPT_EPOCHS)(self._computed_in)

    def _computed_in(self, epoch: int) -> Remaining:
        # Only when an item is asked for: a finished iterator may have begun another epoch.
        if epoch and self._first_epoch_only:
            raise InvalidArgument(f"{self._first_epoch_only}, got epoch {epoch}")
        left_out = self._left_out_in(epoch) if epoch else self._at_first
        return Remaining(known_length(self.upstream), list(self.by_item), left_out)

    def _in_epoch(self, epoch: int) -> Stage[Any]:
        # Each record was already checked to be in some epoch when this stage was made.
        return replace(
            self,
            upstream=in_epoch(self.upstream, epoch),
            records={first: each.lenient for first, each in self.by_item.items()},
        )


def read_exclusions(path: str | Path) -> dict[Any, Any]:
    """The records to `exclude`, from a file.

    Args:
      path: of a file with a list of numbers, or with a dict of lists, by item or by name, such as
        ``{"0": [], "41000": {"web": [12, 977]}}``: as JSON, or as errors and ``resumable amend``
        print it. If all keys are digits, the keys are items; so put names of digits below an item,
        as in ``{"0": {"2024": [12]}}``.

    Raises:
      InvalidArgument: if the file holds neither; the error names the file.
      OSError: if the file cannot be read.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bad.json")
    ...     _ = path.write_text('{"0": [], "3": [4, 8]}')
    ...     rs.read_exclusions(path)
    {0: [], 3: [4, 8]}
    """
    found = exclusions_in(path)
    try:
        keyed = found if is_by_item(found) else {0: found or []}
        by_item = {int(first): each for first, each in keyed.items()}
        _records_by_item(by_item)
    except (ValueError, TypeError) as error:
        raise _no_exclusions(path, error) from error
    return by_item


def exclusions_in(path: str | Path) -> Any:
    """The value in the file at ``path``: JSON or a Python literal.

    Raises:
      InvalidArgument: if the file holds neither; the error names the file.
      OSError: if the file cannot be read.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise _no_exclusions(path, error) from error


def _no_exclusions(path: str | Path, reason: object) -> InvalidArgument:
    return InvalidArgument(
        f"{path} must hold a list of numbers, or a dict of such lists by name or by item, got {reason}"
    )


def is_by_item(records: Any) -> bool:
    """Whether the keys of ``records``, read from a file, are item numbers."""
    return (
        isinstance(records, dict)
        and bool(records)
        and all(
            key.isdecimal() if isinstance(key, str) else isinstance(key, int) for key in records
        )
    )


def _is_all(left_out: LeftOut, stage: Stage[Any]) -> bool:
    """Whether ``stage`` has items and ``left_out`` has all."""
    return 0 < known_length(stage) < math.inf and left_out.total == known_length(stage)


class _NothingLeftOut(ForwardingIterator[T]):
    """Motion of upstream; a run begun without this stage may leave out records later."""

    def __init__(self, stage: Exclude[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._start_epoch = epoch

    def set_state(self, state: State) -> None:
        upstream = self._stage.upstream
        if looks_up(upstream) or not isinstance(state, dict) or state.keys() != {"position"}:
            self._upstream.set_state(state)
            return
        # Saved by a pipeline with records to leave out later.
        position = unpack_position(self._stage, state["position"], upstream.length)
        started = upstream.start(self._start_epoch)
        started.skip(position)
        replaced, self._upstream = self._upstream, started
        replaced.close()


class _ExcludeIterator(IndexedIterator[T]):
    _stage: Exclude[T]

    def set_state(self, state: State) -> None:
        if not isinstance(state, dict) or state.keys() != {"position"}:
            # Upstream's state, from before records were left out.
            with closing(self._stage.upstream.start(self._epoch)) as before:
                before.set_state(state)
                if before._items_delivered is None:
                    raise StateMismatch(
                        f"the state does not say how many items {type(before._stage).__name__} has delivered, so no "
                        "records can be left out from here on",
                        self._stage,
                    )
                state = {"position": before._items_delivered}
        super().set_state(state)


class _StreamIterator(ForwardingIterator[T]):
    """Motion of a stream whose source leaves the records out."""

    _stage: Exclude[T]

    def __init__(self, stage: Exclude[T], epoch: int) -> None:
        self._remaining = stage.stream_in(epoch)
        super().__init__(stage, epoch, self._remaining)

    def set_state(self, state: State) -> None:
        try:
            self._upstream.set_state(state)
        except StateMismatch as error:
            # The error names a copy of a stage; users know only the stage.
            for (copy, _), (stage, _) in zip(
                walk(self._remaining), walk(self._stage.upstream), strict=False
            ):
                if error.stage is copy:
                    error.stage = stage
            raise

    def _reached(self) -> Iterator[Reach]:
        found = list(self._upstream._reached())
        yield Reach(self._stage, max((each.items for each in found), default=UNBOUNDED))


def first_record(stage: Stage[Any]) -> Records:
    """The first record of a source of ``stage``, if any, to try whether records can be left out."""
    if isinstance(stage, Mix) and stage.names:
        inner = first_record(stage.inputs[0])
        return Records(named={stage.names[0]: inner}, may_lack=True)
    return first_record(stage.inputs[0]) if stage.inputs else Records.of([0]).lenient


def _records_by_item(given: Any) -> dict[int, Records]:
    """The left-out records by the item from which on they are left out."""
    by_item = isinstance(given, Mapping) and not any(isinstance(key, str) for key in given)
    found = {0: Records.NONE}
    parts = {
        check_int("keys of records", first, minimum=0, maximum=MOST_ITEMS): _records(each)
        for first, each in (given if by_item else {0: given}).items()
    }
    for first in sorted(parts):
        if not first or parts[first] != found[max(found)]:
            found[first] = parts[first]
    return found


def _records(given: Any) -> Records:
    return given if isinstance(given, Records) else Records.of(given)


def _timeline_of(fields: Mapping[str, Any]) -> Timeline | None:
    changes = fields.get("changes", ())
    try:
        pairs = [(check_int("changes", first), read_known_as(value)) for first, value in changes]
    except (TypeError, ValueError, InvalidType):
        return None
    firsts = [first for first, _ in pairs]
    if firsts != sorted(set(firsts)) or firsts[:1] not in ([0], []):
        return None
    if any(value is None for _, value in pairs):
        return None
    return tuple(pairs) or NOTHING_LEFT_OUT


RECORDS: Final = ByPosition("records", _timeline_of, shown_records)
