"""Call a function in a process that has done nothing else."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

__all__ = ["fresh_process", "in_fresh_process"]

T = TypeVar("T")


def fresh_process() -> ProcessPoolExecutor:
    """An executor with one new process, which ends with the ``with`` block."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def in_fresh_process(fn: Callable[..., T], *arguments: Any) -> T:
    """Return ``fn(*arguments)``; the function must be defined at the top of a module."""
    with fresh_process() as executor:
        return executor.submit(fn, *arguments).result()
