"""Pipelines over files, and the files that they read: those that the facts of formats name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs

from ..format_facts import FORMAT_FACTS
from .order import ORDER_OF_FILES, in_order

__all__ = ["over_files", "write_data"]


def over_files(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """The pipelines over what `write_data` writes into ``folder``, of formats whose package is installed."""
    found = FORMAT_FACTS.merged(lambda facts: facts.pipelines(folder) if facts.is_installed else {})
    return in_order(found, ORDER_OF_FILES)


def write_data(folder: Path) -> None:
    """The files that the catalogue reads."""
    for facts in FORMAT_FACTS.all.values():
        facts.write(folder)
