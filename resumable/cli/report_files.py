"""Read the output of `resumable bench --json` and `resumable verify --json`."""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import InvalidArgument, shorten

T = TypeVar("T")

MOST: Final = 2**63
"""No count, size or time in a report comes near this bound."""
NAMES: Final = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


def read_json_report(path: str, kind: type[T], option: str, command: str) -> T:
    """A ``kind`` with the fields in the file ``path``.

    Args:
      path: of the file.
      kind: a dataclass of strings, numbers, nested dataclasses, and tuples of all these.
      option: the command-line option of the file.
      command: the command that prints the file.

    Raises:
      InvalidArgument: if the file holds something else.
      OSError: if the file cannot be read.
    """
    content = Path(path).read_bytes()
    try:
        found: T = _decoded(kind, json.loads(content), "")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"{option} must be what `resumable {command} --json` prints, got {path}: {error}"
        ) from None
    return found


def _decoded(kind: Any, value: Any, place: str) -> Any:
    """``value`` out of JSON as a ``kind``; ``place`` is its place in the file, for errors.

    Raises:
      ValueError: if ``value`` does not fit ``kind``.
    """
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (one for one in get_args(kind) if one is not NoneType)
        return None if value is None else _decoded(inner, value, place)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{place} must be a list, got {shorten(value)}")
        inner = get_args(kind)[0]
        return tuple(_decoded(inner, one, f"{place}[{n}]") for n, one in enumerate(value))
    if kind in NAMES:
        return _plain(kind, value, place)
    if not isinstance(value, dict):
        raise ValueError(f"{place or 'it'} must be an object, got {shorten(value)}")
    fields = {}
    for name, inner in get_type_hints(kind).items():
        inside = f"{place}.{name}".removeprefix(".")
        if name not in value:
            raise ValueError(f"it has no {inside}")
        fields[name] = _decoded(inner, value[name], inside)
    return kind(**fields)


def _plain(kind: Any, value: Any, place: str) -> Any:
    if type(value) not in ((int, float) if kind is float else (kind,)):
        raise ValueError(f"{place} must be {NAMES[kind]}, got {shorten(value)}")
    if kind in (int, float) and not 0 <= value <= MOST:
        raise ValueError(f"{place} must be from 0 to 2**63, got {shorten(value)}")
    return kind(value)
