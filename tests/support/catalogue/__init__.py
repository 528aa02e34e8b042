"""A catalogue of pipelines with every source and stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs
from resumable.testing.samples import with_noise

from ..facts import STAGE_FACTS
from .files import over_files, write_data
from .order import ORDER, in_order
from .sources import SOURCES

__all__ = ["SHARE_AN_OBJECT", "catalogue", "write_data"]


def catalogue(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """Pipelines by name; each call makes a new one, with data of its own where it is stateful."""
    return SOURCES | over_files(folder) | of_stages() | {"everything": everything}


def of_stages() -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """The pipelines that the facts of stages name."""
    return in_order(STAGE_FACTS.merged(lambda facts: facts.pipelines), ORDER)


def everything() -> rs.Pipeline[Any]:
    return (
        rs.mix(rs.range(50).shuffle(1), rs.range(100, 150), seed=3)
        .random_map(with_noise, 1)
        .repeat(3)
        .shard(1, 2)
        .shuffle(9, window=10)
        .batch(4)
        .prefetch(2)
    )


# Pipelines of an object with state, which belongs to one running iterator at a time.
SHARE_AN_OBJECT = (
    "iterable getstate",
    "iterable state_dict",
    "iterable state_dict repeated",
    *STAGE_FACTS.gathered(lambda facts: facts.sharing_an_object),
)
