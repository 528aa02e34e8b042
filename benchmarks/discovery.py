"""Find workloads and peers by listing their folders."""

# Both folders are namespace packages, so a folder `benchmarks/peers` elsewhere on the path adds to
# them. Nothing has to be registered.

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from importlib import metadata
from types import ModuleType

__all__ = ["BARE", "OURS", "is_installed", "load", "names", "version"]

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
    """Whether the packages that a peer needs are installed."""
    needs: tuple[str, ...] = load("peers", peer).NEEDS
    return all(importlib.util.find_spec(package) is not None for package in needs)


def version(peer: str) -> str:
    """The version of a peer's distribution."""
    distribution: str = load("peers", peer).DISTRIBUTION
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:  # a checkout on the path
        module = importlib.import_module(load("peers", peer).NEEDS[0])
        return str(getattr(module, "__version__", "unknown"))
