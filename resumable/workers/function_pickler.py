"""Pickle a function for another process of this machine."""

from __future__ import annotations

import io
import pickle
from typing import Any, final

import cloudpickle
import numpy as np

from .mapped import MappedFiles


def dumps(fn: Any) -> bytes:
    """``fn`` as bytes, by value if it cannot be imported; arrays in mapped files as their place."""
    written = io.BytesIO()
    _FunctionPickler(written, protocol=pickle.HIGHEST_PROTOCOL).dump(fn)
    return written.getvalue()


@final
class _FunctionPickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = MappedFiles()

    def reducer_override(self, obj: Any) -> Any:
        # No other subclass: its instances may hold more than their place.
        if type(obj) in (np.ndarray, np.memmap):
            return self._places.reduced(obj) or NotImplemented
        return super().reducer_override(obj)
