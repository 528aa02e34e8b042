"""Find functions of a pipeline that draw random numbers not restored by any state."""

# The effects of a function cannot be known, but most randomness is reached by name. So the names
# loaded by a function, and by the functions it loads, are looked up, without any call.

from __future__ import annotations

import builtins
import dis
import os
import random
import secrets
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np
import tensorflow as tf

import resumable as rs
from resumable.core.callables import callables_in
from resumable.core.graph import walk

__all__ = ["hidden_randomness", "random_names"]

GENERATORS: Final = (random.Random, np.random.Generator, np.random.RandomState)
RANDOM: Final = (
    os.urandom,
    uuid.uuid1,
    uuid.uuid4,
    *(getattr(secrets, name) for name in secrets.__all__ if name != "compare_digest"),
    tf.random.categorical,
    tf.random.gamma,
    tf.random.normal,
    tf.random.poisson,
    tf.random.shuffle,
    tf.random.truncated_normal,
    tf.random.uniform,
)
UNSEEDED: Final = (random.Random, np.random.default_rng, np.random.RandomState)
"""Callables that are random if called without arguments."""
SEEDING: Final = ("seed", "setstate", "set_state")
LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def hidden_randomness(pipeline: rs.Pipeline[Any]) -> Iterator[str]:
    """For each function of ``pipeline`` that draws random numbers, the stage and the names used."""
    for stage, path in walk(pipeline.stage):
        for field, function in stage.user_functions.items():
            if names := random_names(function):
                drawn = ", ".join(sorted(names))
                yield f"{type(stage).__name__} at {path}: its {field} draws by {drawn}"


def random_names(function: Any) -> set[str]:
    """The names by which ``function`` draws random numbers; empty if it seeds the generators."""
    found: set[str] = set()
    waiting, seen = [function], set()
    while waiting:
        called = waiting.pop()
        if id(called) in seen:
            continue
        seen.add(id(called))
        if isinstance(called, partial):
            waiting += [called.func, *called.args, *called.keywords.values()]
        elif isinstance(called, GENERATORS):
            found.add(type(called).__name__)
        elif _is_random(called):
            found.add(getattr(called, "__name__", repr(called)))
        elif isinstance(plain := _plain_function(called), FunctionType):
            names = _Names(plain, getattr(called, "__self__", called))
            loaded = dict(names.loaded())
            if any(name.rpartition(".")[2] in SEEDING for name in loaded):
                continue
            found |= {name for name, value in loaded.items() if _is_random(value)}
            found |= names.unseeded
            waiting += filter(_is_of_the_user, loaded.values())
            waiting += [value for value in _defaults(plain) if isinstance(value, GENERATORS)]
            if plain is not called and not isinstance(called, MethodType):
                # A callable object, such as a chain of functions, calls the functions it holds.
                held = callables_in(getattr(called, "__dict__", {})).values()
                waiting += [value for value in held if _is_random(value) or _is_of_the_user(value)]
    return found


def _plain_function(called: Any) -> Any:
    """The Python function behind a method or an object with ``__call__``."""
    if isinstance(called, (FunctionType, type)):
        return called
    method = called if isinstance(called, MethodType) else getattr(type(called), "__call__", None)  # noqa: B004
    return getattr(method, "__func__", method)


def _defaults(function: FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _is_random(value: Any) -> bool:
    owner = getattr(value, "__self__", None)
    return (
        isinstance(value, GENERATORS) or isinstance(owner, GENERATORS) or _is_among(value, RANDOM)
    )


def _is_of_the_user(value: Any) -> bool:
    """Whether calling ``value`` runs a function from outside the libraries."""
    if isinstance(value, partial):
        return True
    code = getattr(_plain_function(value), "__code__", None)
    return code is not None and not code.co_filename.startswith(LIBRARIES)


def _is_among(value: object, known: Iterable[object]) -> bool:
    """Whether ``value`` is one of ``known``, by identity, as arrays compare item by item."""
    return any(value is each for each in known)


class _Names:
    """The names that a function loads.

    Attributes:
      unseeded: generators made without a seed.
    """

    def __init__(self, function: FunctionType, owner: Any) -> None:
        self.unseeded: set[str] = set()
        self._code = function.__code__
        self._known = {**vars(builtins), **function.__globals__}
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                self._known[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                self._known.pop(name, None)
        self._local: dict[str, Any] = {}
        if owner is not function and self._code.co_argcount:
            self._local[self._code.co_varnames[0]] = owner

    def loaded(self) -> Iterator[tuple[str, Any]]:
        """The dotted names and the objects found by name."""
        yield from self._loaded(self._code)

    def _loaded(self, code: CodeType) -> Iterator[tuple[str, Any]]:
        name, value = "", None
        local = dict(self._local) if code is self._code else {}
        for step in dis.get_instructions(code):
            operation = step.opname
            if operation == "IMPORT_NAME":
                name, value = step.argval, sys.modules.get(step.argval)
            elif operation.startswith("STORE_") and isinstance(step.argval, str):
                local.pop(step.argval, None)
                if isinstance(value, ModuleType):
                    local[step.argval] = value
                name, value = "", None
            elif operation.startswith("LOAD_") and isinstance(step.argval, str):
                part = step.argval
                if operation in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                    name, value = f"{name}.{part}", _part(value, part)
                else:
                    known = local if operation.startswith("LOAD_FAST") else self._known
                    name, value = part, known.get(part)
                if value is not None:
                    yield name, value
            elif operation.startswith(("PRECALL", "CALL")):
                if step.argval == 0 and _is_among(value, UNSEEDED):
                    self.unseeded.add(f"{name}()")
                if operation != "PRECALL":
                    name, value = "", None
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._loaded(constant)


def _part(value: Any, name: str) -> Any:
    """An attribute, if reading it runs no code of the user."""
    if isinstance(value, (ModuleType, *GENERATORS)):
        return getattr(value, name, None)
    return getattr(value, "__dict__", {}).get(name)
