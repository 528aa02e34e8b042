"""Permitted changes of a stage during a run, if nothing depends on the stage yet."""

# Stages are not imported here, since each stage has a `RunChanges`.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .layout import LISTS, common_layout
from .timeline import ByPosition, Timeline


@dataclass(frozen=True, kw_only=True)
class RunChanges:
    """Permitted changes of the stages of one class; here none.

    Attributes:
      may_begin: whether such a stage may be added during a run. The stage then counts as present
        before, with the defaults of the fields in `identity`, and did nothing; fingerprints leave
        the stage out while fields equal defaults.
      counts_epochs: whether such a stage goes through several epochs of its input.
      if_removed: the likely cause, for errors, if such a stage was saved and is missing.
      if_added: advice, for errors, if such a stage is present and was not saved.
    """

    may_begin: bool = False
    counts_epochs: bool = False
    if_removed: str | None = None
    if_added: str | None = None

    def may_grow(self, stage: Any) -> bool:
        """Whether further inputs may follow the saved inputs."""
        return False

    def cannot_join(self, stage: Any, count: int) -> str | None:
        """Why the inputs after the first ``count`` cannot join a run; None if they can."""
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
        """A copy of ``stage`` with the first ``count`` inputs, if joining ends with their end."""
        return None

    def saved_argument(self, fields: Mapping[str, Any], inputs: int) -> ByPosition | None:
        """The argument whose fields, with dependence `SO_FAR`, must agree only for items read.

        Args:
          fields: of `identity`; fields of a saved stage may lack values equal to defaults.
          inputs: the number of inputs.
        """
        return None

    def argument(self, stage: Any) -> ByPosition | None:
        """The `saved_argument` of ``stage`` as it is."""
        fields = {name: getattr(stage, name) for name in stage._identity_fields}
        return self.saved_argument(fields, len(stage.inputs))

    def with_timeline(self, stage: Any, timeline: Timeline) -> Any:
        """A copy of ``stage`` with another timeline of its `argument`."""
        raise NotImplementedError

    def orders_as(self, stage: Any, other: Any, count: float) -> bool:
        """Whether ``other``, a copy over other upstreams, orders ``count`` first items alike."""
        return True

    def followed_until(self, stage: Any, saved: Timeline, reached: float) -> float:
        """The position up to which delivered items depend on ``saved``, after ``reached`` items."""
        return reached


NO_CHANGES = RunChanges()
