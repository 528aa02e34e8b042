"""Small files of JSON in the folder of a cache, which are there as a whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress


def write_note(path: str, value: object) -> None:
    """Write ``value`` to the file at ``path``, in place of what is there.

    Raises:
      OSError: if that fails; then nothing is left of it.
    """
    unfinished = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(unfinished, "x", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
