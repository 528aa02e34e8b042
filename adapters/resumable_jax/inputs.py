"""What has a state that Orbax can save: an iterator of a pipeline, or a loop over one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import resumable as rs
from resumable.checkpoint.loop import ResumedLoop
from resumable.core.stage import Stage
from resumable.errors import shorten
from resumable.state.encoding import dumps_frozen
from resumable.state.value import State

__all__ = ["Input", "RunningInput", "as_running", "is_input", "put_state"]


class RunsAhead(Protocol):
    """What reads ahead of a loop over ``iterator``, and has the state of what the loop was given."""

    @property
    def iterator(self) -> rs.PipelineIterator[Any]: ...

    @property
    def step(self) -> int: ...

    def get_state(self) -> State: ...

    def set_state(self, state: State) -> None: ...


Input: TypeAlias = "rs.PipelineIterator[Any] | ResumedLoop[Any] | RunsAhead"


class RunningInput(NamedTuple):
    """An input, and the iterator of its pipeline."""

    target: Any
    iterator: rs.PipelineIterator[Any]

    @property
    def stage(self) -> Stage[Any]:
        """The last stage of the pipeline."""
        return self.iterator._stage

    @property
    def step(self) -> int:
        """Number of items that the loop was given."""
        return int(self.target.step)

    def get_state(self) -> State:
        """The state after these items."""
        source = self.iterator if isinstance(self.target, ResumedLoop) else self.target
        return source.get_state()


def is_input(value: Any) -> bool:
    """Whether ``value`` has the state of a pipeline's iterator."""
    if isinstance(value, (rs.PipelineIterator, ResumedLoop)):
        return True
    runs_ahead = hasattr(value, "get_state") and hasattr(value, "set_state")
    return runs_ahead and isinstance(getattr(value, "iterator", None), rs.PipelineIterator)


def as_running(name: str, value: Any) -> RunningInput:
    """``value`` with its iterator.

    Args:
      name: of the argument, for errors.
      value: what the user gave.

    Raises:
      InvalidType: if it has no state, saying what to pass.
    """
    if isinstance(value, rs.PipelineIterator):
        return RunningInput(value, value)
    if is_input(value):
        return RunningInput(value, value.iterator)
    hint = ""
    if isinstance(value, rs.Pipeline):
        hint = "; a pipeline has no position: iterator = iter(pipeline) once before the loop, and pass that"
    if isinstance(value, rs.Checkpointer):
        hint = (
            "; a Checkpointer saves to a store of its own: pass the loop that its resume() returns"
        )
    raise rs.InvalidType(
        f"{name} must be an iterator of a pipeline, such as iter(pipeline), or a loop over one, got "
        f"{shorten(value)}{hint}"
    )


def put_state(running: RunningInput, state: State) -> None:
    """Let the input go on at ``state``.

    The loop of a `Checkpointer` is left where it is. It must have been resumed at the same step.

    Raises:
      StateMismatch: if ``state`` belongs to another pipeline, or the loop of a `Checkpointer` stands
        elsewhere.
    """
    if not isinstance(running.target, ResumedLoop):
        running.target.set_state(state)
        return
    with rs.Pipeline(running.stage).resume(state) as there:
        if dumps_frozen(there.get_state()) == dumps_frozen(running.get_state()):
            return
        raise rs.StateMismatch(
            f"the checkpoint holds the input at step {there.step}, and the loop of the Checkpointer stands at "
            f"step {running.step}: begin it with resume(pipeline, step={there.step}), or load into iter(pipeline)"
        )
