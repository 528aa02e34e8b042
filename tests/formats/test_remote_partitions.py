"""Partitions of remote archives: the storage options go with the function, to workers and ranks."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from formats.archives import archive
from support.s3_server import s3_server

import resumable as rs

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(package, reason=f"{package} is not installed")

SHARDS = 3
EACH = 7
EXPECTED = {f"{shard}-{number}" for shard in range(SHARDS) for number in range(EACH)}


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """Those with which a bucket of three compressed archives is read; no environment helps."""
    shards = {
        f"train/{shard}.tar.gz": gzip.compress(
            archive([(f"{shard}-{number}.txt", b"text") for number in range(EACH)])
        )
        for shard in range(SHARDS)
    }
    with s3_server(shards) as address, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield {"endpoint_url": address, "key": "key", "secret": "a5ecret"}


def of_some_shards(shards: rs.Pipeline[str], options: dict[str, Any]) -> rs.Pipeline[str]:
    samples = shards.flat_map(partial(rs.tar, storage_options=options))
    return samples.map(lambda sample: sample["__key__"])


def pipeline(options: dict[str, Any], **workers: Any) -> rs.Pipeline[str]:
    shards = rs.files("s3://bucket/train/*.tar.gz", storage_options=options).shuffle(seed=0)
    return shards.partition(3, partial(of_some_shards, options=options), **workers)


def test_worker_processes_read_with_the_options_of_the_function(options: dict[str, Any]) -> None:
    pytest.importorskip("loky", reason="loky is not installed")
    expected = list(pipeline(options))
    assert set(expected) == EXPECTED
    with iter(pipeline(options, workers=2, executor="process")) as iterator:
        assert [next(iterator) for _ in range(5)] == expected[:5]
        state = rs.dumps(iterator.get_state())
    assert b"a5ecret" not in state
    assert list(pipeline(options).resume(rs.loads(state))) == expected[5:]


def test_another_number_of_ranks_goes_on_with_other_credentials(options: dict[str, Any]) -> None:
    parts, seen = [], list[str]()
    for rank in range(2):
        with iter(pipeline(options).shard(rank, 2)) as iterator:
            seen += [next(iterator) for _ in range(5)]
            parts.append(rs.loads(rs.dumps(iterator.get_state())))
    state = rs.merge_states(parts)
    renewed = options | {"secret": "another"}
    for rank in range(3):
        seen += pipeline(renewed).shard(rank, 3).resume(state)
    assert sorted(seen) == sorted(EXPECTED)


def test_what_is_shown_of_the_function_leaves_out_the_options(options: dict[str, Any]) -> None:
    shards = rs.files("s3://bucket/train/*.tar.gz", storage_options=options)
    shown = shards.flat_map(partial(rs.tar, storage_options=options))
    assert "FlatMap(fn=partial(tar, storage_options=...))" in str(shown)
    assert "a5ecret" not in repr(shown) + shown.describe() + repr(pipeline(options))
