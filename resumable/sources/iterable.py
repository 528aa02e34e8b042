"""Items of any Python iterable, resumed in the best way offered by the object."""

# An object with a protocol keeps its own position. If iterating the object makes a new iterator
# anyway, a restore works on a copy, because some objects (Hugging Face datasets) start every later
# pass from the state once loaded. An object with `_ex_iterable` is read by parts, and each pass
# reads a copy. Any other object has a single position: a new iterator takes the `Turn` from the
# previous iterator.

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from operator import eq
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, final

from ..core.arguments import check_choice
from ..core.block import Block
from ..core.computed_once import computed_once
from ..core.evidence import UNKNOWN, Evidence
from ..core.foreign_protocol import Protocol, protocol_of
from ..core.foreign_source import POLICIES, ExternalSource, apply_policy
from ..core.identity import ALWAYS, IdentityFields
from ..core.left_out import AtPlaces
from ..core.origin import Origin
from ..core.position import Position
from ..core.records import Records
from ..core.stage import Stage
from ..core.stage_iterator import (
    DeferredState,
    Items,
    SourceIterator,
    StageIterator,
    state_taken_now,
)
from ..errors import ExternalStateError, InvalidType, StateMismatch, UnencodableState, shorten
from ..order.remaining import Remaining
from ..state.encoding import dumps_frozen
from ..state.value import State, freeze, unpack, unpack_count
from .identity import DATA_IDENTITY, check_identity, node_of
from .inexact import Inexact, known_inexact, parts_of
from .iterable_kinds import (
    copies_apart,
    copy_to_read,
    has_epochs,
    is_factory,
    is_old_sequence,
    is_seekable,
    takes_epoch,
)
from .recent import (
    EVERY,
    LARGEST_DIGEST,
    NOTHING_KNOWN,
    NUMBERS,
    Recent,
    next_sampled,
    sample,
    sampled,
)
from .sequence import check_no_table
from .shared_position import SharedPosition, Turn
from .without_items import WithoutItems

T = TypeVar("T")

MANY_ITEMS: Final = 10_000_000
TELL: Final = Protocol("tell", "seek")
ANEW: Final = "iterating anew and skipping"
END: Final[Any] = object()
ONCE: Final = "none: it can be read once"
# Where references are not counted, any object might be held elsewhere.
_references: Final[Callable[[Any], int]] = getattr(sys, "getrefcount", lambda _: sys.maxsize)


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromIterable(ExternalSource[T]):
    """The items of any ``iterable``.

    The position is restored in the first way below that the object offers; `repr` reports the way.
    The object may have ``get_state/set_state``, ``state_dict/load_state_dict`` or
    ``getstate/setstate``. A file, with lines as items, has ``tell/seek``. An object that can be
    iterated again gives a new iterator. If the iterator has none of the first three pairs of
    methods, a resume reads again all items before the position. Iterators that can only be read
    once, and objects whose state is known to lose items (``resumable.sources.inexact``), cannot be
    restored.

    State: the object's own, or O(1) if a resume skips. An iterator or a file is read from the
    position at the time the pipeline is built, and all epochs share the position. Skipping takes
    time in proportion to the saved position. After ten million items a warning reports how many are
    left. An interrupt leaves the position of the iterator unchanged.

    If a resume skips, the state also has a 32-bit digest of four earlier items, so a source with
    another order is refused. The digest covers the last four among the first 16 items and every
    later 16th item. Numbers (floats in seven digits), text and arrays enter the digest with some of
    their values, also inside tuples, lists and dicts. Other objects do not enter the digest.

    Each pass in a later epoch first calls ``set_epoch(epoch)``, on a copy, if the iterable has this
    method. In epoch 0 the iterable keeps the epoch that you have set, if it has an attribute
    ``epoch``; else 0 is set. An object that counts passes in its state counts on after a resume, as
    long as the same pipeline goes from epoch to epoch.

    Each iterator reads a separate copy of a Hugging Face data set. Any other object with a state
    has a single position: once a later iterator reads the object, also an iterator of another
    pipeline, earlier iterators raise `ExternalStateError`. A loop outside of pipelines that moves
    the object is not noticed.

    Args:
      iterable: an iterable, or a function that returns an iterable for each epoch. A function with
        one required positional argument is given the epoch, an int from 0. A class is called
        without arguments.
      external_state_policy: the action of `get_state` if no position can be restored: ``"fail"``
        raises, ``"warn"`` warns, ``"ignore"`` does neither. Under ``"warn"`` and ``"ignore"`` it
        saves the number of items handed out, and a resume skips as many items of a fresh iterator;
        if the object's state loses items, it saves this state. The policy also applies at a resume,
        to a state that loses items, and to skipped items that differ from the items before the
        save.
      data_identity: identifies the data: a version, a digest or a list of file names. The value
        must be the same at save and resume.

    Raises:
      InvalidArgument: if ``external_state_policy`` is another word.
      InvalidType: if ``iterable`` cannot be iterated or is a set, or ``data_identity`` is neither a
        string nor a list of strings.

    >>> list(rs.from_iterable(lambda: iter("abc")))
    ['a', 'b', 'c']
    """

    identity: ClassVar[IdentityFields] = {"data_identity": DATA_IDENTITY, "node": ALWAYS}
    version: ClassVar[int] = 2  # the first had no digest of items

    iterable: Iterable[T] | Callable[[], Iterable[T]] | Callable[[int], Iterable[T]]
    external_state_policy: str = "fail"
    _: KW_ONLY
    data_identity: str | None = None
    # For a stream split by node; states of earlier versions have nothing to compare with.
    node: Evidence = field(init=False, repr=False, default=UNKNOWN)
    _protocol: Protocol | None = field(init=False, repr=False, default=None)
    _initial: Any = field(init=False, repr=False, default=None)
    _shared: SharedPosition[T] | None = field(init=False, repr=False, default=None)
    _inexact: Inexact | None = field(init=False, repr=False, default=None)
    _last: _Last = field(init=False, repr=False, default_factory=lambda: _Last())

    def _without_records(self, epoch: int, records: Mapping[int, Records]) -> Stage[T]:
        # The items are the records; their number is unknown.
        left_out = [AtPlaces.of(each.below(math.inf)) for each in records.values()]
        return WithoutItems(self, Remaining(math.inf, list(records), left_out))

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_identity", check_identity(self.data_identity))
        check_choice("external_state_policy", self.external_state_policy, POLICIES)
        target: Any = self.iterable
        if is_factory(target):
            return
        object.__setattr__(self, "node", node_of(target))
        protocol = protocol_of(target)
        if protocol is None and is_seekable(target):
            protocol = TELL
        if isinstance(target, (set, frozenset)):
            raise InvalidType(
                f"iterable must have an order, got the set {shorten(target)}; pass sorted(...)"
            )
        check_no_table("iterable", target)
        if not hasattr(target, "__iter__") and not is_old_sequence(target):
            raise InvalidType(f"iterable must be iterable, got {shorten(target)}")
        if hasattr(target, "__next__") or protocol is TELL:
            iterator = iter(target) if protocol is None else target
            object.__setattr__(self, "_shared", SharedPosition(iterator, protocol is TELL))
            if protocol is not None:
                # An epoch starts at the object's present position.
                object.__setattr__(self, "_initial", copy.deepcopy(protocol.read(target)))
        object.__setattr__(self, "_protocol", protocol)
        if protocol is not None:
            object.__setattr__(self, "_inexact", known_inexact(target))

    def is_new(self, iterator: Iterator[T], shared: bool) -> bool:
        """Whether ``iterator`` is not the iterator of the last epoch.

        A ``shared`` iterator is kept for the next call; any other iterator ends with its epoch.
        """
        return self._last.replace(iterator if shared else None) is not iterator

    def object_for(self, epoch: int, saved: Any) -> Any:
        """The object read by a pass: the iterable, or a copy with a separate epoch or position.

        In epoch 0 the iterable has the epoch set by the user, if shown by an attribute. Otherwise
        the epoch is set again, since a copy may share the holder of the epoch with the iterable.

        Args:
          epoch: of the pipeline.
          saved: the state of the object to restore, or None; may have an epoch as counted by the
            object.
        """
        source: Any = self.iterable
        own = saved.get("epoch") if isinstance(saved, dict) else None
        shown = getattr(source, "epoch", None)
        wanted = own if type(own) is int else epoch if epoch or shown is None else shown
        sets = has_epochs(source) and wanted != shown
        if saved is None and not sets and not copies_apart(source):
            return source
        copied = copy_to_read(source)
        if sets:
            copied.set_epoch(wanted)
        return copied

    def continued_by(self, epoch: int) -> _Restored | None:
        """The copy restored in the pass before ``epoch``, with the number of passes."""
        last = self._last.replace(None)
        return last if isinstance(last, _Restored) and last.epoch + 1 == epoch else None

    @property
    def method(self) -> str:
        """How a position is restored."""
        if self._protocol is not None:
            return str(self._protocol)
        return ANEW if self._shared is None else ONCE

    @property
    def is_made_by_a_function(self) -> bool:
        """Whether each epoch calls a function for the object to iterate."""
        return is_factory(self.iterable)

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        """Functions called again by a resume; none if the object restores the position."""
        target: Any = self.iterable
        if self.is_made_by_a_function:
            return {"iterable": target}
        if not self.indexable:
            return {}
        name = "__iter__" if hasattr(target, "__iter__") else "__getitem__"
        return {f"iterable.{name}": getattr(target, name)}

    @computed_once
    def takes_epoch(self) -> bool:
        """Whether the function gets the epoch."""
        return takes_epoch(self.iterable)

    @property
    def indexable(self) -> bool:
        """Whether a resume can only iterate the object again."""
        return self.method == ANEW and not self.is_made_by_a_function

    @property
    def inexact_policy(self) -> str | None:
        """The policy, if no position can be restored."""
        exact = not self.reads_once and self._inexact is None
        return None if exact else self.external_state_policy

    @property
    def reads_once(self) -> bool:
        return self._shared is not None and self._protocol is None

    @property
    def keeps_position(self) -> bool:
        return self._shared is not None or self._protocol is not None

    def _apart(self) -> ExternalSource[T]:
        try:
            return super()._apart()
        except Exception:
            if self._shared is not None:
                raise
            # The position is restored on such a copy too.
            return replace(self, iterable=copy_to_read(self.iterable))

    @property
    def inexact_reason(self) -> str:
        if self._inexact is not None:
            return self._inexact.reason
        return (
            "its iterator can only be read once, so its position cannot be restored, and a resume "
            "has to be given a fresh one that delivers the same items; pass a function that makes "
            "the iterator"
        )

    @property
    def state_cost(self) -> str:
        return f"the position; resumes by {self._shown_method}"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _FromIterableIterator(self, epoch)

    def __repr__(self) -> str:
        name = getattr(self.iterable, "__qualname__", type(self.iterable).__name__)
        return f"FromIterable({name}, resumes by {self._shown_method})"

    @property
    def _shown_method(self) -> str:
        """The method; for a function, as known before the call."""
        if self.is_made_by_a_function:
            return f"the state of its iterator, or else by {ANEW}"
        return self.method


def reads_again(stage: object) -> bool:
    """Whether a resume of ``stage`` reads all items before its position again."""
    return isinstance(stage, FromIterable) and stage.method == ANEW


class _Restored(NamedTuple):
    """A copy of an object that counts passes.

    Attributes:
      target: the copy.
      epoch: of the last pass over the copy.
      first_states: encoded states after the first item of the pass of the restore.
    """

    target: Any
    epoch: int
    first_states: list[bytes | None]


class _Last:
    """The last result of the function, if it may come again, or `_Restored`; not pickled."""

    def __init__(self) -> None:
        self._held: Any = None

    def replace(self, held: Any) -> Any:
        """Remember ``held``; returns the previously held object."""
        last, self._held = self._held, held
        return last

    def __reduce__(self) -> tuple[type[_Last], tuple[()]]:
        return _Last, ()


class _FromIterableIterator(SourceIterator[T]):
    """Opens the iterable at the first item, so an earlier restore touches nothing."""

    _stage: FromIterable[T]

    def __init__(self, stage: FromIterable[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._position = Position()
        # The object's own state, until the iterable is opened. It begins as `_initial`, the state
        # of an iterator or a file when the pipeline was built.
        self._saved: Any = stage._initial
        # The saved digest of items before the position, until the iterable is opened.
        self._last = NOTHING_KNOWN
        # Samples of the last items, once the iterable is opened; saved if a resume has to skip the
        # items.
        self._recent: Recent | None = None
        # A copy of `_recent`, never appended to, for the marks made until the next sample.
        self._noted: Recent | None = None
        self._iterator: Iterator[T] | None = None
        # The iterator of an object with a state; `_iterator` reads from this iterator during its
        # turn.
        self._own: Iterator[T] | None = None
        self._protocol: Protocol | None = None
        self._target: Any = None
        # The turn of an object with one position.
        self._turn: Turn[T] | None = None
        # The position when the iterable was opened; its state is `_saved`.
        self._opened_at = -1

    def pull(self, count: int) -> Block:
        items = list(islice(self._opened(), count))
        first = self._position.number
        end = first + len(items)
        self._position.move_to(end)
        if self._recent is not None and next_sampled(first) < end:
            self._recent.extend(items, first)
            self._noted = None
        return items

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterable[T]]:
        """The items before the next sampled item, then the sampled item, and so on."""
        items = self._position.counting(self._opened())
        recent, position = self._recent, self._position
        if recent is None:
            yield items
            return
        if position.number < EVERY:
            yield self._first_sampled(items, recent)
            if position.number < EVERY:
                return
        # Looked up outside the loop, since an item costs no more than a few calls.
        append, left = recent.append, position.left
        before = next_sampled(position.number) - position.number
        left_there = left() - before
        yield islice(items, before)
        while left() == left_there:  # an ended iterator is not asked again
            item = next(items, END)
            if item is END:
                return
            append(item if type(item) in NUMBERS else sample(item))
            self._noted = None
            left_there -= EVERY
            yield (item,)
            yield islice(items, EVERY - 1)

    def _first_sampled(self, items: Iterator[T], recent: Recent) -> Iterator[T]:
        """The first items, all sampled."""
        append = recent.append
        for item in islice(items, EVERY - self._position.number):
            append(item if type(item) in NUMBERS else sample(item))
            self._noted = None
            yield item

    def _opened(self) -> Iterator[T]:
        if self._iterator is None:
            self._iterator = _iterable(self._open())
            self._recent = self._recent or Recent()
        return self._iterator

    def last_origin(self) -> Origin:
        return Origin(type(self._stage).__name__, self._position.number - 1)

    @property
    def _items_delivered(self) -> int:
        return self._position.number

    def get_state(self) -> State:
        own = self._saved
        if self._turn is not None:
            self._turn.check()
        if self._protocol is not None and self._position.number != self._opened_at:
            own = self._protocol.read(self._target)
        try:
            return {
                "position": self._position.number,
                "object": freeze(own),
                "last": NOTHING_KNOWN if self._protocol else self._digest(),
            }
        except UnencodableState as error:
            raise UnencodableState(f"{self._stage!r}: {error}") from None

    def defer_state(self) -> DeferredState:
        if self._protocol is not None or self._recent is None:
            return state_taken_now(self)
        if self._noted is None:
            self._noted = self._recent.copy()
        return partial(_state_where_skipped, self._position.number, self._saved, self._noted)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        if offset != -1 or self._recent is None or self._protocol is not None:
            return None
        last = self._position.number - 1
        return {
            "position": last,
            "object": freeze(self._saved),
            "last": self._recent.digest_before(last),
        }, -1

    def set_state(self, state: State) -> None:
        stage, last = self._stage, NOTHING_KNOWN
        if isinstance(state, dict) and "external" in state:  # of version 1
            position, own = unpack(stage, state, "position", "external")
        else:
            position, own, last = unpack(stage, state, "position", "object", "last")
        self._position.move_to(unpack_count(stage, "position", position))
        self._last = unpack_count(stage, "last", last, LARGEST_DIGEST)
        if own is None and self._position.number and self._saved is not None:
            raise StateMismatch(
                f"saved position={position} without a state for {stage.method}; was the "
                "iterable of another kind at the save?",
                stage,
            )
        self._saved = freeze(own)

    @property
    def digest(self) -> int:
        if self._recent is None or self._stage.external_state_policy != "fail":
            return NOTHING_KNOWN
        return self._digest()

    def close(self) -> None:
        # An iterator opened here may hold files, threads or processes until closed. An object in a
        # `SharedPosition`, which has no `close`, belongs to the user.
        iterator = self._iterator if self._own is None else self._own
        self._iterator = self._own = None
        close = getattr(iterator, "close", None)
        if callable(close):
            close()

    def _open(self) -> Iterator[T]:
        stage = self._stage
        source: Any = stage.iterable
        self._opened_at = self._position.number
        if stage._shared is not None:
            return self._begun(stage._shared)
        if stage._protocol is None:
            made = stage.is_made_by_a_function
            iterator = self._made(source) if made else iter(stage.object_for(self._epoch, None))
            protocol = protocol_of(iterator)
            if protocol is None or (self._saved is None and self._position.number):
                return self._advanced(iterator, self._position.number)
            return self._restored(iterator, iterator, protocol)
        later = stage.continued_by(self._epoch) if self._saved is None else None
        target = later.target if later else stage.object_for(self._epoch, self._saved)
        self._restore(target, stage._protocol)
        self._target, self._protocol = target, stage._protocol
        self._own = items = _iterable(iter(target))
        if copies_apart(source):
            return items
        if later or (self._saved is not None and not has_epochs(source)):
            items = chain.from_iterable(self._of_restored(later, items))
        self._turn = Turn(_with_position(source), stage, items)
        return self._turn.items

    def _of_restored(self, earlier: _Restored | None, items: Iterator[T]) -> Iterator[Iterable[T]]:
        """The items of a restored copy in this pass, or in a later pass after the ``earlier`` pass.

        If the copy begins the later pass at the restored position, the object itself is read
        instead.
        """
        stage, target = self._stage, self._target
        first = next(items, END)
        states = [] if first is END else list(map(_encoded_state, _with_position(target)))
        if earlier is None:
            earlier = _Restored(target, self._epoch, states)
        elif not states or any(map(eq, states, earlier.first_states)):
            stage._last.replace(None)
            self._target = stage.iterable
            self._own = _iterable(iter(self._target))
            yield self._own
            return
        stage._last.replace(earlier._replace(epoch=self._epoch))
        yield () if first is END else (first,)
        yield items

    def _begun(self, shared: SharedPosition[T]) -> Iterator[T]:
        """The remaining items of the object, moved to the position of this epoch."""
        stage = self._stage
        if stage._protocol is None:
            count = self._position.number - shared.position
            if count < 0:
                raise ExternalStateError(
                    f"{stage!r} cannot go back from item {shared.position} to item "
                    f"{self._position.number}; pass a function that makes the iterator"
                )
            self._turn = shared.begin(stage)
            return self._advanced(self._turn.items, count)
        if self._saved is None:  # a state of an earlier version, from before the first item
            self._saved = copy.deepcopy(stage._initial)
        self._turn = shared.begin(stage)
        return self._restored(stage.iterable, self._turn.items, stage._protocol)

    def _made(self, factory: Callable[..., Any]) -> Iterator[T]:
        """A new iterator from a function."""
        arguments = (self._epoch,) if self._stage.takes_epoch else ()
        try:
            made = factory(*arguments)
            shared = _references(made) > OF_A_NEW_OBJECT
        except StopIteration as error:
            raise RuntimeError("a user function raised StopIteration") from error
        try:
            iterator: Iterator[T] = iter(made)
        except TypeError:
            raise InvalidType(
                f"the function of {self._stage!r} must return an iterable, got {shorten(made)}"
            ) from None
        if iterator is made and not self._stage.is_new(iterator, shared):
            raise ExternalStateError(
                f"the function of {self._stage!r} returned the iterator of an earlier epoch again; "
                "it must make a new one each time"
            )
        return iterator

    def _restored(self, target: Any, iterator: Iterator[T], protocol: Protocol) -> Iterator[T]:
        self._restore(target, protocol)
        self._target, self._protocol = target, protocol
        return iterator

    def _restore(self, target: Any, protocol: Protocol) -> None:
        if self._saved is not None:
            stage = self._stage
            if stage.inexact_policy is not None:
                message = f"{stage!r}: {stage.inexact_reason}"
                apply_policy(message, stage.inexact_policy, stacklevel=2)
            protocol.write(target, copy.deepcopy(self._saved))

    def _advanced(self, iterator: Iterator[T], count: int) -> Iterator[T]:
        iterator = _iterable(iterator)
        recent = Recent()
        if not count:  # an epoch may have few items
            self._recent = recent
            return iterator
        first = self._position.number - count
        passed = _passed(iterator, first, min(count, MANY_ITEMS), recent)
        if passed == MANY_ITEMS < count:
            # Not refused: no state says whether a position is plausible.
            warnings.warn(
                f"{self._stage!r} reads {count - passed} more items again to come to its saved "
                "position; an iterable with get_state and set_state of its own resumes at once",
                RuntimeWarning,
                stacklevel=2,
            )
            passed += _passed(iterator, first + passed, count - passed, recent)
        self.reread += passed
        if passed < count:
            raise StateMismatch(
                f"saved position={self._position.number} lies beyond the end: the iterable has "
                f"{count - passed} items fewer; did the data shrink since the save?",
                self._stage,
            )
        self._compare(recent)
        self._recent = recent
        return iterator

    def _digest(self) -> int:
        """The digest of the last samples, if the items have passed here."""
        return self._last if self._recent is None else self._recent.digest(self._position.number)

    def _compare(self, recent: Recent) -> None:
        """Refuse skipped items unlike the items before the save."""
        last, policy = recent.digest(self._position.number), self._stage.external_state_policy
        if policy == "ignore" or NOTHING_KNOWN in (last, self._last) or last == self._last:
            return
        message = (
            f"the items before position {self._position.number} differ from those of the save: does the "
            "source deliver the same order in every run?"
        )
        if policy == "fail":
            raise StateMismatch(
                f"{message} An external_state_policy of 'warn' or 'ignore' goes on with them",
                self._stage,
            )
        warnings.warn(f"{self._stage!r}: {message}", RuntimeWarning, stacklevel=2)


def _with_position(source: Any) -> Iterator[Any]:
    """The objects with a state among ``source`` and the objects that it reads."""
    return filter(protocol_of, parts_of(source))


def _encoded_state(target: Any) -> bytes | None:
    """The state of ``target`` as bytes; None if the state cannot be taken."""
    protocol: Any = protocol_of(target)
    with suppress(Exception):
        return dumps_frozen(freeze(protocol.read(target)))
    return None


def _iterable(iterator: Any) -> Iterator[Any]:
    """``iterator``, wrapped if without ``__iter__``: needed by `itertools`, not by `iter`."""
    return iterator if isinstance(iterator, Iterator) else _by_next(iterator)


def _by_next(iterator: Any) -> Iterator[Any]:
    while (item := next(iterator, END)) is not END:
        yield item


def _state_where_skipped(position: int, own: Any, recent: Recent) -> State:
    """The state of an iterable, for a resume by iterating again and skipping."""
    return {"position": position, "object": freeze(own), "last": recent.digest(position)}


def _passed(iterator: Iterator[Any], first: int, count: int, recent: Recent) -> int:
    """Skip up to ``count`` items, numbered from ``first``, with samples; returns how many."""
    passed = 0
    for number in sampled(first, first + count):
        passed += _counted(iterator, number - first - passed)
        for item in islice(iterator, 1):
            recent.append(sample(item))
            passed += 1
    return passed + _counted(iterator, count - passed)


def _counted(iterator: Iterator[Any], count: int) -> int:
    """Skip up to ``count`` items; returns how many."""
    return sum(1 for _ in islice(iterator, count))


def _of_a_new_object() -> int:
    """The reference count of an object just returned by a function, and held nowhere else."""
    made = object()
    return _references(made)


OF_A_NEW_OBJECT: Final = _of_a_new_object()
