"""The code of a worker process of a map, or of partitions."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..core.block import Block
from . import fork_server
from .arena import SLOT_BYTES, Arena
from .chunk_work import PickledOutcome, attempt_and_pickle
from .failure import sendable

# Below this a pipe is as fast as shared memory.
WORTH_SHARING: Final = 1 << 15
HEARTBEAT: Final = 1.0


class ProcessSetup(NamedTuple):
    """The setup of a starting process.

    Attributes:
      fn: the function, pickled. The function is loaded with the first chunk, so an error in loading
        is reported like any other, and does not end the process.
      drop: whether an item is dropped if its call raises.
      tell: whether the error of a dropped item is sent back.
      arena: memory for large results, if available.
      parent: process id of the owner of the pool.
    """

    fn: bytes
    drop: bool
    tell: bool
    arena: Arena | None
    parent: int


_setup: ProcessSetup
_fn: Callable[[Any], Any] | None = None


def begin(setup: ProcessSetup) -> None:
    """Prepare a worker."""
    global _setup
    if hasattr(os, "setpgid") and os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)  # the parent handles signals to the group, such as Ctrl-C
    _setup = setup
    parent = fork_server.forked_by or setup.parent  # a server ends with its parent
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def ping() -> None:
    """Do nothing: the call shows whether processes start and live."""


def _exit_with(parent: int) -> None:
    """End this process when ``parent`` is gone, for whatever reason."""
    while os.getppid() == parent:
        time.sleep(HEARTBEAT)
    os._exit(1)


def work(block: Block, slot: int | None) -> PickledOutcome:
    """Attempt a chunk; a large outcome goes into ``slot`` of the arena, if given."""
    reply = attempt_and_pickle(_loaded_function(), block, _setup.drop, _setup.tell)
    if _setup.arena is None or slot is None or reply.parts is None:
        return reply
    if WORTH_SHARING <= sum(reply.lengths) <= SLOT_BYTES:
        _setup.arena.write(slot, reply.parts)
        reply.parts = None
    return reply


def _loaded_function() -> Callable[[Any], Any]:
    """The function, loaded once."""
    global _fn
    if _fn is None:
        try:
            _fn = pickle.loads(_setup.fn)
        except BaseException as error:
            # An error impossible to unpickle would break the pool.
            if (sent := sendable(error)) is not error:
                raise sent from error
            raise
    return _fn
