"""The description of a stage's state."""

from __future__ import annotations

from typing import Any, NamedTuple


class SavedState(NamedTuple):
    """Contents of a stage's state, in addition to the state of upstream.

    Attributes:
      text: contents, and what a resume reads again, in a few words.
      levels: levels of dicts and lists around upstream's state.
      resumes_before: whether the state holds a state of upstream from before items that were handed
        out. The state of the pipeline then records the epoch, which upstream does not know between
        a resume and the next item.
    """

    text: str
    levels: int = 1
    resumes_before: bool = False


def saved_state(stage: Any) -> SavedState:
    """The `state_cost` of ``stage`` as a `SavedState`."""
    cost = stage.state_cost
    return SavedState(cost) if isinstance(cost, str) else cost
