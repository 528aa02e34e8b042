"""States of other libraries, recognised by their keys, to name the library in errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class _Foreign(NamedTuple):
    owner: str
    keys: frozenset[str]


# Entries with more keys come first. No state of the library's stages may fit an entry.
KNOWN: Final = [
    _Foreign(owner, frozenset(keys.split()))
    for owner, keys in (
        ("torchdata's StatefulDataLoader", "_snapshot _steps_since_snapshot"),
        ("torchdata's StatefulDataLoader", "_sampler_iter_state _num_yielded"),
        ("torchdata.nodes", "root num_yielded"),
        ("Hugging Face's IterableDataset", "examples_iterable epoch"),
        ("MosaicML Streaming", "sample_in_epoch num_canonical_nodes"),
        ("LitData's StreamingDataLoader", "dataset current_epoch latest_worker_idx"),
        ("Grain's DataLoader", "last_seen_indices last_worker_index"),
        ("Grain's dataset iterators", "next_index"),
    )
]
LONGEST: Final = 1 << 16  # bytes that are searched


def looks_like(state: Any) -> str:
    """The library from which ``state`` seems to come, as the end of a message; empty if unknown.

    Args:
      state: a dict, or JSON in bytes as returned by Grain's loader.
    """
    if isinstance(state, Mapping):
        keys = {key for key in state if isinstance(key, str)}
        owners = [foreign.owner for foreign in KNOWN if foreign.keys <= keys]
    elif isinstance(state, (bytes, bytearray, memoryview)) and bytes(state[:1]) == b"{":
        text = bytes(state[:LONGEST])
        owners = [
            foreign.owner
            for foreign in KNOWN
            if all(b'"%s"' % key.encode() in text for key in foreign.keys)
        ]
    else:
        return ""
    return f"; it looks like one of {owners[0]}, which nothing else can load" if owners else ""
