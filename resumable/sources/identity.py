"""The identity of data: as given by the user, shortened for the fingerprint, or of a pipeline."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from ..core.evidence import UNKNOWN, Evidence
from ..core.fingerprint import fingerprint
from ..core.identity import ALWAYS, EPOCHS, ITEMS, IdentityField
from ..core.stage import Stage
from ..errors import InvalidType, shorten
from .inexact import parts_of

LONGEST_SHOWN: Final = 100
DIGEST_BYTES: Final = 12

LENGTH: Final = IdentityField(
    ALWAYS,
    hint="did the data set grow or shrink since the save? by_epoch({0: before, n: now}) lets it change at epoch n",
)
DATA_IDENTITY: Final = IdentityField(
    ALWAYS, shown_as="identity", hint="were items added, removed, replaced or put in another order?"
)


def check_identity(value: Any) -> str | None:
    """``value``, a string or a list of strings, as one string, different for every value.

    A string of more than 100 characters becomes the number of strings and a digest.

    Raises:
      InvalidType: if ``value`` is neither a string, nor a list of strings, nor None.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _shown(value, [value], "1 string")
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, str) for part in value):
        raise InvalidType(f"identity must be a string or a list of strings, got {shorten(value)}")
    return _shown(json.dumps(value), value, f"{len(value)} strings")


def node_of(data: Any) -> Evidence:
    """The part of a Hugging Face stream made by ``split_dataset_by_node``, if known.

    Searches ``data`` and the objects read by ``data``.
    """
    for part in parts_of(data):
        split = getattr(part, "__dict__", {}).get("_distributed")
        rank, world_size = getattr(split, "rank", None), getattr(split, "world_size", None)
        if rank is not None and world_size is not None:
            name = f"the part of rank={rank} of world_size={world_size} by split_dataset_by_node"
            return Evidence("node", [name.encode()], [name])
    return UNKNOWN


def evidence_of(data: Any) -> Evidence:
    """The fingerprint of ``data`` if it is a pipeline, so its seeds and lengths are compared.

    Raises:
      InvalidType: if ``data`` is a pipeline without random access.
    """
    stage = getattr(data, "stage", data)
    if not isinstance(stage, Stage):
        return UNKNOWN
    if not stage.random_access:
        raise InvalidType(
            f"a pipeline without random access is no source of another one, got {stage!r}; use it as it is"
        )
    inner = fingerprint(stage, ITEMS | EPOCHS).encode()
    return Evidence("fingerprint", [inner], [f"the pipeline that ends with {stage}"])


def _shown(text: str, parts: Any, size: str) -> str:
    if len(text) <= LONGEST_SHOWN:
        return text
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hasher.update(b"%d " % len(encoded))
        hasher.update(encoded)
    return f"{size}, digest {hasher.hexdigest()}"
