"""Write optimised datasets by LitData.

``python tests/formats/of_litdata.py tests/formats/of_litdata.zip`` wrote that file, by litdata 0.2.76.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from formats.zipped import zip_folder


def rows(number: int) -> dict[str, Any]:
    """What LitData writes as a row of an Arrow table."""
    return {
        "text": "zwölf " * (number % 4),
        "n": -number,
        "deep": {"list": [number, 2], "none": None, "flag": number % 2 == 0},
        "records": [{"a": f"{number}", "b": number / 7}],
    }


def numbers(number: int) -> Any:
    """A structure with a leaf of every serializer that needs neither torch nor Pillow."""
    rng = np.random.default_rng(number)
    return {
        "text": f"text {number} ü",
        "tuple": (number, [number / 3, number % 2 == 0], b"\0" * (number % 3)),
        "one": rng.integers(0, 99, number % 4 + 1),
        "two": rng.normal(size=(number % 3 + 1, 2)).astype("float32"),
        "json": [{"k": "v", "n": number}, {"k": "w", "n": None}],
        "mixed": {"x": [1, "a", None], "y": [[1.5], []], "e": [], "t": [True, False]},
    }


def tensors(number: int) -> Any:
    """A structure with tensors."""
    import torch

    return [
        torch.arange(number % 5 + 1),
        torch.arange(6, dtype=torch.float16).reshape(2, 3) * number,
        torch.tensor(number % 2 == 0),
        {"k": torch.zeros((2, 0))},
    ]


def images(number: int) -> Any:
    """A dict of images, the JPEGs of which LitData reads by Pillow, since they have Exif data."""
    from litdata.types import Jpeg, JpegArray, Pil
    from PIL import Image

    rng = np.random.default_rng(number)
    image = Image.fromarray(rng.integers(0, 256, (9, 7, 3)).astype("uint8"))
    grey = Image.fromarray(rng.integers(0, 256, (4, 5)).astype("uint8"))
    jpeg = turned(image, number % 8 + 1)
    return {
        "pil": Pil(image=image if number % 2 else grey),
        "jpeg": Jpeg(bytes=jpeg),
        "several": JpegArray(images=[Jpeg(bytes=jpeg)] * (number % 3 + 1)),
        "label": number,
    }


def turned(image: Any, orientation: int) -> bytes:
    """A JPEG of the ``image`` whose Exif data tell its ``orientation``."""
    import io

    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    image.save(file, format="JPEG", exif=exif)
    return file.getvalue()


def write(folder: Path, items: Sequence[Any], chunk_size: int | None = 4, **options: Any) -> Path:
    """Write a dataset; returns its folder."""
    from litdata.streaming.writer import BinaryWriter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = BinaryWriter(str(folder), chunk_size=chunk_size, **options)
        for number, item in enumerate(items):
            writer[number] = item
        writer.done()
        writer.merge()
    return folder


def tokens(number: int) -> Any:
    """Tokens of one document."""
    return np.arange(number, 2 * number + 3, dtype="uint16")


def write_tokens(folder: Path, of_torch: bool = False, **options: Any) -> Path:
    """Write a dataset of `tokens`; returns its folder."""
    import torch
    from litdata.streaming.item_loader import TokensLoader

    found = [tokens(number) for number in range(9)]
    items = [torch.from_numpy(each.astype("int32")) for each in found] if of_torch else found
    return write(folder, items, None, chunk_bytes=90, item_loader=TokensLoader(4), **options)


COUNT = 10
COMPRESSED: dict[str, dict[str, Any]] = {
    "batch": {"compression": "zstd", "compression_batch_size": 3},
    "chunk": {"compression": "zstd:2", "compression_level": "chunk"},
    "sample": {"compression": "zstd", "compression_level": "sample"},
}
"""What LitData may compress as one."""


def write_all(folder: Path) -> None:
    """Write a dataset of each kind, in folders named after them."""
    some = [numbers(number) for number in range(COUNT)]
    write(folder / "plain", some)
    for name, options in COMPRESSED.items():
        write(folder / name, some, **options)
    table = [rows(number) for number in range(COUNT)]
    write(folder / "table", table)
    write(folder / "table zstd", table, compression="zstd")
    write(folder / "tensors", [tensors(number) for number in range(COUNT)])
    write(folder / "images", [images(number) for number in range(5)], 2)
    write(folder / "pickled", [{1, 2}, {3}])
    write_tokens(folder / "tokens")
    write_tokens(folder / "tokens of torch", True)
    write_tokens(folder / "tokens zstd", compression="zstd", compression_level="chunk")


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        write_all(Path(place))
        zip_folder(Path(place), Path(sys.argv[1]))
