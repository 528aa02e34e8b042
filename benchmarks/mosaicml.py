"""Import MosaicML Streaming where torchvision has no build for this machine."""

# It uses torchvision only to make tensors of images. Of that there is no build without the libraries of a GPU,
# and another one ends with an error at the first operator that its C++ code would have declared.

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

__all__ = ["streaming"]

OPERATORS: Final = ("nms", "qnms")
_declared: Final[list[Any]] = []
"""Operators are declared as long as what declares them lives."""


def streaming() -> Any:
    """The package of MosaicML Streaming."""
    if "streaming" not in sys.modules and not _declared:
        _declare_operators()
    return importlib.import_module("streaming")


def _declare_operators() -> None:
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        _declared.append(torch.library.Library("torchvision", "FRAGMENT"))
        for operator in OPERATORS:
            _declared[0].define(
                f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        for name in [*sys.modules]:
            if name.partition(".")[0] == "torchvision":
                del sys.modules[name]
