"""The shadow of every pipeline of the catalogue, and of random graphs, moves as the pipeline does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.graphs import SHARE_AN_OBJECT, catalogue
from support.tiers import thinned

import resumable as rs
from resumable.core.graph import walk, without_threads
from resumable.shadows.shadow import shadow_of
from resumable.shadows.traced import Traced
from resumable.stages.window_shuffle import WindowShuffle
from resumable.testing import pipelines
from resumable.testing.comparing import same

NAMES = [name for name in catalogue(Path()) if name not in SHARE_AN_OBJECT]
MOST = 60

Maker = Callable[[], rs.Pipeline[Any]]


@pytest.fixture
def make(request: pytest.FixtureRequest, catalogue_data: Path) -> Maker:
    return catalogue(catalogue_data)[request.param]


def paired(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Traced[Any]]:
    """The items of ``pipeline`` with their origins, by which the shadow decides where items do."""
    return rs.Pipeline(shadow_of(without_threads(pipeline.stage), paired=True))


def holds_items(pipeline: rs.Pipeline[Any]) -> bool:
    """Whether a state has items of the pipeline."""
    stages = [stage for stage, _ in walk(pipeline.stage)]
    return any(isinstance(stage, WindowShuffle) and stage.carry for stage in stages)


def check_shadow(pipeline: rs.Pipeline[Any], seed: object) -> None:
    """See that a shadow has an origin for each item, in the same order and at the same states."""
    items, states = [], []
    with iter(pipeline) as iterator:
        states.append(iterator.get_state())
        for item in islice(iterator, MOST):
            items.append(item)
            states.append(iterator.get_state())
    with iter(paired(pipeline)) as iterator:
        pairs = list(islice(iterator, MOST))
    assert len(pairs) == len(items)
    for number, (item, pair) in enumerate(zip(items, pairs, strict=True)):
        assert same(item, pair.item), f"item {number} is {item!r}, its pair {pair!r}"
    expected = [pair.origin for pair in pairs]
    shadow = rs.origins(pipeline)
    with iter(shadow) as iterator:
        for number, origin in enumerate(expected):
            assert next(iterator) == origin, f"origin {number}"
            assert same(iterator.get_state(), states[number + 1]), f"state after {number}"
    if holds_items(pipeline):  # whose origins are not known after a resume
        return
    for cut in thinned(range(len(items)), 3, seed):
        with iter(shadow) as iterator:
            iterator.set_state(states[cut])
            assert list(islice(iterator, MOST - cut)) == expected[cut:], f"resumed at {cut}"
    if shadow.stage.random_access:
        for index in thinned(range(len(items)), 3, seed):
            assert shadow[index] == expected[index]


@pytest.mark.parametrize("make", thinned(NAMES, 45, "origins"), indirect=True)
def test_each_item_has_its_origin(make: Maker, request: pytest.FixtureRequest) -> None:
    check_shadow(make(), request.node.name)


@given(pipeline=pipelines())
def test_each_item_of_a_random_graph_has_its_origin(pipeline: rs.Pipeline[Any]) -> None:
    check_shadow(pipeline, "random")
