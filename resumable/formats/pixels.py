"""The requested pixels of an image, by Pillow; nothing is cut off unless asked for."""

# Pillow has no mode for colours of 16 bits. It unpacks rows of 16 bits into 8 bits; the name of the
# byte order selects which 8. So a PNG of 16 bits is unpacked once by its upper and once by its
# lower bytes. Rows of gray and alpha in 16 bits have as many bytes as rows of RGBA in 8 bits.

from __future__ import annotations

import io
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_bool, check_int
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten

Pixels = npt.NDArray[Any]

CHANNELS: Final = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
"""The modes that may be asked for in another depth than 8 bits."""
WITH_ALPHA: Final = ("LA", "La", "PA", "RGBA", "RGBa")
WIDE: Final = {"I": np.int32, "F": np.float32}
"""Modes of numbers without a largest value, and their dtypes."""
DEPTHS: Final = ("uint8", "uint16")
LARGEST: Final = 0xFFFF
ORIENTATION: Final = 0x0112
"""The number of the orientation in EXIF data."""


class PixelRequest(NamedTuple):
    """The arguments of `decoders.image`, described in its docstring."""

    mode: str | None
    dtype: str | None
    drop_alpha: bool
    apply_exif_orientation: bool
    frame: int | None

    def check(self) -> None:
        """Refuse arguments that fit no image.

        Raises:
          InvalidArgument: if ``dtype`` is another word, or does not go with ``mode``, or ``frame``
            is negative.
          InvalidType: if an argument has the wrong type.
        """
        for name in ("mode", "dtype"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidType(f"{name} must be a string or None, got {shorten(value)}")
        check_bool("drop_alpha", self.drop_alpha)
        check_bool("apply_exif_orientation", self.apply_exif_orientation)
        if self.frame is not None:
            check_int("frame", self.frame, minimum=0)
        if self.dtype is not None and self.dtype not in DEPTHS:
            raise InvalidArgument(f"dtype must be 'uint8', 'uint16' or None, got {self.dtype!r}")
        if self.dtype is not None and self.mode not in CHANNELS:
            raise InvalidArgument(
                f"dtype={self.dtype!r} needs a mode of {list(CHANNELS)}, got {self.mode!r}"
            )

    def decode(self, data: bytes) -> Pixels:
        """The pixels of the image in ``data``.

        Raises:
          MalformedItem: if the image holds more than was asked for.
          Exception: nearly any, if ``data`` are damaged or no image.
        """
        from PIL import Image

        with Image.open(io.BytesIO(data)) as opened:
            _choose_frame(opened, self.frame)
            deep = _deep(opened, data, self)
            pixels = _shallow(opened, self) if deep is None else _converted(deep, opened, self)
            # TIFF files are turned by Pillow itself, which then no longer tells an orientation.
            turned = _turned(pixels, opened) if self.apply_exif_orientation else pixels
        return np.ascontiguousarray(turned)


def _choose_frame(opened: Any, frame: int | None) -> None:
    count = getattr(opened, "n_frames", 1)
    if frame is not None:
        if frame >= count:
            raise MalformedItem(f"image has {count} frames, so none with the number {frame}")
        opened.seek(frame)
    # The further pictures in a JPEG file of a phone, an MPO file, are no frames of the first
    # picture.
    elif count > 1 and opened.format != "MPO":
        raise MalformedItem(f"image has {count} frames; frame=0 takes the first")


def _deep(opened: Any, data: bytes, request: PixelRequest) -> Pixels | None:
    """The pixels of an image of 16 bits in its own channels; None to leave the image to Pillow.

    Raises:
      MalformedItem: if the pixels cannot be read, or would be cut to 8 bits without a request.
    """
    mode, unpacked = request.mode, _unpacking(opened)
    is_gray = opened.mode.startswith("I;16") or (opened.format == "PNG" and opened.mode == "I")
    if not is_gray and (opened.mode in WIDE or ";16" not in unpacked):
        return None
    if mode in CHANNELS and request.dtype is None:
        raise MalformedItem(
            "image has 16 bits a channel; dtype='uint16' keeps them, dtype='uint8' the upper 8"
        )
    if mode is not None and mode not in CHANNELS and not (is_gray and mode in ("I;16", *WIDE)):
        raise MalformedItem(f"image has 16 bits a channel, which mode={mode!r} has no room for")
    if is_gray:
        return np.array(opened).astype(np.uint16)
    if opened.format == "PNG" and getattr(opened, "n_frames", 1) == 1:
        if unpacked == "LA;16B":
            return _unpacked(data, "RGBA").view(">u2").astype(np.uint16)
        upper = _unpacked(data, unpacked).astype(np.uint16)
        return upper << 8 | _unpacked(data, f"{unpacked[:-1]}L")
    if request.dtype == "uint8":
        return None  # Pillow takes the upper 8
    raise MalformedItem(
        f"image has 16 bits a channel, of which Pillow reads 8 in colours of {opened.format}; "
        f"dtype='uint8' takes these"
    )


def _unpacking(opened: Any) -> str:
    """Pillow's name for the unpacking of the rows; contains ``;16`` for rows of 16 bits."""
    codec, _, _, arguments = opened.tile[0] if opened.tile else ("", None, 0, ())
    name, *more = arguments if isinstance(arguments, tuple) and arguments else (arguments,)
    if codec == "SGI16" or (codec.startswith("ppm") and more and more[0] > 255):
        return f"{name};16"
    return str(name)


def _unpacked(data: bytes, unpacking: str) -> Pixels:
    """The image in ``data``, with its rows unpacked in another way."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as opened:
        (tile,) = opened.tile
        opened.tile = [(*tile[:3], unpacking)]  # type: ignore[assignment, list-item, unused-ignore]
        return np.array(opened)


def _shallow(opened: Any, request: PixelRequest) -> Pixels:
    """The pixels of an image that Pillow reads whole."""
    mode = request.mode
    if mode is not None and opened.mode in WIDE and mode not in WIDE:
        raise MalformedItem(
            f"image has {'floats' if opened.mode == 'F' else 'integers of 32 bits'} of unknown range; "
            "mode=None delivers them unchanged"
        )
    chosen = mode or opened.mode
    keeps_alpha = chosen in WITH_ALPHA or chosen == opened.mode == "P"
    if not keeps_alpha and not request.drop_alpha and opened.has_transparency_data:
        least, _ = opened.convert("RGBA").getchannel("A").getextrema()
        if least < 255:
            raise _transparent()
    pixels: Pixels = np.array(opened if mode in (None, opened.mode) else opened.convert(mode))
    if request.dtype == "uint16":
        pixels = pixels.astype(np.uint16) * 257
    native: Pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    return native


def _transparent() -> MalformedItem:
    return MalformedItem(
        "image has transparent pixels; mode='RGBA' keeps the alpha channel, drop_alpha=True leaves it out"
    )


def _converted(deep: Pixels, opened: Any, request: PixelRequest) -> Pixels:
    """Pixels of 16 bits in the requested mode and depth."""
    mode = request.mode
    count = 1 if deep.ndim == 2 else deep.shape[2]
    channels = deep.reshape(*deep.shape[:2], count)
    colours, alpha = channels[..., : count - 1 + count % 2], None
    key = opened.info.get("transparency")
    if count % 2 == 0:
        alpha = channels[..., -1:]
    elif key is not None:  # the one colour that is transparent
        is_key = (colours == np.array(key, np.uint16)).all(axis=2, keepdims=True)
        alpha = np.where(is_key, 0, LARGEST).astype(np.uint16)
    is_left_out = mode not in ("LA", "RGBA") and (mode is not None or count % 2 == 1)
    if is_left_out and not request.drop_alpha and alpha is not None and (alpha < LARGEST).any():
        raise _transparent()
    if mode not in CHANNELS:
        return deep.astype(WIDE.get(mode or "", np.uint16))
    if mode.startswith("L") and colours.shape[2] == 3:
        colours = _gray(colours)
    elif mode.startswith("RGB") and colours.shape[2] == 1:
        colours = np.repeat(colours, 3, axis=2)
    if mode.endswith("A"):
        if alpha is None:
            alpha = np.full((*deep.shape[:2], 1), LARGEST, np.uint16)
        colours = np.concatenate([colours, alpha], axis=2)
    if request.dtype == "uint8":
        colours = (colours >> 8).astype(np.uint8)
    return colours[..., 0] if mode == "L" else colours


def _gray(colours: Pixels) -> Pixels:
    """Gray from colours, by Pillow's formula for 8 bits."""
    red, green, blue = np.moveaxis(colours.astype(np.uint64), 2, 0)
    gray = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    found: Pixels = gray.astype(np.uint16)[..., np.newaxis]
    return found


def _turned(pixels: Pixels, opened: Any) -> Pixels:
    """``pixels`` in the orientation of the image's EXIF data, if the data can be read."""
    try:
        orientation = opened.getexif().get(ORIENTATION)
    except Exception:  # damaged data raise nearly anything, and say nothing of the pixels
        return pixels
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels
