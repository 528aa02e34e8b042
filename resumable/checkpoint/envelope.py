"""One checkpoint as bytes, with detection of damage."""

# Layout: MAGIC (8 bytes, with the format version), length of the body (8 bytes, little-endian), the
# body, and BLAKE2b-256 of everything before. The body is a serialised dict of step, time and state;
# a part also has rank, ranks and run; a counted run also has counters. The state holds the
# fingerprint of its pipeline.

from __future__ import annotations

import hashlib
import struct
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, final

from ..core.best_effort import BestEffort
from ..core.run_counters import RunCounters
from ..errors import CorruptCheckpoint, NewerFormat, UnencodableState
from ..state.encoding import dumps, loads
from ..state.value import State
from .ranks.part import WHOLE, RankPart, part_from

MAGIC: Final = b"RSMCKPT\x01"
HEADER: Final = struct.Struct("<8sQ")
DIGEST_BYTES: Final = 32
LARGEST: Final = 1 << 32
SMALL: Final = 1 << 20
CHUNK: Final = 1 << 23
COUNTERS: Final = BestEffort("counters of checkpoints are")
WRONG_DIGEST: Final = "its digest does not match its content"


@final
@dataclass(frozen=True)
class Checkpoint:
    """A stored state, with its step and time.

    Attributes:
      step: number of steps finished when the state was taken.
      time: when the state was taken, in seconds since 1 January 1970 by the system's clock.
      state: returned by `PipelineIterator.get_state`.
      part: the part of the step, if several ranks save; else the whole.
      counters: the counters of the run at ``step``, with ``stats`` of `Checkpointer`; else None.

    >>> with rs.Checkpointer(rs.Memory(), rs.EverySteps(2)) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> checkpoint = checkpointer.latest()
    >>> checkpoint.step, list(rs.range(5).resume(checkpoint.state))
    (5, [])
    """

    step: int
    time: float
    state: State
    part: RankPart = WHOLE
    counters: RunCounters | None = None


def encode(checkpoint: Checkpoint) -> bytes:
    """``checkpoint`` as bytes, for `decode`.

    Raises:
      UnencodableState: if the state has no exact serialised form, or the bytes exceed 4 GiB.
    """
    part = checkpoint.part
    if problem := _problem(checkpoint.step, checkpoint.time, checkpoint.state, part):
        raise UnencodableState(problem)
    content: State = {"step": checkpoint.step, "time": checkpoint.time, "state": checkpoint.state}
    if part != WHOLE:
        content |= {"rank": part.rank, "ranks": part.ranks, "run": part.run}
    counters = checkpoint.counters
    value = None if counters is None else COUNTERS(counters.to_value, None)
    if value is not None:
        content["counters"] = value
    body = dumps(content)
    if len(body) > LARGEST - HEADER.size - DIGEST_BYTES:
        raise UnencodableState(f"a checkpoint has at most {LARGEST} bytes, got {len(body)}")
    sealed = HEADER.pack(MAGIC, len(body)) + body
    return sealed + hashlib.blake2b(sealed, digest_size=DIGEST_BYTES).digest()


def check_unread(size: int, read: Callable[[int], bytes]) -> bool:
    """Refuse bytes other than a checkpoint before all are read, so memory need not hold them.

    Args:
      size: number of bytes.
      read: returns the next ``count`` bytes, or fewer; called only if ``size`` is more than 1 MiB.

    Returns:
      whether ``read`` was called.

    Raises:
      CorruptCheckpoint: with the damage in the message.
    """
    if size > LARGEST:
        raise CorruptCheckpoint(f"it has {size} bytes, too many for a checkpoint")
    if size <= SMALL:
        return False
    head = read(HEADER.size)
    _check_frame(head, size)
    digest = hashlib.blake2b(head, digest_size=DIGEST_BYTES)
    rest = size - HEADER.size - DIGEST_BYTES
    while rest > 0:
        part = read(min(rest, CHUNK))
        if not part:
            raise CorruptCheckpoint("it ended while it was read")
        digest.update(part)
        rest -= len(part)
    if digest.digest() != read(DIGEST_BYTES):
        raise CorruptCheckpoint(WRONG_DIGEST)
    return True


def _check_frame(head: bytes, size: int) -> None:
    if len(head) < HEADER.size or size < HEADER.size + DIGEST_BYTES:
        raise CorruptCheckpoint(f"it has {size} bytes, too few for a checkpoint")
    magic, length = HEADER.unpack_from(head)
    if magic[:7] != MAGIC[:7]:
        raise CorruptCheckpoint(f"it starts with {magic!r}, not with the mark of a checkpoint")
    whole = HEADER.size + length + DIGEST_BYTES
    if size != whole:
        raise CorruptCheckpoint(f"it has {size} bytes instead of {whole}")


def decode(data: bytes) -> Checkpoint:
    """The checkpoint in the bytes ``data``.

    Raises:
      CorruptCheckpoint: if a single bit is wrong; the message names the damage.
      NewerFormat: if ``data`` is whole and of a later format.
    """
    _check_frame(data, len(data))
    sealed, digest = memoryview(data)[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if hashlib.blake2b(sealed, digest_size=DIGEST_BYTES).digest() != digest:
        raise CorruptCheckpoint(WRONG_DIGEST)
    # Every format keeps this frame, so a damaged file is never taken for a file of a later format.
    version = data[7]
    if version != MAGIC[7]:
        raise NewerFormat(f"its format version is {version}, this library reads {MAGIC[7]}")
    body = loads(sealed[HEADER.size :])
    step: Any = body.get("step")
    time: Any = body.get("time")
    state: Any = body.get("state")
    part = part_from(body.get("rank", 0), body.get("ranks", 1), body.get("run", ""))
    if problem := _problem(step, time, state, part):
        raise CorruptCheckpoint(problem)
    assert part is not None
    counters = RunCounters.from_value(body.get("counters"))
    if counters is None and "counters" in body:
        with suppress(RuntimeWarning):  # bad counters need not end a run
            message = (
                "the counters of a checkpoint are none that a run can have, so stats count from 0"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return Checkpoint(step, time, state, part, counters)


def _problem(step: Any, time: Any, state: Any, part: RankPart | None) -> str | None:
    if type(step) is not int or not 0 <= step < 2**63:
        return "it lacks a step, a 64-bit number from 0"
    if type(time) is not float:
        return "it lacks a time"
    if part is None or not part.is_possible:
        return "it does not say which part of a step it is"
    return None if isinstance(state, dict) else "it lacks a state"
