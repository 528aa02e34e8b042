"""What may change of a stage while a run goes on, if nothing depends on it yet."""

# Stages are not imported here, since each has such a value.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .layout import LISTS, common_layout
from .timeline import ByPosition, Timeline


@dataclass(frozen=True, kw_only=True)
class RunChanges:
    """What may change of the stages of one class; here nothing.

    Attributes:
      may_begin: whether it may be added while a run goes on. Then it was there before, with the defaults of the
        fields in `identity`, and did nothing; a fingerprint leaves it out as long as they are.
      counts_epochs: whether such a stage goes through several epochs of its input.
      if_removed: the likely cause, for errors, if such a stage was saved and is no longer there.
      if_added: what to do instead, for errors, if such a stage is there and was not saved.
    """

    may_begin: bool = False
    counts_epochs: bool = False
    if_removed: str | None = None
    if_added: str | None = None

    def may_grow(self, stage: Any) -> bool:
        """Whether further inputs may follow those that were saved."""
        return False

    def cannot_join(self, stage: Any, count: int) -> str | None:
        """Why the inputs after the first ``count`` cannot join a run where `may_grow`; None if they can."""
        before, new = stage.inputs[:count], stage.inputs[count:]
        if all(one.random_access for one in before) and not stage.random_access:
            stream = next(one for one in new if not one.random_access)
            return (
                "an input that joins others with random access must have it too, since the state is a "
                f"position only, got {stream!r}"
            )
        shared = common_layout([one.block_layout for one in before])
        if shared is not LISTS and stage.block_layout is LISTS:
            return (
                "inputs that join must have items of the form that the others have, as arrays or as "
                f"objects, since functions are given blocks of them, got {new!r}"
            )
        return None

    def without_joined(self, stage: Any, count: int) -> Any:
        """A copy of ``stage`` with the first ``count`` inputs, if inputs can join only until it has ended."""
        return None

    def saved_argument(self, fields: Mapping[str, Any], inputs: int) -> ByPosition | None:
        """The argument whose fields, those for `SO_FAR`, must be equal only as far as items were read.

        Args:
          fields: of `identity`; those of a saved stage may lack what has its default.
          inputs: the number of its inputs.
        """
        return None

    def argument(self, stage: Any) -> ByPosition | None:
        """That argument of ``stage``."""
        fields = {name: getattr(stage, name) for name in stage._identity_fields}
        return self.saved_argument(fields, len(stage.inputs))

    def with_timeline(self, stage: Any, timeline: Timeline) -> Any:
        """A copy of ``stage`` in which that argument has another timeline."""
        raise NotImplementedError

    def orders_as(self, stage: Any, other: Any, count: float) -> bool:
        """Whether the first ``count`` items are ordered as by ``other``, a copy over other upstreams."""
        return True

    def followed_until(self, stage: Any, saved: Timeline, reached: float) -> float:
        """Until where what was delivered depends on ``saved``, if ``reached`` items were read."""
        return reached


NO_CHANGES = RunChanges()
