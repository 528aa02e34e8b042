"""Inputs whose state another library saves: an iterator of a pipeline, or a loop over one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

from ..core.iterator import PipelineIterator
from ..core.stage import Stage
from ..errors import InvalidType, shorten
from ..pipeline import Pipeline
from ..state.value import State
from .checkpointer import Checkpointer
from .loop import ResumedLoop


class KeepsAhead(Protocol):
    """A reader ahead of a loop over ``iterator``; its state follows the items given to the loop."""

    @property
    def iterator(self) -> PipelineIterator[Any]: ...

    @property
    def step(self) -> int: ...

    def get_state(self) -> State: ...

    def set_state(self, state: State) -> None: ...


Input: TypeAlias = "PipelineIterator[Any] | ResumedLoop[Any] | KeepsAhead"


class SaveableInput(NamedTuple):
    """An input, and the iterator of the input's pipeline."""

    target: Any
    iterator: PipelineIterator[Any]

    @property
    def stage(self) -> Stage[Any]:
        """The last stage of the pipeline."""
        return self.iterator._stage

    @property
    def step(self) -> int:
        """Number of items given to the loop."""
        return int(self.target.step)

    def get_state(self) -> State:
        """The state after the items given to the loop."""
        source = self.iterator if isinstance(self.target, ResumedLoop) else self.target
        state: State = source.get_state()
        return state


def is_input(value: Any) -> bool:
    """Whether ``value`` has the state of a pipeline's iterator."""
    if isinstance(value, (PipelineIterator, ResumedLoop)):
        return True
    runs_ahead = hasattr(value, "get_state") and hasattr(value, "set_state")
    return runs_ahead and isinstance(getattr(value, "iterator", None), PipelineIterator)


def as_saveable(name: str, value: Any) -> SaveableInput:
    """``value`` with its iterator.

    Args:
      name: of the argument, for errors.
      value: the user's argument.

    Raises:
      InvalidType: if ``value`` has no state, with advice.
    """
    if isinstance(value, PipelineIterator):
        return SaveableInput(value, value)
    if is_input(value):
        return SaveableInput(value, value.iterator)
    hint = ""
    if isinstance(value, Pipeline):
        hint = "; a pipeline has no position: iterator = iter(pipeline) once before the loop, and pass that"
    if isinstance(value, Checkpointer):
        hint = (
            "; a Checkpointer saves to a store of its own: pass the loop that its resume() returns"
        )
    raise InvalidType(
        f"{name} must be an iterator of a pipeline, such as iter(pipeline), or a loop over one, got "
        f"{shorten(value)}{hint}"
    )


def put_state(saveable: SaveableInput, state: State) -> None:
    """Let the input continue from ``state``.

    The loop of a `Checkpointer` does not move. It must have been resumed at the same step.

    Raises:
      StateMismatch: if ``state`` belongs to another pipeline, or the loop of a `Checkpointer` is at
        another position.
    """
    if not isinstance(saveable.target, ResumedLoop):
        saveable.target.set_state(state)
        return
    with Pipeline(saveable.stage).resume(state) as there:
        saveable.target.check_stands_at(there)
