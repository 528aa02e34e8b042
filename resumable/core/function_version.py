"""Versions given to functions by users; states with another version are refused."""

# The library cannot know what a function does. If a function that drops or makes items is edited
# mid-run, the state of later stages (a group, a window, a rank's share) still holds items of the
# old function.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ..errors import InvalidType, shorten
from .identity import ALWAYS, IdentityField, IdentityFields
from .transform import Transform

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class FunctionVersion(Transform[T]):
    """A stage whose function may be given a version by the user.

    Args:
      fn_version: must be equal at save and resume, or missing at both.
    """

    identity: ClassVar[IdentityFields] = {
        "fn_version": IdentityField(
            ALWAYS,
            shown_as="version",
            hint="what the function drops or makes was changed since the save; go on with the function of "
            "the save, or let a changed one keep the number and the order of its items",
        )
    }

    fn_version: str | int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_version(self.fn_version)


def check_version(value: Any) -> None:
    """Refuse a value that is no version.

    Raises:
      InvalidType: if ``value`` is neither a string nor an integer, nor None.
    """
    if value is not None and type(value) not in (str, int):
        raise InvalidType(f"version must be a string or an integer, got {shorten(value)}")
