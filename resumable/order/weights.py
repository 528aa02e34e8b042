"""The weights of a mix as whole numbers in exactly their proportions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import ge
from typing import Any, Final, TypeAlias, final

from ..core.arguments import check_int, check_positive
from ..core.orders import MOST_ITEMS
from ..core.timeline import ByPosition, Timeline
from ..errors import InvalidArgument, InvalidType, shorten
from .schedule import LONGEST_ROUND

Weights: TypeAlias = Sequence[float]
WeightsByItem: TypeAlias = Mapping[int, Weights]
Parts: TypeAlias = tuple[int, ...]

RAREST: Final = 2**31


def weights_by_item(
    weights: Weights | WeightsByItem | None, count: int
) -> tuple[Parts, tuple[tuple[int, Parts], ...]]:
    """``weights`` as whole numbers: from item 0 on, and from each item with a change.

    Raises:
      InvalidArgument: if no weights are given for item 0, or if `integer_weights` refuses weights.
      InvalidType: if an item's number is no integer, or ``weights`` are not several numbers.
    """
    if not isinstance(weights, Mapping):
        return integer_weights(weights, count), ()
    parts = {
        check_int("keys of weights", first, minimum=0, maximum=MOST_ITEMS): each
        for first, each in weights.items()
    }
    if 0 not in parts:
        raise InvalidArgument(
            f"weights that change must say those from item 0 on, got {shorten(weights)}"
        )
    ascending = [(first, parts[first]) for first in sorted(parts)]
    begin, *changes = [
        (first, integer_weights(each, count, zeros=True)) for first, each in ascending
    ]
    return begin[1], tuple(changes)


@final
@dataclass(frozen=True)
class ChangingWeights(ByPosition):
    """The weights of several pipelines.

    Args:
      names: of the pipelines, if named.
    """

    names: Sequence[str] | None = None

    def written_value(self, timeline: Timeline) -> str:
        given = {first: self._given(parts, timeline) for first, parts in timeline}
        if len(given) == 1 and all(timeline[0][1]):
            return str(given[0])
        # 0 is a weight only where weights may change.
        return "{" + ", ".join(f"{first:_}: {each}" for first, each in given.items()) + "}"

    def _given(self, parts: Parts, timeline: Timeline) -> Any:
        """``parts`` as users give them: by name, and 0 only for inputs always without weight."""
        if self.names is None:
            return parts
        ever = [any(column) for column in zip(*(each for _, each in timeline), strict=True)]
        columns = zip(self.names, parts, ever, strict=True)
        return {name: part for name, part, is_used in columns if part or not is_used}


def by_name(names: Sequence[str] | None, parts: Parts) -> str:
    """``parts`` as users read them: with names a dict by name, without weights of 0."""
    if names is None:
        return str(parts)
    return str({name: part for name, part in zip(names, parts, strict=True) if part})


def timeline_of(fields: Mapping[str, Any], count: int) -> Timeline | None:
    """The weights of ``count`` pipelines from each item on, from the saved fields of a mix.

    Pipelines missing at the save get weight 0. None if this version does not write such fields, or
    the saved mix has more pipelines.
    """
    parts, changes = fields.get("parts"), fields.get("changes", ())
    if not isinstance(changes, (list, tuple)) or not all(map(_is_pair, changes)):
        return None
    firsts = [0, *(first for first, _ in changes)]
    weights = [parts, *(value for _, value in changes)]
    if not all(map(_is_parts, weights)) or any(map(ge, firsts, firsts[1:])):
        return None
    if sum(weights[0]) > LONGEST_ROUND and fields.get("layout", 1) == 1:
        return None
    if max(map(len, weights)) > count:
        return None
    padded = [(*each, *[0] * (count - len(each))) for each in weights]
    timeline = tuple(zip(firsts, padded, strict=True))
    try:
        (first, later) = weights_by_item(dict(timeline), count)
    except InvalidArgument:
        return None  # no mix has these weights
    return timeline if ((0, first), *later) == timeline else None


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and type(pair[0]) is int


def _is_parts(parts: Any) -> bool:
    if not isinstance(parts, (list, tuple)) or not parts:
        return False
    return all(type(part) is int and part >= 0 for part in parts) and 0 < sum(parts) <= MOST_ITEMS


def integer_weights(weights: Weights | None, count: int, *, zeros: bool = False) -> Parts:
    """``weights`` as the smallest whole numbers in the same proportions.

    A float counts as the simplest fraction that rounds to the float: 0.7 is 7/10, 1 / 3 is 1/3. If
    the sum would exceed 2**62, the proportions are rounded to a sum of about 2**62. Over 2**62
    turns, the most possible, the rounded proportions differ by less than a turn.

    Args:
      weights: one for each pipeline, or None for equal weights.
      count: number of pipelines.
      zeros: whether some, but not all, may be 0.

    Raises:
      InvalidArgument: unless there are ``count`` positive finite numbers, each at least one part in
        2**31 of the sum.
      InvalidType: if ``weights`` are not several numbers.
    """
    if weights is None:
        return (1,) * count
    if isinstance(weights, Set):
        raise InvalidType(f"weights must have an order, got {shorten(weights)}")
    try:
        given = list(weights)
    except TypeError:
        raise InvalidType(f"weights must be several numbers, got {shorten(weights)}") from None
    if len(given) != count:
        raise InvalidArgument(
            f"weights must be one for each of {count} pipelines, got {shorten(given)}"
        )
    for weight in given:
        if not (zeros and type(weight) in (int, float) and weight == 0):
            check_positive("weights", weight, "numbers")
    exact = [_as_fraction(weight) for weight in given]
    total = sum(exact, Fraction(0))
    if not total:
        raise InvalidArgument(f"weights must not all be 0, got {shorten(given)}")
    for number, part in enumerate(exact):
        if 0 < part * RAREST < total:
            raise InvalidArgument(
                f"weights must each be at least one part in 2**31 of their sum, got {shorten(given)}, "
                f"of which number {number} is less"
            )
    scale = math.lcm(*(weight.denominator for weight in exact))
    parts = [int(weight * scale) for weight in exact]
    divisor = math.gcd(*parts)
    parts = [part // divisor for part in parts]
    if sum(parts) > MOST_ITEMS:
        return tuple(round(weight / total * MOST_ITEMS) for weight in exact)
    return tuple(parts)


def _as_fraction(weight: Any) -> Fraction:
    if isinstance(weight, numbers.Rational):
        return Fraction(int(weight.numerator), int(weight.denominator))
    return Fraction(weight) if isinstance(weight, Decimal) else _simplest(float(weight))


def _simplest(number: float) -> Fraction:
    """The first convergent of the continued fraction of ``number`` that rounds to ``number``."""
    rest = Fraction(number)
    before, found = (0, 1), (1, 0)
    while True:
        whole = rest.numerator // rest.denominator
        before, found = found, (whole * found[0] + before[0], whole * found[1] + before[1])
        if found[0] / found[1] == number:
            return Fraction(*found)
        rest = 1 / (rest - whole)
