"""One checkpoint as bytes, such that damage is detected."""

# Layout: MAGIC (8 bytes, with the format version), length of the body (8 bytes, little-endian),
# the body (a serialised dict: step, time, state), BLAKE2b-256 of all before. The state carries
# the fingerprint of its pipeline.

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final, final

from ..errors import CorruptCheckpoint, NewerFormat
from ..state import State, dumps, loads

__all__ = ["HEADER", "Checkpoint", "check_frame", "decode", "encode"]

MAGIC: Final = b"RSMCKPT\x01"
HEADER: Final = struct.Struct("<8sQ")
DIGEST_BYTES: Final = 32


@final
@dataclass(frozen=True)
class Checkpoint:
    """A state as it is stored.

    Attributes:
      step: steps finished when it was taken.
      time: seconds since the epoch of the system's clock when it was taken.
      state: what `PipelineIterator.get_state` returned.
    """

    step: int
    time: float
    state: State


def encode(checkpoint: Checkpoint) -> bytes:
    """``checkpoint`` as bytes.

    Raises:
      UnencodableState: if its state has no exact serialised form.
    """
    body = dumps({"step": checkpoint.step, "time": checkpoint.time, "state": checkpoint.state})
    sealed = HEADER.pack(MAGIC, len(body)) + body
    return sealed + hashlib.blake2b(sealed, digest_size=DIGEST_BYTES).digest()


def check_frame(head: bytes | memoryview, size: int) -> None:
    """Refuse ``size`` bytes that start with ``head`` if they cannot be a whole checkpoint.

    Raises:
      CorruptCheckpoint: saying what is wrong.
    """
    if size < HEADER.size + DIGEST_BYTES:
        raise CorruptCheckpoint(f"it has {size} bytes, too few for a checkpoint")
    magic, length = HEADER.unpack_from(head)
    if magic[:7] != MAGIC[:7]:
        raise CorruptCheckpoint(f"it starts with {magic!r}, not with the mark of a checkpoint")
    if size != HEADER.size + length + DIGEST_BYTES:
        raise CorruptCheckpoint(
            f"it has {size} bytes instead of {HEADER.size + length + DIGEST_BYTES}"
        )


def decode(data: bytes) -> Checkpoint:
    """The checkpoint that ``data`` holds.

    Raises:
      CorruptCheckpoint: saying what is wrong, if a single bit is.
      NewerFormat: if it is whole, and of a later format.
    """
    check_frame(data, len(data))
    sealed, digest = memoryview(data)[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if hashlib.blake2b(sealed, digest_size=DIGEST_BYTES).digest() != digest:
        raise CorruptCheckpoint("its digest does not match its content")
    # Every format keeps this frame, so that a damaged file is never taken for a later one.
    version = data[7]
    if version != MAGIC[7]:
        raise NewerFormat(f"its format version is {version}, this library reads {MAGIC[7]}")
    body = loads(sealed[HEADER.size :])
    step, time, state = body.get("step"), body.get("time"), body.get("state")
    if type(step) is not int or type(time) is not float or not isinstance(state, dict):
        raise CorruptCheckpoint("it lacks a step, a time or a state")
    return Checkpoint(step, time, state)
