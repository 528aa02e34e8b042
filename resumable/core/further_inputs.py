"""Further inputs at the end of a stage that reads one after another, in a run that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from .timeline import UNBOUNDED, ByPosition, Continuation, Timeline


class Inputs(ByPosition):
    """The inputs of a stage; a timeline has the number of each."""

    def written(self, timeline: Timeline) -> str:
        return f"{len(timeline)} input{'s' if len(timeline) > 1 else ''}"


INPUTS: Final = Inputs("upstreams", unit="input")


@dataclass(frozen=True)
class InputsContinuation(Continuation):
    """Inputs as a run was saved with them and as a pipeline that is to go on has them."""

    @classmethod
    def of(
        cls, saved: Sequence[Any], present: Sequence[Any], problem: str | None
    ) -> InputsContinuation:
        """How the inputs ``saved`` go on with ``present``, which begin with them.

        ``problem`` is why none can follow those that were saved; None if they can.
        """
        before, after = (
            tuple((number, None) for number in range(len(each))) for each in (saved, present)
        )
        return cls(INPUTS, before, after, UNBOUNDED if problem else len(saved), problem)

    @property
    def may_change(self) -> str:
        if self.is_fixed:
            return super().may_change
        return f"at its end: further inputs may follow these {len(self.saved)}"

    @property
    def disagreement(self) -> str | None:
        if self.agrees:
            return None
        return f"saved with {len(self.saved)} upstreams, this pipeline has {len(self.present)}; {self.refused}"
