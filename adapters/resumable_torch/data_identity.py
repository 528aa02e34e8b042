"""What identifies a data set beyond its length, as far as that is known without reading it."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from torch.utils.data import ConcatDataset, Subset

import resumable as rs
from resumable.core.evidence import UNKNOWN, Evidence
from resumable.errors import shorten
from resumable.sources.range import numbers_of

__all__ = ["Identified", "identity_of_indices", "rows_of"]

ADVICE: Final = "(if it is the same data, pass identity= to the loader)"


class Identified:
    """The length of a data set, and what the user says that identifies it.

    Raises:
      InvalidType: if ``identity`` is neither a string nor an integer.
    """

    def __init__(self, data: Sized, identity: object) -> None:
        if type(identity) not in (str, int):
            raise rs.InvalidType(
                f"identity must be a string or an integer, got {shorten(identity)}"
            )
        self._count, self.identity = len(data), f"identity={identity!r}"

    def __len__(self) -> int:
        return self._count


def rows_of(data: Sized) -> rs.Pipeline[int]:
    """The indices of ``data`` in order. Another data set that is known to differ is another order."""
    known = _known_of(data)
    rows = UNKNOWN
    if isinstance(data, Identified):
        rows = Evidence(
            "identity", [data.identity.encode()], [f"the data set with {data.identity}"]
        )
    elif known is not None:
        rows = Evidence("digest of a data set", [known], [f"the {type(data).__name__} {ADVICE}"])
    return rs.Pipeline(numbers_of(len(data), rows))


def identity_of_indices(indices: Sequence[Any]) -> str:
    """A digest of ``indices`` as text, the same for a list, a tensor and an array."""
    numbers = np.asarray(indices, dtype="<i8")
    return f"indices {blake2b(numbers.tobytes(), digest_size=8).hexdigest()}"


def _known_of(data: Any) -> bytes | None:
    """What is known of ``data`` in short: which rows of which data sets, or Hugging Face's fingerprint."""
    if isinstance(data, Subset):
        return f"{identity_of_indices(data.indices)} {_known_of(data.dataset)!r}".encode()
    if isinstance(data, ConcatDataset):
        parts = [
            (end, _known_of(part))
            for end, part in zip(data.cumulative_sizes, data.datasets, strict=True)
        ]
        return repr(parts).encode() if any(known for _, known in parts) else None
    found = getattr(data, "_fingerprint", None)
    return found.encode() if isinstance(found, str) else None
