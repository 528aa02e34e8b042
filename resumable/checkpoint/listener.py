"""The object called by the loop at its saves."""

from __future__ import annotations


class CheckpointListener:
    """Called when the loop begins and ends, and at each save; every method may be left out.

    All methods are called in the thread of the loop, also if saves are asynchronous. `before_save`
    is called within the saved step, and `after_save` when the writing is done, perhaps after a
    later step. An exception of a method reaches the caller of the loop; an exception of
    `before_save` prevents the save. If the loop continues and saves the step again, the calls
    resume at the listener that raised. No method may call `Checkpointer.save` of the same
    checkpointer.

    A model saved in `before_save` is committed by the checkpoint of the input: on resume,
    `Checkpointer.step` is the step of the newest valid checkpoint, and the model of that step
    exists.

    >>> class SavesModel(rs.CheckpointListener):
    ...     def before_save(self, step):
    ...         print("model of step", step)
    >>> trigger = rs.EverySteps(2)
    >>> with rs.Checkpointer(rs.Memory(), trigger, listeners=[SavesModel()]) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(4)))
    model of step 2
    model of step 4
    """

    def begin(self) -> None:
        """Called before the first item of the loop."""

    def before_save(self, step: int) -> None:
        """Called when the state of the input at ``step`` was taken and is about to be stored."""

    def after_save(self, step: int, path: str) -> bool | None:
        """Called when the state at ``step`` is stored at ``path``; return True to stop the loop."""
        return None

    def end(self, step: int) -> None:
        """Called when the loop has ended without an exception, after ``step`` steps."""
