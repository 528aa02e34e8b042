"""The result of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

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
      stage: the first stage at fault, with arguments.
      path: where the stage is, in the form that errors use.
      evidence: the observations, in sentences.
      hint: how to cure the cause.
      position: the item after which the run was resumed; None if plain runs differ.
      item: the number of the first differing item, counted after the stage.
      expected: the item in the reference run, as text.
      got: the actual item or error, as text; None if nothing came.
      unchecked: the failure and the conditions of each failed experiment.
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


@final
@dataclass(frozen=True)
class StageCost:
    """A stage, the promised size of the stage's state, and the bytes in the largest state."""

    stage: str
    path: str
    cost: str
    bytes: int | None


@final
@dataclass(frozen=True)
class Report:
    """The outcome of a verification.

    Attributes:
      target: name of the verified pipeline.
      items: of the reference run.
      complete: whether the reference run came to the pipeline's end.
      planned: the number of planned resumes.
      positions: the number of resumes made: a differing run is not resumed again.
      differences: how many resumes did not continue the reference run.
      processes: how many fresh processes were started.
      resumed: the ways of resuming: unchanged, with other workers, depths and ranks.
      reread: the most source items read again by a resume; None if not measured.
      state_bytes: the largest serialised state.
      get_state_seconds: median time to take a state.
      resume_seconds: median time from opening a checkpoint to the first item.
      stages: of the pipeline, the last one first.
      finding: why the pipeline is not exact; None for an exact pipeline.
      left_out: by stage, how many items the arguments leave out.
      suspicions: by stage, why items seem to be lost at the end of an epoch, or repeated.
      notes: other facts worth knowing.
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
        """Whether nothing was found."""
        return self.finding is None

    def as_json(self) -> dict[str, Any]:
        """The fields by their names, in terms of JSON."""
        return {"exact": self.exact, **asdict(self)}


def stage_costs(stage: Stage[Any], largest: State | None) -> tuple[StageCost, ...]:
    """Each stage with the promised size of state, and the bytes of the stage's part of ``largest``."""
    sizes: dict[str, int] = {}
    if largest is not None:
        for (path, _, name), value in positions(stage_tree(largest)).items():
            saved = list(value.values()) if isinstance(value, Column) else value
            sizes[path] = sizes.get(path, 0) + len(dumps({name: saved})) - len(dumps({}))
    costs = []
    for found, path in walk(stage):
        size = 0 if isinstance(found, PassThrough) else sizes.get(path, 0)
        known = None if largest is None else size
        costs.append(StageCost(str(found), path, saved_state(found).text, known))
    return tuple(costs)
