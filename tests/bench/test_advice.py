"""Whoever follows an advice is not given it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.bench.advice import advise, advise_on_loop
from resumable.bench.timed import readers
from resumable.core.graph import walk


def advice(pipeline: rs.Pipeline[Any], name: str, cpu_share: float | None = None) -> str:
    """What is said if the first stage of this name, from the end on, is the bottleneck."""
    found = [stage for stage, _ in walk(pipeline.stage)]
    place = next(n for n, stage in enumerate(found) if type(stage).__name__ == name)
    above, reader = [], readers(pipeline.stage)[place]
    while reader is not None:
        above.append(found[reader])
        reader = readers(pipeline.stage)[reader]
    return advise(found[place], "pipeline", 50, above, cpu_share)


def numbers() -> Iterator[int]:
    return iter(range(99))


def alike(item: Any) -> Any:
    return item


def twice(item: Any) -> Iterable[Any]:
    return [item, item]


def drawn(item: Any, rng: np.random.Generator) -> Any:
    return item


def carried(carry: Any, item: Any) -> Any:
    return carry, item


columns = rs.from_arrays(np.arange(99))
stream = rs.from_iterable(numbers)
busy = rs.range(99).map(alike, workers=2)

# The stage that is the bottleneck; a pipeline that gets an advice; one that follows it; the advice.
FOLLOWED: list[tuple[str, rs.Pipeline[Any], rs.Pipeline[Any], str]] = [
    (
        "Prefetch",
        stream.prefetch(2).batch(32),
        stream.batch(32).prefetch(2),
        "put prefetch after batch",
    ),
    (
        "Prefetch",
        stream.batch(32).unbatch().prefetch(2),
        stream.batch(32).map(alike).prefetch(2),
        "put prefetch after batch",
    ),
    ("FromIterable", stream, stream.prefetch(2), "prefetch(n)"),
    ("FromIterable", stream.batch(4), stream.batch(4).map(alike).prefetch(2), "prefetch(n)"),
    ("Filter", stream.filter(alike), busy.filter(alike), "a map with workers"),
    ("FlatMap", stream.flat_map(twice), busy.flat_map(twice), "a map with workers"),
    (
        "FlatMap",
        stream.flat_map(twice),
        stream.flat_map(twice).map(alike, workers=1),
        "a map with workers",
    ),
    ("Scan", stream.scan(carried, 0), busy.scan(carried, 0), "a map with workers"),
    (
        "RandomMap",
        stream.random_map(drawn, 0),
        stream.random_map(drawn, 0, workers=1, executor="process"),
        'random_map(fn, seed, workers=n, executor="process")',
    ),
    (
        "InterleaveMap",
        stream.interleave_map(twice, cycle_length=2),
        stream.interleave_map(twice, cycle_length=2).unbatch(),
        "unbatch() them",
    ),
    (
        "Unbatch",
        stream.batch(4).unbatch().map(alike),
        stream.batch(4).map(alike).unbatch(),
        "map whole batches",
    ),
    ("Shuffle", rs.range(99).shuffle(0), rs.range(99).batch(4).shuffle(0), "shuffle whole batches"),
    (
        "WindowShuffle",
        stream.shuffle(0, window=9),
        stream.batch(4).shuffle(0, window=9),
        "single Python objects",
    ),
    ("Batch", stream.batch(4), columns.shuffle(0).batch(4), "arrays from from_arrays"),
    ("Batch", stream.batch(4), columns.map(alike).batch(4), "arrays from from_arrays"),
    ("Batch", stream.batch(4), stream.batch(4, collate=alike), "or give it a faster collate"),
    ("Take", stream.take(9), stream.batch(4).take(9), "batch them before it"),
    (
        "Zip",
        rs.zip(stream, stream.batch(4)),
        rs.zip(stream.batch(4), columns.batch(4)),
        "batch them before it",
    ),
]


@pytest.mark.parametrize(("name", "before", "after", "advised"), FOLLOWED)
def test_what_is_followed_is_not_advised_again(
    name: str, before: rs.Pipeline[Any], after: rs.Pipeline[Any], advised: str
) -> None:
    assert advised in advice(before, name)
    told = advice(after, name)
    assert advised not in told
    assert not told.endswith("of the time.")  # something else is said


def test_what_reads_ahead_is_put_where_it_may_stand() -> None:
    shuffled = rs.from_sequence(range(99)).shuffle(0)
    assert "prefetch(n), after Shuffle, reads" in advice(shuffled, "FromSequence")


def test_a_thread_that_waits_is_not_blamed_for_handing_on() -> None:
    ahead = stream.batch(32).prefetch(2)
    assert "leave prefetch out" in advice(ahead, "Prefetch", cpu_share=0.9)
    told = advice(ahead, "Prefetch", cpu_share=0.3)
    assert "leave prefetch out" not in told
    assert "read larger pieces of the source at once" in told


def test_threads_that_compute_in_turn_are_to_be_processes() -> None:
    assert 'executor="process"' in advice(busy, "Map", cpu_share=1.0)
    for share in (None, 0.1, 1.9):
        assert "more of them" in advice(busy, "Map", cpu_share=share)


def test_no_more_workers_are_advised_than_there_are_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("loky", reason="loky is not installed")
    many = rs.range(99).map(alike, workers=4, executor="process")
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert "more of them" in advice(many, "Map", cpu_share=1.0)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert "more of them" not in advice(many, "Map", cpu_share=1.0)


def test_a_loop_over_batches_is_not_told_to_batch() -> None:
    assert "batch(n)" in advise_on_loop(60, stream.stage)
    assert "batch(n)" in advise_on_loop(60, stream.batch(4).unbatch().stage)
    assert "batch(n)" not in advise_on_loop(60, stream.batch(4).map(alike).prefetch(2).stage)


def in_partitions(fn: Any, **options: Any) -> rs.Pipeline[Any]:
    return rs.range(99).partition(24, fn, **options).shard(0, 2)


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("Map", lambda part: part.map(alike)),
        ("Filter", lambda part: part.filter(alike)),
        ("FlatMap", lambda part: part.flat_map(twice)),
        ("Scan", lambda part: part.scan(carried, 0)),
        ("RandomMap", lambda part: part.random_map(drawn, 0)),
        ("Range", lambda part: part),
    ],
)
def test_workers_of_what_is_in_partitions_are_those_of_the_partition(name: str, fn: Any) -> None:
    plain = in_partitions(fn)
    assert 'partition(24, fn, workers=n, executor="process"), with n up to 12' in advice(
        plain, name
    )
    assert "partition(24, fn, workers=n), with n up to 12" in advice(plain, name, cpu_share=0.1)
    threads = in_partitions(fn, workers=2)
    assert "threads, which compute in Python in turn" in advice(threads, name, cpu_share=1.0)
    assert "give partition more of them, up to 12" in advice(threads, name, cpu_share=0.1)
    assert "make its function faster" in advice(in_partitions(fn, workers=12), name)


def test_a_map_in_partitions_is_told_to_leave_its_own_workers_out() -> None:
    pooled = in_partitions(lambda part: part.map(alike, workers=2))
    assert "Leave out the workers of its own" in advice(pooled, "Map")


def test_partitions_as_the_bottleneck_get_an_advice_of_their_own() -> None:
    threads = in_partitions(lambda part: part.map(alike), workers=2)
    assert "give partition more of them" in advice(threads, "Partition")
    assert "hands items on" in advice(in_partitions(lambda part: part.map(alike)), "Partition")


def test_remote_streams_are_read_by_the_workers_of_partitions() -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    urls = [f"memory://advice/{number}.txt" for number in range(4)]
    for url in urls:
        fsspec.filesystem("memory").pipe_file(url.removeprefix("memory:/"), b"1\n2")
    several = "partition(n, lambda part: part.flat_map(fn), workers=n)"
    for lines in (rs.lines(urls), rs.lines(urls).batch(2).prefetch(2)):
        told = advice(lines, "RecordStream", cpu_share=0.1)
        assert f"rs.files(paths).{several.replace('fn', 'read')}." in told
        assert "interleave" not in told
    assert "prefetch(n)" in advice(rs.lines(urls[0]), "RecordStream", cpu_share=0.1)
    files = rs.files(urls)
    opened = files.flat_map(rs.lines)
    assert f"together: {several}." in advice(opened, "FlatMap", cpu_share=0.1)
    assert several not in advice(opened, "FlatMap", cpu_share=0.9)
    assert several in advice(files.interleave_map(rs.lines, cycle_length=2), "InterleaveMap", 0.1)
    dealt = files.partition(4, lambda part: part.flat_map(rs.lines), workers=4)
    assert several not in advice(dealt, "FlatMap", cpu_share=0.1)
