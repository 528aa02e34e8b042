"""A function that its user has numbered, and a state of another number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.graphs import document, with_noise

import resumable as rs
from resumable.core.function_version import FunctionVersion
from resumable.core.graph import walk

numbers = rs.range(40)
VERSIONED: dict[str, Callable[[Any], rs.Pipeline[Any]]] = {
    "map": lambda version: numbers.map(abs, version=version),
    "random_map": lambda version: numbers.random_map(with_noise, 3, version=version),
    "map_batches": lambda version: numbers.map_batches(list, 3, version=version),
    "filter": lambda version: numbers.filter(abs, version=version),
    "take_while": lambda version: numbers.take_while(lambda number: True, version=version),
    "flat_map": lambda version: numbers.flat_map(lambda number: [number] * 2, version=version),
    "interleave": lambda version: numbers.interleave_map(lambda number: [number] * 2, 3, version=version),
    "scan": lambda version: numbers.scan(lambda carry, number: (0, number), 0, version=version),
    "bucket": lambda version: numbers.map(document).bucket(len, batch_size=3, version=version),
    "filter behind pack": lambda version: (
        numbers.filter(abs, version=version).map(document).pack(16, group=7)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERSIONED)
def test_a_state_of_another_version_of_a_function_is_refused(name: str) -> None:
    make = VERSIONED[name]
    stages = [type(stage) for stage, _ in walk(make(1).stage) if isinstance(stage, FunctionVersion)]
    assert stages
    for saved in (None, 1, "b"):
        with iter(make(saved)) as iterator:
            first = next(iterator)
            state = rs.loads(rs.dumps(iterator.get_state()))
        with make(saved).resume(state) as again:
            assert len([first, *again]) == len(list(make(saved)))
        for other in {None, 1, 2, "b"} - {saved}:
            with pytest.raises(rs.StateMismatch, match=f"saved version={saved}, this .*={other}; "):
                make(other).resume(state)


@pytest.mark.parametrize("version", [1.5, True, np.int64(1), b"1"])
def test_a_version_is_a_string_or_an_integer(version: Any) -> None:
    with pytest.raises(rs.InvalidType, match="version must be a string or an integer"):
        numbers.filter(abs, version=version)
