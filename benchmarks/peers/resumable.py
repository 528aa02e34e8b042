"""resumable."""

from __future__ import annotations

from typing import Any

from benchmarks.work import (
    SEED,
    Arrays,
    Bucket,
    Integers,
    JsonLines,
    Pack,
    Prepare,
    Source,
    Start,
    Work,
)

NAME = "resumable"
DISTRIBUTION = "resumable-loader"
NEEDS = ("resumable",)
EXACT_WINDOW = "yes: a few hundred bytes of positions; the window is read again"


def configurations(work: Work) -> dict[str, Prepare]:
    """One configuration, as the README writes it."""
    return {"": lambda folder: _prepare(work)}


def _prepare(work: Work) -> Start:
    pipeline = _pipeline(work)
    return lambda: iter(pipeline)


def _pipeline(work: Work) -> Any:
    pipeline = _source(work.source)
    if work.shuffle:
        pipeline = pipeline.shuffle(SEED)
    executor = work.executor if work.workers else "thread"
    if not work.partitions:
        return _done(pipeline, work, work.workers, executor)

    def chain(part: Any) -> Any:
        return _done(part, work, 0, "thread")

    return pipeline.partition(work.partitions, chain, workers=work.workers, executor=executor)


def _done(pipeline: Any, work: Work, workers: int, executor: str) -> Any:
    """``pipeline`` with what comes after a shuffle of all items."""
    if work.window is not None:
        pipeline = pipeline.shuffle(SEED, window=work.window)
    if work.map is not None:
        pipeline = pipeline.map(work.map, workers=workers, executor=executor)
    if work.keep is not None:
        pipeline = pipeline.filter(work.keep)
    groups = work.groups
    if isinstance(groups, Bucket):
        return pipeline.bucket(
            len,
            batch_size=work.batch,
            group=groups.window,
            boundaries=groups.boundaries,
            seed=SEED,
        )
    if isinstance(groups, Pack):
        how = "best_fit" if groups.whole else "concatenate"
        pipeline = pipeline.pack(groups.length, group=groups.window, how=how)
    if work.batch is not None:
        pipeline = pipeline.batch(work.batch)
    return pipeline


def _source(source: Source) -> Any:
    import resumable as rs

    if isinstance(source, Arrays):
        return rs.from_arrays(tuple(source.columns.values()))
    if isinstance(source, Integers):
        return rs.range(source.length)
    if isinstance(source, JsonLines):
        return rs.lines(source.path)
    return rs.from_iterable(source.make)
