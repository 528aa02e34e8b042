"""The describing half of a stage: configuration and nothing else."""

# Configuration can be pickled, shared and started any number of times.

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, overload

import numpy as np

from ..errors import InvalidType, UnknownLength, shorten
from .access import indexed_by
from .arguments import check_int
from .block import block_items
from .callables import callables_in
from .computed_once import computed_once
from .flow import read_flow
from .identity import ITEMS, PARTS, RANK, Dependence, IdentityField, IdentityFields
from .indexed import Indexed
from .layout import LISTS, Layout, common_layout
from .old_names import OldName, read_renamed
from .orders import MOST_ITEMS, Length
from .rank_share import RankShare
from .records import Records
from .relation import Held, Moved, Relation, Repeated, Routed
from .run_changes import NO_CHANGES, RunChanges
from .saved_state import SavedState
from .stage_iterator import StageIterator

T = TypeVar("T")


class InputShadows(NamedTuple):
    """The shadows of the inputs of a stage, for `Stage._traced`.

    Attributes:
      paired: whether items are wanted with their origins, rather than origins alone.
      made: makes the shadows; if the argument is true, the shadows deliver items with their
        origins.
    """

    paired: bool
    made: Callable[[bool], tuple[Stage[Any], ...]]

    @property
    def pairs(self) -> tuple[Stage[Any], ...]:
        """Shadows that deliver items with their origins."""
        return self.made(True)

    @property
    def alike(self) -> tuple[Stage[Any], ...]:
        """Shadows that deliver items with origins or origins alone, as wanted of the stage."""
        return self.made(self.paired)


@dataclass(frozen=True, eq=False, repr=False)
class Stage(ABC, Generic[T]):
    """One operation of a pipeline: frozen configuration.

    A subclass implements `start`, and overrides other members where the defaults do not fit. Fields
    not named in `identity` may differ between save and resume. A stage with one upstream derives
    from `Transform`.

    >>> stage = rs.range(9).take(2).stage
    >>> stage, stage.length, list(stage.start())
    (Range(stop=9) -> Take(count=2), 2, [0, 1])
    """

    identity: ClassVar[IdentityFields] = {}
    """Fields of the fingerprint, and when each must be equal at save and resume: `ALWAYS`, or if a
    later stage `depends_on` one of the named `ITEMS`, `EPOCHS`, `RANK` and `PARTS`. An `IdentityField`
    also gives the name of the field in errors, and the likely cause."""

    _identity_fields: ClassVar[Mapping[str, IdentityField]] = {}

    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK
    """What the state takes for granted about earlier stages, at save and resume:

    - `ITEMS`: the same item under each number. ``take`` saves how many items were taken.
    - `EPOCHS`: the same numbering of epochs. ``repeat`` saves the number of the epoch.
    - `RANK`: the same rank, of as many ranks. ``flat_map`` is inside an item of its rank;
      ``filter`` takes more items on one rank than on another.
    - `PARTS`: the same own partitions. ``window`` holds undelivered items of these partitions.

    The default is the careful choice: each rank of a ``shard`` then resumes from its own state."""

    relies_on = OldName("depends_on")

    _in_path: ClassVar[bool] = True
    """Whether each input has a separate path in a state, below the path of the stage."""

    alone: ClassVar[bool] = False
    """Whether the result for an item depends on the item and its place in the shared order alone.

    The stage then treats the items of one rank or partition like the items of all."""

    version: ClassVar[int] = 1
    """Increased when the shape of the state changes. States of a newer version are refused. States
    of an older version are passed to `set_state`, which recognises old states by their keys."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        read_renamed(cls, {"relies_on": "depends_on", "blind": "ignores_items"})
        read_flow(cls, Stage.relation)
        named = isinstance(cls.identity, Mapping)
        fields = (
            {name: IdentityField.of(entry) for name, entry in cls.identity.items()} if named else {}
        )
        cls._identity_fields = fields
        if not named or not all(field.is_valid for field in fields.values()):
            raise InvalidType(
                f"identity of {cls.__name__} must be a mapping such as {{'seed': ALWAYS}} or "
                f"{{'count': ITEMS | RANK}}, got {shorten(cls.identity)}"
            )

    def __post_init__(self) -> None:
        """Check the arguments; a subclass extends this."""

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        """The upstream stages."""
        return ()

    def _with_inputs(self, inputs: tuple[Stage[Any], ...]) -> Stage[T]:
        """A copy with other upstreams in the fields, given in the order of `inputs`."""
        own = set(map(id, self.inputs))
        names = [
            field.name for field in dataclasses.fields(self) if id(getattr(self, field.name)) in own
        ]
        return dataclasses.replace(self, **dict(zip(names, inputs, strict=False)))

    @property
    def _rank_share(self) -> RankShare:
        """How items were dealt out to ranks; with several inputs, the deal to most ranks."""
        shares = [upstream._rank_share for upstream in self.inputs]
        return max(shares, key=lambda share: share.ranks, default=RankShare())

    @computed_once
    def _changes(self) -> tuple[int, ...]:
        """The epochs, ascending, where the pipeline differs from the epoch before."""
        found = [epoch for upstream in self.inputs for epoch in upstream._changes]
        return tuple(sorted(set(found)))

    def _in_epoch(self, epoch: int) -> Stage[Any] | None:
        """The stage in ``epoch``, for `in_epoch`; None for a copy over the inputs of ``epoch``."""
        return None

    def _records_of_inputs(self, records: Records) -> Sequence[Records]:
        """``records`` for each of `inputs`, of a stage whose items are each made of one input item.

        Raises:
          InvalidArgument: if the stage has several inputs and ``records`` cannot be divided among
            them.
        """
        if len(self.inputs) > 1:
            records.of_names(None, type(self).__name__)
        return [records] * len(self.inputs)

    def _traced(self, inputs: InputShadows) -> Stage[Any] | None:
        """A stage with the same states that delivers items with their origins, or origins alone.

        None if the stage to use follows from `unchanged`, `alone` and `relation`.
        """
        return None

    _run_changes: ClassVar[RunChanges] = NO_CHANGES
    """Which arguments may change during a run."""

    @property
    def _first_epoch_only(self) -> str | None:
        """Why there is no epoch after the first; None if there is."""
        return None

    def relation(self, epoch: int) -> Relation | None:
        """Which items of `inputs` each item of ``epoch`` is made of; None for a source.

        Length, random access, origins, exclusion and permitted changes of a run follow from the
        relation. `relation` is also called while the next stage is built, so it must read nothing
        and compute no order. By default an item may be made of any input items.
        """
        return Held(self, epoch) if self.inputs else None

    @property
    def unchanged(self) -> bool:
        """Whether items are items of the inputs; by default, if the relation only moves items."""
        return isinstance(self.relation(0), (Moved, Routed, Repeated))

    @computed_once
    def length(self) -> Length:
        """Number of items of one epoch: `math.inf` if endless, None if unknown without reading.

        The length follows from `relation`; a source overrides it.
        """
        _derive_from_below(self, "length")
        relation = self.relation(0)
        return None if relation is None else relation.length

    @abstractmethod
    def start(self, epoch: int = 0) -> StageIterator[T]:
        """A new iterator at the first item of ``epoch``."""

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        """The items of ``epoch`` by their index; None if items can only be iterated.

        Random access gives ``len()``, indexing, and a resume of equal cost at every position. The
        result follows from `relation`; a source overrides `indexed`, which is also called while the
        next stage is built, so it must read nothing and compute no order.
        """
        relation = self.relation(epoch)
        if relation is None or not self.random_access:
            return None
        return indexed_by(relation, Stage.indexed)

    @computed_once
    def random_access(self) -> bool:
        """Whether any item can be computed from its index."""
        relation, is_own = self.relation(0), type(self).indexed is not Stage.indexed
        if relation is None or relation.in_order:
            return is_own and self.indexed(0) is not None
        _derive_from_below(self, "random_access")
        follows = all(one.random_access for one in self.inputs)
        return follows and (not is_own or self.indexed(0) is not None)

    @computed_once
    def block_layout(self) -> Layout:
        """The form of a block of items passed to a function, and of a batch of items.

        A stage with items made of arrays overrides `block_layout`. `pull` may return another form:
        a stage passes blocks on in the form received.
        """
        if not self.unchanged:
            return LISTS
        return common_layout([one.block_layout for one in self.inputs])

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        """The functions of the user that decide which items are delivered, by name of the field.

        By default all callables in fields, also within lists, tuples and dicts. A stage overrides
        `user_functions` to leave out a function that decides nothing, or whose own state is saved.
        """
        return callables_in(_configuration(self))

    @property
    def state_cost(self) -> SavedState | str:
        """Contents of the state; a string is short for a `SavedState` with that text."""
        return "not stated"

    def __iter__(self) -> StageIterator[T]:
        return self.start(0)

    def __getstate__(self) -> dict[str, Any]:
        # Derived values may differ in the process that unpickles: files grow.
        return _configuration(self)

    def __len__(self) -> int:
        length = self.length
        if length is None:
            raise UnknownLength(
                f"{type(self).__name__} has no len(): how many items it delivers is known only "
                "after reading them"
            )
        if length == math.inf:
            raise UnknownLength(f"{type(self).__name__} has no len(): it is endless; use take(n)")
        return int(length)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """The item at ``index``, or the list of items of a slice, in epoch 0."""
        return items_at(self, by_index(self), index)

    def __str__(self) -> str:
        """The name and the arguments other than defaults, without the stages before."""
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("upstream", "upstreams") or not field.repr:
                continue
            default = field.default  # after pickling, a string is another one
            if not (value is default or (isinstance(value, str) and value == default)):
                shown.append(f"{field.name}={_name_of(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __repr__(self) -> str:
        inner = "".join(f"{stage!r} -> " for stage in self.inputs[:1])
        if len(self.inputs) > 1:
            inner = f"[{', '.join(map(repr, self.inputs))}] -> "
        return inner + str(self)


def items_at(stage: Stage[T], indexed: Indexed[T], index: int | slice) -> T | list[T]:
    """The item of ``stage`` at ``index``, or a list for a slice; ``indexed`` holds epoch 0."""
    if isinstance(index, slice):
        chosen = range(*index.indices(_slice_length(stage, index)))
        step = chosen.step if len(chosen) > 1 else 0  # a step may lie beyond int64
        positions = np.arange(len(chosen), dtype=np.int64) * step + chosen.start
        return list(block_items(indexed.gather(positions))) if len(positions) else []
    position = check_int("index", index, maximum=None)
    length = known_length(stage)
    if position < 0 and length != math.inf:
        position += int(length)
    if not 0 <= position < min(length, MOST_ITEMS):
        raise IndexError(f"index {shorten(index)} is out of range for {length} items")
    return indexed.item(position)


def as_stage(value: Any, name: str = "pipeline") -> Stage[Any]:
    """``value`` if it is a stage, or the stage of the pipeline ``value``.

    Raises:
      InvalidType: if ``value`` is neither.
    """
    stage = _bare(value)
    if isinstance(stage, Stage):
        return stage
    hint = "wrap data with from_sequence, from_arrays or from_iterable"
    if isinstance(value, (list, tuple)) and any(
        isinstance(one, Stage) for one in map(_bare, value)
    ):
        hint = "pass several pipelines one by one, as in mix(*pipelines), or as one dict"
    raise InvalidType(f"{name} must be a pipeline, got {shorten(value)}; {hint}")


def _bare(value: Any) -> Any:
    return getattr(value, "stage", value)


def by_index(stage: Stage[T], epoch: int = 0) -> Indexed[T]:
    """The items of ``stage`` by their index.

    Raises:
      InvalidType: if ``stage`` has no random access, or no length.
    """
    indexed = stage.indexed(epoch)
    if indexed is None:
        raise InvalidType(f"{type(stage).__name__} has no random access: it can only be iterated")
    if stage.length is None:
        raise InvalidType(f"{type(stage).__name__} has items by index, so it must have a length")
    return indexed


def known_length(stage: Stage[Any]) -> int | float:
    """The length of a stage with random access, never None; `math.inf` if endless."""
    length = stage.length
    assert length is not None
    return length


def _configuration(stage: Stage[Any]) -> dict[str, Any]:
    """The fields of ``stage``, without derived values."""
    kind = type(stage)
    return {
        name: value
        for name, value in vars(stage).items()
        if not isinstance(getattr(kind, name, None), computed_once)
    }


def _derive_from_below(stage: Stage[Any], name: str) -> None:
    """Let earlier stages derive value ``name``, the first stage first.

    A chain of stages may be longer than the recursion limit.
    """
    waiting: list[Stage[Any]] = []
    while len(stage.inputs) == 1 and not isinstance(stage.relation(0), Held):
        (stage,) = stage.inputs
        if name in vars(stage):
            break
        waiting.append(stage)
    for before in reversed(waiting):
        getattr(before, name)


def _slice_length(stage: Stage[Any], index: slice) -> int:
    """The length to apply ``index`` to; for an endless stage, the bounds of ``index`` suffice."""
    bounds = (index.start or 0, index.stop)
    if stage.length == math.inf and bounds[1] is not None and min(bounds) >= 0:
        return int(min(max(bounds), MOST_ITEMS))
    return len(stage)


class OwnsPartitions(Stage[T]):
    """A stage that divides the work into partitions; each rank owns some of the partitions."""

    @property
    @abstractmethod
    def own_partitions(self) -> range:
        """The numbers of the partitions owned by this rank."""

    @abstractmethod
    def over_partition(self, number: int) -> Stage[T]:
        """A copy over partition ``number``."""


def own_partitions(stage: Stage[Any]) -> range:
    """The numbers of the partitions owned by this rank; empty if ``stage`` has no partitions."""
    return stage.own_partitions if isinstance(stage, OwnsPartitions) else range(0)


class RunsAhead(Stage[T]):
    """A stage that may compute items ahead, in threads or workers."""

    workers: int = 0
    """Number of workers; a stage that computes ahead without workers needs `tuning_variants`."""

    @property
    def tuning_variants(self) -> tuple[Mapping[str, Any], ...]:
        """Other values of the tuning fields, with which the stage must deliver the same items.

        First without threads and workers, then with more workers; empty where nothing is computed
        ahead.
        """
        if not self.workers:
            return ()
        return {"workers": 0, "executor": "thread"}, {"workers": self.workers + 1}


def tuning_variants(stage: Stage[Any]) -> tuple[Mapping[str, Any], ...]:
    """The `RunsAhead.tuning_variants` of ``stage``; empty if ``stage`` computes nothing ahead."""
    return stage.tuning_variants if isinstance(stage, RunsAhead) else ()


def runs_ahead(stage: Stage[Any]) -> bool:
    """Whether iterating ``stage`` computes items ahead, in threads or workers."""
    return bool(tuning_variants(stage))


def _name_of(value: Any) -> str:
    name = getattr(value, "__qualname__", None) if callable(value) else None
    return name or shorten(value)
