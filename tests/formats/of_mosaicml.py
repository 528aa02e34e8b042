"""Write MDS datasets by MosaicML Streaming.

``python tests/formats/of_mosaicml.py tests/formats/of_mosaicml.zip`` wrote that file, by mosaicml-streaming 0.13.0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from formats.zipped import zip_folder

from benchmarks.mosaicml import streaming

SCALARS = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
)  # fmt: skip
COLUMNS = {
    "b": "bytes", "s": "str", "i": "int", "si": "str_int", "sf": "str_float", "sd": "str_decimal", "j": "json",
    "nd": "ndarray", "nd_i2": "ndarray:int16", "nd_f4_23": "ndarray:float32:2,3", **{name: name for name in SCALARS},
}  # fmt: skip
"""Every encoding that needs no other package."""

IMAGES = {
    "pil": "pil", "jpeg": "jpeg", "png": "png", "jpeg_array": "jpeg_array", "pils": "list[pil]",
    "jpegs": "list[jpeg]", "pngs": "list[png]", "n": "int",
}  # fmt: skip
COMPRESSIONS = ("zstd", "gz:6", "bz2", "br:11", "snappy")


def sample(number: int) -> dict[str, Any]:
    """A sample with a value for each of `COLUMNS`."""
    rng = np.random.default_rng(number)
    return {
        "b": rng.bytes(number % 5),
        "s": "zwölf " * (number % 4),
        "i": -number,
        "si": 10 ** (number * 3),
        "sf": number / 7,
        "sd": Decimal(number) / 3,
        "j": {"n": [number, None, {"deep": str(number)}]},
        "nd": rng.integers(0, 200, (number % 3 + 1, 300 if number == 4 else 2)).astype("uint8"),
        "nd_i2": rng.integers(-9, 9, number % 4 + 1).astype("int16"),
        "nd_f4_23": rng.normal(size=(2, 3)).astype("float32"),
        **{name: np.dtype(name).type(number) for name in SCALARS},
    }


SAMPLES = [sample(number) for number in range(11)]


def images(number: int) -> dict[str, Any]:
    """A sample with a value for each of `IMAGES`."""
    from PIL import Image

    def image(mode: str, seed: int) -> Any:
        bands = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
        pixels = np.random.default_rng(seed).integers(0, 256, (6, 5, *bands)).astype("uint8")
        return Image.fromarray(pixels)

    several = [image("RGB", seed) for seed in range(number % 3 + 1)]
    return {
        "pil": image(("L", "RGB", "RGBA")[number % 3], number),
        "jpeg": image("RGB", number),
        "png": image("RGBA", number),
        "jpeg_array": [jpeg(each) for each in several],
        "pils": several,
        "jpegs": several,
        "pngs": several,
        "n": number,
    }


def jpeg(image: Any) -> bytes:
    import io

    file = io.BytesIO()
    image.save(file, format="JPEG")
    return file.getvalue()


def mosaicml() -> Any:
    """The package of MosaicML Streaming, without the warnings that importing it gives.

    Raises:
      ImportError: if it is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return streaming()


def write(
    folder: Path,
    samples: Sequence[Mapping[str, Any]] = SAMPLES,
    columns: Mapping[str, str] = COLUMNS,
    compression: str | None = None,
    size_limit: int = 4000,
    **options: Any,
) -> Path:
    """Write a dataset; returns its folder."""
    with mosaicml().MDSWriter(
        out=str(folder),
        columns=dict(columns),
        compression=compression,
        size_limit=size_limit,
        **options,
    ) as writer:
        for each in samples:
            writer.write(dict(each))
    return folder


def write_all(folder: Path) -> None:
    """Write a dataset of each kind, in folders named after them."""
    write(folder / "plain")
    for compression in ("zstd", "gz:6", "bz2"):
        write(folder / compression.partition(":")[0], compression=compression)
    write(folder / "images", [images(number) for number in range(3)], IMAGES)
    write(folder / "pickled", [{"p": {1, 2}}, {"p": 3}], {"p": "pkl"}, hashes=["sha1"])


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        write_all(Path(place))
        zip_folder(Path(place), Path(sys.argv[1]))
