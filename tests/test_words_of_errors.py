"""Errors use the words that the user wrote, and say what a wrong value is and why it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from support.facts import STAGE_FACTS
from support.graphs import catalogue, write_data

import resumable as rs
from resumable.core.evidence import Evidence
from resumable.core.fingerprint import fingerprint
from resumable.core.graph import walk
from resumable.core.identity import EPOCHS, ITEMS, PARTS, RANK
from resumable.core.resuming import explain_mismatch
from resumable.core.stage import Stage
from resumable.errors import shorten
from resumable.formats.records import records

BUILT_BY: dict[str, Callable[..., Any]] = {
    "Range": rs.range,
    "FromSequence": rs.from_sequence,
    "FromArrays": rs.from_arrays,
    "FromIterable": rs.from_iterable,
    "Lines": rs.lines,
    "LocatedLines": rs.jsonl,
    "Files": rs.files,
    "Megatron": rs.megatron,
    "Mds": rs.mds,
    "LitData": rs.litdata,
    "ImageFolder": rs.image_folder,
    "RecordStream": rs.lines,
    "LocatedRecords": records,
    **{
        kind.__name__: builder
        for kind, builder in STAGE_FACTS.merged(lambda facts: facts.built_by).items()
        if kind.identity
    },
}


def count_given(stage: Stage[Any]) -> int:
    """How many fields have a value; a mix without names takes a state with any."""
    return sum(getattr(stage, field) is not None for field in stage.identity)


def test_a_mismatch_names_the_argument_that_the_user_wrote(tmp_path: Path) -> None:
    write_data(tmp_path)
    stages: dict[str, Stage[Any]] = {}
    for make in catalogue(tmp_path).values():
        for stage, _ in walk(make().stage):
            if type(stage).__module__.startswith("resumable.") and stage.identity:
                name = type(stage).__name__
                stages[name] = max(stages.get(name, stage), stage, key=count_given)
    others = sorted(set(BUILT_BY) ^ set(stages))
    assert not others, (
        f"{others} must be in `built_by` of the facts of their stage, or in BUILT_BY above, "
        "and in the catalogue, if `identity` is not empty"
    )
    for name, stage in stages.items():
        builder = set(signature(BUILT_BY[name]).parameters)
        for field in stage.identity:
            if isinstance(getattr(stage, field), Evidence):
                continue  # which no argument sets
            dependence = ITEMS | EPOCHS | RANK | PARTS
            saved = json.loads(fingerprint(stage, dependence))
            if len(saved) == 1 or not isinstance(saved[1], dict):
                saved.insert(1, {})
            saved[1][field] = "another"
            told = explain_mismatch(json.dumps(saved), stage, dependence) or ""
            found = re.search(r"saved (.+)=another, this pipeline has (.+?)=", told)
            assert found, told
            assert found[1] == found[2]
            assert builder & set(re.findall(r"\w+", found[1])), f"{told}\n{sorted(builder)}"


class Sampler:
    pass


def test_an_object_is_shown_by_its_class_and_without_its_address() -> None:
    assert shorten(Sampler()) == f"<{__name__}.Sampler object>"
    assert shorten([Sampler()]) == f"[<{__name__}.Sampler object>]"
    deep = type("GroupedSampler", (), {"__module__": "a_package." * 9 + "samplers"})
    assert shorten(deep()).endswith("samplers.GroupedSampler object>")
    assert len(shorten(deep())) <= 60
    assert shorten("x" * 100).startswith("'xxx")


FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "torchdata, workers": (
        {"_snapshot": {}, "_steps_since_snapshot": 0, "_iterator_finished": False},
        "torchdata's StatefulDataLoader",
    ),
    "torchdata, no workers": (
        {
            "_index_sampler_state": None,
            "_sampler_iter_state": None,
            "_sampler_iter_yielded": 1,
            "_num_yielded": 1,
            "_IterableDataset_len_called": None,
            "_shared_seed": None,
            "fetcher_state": None,
            "dataset_state": None,
            "_iterator_finished": False,
        },
        "torchdata's StatefulDataLoader",
    ),
    "torchdata's nodes": ({"root": {"_num_yielded": 1}, "num_yielded": 1}, "torchdata.nodes"),
    "datasets": ({"examples_iterable": {"shard_idx": 0}, "epoch": 0}, "Hugging Face"),
    "mosaic": (
        {
            "epoch": 0,
            "sample_in_epoch": 2,
            "num_canonical_nodes": 64,
            "shuffle_seed": 9,
            "initial_physical_nodes": 1,
        },
        "MosaicML Streaming",
    ),
    "litdata": (
        {
            "dataset": {},
            "current_epoch": 1,
            "num_samples_yielded": 2,
            "latest_worker_idx": 0,
        },
        "LitData",
    ),
    "grain loader": (
        {
            "version": 2,
            "last_seen_indices": {"0": 3},
            "last_worker_index": -1,
            "worker_count": 0,
            "sampler": "",
            "data_source": "",
        },
        "Grain's DataLoader",
    ),
    "grain dataset": ({"next_index": 3}, "Grain"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_the_state_of_another_library_is_called_by_its_name(name: str) -> None:
    state, owner = FOREIGN[name]
    looks_like = f"looks like one of {owner}"
    pipeline = rs.range(9).batch(2)
    with pytest.raises(rs.StateMismatch, match=looks_like) as refused:
        pipeline.resume(state)
    assert f"{sorted(state)[0]}" in str(refused.value)
    with pytest.raises(rs.CorruptCheckpoint, match=looks_like):
        rs.loads(state)  # type: ignore[arg-type]
    with pytest.raises(rs.CorruptCheckpoint, match=looks_like):  # as Grain gives it
        rs.loads(json.dumps(state, indent=4).encode())


def test_what_is_nobodys_state_is_not_called_one() -> None:
    for nothing in ({}, {"a": 1}, {"epoch": 1}, {"position": 3, "upstream": {}}):
        with pytest.raises(rs.StateMismatch) as refused:
            rs.range(9).resume(nothing)
        assert "looks like" not in str(refused.value)
    with pytest.raises(rs.CorruptCheckpoint) as corrupt:
        rs.loads(b'{"a": 1}')
    assert "looks like" not in str(corrupt.value)


def test_a_seed_of_none_is_refused_with_the_reason() -> None:
    refused: list[Callable[[], Any]] = [
        lambda: rs.range(9).shuffle(None),  # type: ignore[arg-type]
        lambda: rs.range(9).shuffle(None, window=3),  # type: ignore[arg-type]
        lambda: rs.range(9).random_map(lambda item, rng: item, seed=None),  # type: ignore[arg-type]
    ]
    for build in refused:
        with pytest.raises(TypeError, match=r"seed must be an integer, got None: .*without a seed"):
            build()
    assert rs.mix(rs.range(3), rs.range(3), seed=None)
