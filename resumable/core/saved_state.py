"""What a stage says that it saves."""

from __future__ import annotations

from typing import Any, NamedTuple


class SavedState(NamedTuple):
    """What the state of a stage holds beside that of upstream.

    Attributes:
      text: what it adds, and what a resume reads again, in a few words.
      levels: how many levels of dicts and lists it has around upstream's state.
      resumes_before: whether it holds a state of upstream from before items that were handed out. The
        state of the pipeline then has the epoch, which upstream cannot tell between a resume and the
        next item.
    """

    text: str
    levels: int = 1
    resumes_before: bool = False


def saved_state(stage: Any) -> SavedState:
    """What ``stage`` says that it saves."""
    cost = stage.state_cost
    return SavedState(cost) if isinstance(cost, str) else cost
