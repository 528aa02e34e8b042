"""What lies in the checkpoints of Orbax, and what Orbax itself warns of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.damaged import flip_last_bit

__all__ = ["ORBAX_WARNS", "damage", "input_files", "type_strings"]

# Of arrays that are loaded without their sharding, and of what it leaves after a handler refused to load.
ORBAX_WARNS = [
    pytest.mark.filterwarnings("ignore:Sharding info not provided"),
    pytest.mark.filterwarnings("ignore:coroutine 'PyTreeHandler._background_load' was never"),
]


def input_files(checkpoint: Path, name: str = "input") -> dict[str, bytes]:
    """The files of the input in a checkpoint of Orbax."""
    return {path.name: path.read_bytes() for path in sorted((checkpoint / name).glob("*.ckpt"))}


def damage(checkpoint: Path) -> Path:
    """Change the last byte of the only file of the input, and return its path."""
    (path,) = (checkpoint / "input").glob("*.ckpt")
    flip_last_bit(path)
    return path


def type_strings(checkpoint: Path) -> dict[str, str]:
    """The handlers that a checkpoint of Orbax names."""
    found: dict[str, str] = json.loads((checkpoint / "_CHECKPOINT_METADATA").read_text())[
        "item_handlers"
    ]
    return found
