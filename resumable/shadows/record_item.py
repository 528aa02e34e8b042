"""The item of a source at an origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.combine import joins_inputs
from ..core.exclusion import check_records
from ..core.origin import Name, Origin
from ..core.record_source import kind_of_source
from ..core.records import Records
from ..core.stage import Stage, by_index
from ..errors import InvalidArgument
from .traced import names_of_inputs


def item_of_record(stage: Stage[Any], origin: Origin) -> Any:
    """The item that the source in ``stage`` delivers for the record of ``origin``.

    Raises:
      LookupError: if no source with random access has the record, or several may.
    """
    found = [
        (source, number)
        for source in _sources(stage, origin)
        for number in _numbers(source, origin)
    ]
    if len(found) != 1:
        raise LookupError(f"{len(found)} sources have {origin}")
    source, number = found[0]
    return by_index(source).item(number)


def is_file_of_record(stage: Stage[Any], origin: Origin, name: str) -> bool:
    """Whether ``name`` names the file of ``origin`` and no other file, in sources with the file."""
    return all(
        _has_file(source, name, origin)
        for source in _sources(stage, origin)
        if _has_file(source, str(origin.file), origin)
    )


def _has_file(source: Stage[Any], name: str, origin: Origin) -> bool:
    """Whether the record of ``origin`` can be left out of ``source``, in one file ``name``."""
    records = Records.of({name: [origin.record]})
    try:
        check_records(source, 0, records)
    except InvalidArgument:
        return False
    return True


def _sources(
    stage: Stage[Any], origin: Origin, inputs: tuple[Name, ...] = ()
) -> Iterator[Stage[Any]]:
    """The sources before ``stage`` that ``origin`` may name; their items pass ``inputs`` later."""
    if not stage.inputs and type(stage).__name__ == origin.source and inputs == origin.inputs:
        yield stage
    joins = joins_inputs(stage)
    for name, upstream in zip(names_of_inputs(stage), stage.inputs, strict=True):
        yield from _sources(upstream, origin, (*inputs, name) if joins else inputs)


def _numbers(source: Stage[Any], origin: Origin) -> Iterator[int]:
    """The number of the record in ``source``, if found."""
    if not source.random_access:
        return
    records = [origin.record] if origin.file is None else {origin.file: [origin.record]}
    try:
        yield from kind_of_source(source)._numbers_of(source, Records.of(records)).tolist()
    except InvalidArgument:  # another source has the file
        return
