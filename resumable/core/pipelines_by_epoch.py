"""The pipelines of `by_epoch`, as saved in a run and as written by users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline
from .library_stages import changes_of
from .timeline import ByPosition, Timeline

CONTENTS: Final = "contents"
LONGEST_PIPELINE: Final = 100


def follows_from_repeats(pipeline: SavedPipeline) -> bool:
    """Whether ``pipeline`` is a `ByEpoch` only because a `repeat` within it contains a `ByEpoch`.

    An endless repeat, or a repeat that ends in the midst of a change, differs in the next epoch,
    and so do later stages. No user wrote such a `ByEpoch`.
    """
    epochs = [one for _, one in pipeline.epochs]
    if len(epochs) == 1 or not any(map(holds_by_epoch, epochs)):
        return False
    first, *others = map(_without_repeated, epochs)
    return all(other == first for other in others)


def holds_by_epoch(pipeline: SavedPipeline) -> bool:
    """Whether a stage before the last one of ``pipeline`` is a `ByEpoch`."""
    return any(one.name == BY_EPOCH or holds_by_epoch(one) for one in pipeline.inputs)


def _without_repeated(pipeline: SavedPipeline) -> SavedPipeline:
    """``pipeline`` without the inputs of its repeats."""
    repeats = changes_of(pipeline.name).counts_epochs
    inputs = () if repeats else map(_without_repeated, pipeline.inputs)
    return SavedPipeline(pipeline.name, pipeline.version, pipeline.fields, tuple(inputs))


def pipeline_shown(pipeline: SavedPipeline | str) -> str:
    """The pipeline in a few words: its sources."""
    if isinstance(pipeline, str):
        return pipeline  # as saved, as here
    first, *others = _sources_shown(pipeline)
    text = " + ".join([first, *others])
    if len(text) <= LONGEST_PIPELINE:
        return text
    more = f" + {len(others)} more" if others else ""
    return f"{_cut_between_words(first, LONGEST_PIPELINE - len(more))}{more}"


def _cut_between_words(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters; a single long word is cut too."""
    if len(text) <= most:
        return text
    cut = text[: most - 3]
    return f"{cut.rpartition(' ')[0] or cut}..."


def _sources_shown(pipeline: SavedPipeline) -> Iterator[str]:
    if not pipeline.inputs:
        shown = (
            f"{show_name(field)}={_value(value)}"
            for field, value in pipeline.fields.items()
            if field != CONTENTS  # digests, meaningless to people
        )
        yield f"{show_name(pipeline.name)}({', '.join(shown)})"
    for upstream in pipeline.inputs:
        yield from _sources_shown(upstream)


def _value(value: Any) -> str:
    """``value`` as text; text with quotes is not quoted again."""
    is_plain = isinstance(value, str) and value.isprintable() and "'" in value
    return f"<{value}>" if is_plain else repr(value)


def show_name(name: str) -> str:
    """A name from a file, without characters that a terminal would take for a command."""
    return name if name.isidentifier() and name.isascii() else repr(name)


class _Pipelines(ByPosition):
    def written(self, timeline: Timeline) -> str:
        if len(timeline) == 1:
            return f"one pipeline for all epochs, of {self.shown(timeline[0][1])}"
        return f"by_epoch({self.written_value(timeline)})"


PIPELINES: Final = _Pipelines("pipelines", shown=pipeline_shown, unit="epoch")
"""The pipelines of `by_epoch`; the values of a timeline are `SavedPipeline`, or text."""
