"""Deal sources out into parts, and let a function build the pipeline of a partition on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..core import Stage, check_int
from ..core.arguments import check_callable, check_strings
from ..core.epochs import ByEpoch, by_epoch
from ..core.stage import as_stage
from ..errors import InvalidArgument, InvalidType, shorten
from ..state.partitions import MOST_PARTITIONS
from .part import Part
from .partition import Partition

Sources: TypeAlias = "Mapping[str, Stage[Any]] | Sequence[Stage[Any]]"
"""The stages partitioned together; if the stages have names, ``fn`` gets the parts by name."""


def partition(
    sources: Sources,
    count: int,
    fn: Callable[..., Any],
    wrap: Callable[[Stage[Any]], Any],
    **options: Any,
) -> Partition[Any]:
    """The stage that runs the pipeline built by ``fn`` over each of ``count`` parts of ``sources``.

    Args:
      sources: stages with random access.
      count: number of partitions.
      fn: takes ``wrap(part)`` for a part of each source.
      wrap: turns a stage into the object that users build with.
      options: fields of `Partition`.
    """
    count = check_int("count", count, minimum=1, maximum=MOST_PARTITIONS)
    named = dict(_labelled(sources))
    for source in named.values():
        _check_random_access(source)
    parts = {label: by_epoch(Part(one, 0, count)) for label, one in named.items()}
    built = as_stage(_called(fn, sources, list(map(wrap, parts.values()))), "the result of fn")
    _check_built(built, parts, count)
    return Partition(built, **options)


def checked_sources(sources: Any) -> Sources:
    """The stages of ``sources``, with names if ``sources`` is a dict.

    Raises:
      InvalidType: if ``sources`` is neither a dict nor a sequence of pipelines.
      InvalidArgument: if ``sources`` is empty.
    """
    if isinstance(sources, Mapping):
        check_strings("names of sources", sources)
        found: Sources = {
            name: as_stage(one, f"sources[{name!r}]") for name, one in sources.items()
        }
    elif isinstance(sources, (list, tuple)):
        found = [as_stage(one, f"sources[{place}]") for place, one in enumerate(sources)]
    else:
        raise InvalidType(
            f"sources must be a dict or a list of pipelines, got {shorten(sources)}; for one pipeline "
            "write pipeline.partition(count, fn)"
        )
    if not found:
        raise InvalidArgument("sources must be one pipeline or more, got none")
    return found


def _labelled(sources: Sources) -> Iterator[tuple[str, Stage[Any]]]:
    """Each source with its label for errors."""
    if isinstance(sources, Mapping):
        yield from ((repr(name), source) for name, source in sources.items())
    else:
        yield from ((f"number {place}", source) for place, source in enumerate(sources))


def _check_random_access(source: Stage[Any]) -> None:
    if not source.random_access:
        raise InvalidType(
            f"partition needs items by their index, got {source!r}; put stages that drop or add items "
            "into the function, and where files are streams, deal out their names: "
            "files(paths).partition(count, lambda part: part.flat_map(read))"
        )


def _called(fn: Callable[..., Any], sources: Sources, parts: list[Any]) -> Any:
    """The result of ``fn`` for ``parts``, passed by name if ``sources`` has names."""
    check_callable("fn", fn)
    by_name = dict(zip(sources, parts, strict=True)) if isinstance(sources, Mapping) else {}
    by_place = [] if by_name else parts
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # raised for some functions in C
        return fn(*by_place, **by_name)
    try:
        signature.bind(*by_place, **by_name)
    except TypeError as error:
        wanted = (
            f"a keyword argument for each name, {', '.join(map(repr, by_name))}, or **parts"
            if by_name
            else f"{len(parts)} positional argument{'s' * (len(parts) > 1)}, a pipeline for each source"
        )
        raise InvalidArgument(f"fn must take {wanted}; got fn{signature}: {error}") from None
    return fn(*by_place, **by_name)


def _check_built(built: Stage[Any], parts: Mapping[str, Stage[Any]], count: int) -> None:
    """Refuse a pipeline of a partition that leaves out a part, or has another source."""
    dealt = [one for part in parts.values() for one in _each(part)]
    beginnings = list(_beginnings(built, dealt))
    for label, part in parts.items():
        if not any(found is one for found in beginnings for one in _each(part)):
            which = "the pipeline" if len(parts) == 1 else f"the part of source {label}"
            raise InvalidArgument(f"fn must build upon {which} that it gets, got {built!r}")
    for found in beginnings:
        if all(found is not part for part in dealt):
            raise InvalidArgument(
                f"fn must build upon the parts that it gets alone, got {found} in it: each of the "
                f"{count} partitions would deliver all of its items; to deal it out too, write "
                "rs.partition({'name': pipeline, 'other': pipeline}, count, fn)"
            )


def _each(part: Stage[Any]) -> Sequence[Stage[Any]]:
    """The parts of a source: several if the source changes with the epoch."""
    return part.upstreams if isinstance(part, ByEpoch) else (part,)


def _beginnings(stage: Stage[Any], parts: Sequence[Stage[Any]]) -> Iterator[Stage[Any]]:
    """The ``parts`` used by ``stage``, and its sources outside of all ``parts``."""
    if not stage.inputs or any(stage is part for part in parts):
        yield stage
        return
    for upstream in stage.inputs:
        yield from _beginnings(upstream, parts)
