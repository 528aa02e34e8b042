"""What an error says to write, where an argument was changed in what a run has read already."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Any

import resumable as rs


def advised(error: rs.StateMismatch, argument: str = "weights") -> dict[int, Any] | None:
    """The argument that ``error`` says to write, by position; None if nothing can be changed."""
    found = re.search(rf"write {argument}=(.*)$", str(error), re.MULTILINE)
    if found is None:
        assert "cannot be changed here" in str(error), str(error)
        return None
    written = literal_eval(found[1])
    by_position = isinstance(written, dict) and not any(isinstance(key, str) for key in written)
    return written if by_position else {0: written}
