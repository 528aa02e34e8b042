"""Records of sources, by number and by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np

from ..errors import InvalidArgument, InvalidType, shorten
from .arguments import check_int, check_strings
from .block import NO_INDICES, Indices

RecordNumbers: TypeAlias = "Iterable[int] | Mapping[str, RecordNumbers]"
"""Records as users write them: numbers, or a dict of records by name of an input or file."""

MOST_SHOWN: Final = 32
"""The most numbers that a fingerprint lists. Of more numbers, the fingerprint has only a digest."""
DEEPEST: Final = 64
LARGEST: Final = (1 << 62) - 1


@final
@dataclass(frozen=True)
class Records:
    """Records of a source, or of a stage that joins several sources.

    Args:
      numbers: of records, from 0, ascending; shape (n,), int64.
      named: records of an input or of a file, by its name.
      may_lack: whether records may be missing in the data, as in the pipelines of some epochs.
    """

    NONE: ClassVar[Records]

    numbers: Indices = field(default_factory=lambda: NO_INDICES)
    named: Mapping[str, Records] = field(default_factory=dict)
    may_lack: bool = False

    @classmethod
    def of(cls, given: Any, depth: int = 0) -> Records:
        """The records given by a user.

        Raises:
          InvalidArgument: if a number is below 0.
          InvalidType: if ``given`` is neither integers nor a dict of records by name.
        """
        if not isinstance(given, Mapping):
            return cls(_numbers(given))
        check_strings("names in records", given)
        if depth > DEEPEST:
            raise InvalidArgument(f"records must be nested at most {DEEPEST} deep")
        named = {name: cls.of(given[name], depth + 1) for name in sorted(given)}
        return cls(named={name: one for name, one in named.items() if one})

    def __bool__(self) -> bool:
        return bool(len(self.numbers) or self.named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Records) and self.known_as == other.known_as

    def __repr__(self) -> str:
        return shown_records(self.known_as)

    def __hash__(self) -> int:
        return hash(self.known_as)

    @property
    def lenient(self) -> Records:
        """A copy with ``may_lack``."""
        return replace(self, may_lack=True)

    @property
    def by_name(self) -> Sequence[Records]:
        """The records of each name; a list of ``self`` without names."""
        if not self.named:
            return [self]
        return [replace(self, named={name: one}) for name, one in self.named.items()]

    def of_names(self, names: Iterable[str] | None, what: str) -> dict[str, Records]:
        """The records of each of ``names``, which are all the names of inputs or files of ``what``.

        Raises:
          InvalidArgument: if the records are numbers, or a name is unknown.
        """
        known = list(names or ())
        if len(self.numbers):
            by_name = f"a dict such as {{{known[0]!r}: [12]}}" if known else "by name"
            raise InvalidArgument(
                f"records of {what} must be {by_name}, since it has several inputs"
                f"{'' if known else ', which have no names here'}, got {shorten(self.numbers.tolist())}"
            )
        for name in self.named:
            if name not in known and not self.may_lack:
                raise InvalidArgument(
                    f"records must name an input or a file of {what}, which has {shorten(known)}, got {name!r}"
                )
        return {
            name: replace(self.named.get(name, self.NONE), may_lack=self.may_lack) for name in known
        }

    def by_source(self, starts: Sequence[int]) -> list[Records]:
        """The records of each of several sources, numbered consecutively across sources.

        Args:
          starts: the number of the first record of each source.
        """
        cuts = np.searchsorted(self.numbers, starts[1:])
        parts = zip(np.split(self.numbers, cuts), starts, strict=True)
        return [replace(self, numbers=numbers - start) for numbers, start in parts]

    def below(self, length: int | float, what: str = "the source") -> Indices:
        """The numbers, shape (n,), where ``what`` has ``length`` records.

        Raises:
          InvalidArgument: if ``what`` has fewer records, or the records are given by name.
        """
        for name in () if self.may_lack else self.named:
            raise InvalidArgument(
                f"records must be numbers where a source has no files that can be named, got {name!r}"
            )
        numbers = self.numbers
        if len(numbers) and int(numbers[-1]) >= length:
            if self.may_lack:
                return numbers[: np.searchsorted(numbers, length)]
            raise InvalidArgument(
                f"records must be less than the number of those of {what}, {length}, got {int(numbers[-1])}"
            )
        return numbers

    @property
    def known_as(self) -> tuple[Any, ...]:
        """The records in a fingerprint.

        The numbers; or for many numbers their count, as text, and their digest; or (name,
        `known_as`) pairs.
        """
        if self.named:
            return tuple((name, one.known_as) for name, one in self.named.items())
        if len(self.numbers) <= MOST_SHOWN:
            return tuple(self.numbers.tolist())
        digest = hashlib.sha256(self.numbers.astype("<i8").tobytes()).hexdigest()
        return f"{len(self.numbers)} records", digest


Records.NONE = Records()


def records_known_as(value: tuple[Any, ...]) -> Records:
    """The records with the `Records.known_as` ``value``; none where only the digest is known."""
    if value and isinstance(value[0], tuple):
        return Records(named={name: records_known_as(one) for name, one in value})
    return Records.NONE if _is_digest(value) else Records(np.array(value, np.int64))


def shown_records(value: tuple[Any, ...]) -> str:
    """``value``, a `Records.known_as`, as users write it."""
    if value and isinstance(value[0], tuple):
        return f"{{{', '.join(f'{name!r}: {shown_records(one)}' for name, one in value)}}}"
    return f"<{value[0]}>" if _is_digest(value) else str(list(value))


def read_known_as(value: Any, depth: int = 0) -> tuple[Any, ...] | None:
    """``value``, from a state, as a `Records.known_as`; None if invalid."""
    if not isinstance(value, (list, tuple)) or depth > DEEPEST:
        return None
    if value and all(isinstance(one, (list, tuple)) for one in value):
        pairs = list[tuple[str, Any]]()
        for one in value:
            if len(one) != 2 or type(one[0]) is not str:
                return None
            inner = read_known_as(one[1], depth + 1)
            if not inner:
                return None
            pairs.append((one[0], inner))
        names = [name for name, _ in pairs]
        return tuple(pairs) if names == sorted(set(names)) else None
    if all(type(one) is str for one in value):
        return tuple(value) if len(value) in (0, 2) else None
    if not all(type(one) is int and 0 <= one <= LARGEST for one in value):
        return None
    return tuple(value) if list(value) == sorted(set(value)) else None


def _is_digest(value: tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], str)


def _numbers(given: Any) -> Indices:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidType(f"records must be several integers, got {shorten(given)}")
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu":
        for extreme in (given.min(), given.max()) if given.size else ():
            _number(extreme)  # checked before the conversion to int64, which may not fit
        return np.unique(given.astype(np.int64))
    return np.unique(np.array(list(map(_number, given)), np.int64))


def _number(given: Any) -> int:
    return check_int("records", given, minimum=0, maximum=LARGEST)
