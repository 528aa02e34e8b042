"""The version that a user gives to a function, so that a state of another one is refused."""

# The library cannot know what a function does. If a function that drops or makes items is edited in
# mid-run, the state after it (a group, a window, a rank's share) still holds items of the old one.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ..errors import InvalidType, shorten
from .stage import ALWAYS, Reliance
from .transform import Transform

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class FunctionVersion(Transform[T]):
    """A stage whose function has a version, if the user gave it one.

    Args:
      fn_version: must be equal at save and resume, or missing at both.
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"fn_version": ALWAYS}
    shown_as: ClassVar[Mapping[str, str]] = {"fn_version": "version"}

    fn_version: str | int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_version(self.fn_version)


def check_version(value: Any) -> None:
    """Refuse what is no version.

    Raises:
      InvalidType: if ``value`` is neither a string nor an integer, nor None.
    """
    if value is not None and type(value) not in (str, int):
        raise InvalidType(f"version must be a string or an integer, got {shorten(value)}")
