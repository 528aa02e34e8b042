"""Find the pipeline named by a command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

from ..core.stage import Stage
from ..errors import ResumableError, shorten
from ..pipeline import Pipeline

NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

FORMS: Final = "a pipeline is named MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE"

LIBRARY: Final = str(Path(__file__).parents[1])


class TargetError(ResumableError):
    """The target is not a pipeline, or cannot be loaded.

    Attributes:
      make: the function of the target, if it returned something else to iterate, such as a loader.
    """

    make: Callable[..., Any] | None = None


@final
@dataclass(frozen=True)
class Target:
    """A pipeline in a module or a file.

    Attributes:
      name: of a pipeline or a function that returns a pipeline, as ``module:attribute`` or
        ``path/to/file.py:attribute``; dots in the attribute reach into objects. Without an
        attribute, the only pipeline of the module.
      arguments: for the function.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        shown = (f"{name}={shorten(value)}" for name, value in self.arguments.items())
        return f"{self.name}({', '.join(shown)})"

    def load(self, ranks: int | None = None) -> Pipeline[Any]:
        """The pipeline.

        Args:
          ranks: if given, a function that takes ``ranks`` gets this number, and 0 as ``rank``,
            unless `arguments` have other values.

        Raises:
          TargetError: if loading fails; an error of the user's code is the ``__cause__``.
        """
        make = None
        try:
            found = self._found()
            if callable(found) and not isinstance(found, (Pipeline, Stage)):
                arguments = {**_of_ranks(found, ranks), **self.arguments}
                self._check_arguments(found, arguments)
                make = partial(found, **self.arguments)
                found = found(**arguments)
            elif self.arguments:
                raise TargetError(
                    f"{self.name} is no function, and takes no arguments, got "
                    f"{', '.join(self.arguments)}"
                )
        except TargetError:
            raise
        except (Exception, SystemExit) as error:
            problem = f"{type(error).__name__}: {error}{_place_of(error)}"
            raise TargetError(f"{self} cannot be loaded: {problem}") from error
        if isinstance(found, Stage):
            found = Pipeline(found)
        if not isinstance(found, Pipeline):
            refusal = TargetError(f"{self} must be a pipeline, got {shorten(found)}")
            refusal.make = make if hasattr(type(found), "__iter__") else None
            raise refusal
        return found

    def _found(self) -> Any:
        place, colon, name = self.name.rpartition(":")
        if not colon:
            return self._only_one(self.name)
        if not place or not name:
            raise TargetError(f"{FORMS}, got {self.name!r}")
        found: Any = _module(place)
        for part in name.split("."):
            try:
                found = getattr(found, part)
            except AttributeError as error:
                raise AttributeError(f"{error}{_instead(part, found, place)}") from None
        return found

    def _only_one(self, place: str) -> Any:
        """The only pipeline of a module or file."""
        try:
            module = _module(place)
        except ModuleNotFoundError as error:
            if error.name != place:
                raise
            raise TargetError(f"{FORMS}, got {place!r}; there is no such module") from None
        names = _pipelines_in(module)
        if len({id(getattr(module, name)) for name in names}) == 1:
            return getattr(module, names[0])
        if names:
            listed = "".join(f"\n  {place}:{name}" for name in names)
            raise TargetError(f"{place} has several pipelines; choose one of these:{listed}")
        raise TargetError(
            f"{place} has no pipeline at the top level; if a function returns one, name it as "
            f"{place}:FUNCTION"
        )

    def _check_arguments(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        parameters = _parameters_of(function)
        if parameters is None:
            return
        named = [one for one in parameters if one.kind in NAMED]
        names = [one.name for one in named]
        anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
        for name in arguments:
            if name not in names and not anything:
                taken = ", ".join(names) or "none"
                raise TargetError(f"{self.name} has no argument {name}; it takes {taken}")
        for one in named:
            if one.default is one.empty and one.name not in arguments:
                raise TargetError(
                    f"{self.name} must be given its argument {one.name}: --arg {one.name}=VALUE"
                )


def _parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of ``function``; None if unknown, as for some functions written in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _of_ranks(function: Callable[..., Any], ranks: int | None) -> dict[str, Any]:
    """The arguments of ``function`` for the first of ``ranks`` ranks."""
    names = {one.name for one in _parameters_of(function) or () if one.kind in NAMED}
    if ranks is None or "ranks" not in names:
        return {}
    return {"ranks": ranks} | ({"rank": 0} if "rank" in names else {})


def _place_of(error: BaseException) -> str:
    """The last line of the user's code in the traceback of ``error``."""
    places = [
        f" ({frame.filename}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", LIBRARY))
    ]
    return places[-1] if places else ""


def _pipelines_in(module: object) -> list[str]:
    """The names of a module's pipelines, in order; names with an underscore only if all have it."""
    found = [name for name, one in vars(module).items() if isinstance(one, (Pipeline, Stage))]
    return [name for name in found if not name.startswith("_")] or found


def _instead(name: str, place: object, shown: str) -> str:
    """Suggest names for a ``name`` missing in a module or object."""
    if near := get_close_matches(name, dir(place), 1):
        return f"; did you mean {near[0]}?"
    pipelines = _pipelines_in(place) if isinstance(place, ModuleType) else []
    return f"; the pipelines of {shown} are {', '.join(pipelines)}" if pipelines else ""


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` does
        return importlib.import_module(place)
    path = Path(place).absolute()
    if not path.is_file():
        near = get_close_matches(path.name, [one.name for one in path.parent.glob("*.py")], 1)
        raise TargetError(f"{place}: no such file" + (f"; did you mean {near[0]}?" if near else ""))
    sys.path.insert(0, str(path.parent))  # as `python FILE` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    # From the source: Python would use old bytecode after an edit that kept the size and the second.
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, vars(module))  # the user's own program
    return module
