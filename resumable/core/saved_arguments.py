"""The arguments by position in a fingerprint, read without a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline
from .library_stages import changes_of
from .pipelines_by_epoch import PIPELINES, follows_from_repeats
from .timeline import ByPosition, Timeline


class SavedArgument(NamedTuple):
    """An argument by position in a fingerprint.

    Attributes:
      stage: name of the stage with the argument.
      path: of the stage.
      argument: the kind of argument.
      timeline: the value.
    """

    stage: str
    path: str
    argument: ByPosition
    timeline: Timeline

    @property
    def written(self) -> str:
        """The argument as users write it."""
        return self.argument.written(self.timeline)


def saved_arguments(fingerprint: Any) -> list[SavedArgument]:
    """The arguments by position of the library's stages in ``fingerprint``, the last stage first.

    Unreadable parts are left out, as a file from elsewhere may hold anything.
    """
    with suppress(ValueError, TypeError, RecursionError):
        # A stage after a stage that changes with the epoch appears once for each of the pipelines.
        found = _found(SavedPipeline.read(fingerprint))
        return list({(one.stage, one.path, one.written): one for one in found}.values())
    return []


def _found(pipeline: SavedPipeline) -> Iterator[SavedArgument]:
    for stage, path in pipeline.walk():
        if len(stage.epochs) > 1:
            if not follows_from_repeats(stage):
                yield SavedArgument(BY_EPOCH, path, PIPELINES, tuple(stage.epochs))
            continue
        argument = changes_of(stage.name).saved_argument(stage.fields, len(stage.inputs))
        timeline = None if argument is None else argument.timeline(stage.fields)
        if argument is not None and timeline is not None:
            found = SavedArgument(stage.name, path, argument, timeline)
            with suppress(ValueError, TypeError):  # as for names of the wrong type
                if found.written:
                    yield found
