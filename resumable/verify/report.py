"""The result of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, final

from ..core.graph import walk
from ..core.saved_state import saved_state
from ..core.stage import Stage
from ..core.transform import PassThrough
from ..state.encoding import dumps
from ..state.value import State
from ..views.column import Column
from ..views.state_tree import positions, stage_tree


@final
@dataclass(frozen=True)
class Finding:
    """Why a pipeline is not exact.

    Attributes:
      reason: in a few words, always the same for the same cause.
      stage: the first stage at which it appears, with its arguments.
      path: where that stage is, in the form that errors use.
      evidence: the observations, in sentences.
      hint: what to do about it.
      position: the item after which the run was resumed; None if plain runs differ.
      item: the number of the first item that differs, counted after that stage.
      expected: that item in the reference run, as text.
      got: what came instead, as text; None if nothing came.
      unchecked: experiments that could not be made: what happened, and under which conditions.
    """

    reason: str
    stage: str
    path: str
    evidence: str
    hint: str
    position: int | None = None
    item: int | None = None
    expected: str | None = None
    got: str | None = None
    unchecked: tuple[str, ...] = ()


class StageCost(NamedTuple):
    """A stage, what it promises about its state, and the bytes it took where the state was largest."""

    stage: str
    path: str
    cost: str
    bytes: int | None


@final
@dataclass(frozen=True)
class Report:
    """The outcome of a verification.

    Attributes:
      target: what was verified.
      items: of the reference run.
      complete: whether the reference run came to the pipeline's end.
      planned: the number of resumes that were planned.
      positions: the number that was made: a run that differs is not stopped and resumed again.
      differences: how many of them did not continue the reference run.
      processes: how many fresh processes were started.
      resumed: the ways of resuming: unchanged, with other workers, depths and ranks.
      reread: the most source items that a resume read again; None if it was not measured.
      state_bytes: the largest serialised state.
      get_state_seconds: median time to take one.
      resume_seconds: median time from opening a checkpoint to the first item.
      stages: of the pipeline, the last one first.
      finding: why it is not exact; None if it is.
      left_out: by stage, how many items its arguments make it leave out.
      suspicions: by stage, why it seems to lose items at the end of an epoch.
      notes: what else is worth knowing.
    """

    target: str
    items: int = 0
    complete: bool = True
    planned: int = 0
    positions: int = 0
    differences: int = 0
    processes: int = 0
    resumed: tuple[str, ...] = ()
    reread: int | None = None
    state_bytes: int | None = None
    get_state_seconds: float | None = None
    resume_seconds: float | None = None
    stages: tuple[StageCost, ...] = ()
    finding: Finding | None = None
    left_out: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether there is no finding."""
        return self.finding is None

    def as_json(self) -> dict[str, Any]:
        """The fields by their names, in terms of JSON."""
        found = asdict(self)
        found["stages"] = [stage._asdict() for stage in self.stages]
        return {"exact": self.exact, **found}


def stage_costs(stage: Stage[Any], largest: State | None) -> tuple[StageCost, ...]:
    """What each stage promises about its state, and the bytes of its part of the ``largest``."""
    sizes: dict[str, int] = {}
    if largest is not None:
        for (path, _, name), value in positions(stage_tree(largest)).items():
            saved = list(value.values.values()) if isinstance(value, Column) else value
            sizes[path] = sizes.get(path, 0) + len(dumps({name: saved})) - len(dumps({}))
    return tuple(
        StageCost(
            str(found),
            path,
            saved_state(found).text,
            None
            if largest is None
            else 0
            if isinstance(found, PassThrough)
            else sizes.get(path, 0),
        )
        for found, path in walk(stage)
    )
