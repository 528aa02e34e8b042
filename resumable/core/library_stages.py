"""Facts about the library's stages, found by the names in fingerprints."""

from __future__ import annotations

from typing import Any

from .run_changes import NO_CHANGES, RunChanges
from .stage import Stage


def library_stage(name: str) -> type[Stage[Any]] | None:
    """The loaded stage of the library named ``name``, or None. Stages of users may share a name."""
    waiting: list[type[Any]] = [Stage]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name and kind.__module__.startswith("resumable."):
            return kind
        waiting += kind.__subclasses__()
    return None


def changes_of(name: str) -> RunChanges:
    """The permitted changes in a run of the stages named ``name``."""
    kind = library_stage(name)
    return NO_CHANGES if kind is None else kind._run_changes


def names_rank(name: str, field: str) -> bool:
    """Whether a field of the stages named ``name`` identifies the rank that saved a state."""
    kind = library_stage(name)
    described = {} if kind is None else kind._identity_fields
    return field in described and described[field].names_rank
