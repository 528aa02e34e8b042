"""The stages of a pipeline with measurements, and as the boxes of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from ..bench import BenchReport, percent
from ..bench.report import StageTime
from ..core.combine import Combine
from ..core.epochs import ByEpoch
from ..core.graph import walk
from ..core.stage import Stage
from ..errors import InvalidArgument
from ..stages.partition import Partition
from ..verify.report import StageCost
from ..views.description import ShownStage
from ..views.graph_layout import GraphNode
from .bench import work_of

MOST_INPUTS: Final = 12
"""Most inputs of a stage to draw. Of more inputs, `SHOWN_INPUTS` and a box for the rest."""
SHOWN_INPUTS: Final = 10


@final
@dataclass(frozen=True, eq=False)
class ReportStage:
    """A stage and its figures in a report.

    Attributes:
      shown: the stage.
      number: in the order in which items pass: the first source has 1.
      path: where the stage is, in the form that errors use.
      name: of the stage.
      arguments: all arguments other than defaults.
      inputs: the upstream stages.
      share: of the loop's time, from 0 to 1; None if not measured.
      percent: the same in whole percent.
      is_slowest: whether the stage is the bottleneck.
      work: working time for an item of the pipeline, in words; empty if not measured.
      bytes: of this stage's part of the state; None if not measured.
    """

    shown: ShownStage
    number: int
    path: str
    name: str
    arguments: str
    inputs: tuple[ReportStage, ...]
    share: float | None = None
    percent: int | None = None
    is_slowest: bool = False
    work: str = ""
    bytes: int | None = None

    @property
    def stage(self) -> Stage[Any]:
        """The stage itself."""
        return self.shown.stage

    @property
    def saves(self) -> bool:
        """Whether the stage adds to the state."""
        return not self.shown.saved.startswith("nothing")

    @property
    def text(self) -> str:
        """The stage with all `arguments`."""
        return f"{self.name}({self.arguments})"

    @property
    def drawn_inputs(self) -> tuple[ReportStage, ...]:
        """The inputs drawn in the graph."""
        return self.inputs if len(self.inputs) <= MOST_INPUTS else self.inputs[:SHOWN_INPUTS]

    @property
    def hidden_inputs(self) -> tuple[ReportStage, ...]:
        """The inputs left out of the graph."""
        return self.inputs[len(self.drawn_inputs) :]

    def in_order(self, *, drawn: bool = False) -> Iterator[ReportStage]:
        """All stages up to this stage, in the order of items; with ``drawn`` only the drawn stages."""
        for one in self.drawn_inputs if drawn else self.inputs:
            yield from one.in_order(drawn=drawn)
        yield self


def report_stages(stage: Stage[Any], bench: BenchReport, sizes: Sequence[StageCost]) -> ReportStage:
    """``stage`` and all earlier stages, with measurements.

    Args:
      stage: the last stage.
      bench: the measurement of the pipeline.
      sizes: parts of a state, used where ``bench`` has none.
    """
    measured = bench.stages[:-1]
    shares = percent([one.share for one in bench.stages])
    paths = [path for _, path in walk(stage)]
    places, numbers = iter(range(len(paths))), iter(range(1, len(paths) + 1))

    def build(shown: ShownStage) -> ReportStage:
        place = next(places)
        inputs = tuple(map(build, shown.inputs))
        name, _, arguments = str(shown.stage).partition("(")
        timed = measured[place] if measured else None
        size = timed.bytes if timed else sizes[place].bytes if sizes else None
        return ReportStage(
            shown,
            next(numbers),
            paths[place],
            name,
            arguments.removesuffix(")"),
            inputs,
            timed and timed.share,
            shares[place] if timed else None,
            place == bench.bottleneck,
            work_of(timed) if timed else "",
            size,
        )

    return build(ShownStage(stage))


def check_same_stages(
    stage: Stage[Any], found: Sequence[StageTime | StageCost], option: str, path: str
) -> None:
    """Refuse a report of another pipeline.

    Args:
      stage: the last stage.
      found: each stage in the report, in the order of `walk`.
      option: the command-line option of the report.
      path: of the report's file.

    Raises:
      InvalidArgument: if the stages of the report differ from the pipeline of ``stage``.
    """
    ours = [(type(one).__name__, where) for one, where in walk(stage)]
    theirs = [(one.stage.partition("(")[0], one.path) for one in found]
    if ours == theirs:
        return
    difference = f"{len(theirs)} stages where there are {len(ours)} here"
    for (name, place), (other, where) in zip(ours, theirs, strict=False):
        if (name, place) != (other, where):
            difference = f"{other} at {where} where there is {name} at {place} here"
            break
    raise InvalidArgument(
        f"{option} must be of the same pipeline, got {path}, which has {difference}"
    )


def graph_of(last: ReportStage) -> GraphNode:
    """The boxes of the graph up to ``last``."""
    ends: set[int] = set()  # of frames: the parts dealt by a partition

    def build(found: ReportStage) -> GraphNode:
        frame = None
        if isinstance(found.stage, Partition):
            ends.update(map(id, found.stage.parts))
            frame = f"{found.stage.count:,} partition{'s' * (found.stage.count > 1)}"
        size = f" ({found.bytes:,} bytes)" if found.bytes is not None and found.saves else ""
        node = GraphNode(
            found.name,
            tooltip=f"{found.text} at {found.path}",
            number=str(found.number),
            mark="" if found.percent is None else f"{found.percent} %",
            code=(found.arguments,) if found.arguments else (),
            facts=(("items", f"{found.shown.items}, {found.shown.access}"), ("state", found.shown.saved + size)),
            accent=found.saves,
            inputs=tuple(map(build, found.drawn_inputs)),
            labels=tuple(_labels(found.stage))[: len(found.drawn_inputs)],
            frame=frame,
            ends_frame=id(found.stage) in ends,
        )  # fmt: skip
        if not found.hidden_inputs:
            return node
        inputs = (*node.inputs, _box_of_others(found))
        return replace(node, inputs=inputs, labels=node.labels and (*node.labels, ""))

    return build(last)


def _box_of_others(found: ReportStage) -> GraphNode:
    hidden = found.hidden_inputs
    stages = [one for last in hidden for one in last.in_order()]
    share = sum(one.percent or 0 for one in stages)
    return GraphNode(
        f"and {len(hidden):,} more",
        tooltip=f"{len(hidden):,} more inputs of {found.text} at {found.path}",
        mark="" if stages[0].percent is None else f"{share} %",
        facts=(("stages", f"{stages[0].number} to {stages[-1].number}"),),
        dashed=True,
    )


def _labels(stage: Stage[Any]) -> Iterator[str]:
    """The label of each input of ``stage``."""
    if isinstance(stage, ByEpoch):
        yield from (f"from epoch {start}" for start in stage.starts)
    elif isinstance(stage, Combine):
        yield from stage.names or ()
