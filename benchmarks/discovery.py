"""Find workloads and peers by listing their folders."""

# Both folders are namespace packages, so a folder `benchmarks/peers` elsewhere on the path adds to
# them. Nothing has to be registered.

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from importlib import metadata
from types import ModuleType

from benchmarks.environments import python_of, versions_in

__all__ = ["BARE", "OURS", "is_here", "is_installed", "load", "names", "version"]

BARE = "bare"  # the loop written by hand in the workload's module
OURS = "resumable"


def names(folder: str) -> list[str]:
    """The names of the modules in ``workloads`` or ``peers``."""
    package = importlib.import_module(f"benchmarks.{folder}")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def load(folder: str, name: str) -> ModuleType:
    """A module of ``workloads`` or ``peers``; a peer imports its framework when asked for work."""
    return importlib.import_module(f"benchmarks.{folder}.{name}")


def is_installed(peer: str) -> bool:
    """Whether the packages that a peer needs are installed, here or in its own environment."""
    return version(peer) is not None


def is_here(peer: str) -> bool:
    """Whether a peer can be imported by this process."""
    needs: tuple[str, ...] = load("peers", peer).NEEDS
    return all(importlib.util.find_spec(package) is not None for package in needs)


def version(peer: str) -> str | None:
    """The version of a peer's distribution; None if it is not installed."""
    module, python = load("peers", peer), python_of(peer)
    if python != sys.executable:
        found = versions_in(python, module.DISTRIBUTION, *module.NEEDS)
        own = [f"{title} {found[title]}" for title in ("torch", "NumPy") if title in found]
        return f"{found['']} (with {', '.join(own)})" if found else None
    if not is_here(peer):
        return None
    try:
        return metadata.version(module.DISTRIBUTION).partition("+")[0]
    except metadata.PackageNotFoundError:  # a checkout on the path
        package = importlib.import_module(module.NEEDS[0])
        return str(getattr(package, "__version__", "unknown"))
