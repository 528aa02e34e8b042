"""Pipelines that change from some epoch on."""

# All stages except counters of epochs, such as `repeat`, start their inputs in their own epoch. So
# a stage over inputs that change with the epoch changes too: in each epoch it equals the stage over
# the inputs of the epoch. `by_epoch` splits a pipeline accordingly: the pipeline of each epoch is
# an ordinary pipeline, and no stage needs to know more than one length of an input.

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeVar, final

from ..errors import InvalidArgument, shorten
from .arguments import check_int, check_type
from .computed_once import computed_once
from .epoch_runs import EpochRuns
from .exclusion import check_records
from .function_state import calling_with_state
from .graph import with_inputs
from .identity import ALWAYS, NOTHING, Dependence, IdentityField, IdentityFields
from .records import Records
from .relation import InputItems, Relation, Same
from .saved_state import SavedState
from .stage import Stage, as_stage
from .stage_iterator import StageIterator

T = TypeVar("T")

ENDLESS_EPOCHS: Final = 1 << 32
"""Epochs counted for an endless `repeat`, since its items may be cut short and repeated in turn."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class ByEpoch(Stage[T]):
    """In each epoch the items of one of several pipelines: the last to begin by that epoch.

    Later stages apply to each of the pipelines, except for a `repeat`, which counts the epochs.

    State: the state of the pipeline of the epoch. Random access is kept if all pipelines have it.

    Args:
      upstreams: the pipelines.
      starts: the first epoch of each pipeline, ascending.

    Attributes:
      length: the length in the first epoch.

    >>> pipeline = rs.by_epoch({0: rs.range(3), 2: rs.range(10, 12)})
    >>> list(pipeline.repeat(3))
    [0, 1, 2, 0, 1, 2, 10, 11]
    """

    identity: ClassVar[IdentityFields] = {
        "starts": IdentityField(ALWAYS, shown_as="first epochs of pipelines")
    }
    depends_on: ClassVar[Dependence] = NOTHING
    unchanged = True
    state_cost = SavedState("nothing", levels=0)
    _in_path = False

    upstreams: tuple[Stage[Any], ...]
    starts: tuple[int, ...]
    # The epoch before which the last pipeline ends, for a part of a pipeline limited to some
    # epochs.
    stop: float = field(default=math.inf, repr=False)

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.upstreams

    def _with_inputs(self, inputs: tuple[Stage[Any], ...]) -> Stage[T]:
        return replace(self, upstreams=inputs)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return self._in_epoch(epoch).start(epoch)

    def relation(self, epoch: int) -> Relation:
        of = self._in_epoch(max(epoch, self.starts[0]))
        return Same(self, epoch, input_at=lambda _: InputItems(of, epoch))

    def _records_of_inputs(self, records: Records) -> Sequence[Records]:
        # The records of each name must be in one of the pipelines. Another pipeline may have fewer.
        if not records.may_lack and self._lack(records) is not None:
            for one in records.by_name:
                if lack := self._lack(one):
                    raise lack
        return [records.lenient] * len(self.upstreams)

    def _lack(self, records: Records) -> InvalidArgument | None:
        """The error for ``records`` in the first pipeline; None if any pipeline has all."""
        lack = None
        for first, upstream in zip(self.starts, self.upstreams, strict=True):
            try:
                check_records(upstream, first, records)
            except InvalidArgument as error:
                lack = lack or error
            else:
                return None
        return lack

    @computed_once
    def _changes(self) -> tuple[int, ...]:
        found = set(self.starts[1:])
        for upstream, (first, stop) in zip(self.upstreams, self.spans, strict=True):
            found |= {epoch for epoch in upstream._changes if first < epoch < stop}
        return tuple(sorted(found))

    def _in_epoch(self, epoch: int) -> Stage[Any]:
        return in_epoch(self.of(epoch), epoch)

    @property
    def spans(self) -> list[tuple[int, float]]:
        """The first epoch of each pipeline, and the first epoch after it."""
        return list(zip(self.starts, [*self.starts[1:], self.stop], strict=True))

    def of(self, epoch: int) -> Stage[T]:
        """The pipeline of ``epoch``."""
        if epoch < self.starts[0]:
            raise InvalidArgument(
                f"this part of a pipeline begins in epoch {self.starts[0]}, got epoch {epoch}: {self!r}"
            )
        return self.upstreams[bisect_right(self.starts, epoch) - 1]

    def within(self, first: int, stop: int) -> Stage[T]:
        """A copy for the epochs from ``first`` to ``stop``; the pipeline if only one remains."""
        spans = [
            (max(begin, first), upstream)
            for upstream, (begin, end) in zip(self.upstreams, self.spans, strict=True)
            if begin < stop and end > first
        ]
        starts, upstreams = zip(*spans, strict=True)
        if (starts, stop) == (self.starts, self.stop):
            return self
        return upstreams[0] if len(upstreams) == 1 else ByEpoch(upstreams, starts, stop)


def in_epoch(stage: Stage[Any], epoch: int) -> Stage[Any]:
    """A copy of ``stage`` over its inputs in ``epoch``; ``stage`` if no epochs differ."""
    if not stage._changes:
        return stage
    own = stage._in_epoch(epoch)
    if own is not None:
        return own
    inputs = tuple(in_epoch(upstream, epoch) for upstream in stage.inputs)
    return with_inputs(stage, inputs)


def by_epoch(stage: Stage[Any]) -> Stage[Any]:
    """``stage`` as a `ByEpoch` of the pipelines of epochs; a single pipeline if all are equal.

    Raises:
      InvalidArgument: if the pipeline of some epoch cannot be built.
    """
    if not stage._changes:
        return stage.upstreams[0] if isinstance(stage, ByEpoch) else stage
    first, stop = (stage.starts[0], stage.stop) if isinstance(stage, ByEpoch) else (0, math.inf)
    split = one_by_epoch(
        [(epoch, in_epoch(stage, epoch)) for epoch in (first, *stage._changes)], stop
    )
    if isinstance(stage, ByEpoch) and split.inputs == stage.inputs:
        return stage
    return split


def one_by_epoch(pairs: Sequence[tuple[int, Stage[Any]]], stop: float = math.inf) -> Stage[Any]:
    """The stage that equals, from each epoch of ``pairs`` on, the paired stage; epochs ascend."""
    changes = [
        pair
        for number, pair in enumerate(pairs)
        if not number or pair[1] is not pairs[number - 1][1]
    ]
    starts, upstreams = zip(*changes, strict=True)
    return upstreams[0] if len(upstreams) == 1 else ByEpoch(upstreams, starts, stop)


def of_each_epoch(stage: Stage[Any]) -> list[tuple[tuple[int, float], Stage[Any]]]:
    """((first epoch, first epoch after), pipeline) for the pipelines of ``stage``."""
    split = by_epoch(stage)
    if isinstance(split, ByEpoch):
        return list(zip(split.spans, split.upstreams, strict=True))
    return [((0, math.inf), split)]


def runs_of(stage: Stage[Any], first: int, epochs: float) -> EpochRuns:
    """The runs of ``epochs`` epochs of ``stage``, starting with epoch ``first``."""
    if not isinstance(stage, ByEpoch):
        return EpochRuns([0], [stage.length], epochs)
    spans = zip(stage.spans, stage.upstreams, strict=True)
    runs = [
        (max(begin - first, 0), upstream.length)
        for (begin, end), upstream in spans
        if begin < first + max(epochs, 1) and end > first
    ]
    if not runs:  # look-ahead asks for the epoch after the last epoch of the stage
        runs = [(0, stage.upstreams[-1].length)]
    return EpochRuns([begin for begin, _ in runs], [length for _, length in runs], epochs)


def checked_pipelines(pipelines: Any) -> Stage[Any]:
    """The stage of the ``pipelines`` given by a user, keyed by the first epoch of each.

    Raises:
      InvalidArgument: if there is no pipeline, the epochs do not ascend from 0, or a function that
        carries state is called again after epochs without it.
      InvalidType: if ``pipelines`` is no dict, an epoch no integer, or a value no pipeline.
    """
    wanted = "a dict with the epoch from which on each holds, such as {0: old, 3: new}"
    check_type("pipelines", pipelines, Mapping, wanted)
    starts = tuple(
        check_int("epochs of pipelines", epoch, minimum=0, maximum=ENDLESS_EPOCHS - 1)
        for epoch in pipelines
    )
    if starts[:1] != (0,) or any(left >= right for left, right in pairwise(starts)):
        raise InvalidArgument(
            f"epochs of pipelines must ascend from 0, got {shorten(list(starts))}"
        )
    upstreams = tuple(as_stage(one, f"pipelines[{epoch}]") for epoch, one in pipelines.items())
    return checked_by_epoch(ByEpoch(upstreams, starts))


def checked_by_epoch(stage: Stage[Any]) -> Stage[Any]:
    """`by_epoch` of ``stage``, for pipelines written by a user.

    Raises:
      InvalidArgument: if a function that carries state is called again after epochs without it.
    """
    split = by_epoch(stage)
    if isinstance(split, ByEpoch):
        _check_states_of_functions(split)
    return split


def _check_states_of_functions(stage: ByEpoch[Any]) -> None:
    """Refuse to leave out a function that carries state in the epochs between others.

    A state contains only the state of its epoch's pipeline, so the function's state would be lost
    in between.
    """
    last_calling = dict[int, int]()  # the number of the last pipeline, by the `id` of the function
    for number, upstream in enumerate(stage.upstreams):
        for found in calling_with_state(upstream):
            before = last_calling.setdefault(id(found.function), number)
            if before < number - 1:
                raise InvalidArgument(
                    "pipelines that call the same function with state of its own must follow each other, since only "
                    f"the state of the current one is saved, got {found} from epochs {stage.starts[before]} and "
                    f"{stage.starts[number]}, and not from epoch {stage.starts[before + 1]}; use a new function"
                )
            last_calling[id(found.function)] = number
