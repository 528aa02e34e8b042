"""Which processes write, as the context of version 1 of Orbax has it."""

from __future__ import annotations

# The public interface sets the context and does not return it.
from orbax.checkpoint.experimental.v1._src.context.context import get_context

from .folder import Hosts

__all__ = ["hosts_of_context"]


def hosts_of_context() -> Hosts:
    """The processes that save, by ``multiprocessing.primary_host`` of the context that a call is made in."""
    return Hosts(get_context().multiprocessing.primary_host)
