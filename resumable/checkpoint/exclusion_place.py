"""Where a run whose pipeline leaves no records out could do so."""

# The last stage behind which `exclude` may stand is chosen: its items are those that come into what groups or drops
# items. It stands before the deals to ranks and partitions, since behind them each would count for itself. Where a
# later stage depends on the number of its items, so that it may not change there, it stands in the partitions.

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from ..core.argument_change import ArgumentChange
from ..core.graph import rebuilt, walk
from ..core.stage import Stage
from ..errors import ResumableError
from ..stages.dealing import Deals
from ..stages.exclude import Exclude, first_record
from ..stages.part import Part
from ..stages.partition import Partition
from .standing import run_standing
from .store import Store


class ExclusionPlace(NamedTuple):
    """Where records may be left out of a run from now on.

    Attributes:
      behind: the name of the stage behind which `exclude` may stand.
      path: of that.
      value: what is left out by now, which is nothing, and from where on that may change.
    """

    behind: str
    path: str
    value: ArgumentChange


def exclusion_place(store: Store, stage: Stage[Any]) -> ExclusionPlace | None:
    """Where records may be left out of the run in ``store``, which ``stage`` is to go on with.

    None if ``stage`` leaves out some already, or nothing in it can.
    """
    found = list(walk(stage))
    if any(isinstance(one, Exclude) for one, _ in found):
        return None
    places = (
        place
        for kinds in ((Deals, Partition), (Partition,))
        for number in islice(_behind_which_it_may_stand(stage, kinds), 1)
        if (place := _place(store, stage, number, *found[number])) is not None
    )
    first = next(places, None)
    return next(places, first) if first is not None and first.value.is_fixed else first


def paths_in_partitions(stage: Stage[Any]) -> set[str]:
    """The paths of the stages in the functions of partitions, whose positions count the items of each."""
    return {
        path
        for found, path in walk(stage)
        if {type(one) for one, _ in walk(found)} & {Part, Partition} == {Part}
    }


def _behind_which_it_may_stand(
    stage: Stage[Any], not_behind: tuple[type[Stage[Any]], ...]
) -> Iterator[int]:
    """The stages, by their numbers in the order of `walk`, that have none of some kinds before them."""
    for number, (one, _) in enumerate(walk(stage)):
        if not any(isinstance(before, not_behind) for before, _ in walk(one)):
            with suppress(ResumableError):
                Exclude(one, records={0: first_record(one)})
                yield number


def _place(
    store: Store, stage: Stage[Any], number: int, behind: Stage[Any], path: str
) -> ExclusionPlace | None:
    with suppress(ResumableError):
        excluding = rebuilt(
            stage, lambda at, one: Exclude(one, records=[]) if at == number else one
        )
        found = run_standing(store, excluding)
        for one in [] if found is None else found.arguments:
            if (one.stage, one.path) == (Exclude.__name__, path):
                return ExclusionPlace(type(behind).__name__, path, one.value)
    return None
