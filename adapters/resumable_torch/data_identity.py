"""Identity of a data set beyond its length, as far as known without reading the data."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from torch.utils.data import ConcatDataset, Subset

import resumable as rs
from resumable.core.evidence import UNKNOWN, Evidence
from resumable.errors import shorten
from resumable.sources.range import Range

__all__ = ["identity_of_indices", "rows_of"]

ADVICE: Final = (
    "(if it is the same data, pass identity= to the loader, or len(dataset) to the sampler)"
)


def rows_of(data: Sized, identity: str | int | None = None) -> rs.Pipeline[int]:
    """The indices of ``data`` in order. A data set known to differ has another order.

    Raises:
      InvalidType: if ``identity`` is neither a string nor an integer.
    """
    kind, known, name = (
        "digest of a data set",
        _known_of(data),
        f"the {type(data).__name__} {ADVICE}",
    )
    if identity is not None:
        if type(identity) not in (str, int):
            raise rs.InvalidType(
                f"identity must be a string or an integer, got {shorten(identity)}"
            )
        kind, known, name = "identity", repr(identity), f"the data set with {identity=}"
    rows = UNKNOWN if known is None else Evidence(kind, [known.encode()], [name])
    return rs.Pipeline(Range(len(data), rows=rows))


def identity_of_indices(indices: Sequence[Any]) -> str:
    """A digest of ``indices`` as text, the same for a list, a tensor and an array."""
    numbers = np.asarray(indices, dtype="<i8")
    return f"indices {blake2b(numbers.tobytes(), digest_size=8).hexdigest()}"


def _known_of(data: Any) -> str | None:
    """Known identity of ``data``: its rows of other data sets, or Hugging Face's fingerprint."""
    if isinstance(data, Subset):
        return f"{identity_of_indices(data.indices)} {_known_of(data.dataset)}"
    if isinstance(data, ConcatDataset):
        parts = list(map(_known_of, data.datasets))
        return f"{data.cumulative_sizes} {parts}" if any(parts) else None
    found = getattr(data, "_fingerprint", None)
    return found if isinstance(found, str) else None
