"""A catalogue of pipelines with every source and stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs

from .choosing import CHOOSING
from .files import over_files, write_data
from .grouping import GROUPING
from .joining import JOINING
from .one_for_one import ONE_FOR_ONE
from .partitions import PARTITIONS
from .passing import PASSING
from .reordering import REORDERING
from .sources import SOURCES

__all__ = ["SHARE_AN_OBJECT", "catalogue", "write_data"]


def catalogue(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """Pipelines by name; each call makes a new one, with data of its own where it is stateful."""
    return (
        SOURCES
        | over_files(folder)
        | ONE_FOR_ONE
        | CHOOSING
        | REORDERING
        | GROUPING
        | JOINING
        | PARTITIONS
        | PASSING
    )


# Pipelines of an object with state, which belongs to one running iterator at a time.
SHARE_AN_OBJECT = (
    "map stateful",
    "filter stateful",
    "take_while stateful",
    "cache stateful",
    "scan stateful",
    "random_map stateful",
    "collate stateful",
    "iterable getstate",
    "iterable state_dict",
    "iterable state_dict repeated",
)
