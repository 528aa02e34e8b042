"""Where `exclude` may be added to the pipeline of a run."""

# `exclude` is placed as late as possible: its items are then the inputs of the stages that group or
# drop items. `exclude` comes before the deals to ranks and partitions, since after a deal each rank
# or partition would count for itself. If a later stage depends on the number of its items, so a
# change before the deals is refused, `exclude` is placed in the partitions.

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
      behind: the name of the stage directly before `exclude`.
      path: of the stage ``behind``.
      value: the records left out by now, which are none, and from where on a change is possible.
    """

    behind: str
    path: str
    value: ArgumentChange


def exclusion_place(store: Store, stage: Stage[Any]) -> ExclusionPlace | None:
    """Where records may be left out of the run in ``store``, which ``stage`` will resume.

    None if ``stage`` already has an `exclude`, or has no possible place.
    """
    found = list(walk(stage))
    if any(isinstance(one, Exclude) for one, _ in found):
        return None
    places = (
        place
        for kinds in ((Deals, Partition), (Partition,))
        for number in islice(_behind_which_it_may_stand(stage, kinds), 1)
        if (place := _place_after(store, stage, number, *found[number])) is not None
    )
    first = next(places, None)
    return next(places, first) if first is not None and first.value.is_fixed else first


def paths_in_partitions(stage: Stage[Any]) -> set[str]:
    """The paths of stages in the functions of partitions; positions count the items of each."""
    return {
        path
        for found, path in walk(stage)
        if {type(one) for one, _ in walk(found)} & {Part, Partition} == {Part}
    }


def _behind_which_it_may_stand(
    stage: Stage[Any], not_behind: tuple[type[Stage[Any]], ...]
) -> Iterator[int]:
    """The numbers, in the order of `walk`, of stages with no stage of ``not_behind`` before."""
    for number, (one, _) in enumerate(walk(stage)):
        if not any(isinstance(before, not_behind) for before, _ in walk(one)):
            with suppress(ResumableError):
                Exclude(one, records={0: first_record(one)})
                yield number


def _place_after(
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
