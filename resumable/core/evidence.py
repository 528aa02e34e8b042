"""Evidence of the content of data, as a field of a stage's identity."""

# A digest can only be compared with a digest made in the same way. A state of an earlier version
# has no digests, and data copied elsewhere may be known there by other evidence. So evidence has a
# kind, and evidence on only one side is no reason to refuse a state: the rest of the identity
# decides.

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ..errors import shorten

DIGEST: Final = 6
"""Bytes of the digest over all parts of the data."""

MOST_MARKS: Final = 16
"""Digests of a byte each that show which part has changed; many parts share a digest."""


@dataclass(frozen=True)
class Evidence:
    """Digests of the parts of some data. Two of the same kind must agree.

    Attributes:
      kind: how the digests were made; empty if nothing is known.
      digests: of the parts, which are files.
      names: of the parts, for messages.
      paths: of the parts, for messages, if they are local files.
    """

    kind: str = ""
    digests: Sequence[bytes] = ()
    names: Sequence[str] = ()
    paths: Sequence[str] = ()

    def as_json(self) -> dict[str, str]:
        """The evidence in the fingerprint; its size does not grow with the data."""
        return {self.kind: self._text()} if self.kind else {}

    def contradiction(self, saved: Any) -> str | None:
        """How ``saved``, evidence in a state as JSON, contradicts the data; None if it does not."""
        if not isinstance(saved, dict):
            return f"the saved evidence of its content must be a dict, got {shorten(saved)}"
        now = self._text()
        before = saved.get(self.kind, now)
        if before == now:
            return None
        return (
            f"{self._changed(str(before), now)} other content than at the save, of the same size, by its "
            f"{self.kind.split()[0]}; was it replaced, changed, or exchanged with another?"
        )

    def _text(self) -> str:
        marks = [_digest(self.digests[part], 1) for part in _parts(len(self.digests))]
        return _digest(self.digests, DIGEST) + "".join(marks)

    def _changed(self, before: str, now: str) -> str:
        """The subject of the message: the changed parts, as far as known."""
        begin = 2 * DIGEST
        for number, part in enumerate(_parts(len(self.digests))):
            place = begin + 2 * number
            if before[place : place + 2] != now[place : place + 2]:
                names = self.names[part]
                if len(names) == 1:
                    return f"{names[0]} has"
                times = {path: _time_of_change(path) for path in self.paths[part]}
                latest = [path for path, time in times.items() if time == max(times.values())]
                guess = f" (perhaps {latest[0]}, modified last)" if len(latest) == 1 else ""
                return f"one of the {len(names)} files from {names[0]} to {names[-1]}{guess} has"
        return "one of the files has"


UNKNOWN: Final = Evidence()


def _time_of_change(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return -math.inf


def _parts(length: int) -> list[slice]:
    """The parts that share a mark, as many as possible up to `MOST_MARKS`, nearly equally long."""
    marks = min(length, MOST_MARKS)
    ends = [length * number // marks for number in range(marks + 1)] if marks else [0]
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _digest(digests: Sequence[bytes], size: int) -> str:
    return hashlib.blake2b(b"".join(digests), digest_size=size).hexdigest()
