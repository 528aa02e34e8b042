"""The nodes of a saved fingerprint, and the path of each as errors show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def node_parts(node: Sequence[Any]) -> tuple[str, dict[str, Any], list[Any]]:
    """Name, fields and upstreams of a node [name or name@version, {field: value} unless empty, upstream...]."""
    fields = node[1] if len(node) > 1 and isinstance(node[1], dict) else {}
    return str(node[0]), fields, [part for part in node[1:] if part is not fields]


def below(path: str, upstreams: Sequence[Any], number: int) -> str:
    """The path of upstream ``number`` of the stage at ``path``."""
    return f"{path}.upstream" if len(upstreams) == 1 else f"{path}.upstreams[{number}]"
