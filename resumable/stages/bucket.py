"""Batch items of similar length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    PARTS,
    RANK,
    SEED,
    Block,
    Dependence,
    Grouped,
    Held,
    IdentityField,
    IdentityFields,
    Indices,
    Items,
    Relation,
    SavedState,
    Stage,
    StageIterator,
    block_items,
    check_int,
    check_seed,
    computed_once,
)
from ..core.arguments import check_bool, check_callable, check_field, is_several
from ..core.function_state import check_stateless
from ..core.function_version import FunctionVersion
from ..core.relation import endless
from ..core.stage import InputShadows
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from ..groups.bucketing import Buckets
from ..groups.motion import GroupIterator, Groups
from ..groups.padding import padded
from ..order.permutation import permutation
from ..order.random_bits import derive
from ..shadows.traced import AsksTraced, CollatesTraced


@final
@dataclass(frozen=True, eq=False, repr=False)
class Bucket(FunctionVersion[Any]):
    """Batches of items of similar length, which need little padding.

    Each ``window`` of items is sorted by length and cut into batches. The batches of a group come in
    an order drawn from (seed, epoch, group). Every item comes once. The items after the last full
    batch form a smaller batch, unless ``drop_last`` leaves them out.

    State: O(1), upstream's from before the current group, the number of the group, and an offset. A
    resume reads the group again.

    Args:
      upstream: stage whose items are batched.
      length: returns the length of an item, an integer of at least 0, the same in every run; or a
        list of names, for items that are dicts: the lengths of these fields, each padded
        separately. Items are then sorted by the sum of their lengths.
      batch_size: most items in a batch.
      max_tokens: most tokens in a batch, which are the number of items times their padded length,
        over all fields named in ``length``; or a dict with a limit for each field. With a dict,
        items are sorted by the sum of their shares of the limits. Give ``batch_size``,
        ``max_tokens`` or both.
      window: items in a group, at least 1. Larger groups need less padding and keep less of
        upstream's order.
      seed: of the order of batches, in [0, 2**64).
      boundaries: ascending lengths, as in `tf.data.Dataset.bucket_by_sequence_length`; the items of
        a batch lie on the same side of each boundary. A length equal to a boundary belongs to the
        upper side. Not with several lengths.
      multiple_of: lengths are rounded up to a multiple of this number, for the padding and the
        token count.
      collate: makes a batch of a list of items; by default ``rs.padded(multiple_of=multiple_of)``.
      drop_last: leave out the last batch of a group, or of its part between two boundaries, unless
        the batch has ``batch_size`` items; with ``max_tokens`` alone the last batch is always left
        out.
      fn_version: a string or a number; change this value whenever the function's results change. A
        state saved with another version is refused.

    Raises:
      InvalidArgument: if a number is out of range, ``boundaries`` do not ascend or are given for
        several lengths, ``max_tokens`` has other fields than ``length``, both ``batch_size`` and
        ``max_tokens`` are missing, or a function carries state.
      InvalidType: if an argument has the wrong type.
      MalformedItem: while iterating, if ``length`` returns no length, or an item lacks a field or
        alone has more than ``max_tokens``.

    >>> texts = rs.from_sequence([[1], [2, 2, 2], [3], [4, 4]])
    >>> [batch.tolist() for batch in texts.bucket(len, batch_size=2)]
    [[[4, 4, 0], [2, 2, 2]], [[1], [3]]]
    """

    identity: ClassVar[IdentityFields] = {
        "fields": IdentityField(ALWAYS, shown_as="length"),
        **dict.fromkeys(("batch_size", "max_tokens"), ALWAYS),
        "window": IdentityField(ALWAYS, shown_as="group"),
        "seed": SEED,
        **dict.fromkeys(("boundaries", "multiple_of", "drop_last"), ALWAYS),
        **FunctionVersion.identity,
    }
    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK
    state_cost = SavedState(
        "a group and an offset; a resume reads the group it is inside again", resumes_before=True
    )

    length_of: Callable[[Any], int] | None
    _: KW_ONLY
    fields: Sequence[str] | None = None  # instead of `length_of`
    batch_size: int | None = None
    max_tokens: int | Mapping[str, int] | None = None
    window: int = 1024
    seed: int = 0
    boundaries: Sequence[int] | None = None
    multiple_of: int | None = None
    collate: Callable[[list[Any]], Any] | None = None
    drop_last: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fields is None:
            check_stateless("length", check_callable("length", self.length_of))
        else:
            object.__setattr__(self, "fields", _check_fields(self.fields))
            object.__setattr__(self, "max_tokens", self._check_budgets())
        for name in ("batch_size", "max_tokens", "multiple_of"):
            value = getattr(self, name)
            if value is not None and not (self.fields and isinstance(value, dict)):
                object.__setattr__(self, name, check_int(name, value, minimum=1))
        if self.batch_size is None and self.max_tokens is None:
            raise InvalidArgument("there must be batch_size or max_tokens, got neither")
        object.__setattr__(self, "window", check_int("group", self.window, minimum=1))
        check_field(self, "seed", check_seed)
        if self.boundaries is not None:
            object.__setattr__(self, "boundaries", _check_boundaries(self.boundaries))
            if self.fields and len(self.fields) > 1:
                raise InvalidArgument(
                    f"boundaries must be None where length has several fields, got {shorten(self.boundaries)}"
                )
        if self.collate is not None:
            check_stateless("collate", self.collate)
        check_bool("drop_last", self.drop_last)

    def _check_budgets(self) -> Any:
        """``max_tokens``; a dict gets Python integers in the order of the fields."""
        given = self.max_tokens
        if not isinstance(given, Mapping):
            return given
        fields = list(self.fields or ())
        if given.keys() != {*fields}:
            raise InvalidArgument(
                f"max_tokens must have the fields of length, which are {fields}, got {shorten(given)}"
            )
        return {name: check_int(f"max_tokens[{name!r}]", given[name], minimum=1) for name in fields}

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch, items=endless(self), like=Grouped)

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        length_of = None if self.length_of is None else AsksTraced(self.length_of)
        collate = CollatesTraced(self._collate)
        return replace(self, upstream=inputs.pairs[0], length_of=length_of, collate=collate)

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        groups = Groups(self.upstream, size=self.window).start(epoch)
        return _BucketIterator(self, groups, partial(self._batches, derive(self.seed, epoch)))

    def collated(self, items: list[Any]) -> Any:
        """The batch made of ``items``."""
        return self._collate(items)

    @computed_once
    def _collate(self) -> Callable[[list[Any]], Any]:
        return self.collate or padded(multiple_of=self.multiple_of)

    @computed_once
    def _rule(self) -> Buckets:
        most = self.max_tokens
        return Buckets(
            self.batch_size,
            _budgets_of(most) if isinstance(most, Mapping) else most,
            self.boundaries or (),
            padded(multiple_of=self.multiple_of).rounded,
            self.drop_last,
        )

    def _batches(self, key: int, block: Block, group: int) -> list[list[Any]]:
        """The uncollated batches of a group, in their drawn order."""
        items = block_items(block)
        batches = list(self._rule.batches(self._lengths(items)))
        order = permutation(len(batches), key, group)(np.arange(len(batches))).tolist()
        return [[items[number] for number in batches[place]] for place in order]

    def _lengths(self, items: list[Any]) -> Indices:
        """The lengths of the items, shape (n, fields)."""
        if self.fields is not None:
            return np.array([_lengths_of_fields(item, self.fields) for item in items], np.int64)
        assert self.length_of is not None
        found = list(map(self.length_of, items))
        lengths = np.array(found)
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.min() < 0:
            raise MalformedItem(f"length must return integers of at least 0, got {shorten(found)}")
        return lengths.astype(np.int64)[:, None]


class _BucketIterator(GroupIterator[Any]):
    """Collates each batch on demand."""

    _stage: Bucket

    def pull(self, count: int) -> Block:
        return list(map(self._stage.collated, super().pull(count)))

    def items(self) -> Items[Any]:
        return super().items().through(partial(map, self._stage.collated))


def _budgets_of(max_tokens: Mapping[str, int]) -> int | list[int]:
    """The budget of each field, or the budget itself if there is one field."""
    budgets = list(max_tokens.values())
    return budgets if len(budgets) > 1 else budgets[0]


def _lengths_of_fields(item: Any, fields: Sequence[str]) -> list[int]:
    try:
        return [len(item[name]) for name in fields]
    except (TypeError, KeyError, IndexError):
        raise MalformedItem(
            f"items to bucket must be dicts with the fields {list(fields)}, which have a length, got "
            f"{shorten(item)}"
        ) from None


def _check_fields(fields: Any) -> tuple[str, ...]:
    """Return the names in alphabetical order."""
    if not isinstance(fields, (list, tuple)) or not all(isinstance(name, str) for name in fields):
        raise InvalidType(f"length must be callable or a list of names, got {shorten(fields)}")
    if not fields or len(set(fields)) < len(fields):
        raise InvalidArgument(
            f"length must name one or more fields, each once, got {shorten(list(fields))}"
        )
    return tuple(sorted(fields))


def _check_boundaries(boundaries: Any) -> tuple[int, ...]:
    is_list = isinstance(boundaries, (Sequence, np.ndarray)) and not isinstance(boundaries, str)
    if not (is_list and is_several(boundaries)):
        raise InvalidType(f"boundaries must be a list of integers, got {shorten(boundaries)}")
    checked = tuple(
        check_int(f"boundaries[{place}]", one, minimum=1) for place, one in enumerate(boundaries)
    )
    if any(low >= high for low, high in pairwise(checked)):
        raise InvalidArgument(f"boundaries must ascend, got {shorten(list(checked))}")
    return checked
