"""Items of any object with a length and access by index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, final

import numpy as np

from ..core.block import Block, Indices
from ..core.computed_once import computed_once
from ..core.evidence import UNKNOWN, Evidence
from ..core.identity import ALWAYS, IdentityFields
from ..core.indexed import Indexed
from ..core.layout import LISTS, ColumnsLike, Layout
from ..core.lookup import LookedUp
from ..core.orders import MOST_ITEMS
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .arrays import check_no_mask, row_lookup, rows_between
from .identity import DATA_IDENTITY, LENGTH, check_identity, evidence_of

T = TypeVar("T")

BUILT_IN = (list, tuple, range)  # their look-up runs no code of the user
T_co = TypeVar("T_co", covariant=True)


class Indexable(Protocol[T_co]):
    """Anything with ``__len__`` and ``__getitem__`` by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


def is_sequence(value: object) -> bool:
    """Whether ``value`` can be indexed from 0 to its length; false for mappings."""
    if isinstance(value, type) or hasattr(value, "keys"):
        return False
    if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        return False
    return not _is_stream(value)


def _is_stream(value: Any) -> bool:
    """Whether the class of ``value`` adds iteration to a missing look-up, as torch's streams do."""
    methods = {"__getitem__", "__iter__"}
    defined = (methods & vars(kind).keys() for kind in type(value).__mro__)
    if next(filter(None, defined), methods) != {"__iter__"}:
        return False
    try:
        value[0]
    except Exception as error:  # another error if the data set is empty
        return isinstance(error, NotImplementedError)
    return False


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromSequence(LookedUp[T]):
    """The items of ``sequence``: a list, a `numpy.memmap`, an array of h5py or zarr, a torch or Hugging Face dataset.

    Many items are looked up at once where possible: by ``__getitems__``, or by `numpy.take` for an
    array, with copied rows.

    State: O(1), the position. Random access; a resume reads nothing.

    Args:
      sequence: has ``__len__``, or a ``shape``, and ``__getitem__``; the length must not change
        later. A pipeline has its items of epoch 0 in every epoch; a state saved with another
        pipeline is refused.
      data_identity: identifies the data beyond the length: a version, a digest or a list of file
        names. The value must be the same at save and resume.
    Raises:
      InvalidType: if ``sequence`` lacks a method, or is a mapping, a masked array or an array
        without an axis; or if ``data_identity`` is neither a string nor a list of strings.
      InvalidArgument: if ``sequence`` has more than 2**62 items.

    >>> list(rs.from_sequence("abc"))
    ['a', 'b', 'c']
    """

    identity: ClassVar[IdentityFields] = {
        "length": replace(LENGTH, shown_as="len(sequence)"),
        "data_identity": DATA_IDENTITY,
        "inner": ALWAYS,
    }
    state_cost = "the position"

    sequence: Indexable[T]
    _: KW_ONLY
    data_identity: str | None = None
    # For a pipeline; states of earlier versions have nothing to compare with.
    inner: Evidence = field(init=False, repr=False, default=UNKNOWN)
    _length: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_identity", check_identity(self.data_identity))
        object.__setattr__(self, "inner", evidence_of(self.sequence))
        sequence: Any = self.sequence
        check_no_table("sequence", sequence)
        # An array of zarr has no length, but a first axis.
        shape: Any = getattr(sequence, "shape", None)
        if not is_sequence(sequence) and not (shape and hasattr(sequence, "__getitem__")):
            raise InvalidType(
                "sequence must have __len__ and __getitem__ by position, "
                f"got {shorten(self.sequence)}; use from_iterable for anything else"
            )
        check_no_mask("sequence", sequence)
        if shape == ():
            raise InvalidType(f"sequence must have a first axis, got {self.sequence!r}")
        try:
            length = len(sequence) if hasattr(sequence, "__len__") else shape[0]
        except OverflowError:  # a range with more items than `len` can return
            length = sys.maxsize
        if length > MOST_ITEMS:
            raise InvalidArgument(
                f"sequence must have at most 2**62 items, got {shorten(self.sequence)}"
            )
        object.__setattr__(self, "_length", length)

    @property
    def user_functions(self) -> Mapping[str, Callable[..., Any]]:
        return {"sequence.__getitem__": self.sequence.__getitem__}

    @property
    def length(self) -> int:
        return self._length

    @computed_once
    def block_layout(self) -> Layout:
        is_array = isinstance(self.sequence, np.ndarray)
        return ColumnsLike(np.asarray(self.sequence)) if is_array else LISTS

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        sequence: Any = self.sequence
        if isinstance(sequence, np.ndarray):
            array = np.asarray(sequence)
            return Indexed(
                self._gather, row_lookup(array), gather_range=rows_between(array), every_epoch=True
            )
        gather_range = _gather_range(sequence) if type(sequence) in BUILT_IN else None
        return Indexed(
            self._gather, sequence.__getitem__, gather_range=gather_range, every_epoch=True
        )

    def _gather(self, indices: Indices) -> Block:
        sequence: Any = self.sequence
        if isinstance(sequence, np.ndarray):
            return np.asarray(sequence).take(indices, axis=0)
        if type(sequence) in BUILT_IN:
            return list(map(sequence.__getitem__, indices.tolist()))
        many = getattr(sequence, "__getitems__", None)
        if many is not None:
            items = list(many(indices.tolist()))
            if len(items) != len(indices):
                raise MalformedItem(
                    f"__getitems__ of {shorten(sequence)} must return an item for each of "
                    f"{len(indices)} indices, got {len(items)}"
                )
            return items
        return [sequence[index] for index in indices.tolist()]

    def __repr__(self) -> str:
        kind = type(self.sequence).__name__
        return f"FromSequence({kind} of {self._length} items, by index)"


def check_no_table(name: str, value: Any) -> None:
    """Refuse a table of pyarrow or pandas: iterating yields columns and not rows.

    Raises:
      InvalidType: if ``value`` is a table; the message names ways to the rows.
    """
    library = type(value).__module__.partition(".")[0]
    if (library, hasattr(value, "columns")) in (("pyarrow", True), ("pandas", True)):
        rows = "to_pylist()" if library == "pyarrow" else 'to_dict("records")'
        raise InvalidType(
            f"{name} must give rows, but those of a {library} {type(value).__name__} are columns; use "
            f"from_sequence(table.{rows}) or from_arrays with a dict of its columns as arrays"
        )


def _gather_range(sequence: Any) -> Callable[[int, int], Block]:
    """A function that returns the items of a built-in sequence from a start to a stop."""

    def gather_range(start: int, stop: int) -> Block:
        items = list(sequence[start:stop])
        if len(items) < stop - start:
            sequence[stop - 1]  # raises what a look-up beyond the end does
        return items

    return gather_range
