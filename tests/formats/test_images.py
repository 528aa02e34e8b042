"""Images are decoded to the last bit, or refused with the argument that says what may be left out."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import resumable as rs

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
ImageOps = pytest.importorskip("PIL.ImageOps", reason="Pillow is not installed")

RNG = np.random.default_rng(0)
KINDS = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's number for so many channels."""
INTERLACED = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))  # fmt: skip
"""First row and column, and their steps, of the parts of an interlaced PNG."""


def saved(image: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def of(pixels: Any, mode: str | None = None) -> Any:
    """A new image of Pillow."""
    made = Image.fromarray(pixels)
    return made if mode in (None, made.mode) else Image.frombytes(mode, made.size, pixels.tobytes())


def random_pixels(*shape: int) -> npt.NDArray[np.uint8]:
    return RNG.integers(0, 256, shape, np.uint8)


def filtered(rows: npt.NDArray[np.uint8], width: int, kinds: list[int]) -> bytes:
    """``rows`` of bytes as PNG stores them, each with one of its five predictions; pixels of ``width`` bytes."""
    above, found = np.zeros(rows.shape[1], int), b""
    for number, row in enumerate(rows.astype(int)):
        left = np.concatenate([np.zeros(width, int), row[:-width]])
        corner = np.concatenate([np.zeros(width, int), above[:-width]])
        guess = left + above - corner
        distances = np.abs(np.stack([guess - left, guess - above, guess - corner]))
        nearest = np.choose(distances.argmin(axis=0), [left, above, corner])
        kind = kinds[number % len(kinds)]
        predicted = [0 * row, left, above, (left + above) // 2, nearest][kind]
        found += bytes([kind]) + ((row - predicted) % 256).astype(np.uint8).tobytes()
        above = row
    return found


def png16(
    pixels: npt.NDArray[np.uint16],
    *,
    kinds: list[int] | None = None,
    interlaced: bool = False,
    key: tuple[int, ...] = (),
) -> bytes:
    """A PNG of 16 bits a channel; ``key`` is the colour that is transparent."""
    height, width, channels = pixels.shape
    rows = b""
    for top, left, down, right in INTERLACED if interlaced else ((0, 0, 1, 1),):
        part = pixels[top::down, left::right]
        if part.size:
            as_bytes = np.ascontiguousarray(part).astype(">u2").view(np.uint8)
            rows += filtered(as_bytes.reshape(len(part), -1), 2 * channels, kinds or [0])
    header = struct.pack(">IIBBBBB", width, height, 16, KINDS[channels], 0, 0, int(interlaced))
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    if key:
        chunks.insert(1, (b"tRNS", struct.pack(f">{len(key)}H", *key)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


deep = hnp.arrays(
    np.uint16,
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from(list(KINDS))),
    elements=st.integers(0, 0xFFFF),
)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WebP"])
def test_images_come_back(kind: str) -> None:
    pixels = random_pixels(5, 7, 3)
    data = saved(of(pixels), kind, **({"lossless": True} if kind == "WebP" else {}))
    assert np.array_equal(rs.decoders.image(data), pixels)
    assert rs.decoders.image(data, mode="L").shape == (5, 7)
    assert partial(rs.decoders.image, mode=None)(data).shape == (5, 7, 3)
    for damaged in (b"", b"no image", data[:60]):
        with pytest.raises(rs.MalformedItem, match="not an image"):
            rs.decoders.image(damaged)


@given(deep, st.lists(st.integers(0, 4), min_size=1, max_size=5), st.booleans())
def test_all_16_bits_of_a_png_come_back(
    pixels: npt.NDArray[np.uint16], kinds: list[int], interlaced: bool
) -> None:
    data = png16(pixels, kinds=kinds, interlaced=interlaced)
    found = rs.decoders.image(data, None)
    assert found.dtype == np.uint16
    assert np.array_equal(found.reshape(pixels.shape), pixels)
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    assert np.array_equal(rs.decoders.image(data, mode, dtype="uint16"), found)
    upper = rs.decoders.image(data, mode, dtype="uint8")
    assert upper.dtype == np.uint8
    assert np.array_equal(upper, found >> 8)


@given(deep, st.sampled_from(["L", "LA", "RGB", "RGBA"]))
def test_16_bits_in_another_mode_are_as_pillow_converts_8(
    pixels: npt.NDArray[np.uint16], mode: str
) -> None:
    # Of 8 bits that were made 16, the upper 8 are what Pillow makes of the 8.
    pixels = pixels // 257
    own = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    shallow = of(pixels.astype(np.uint8).squeeze(2) if own == "L" else pixels.astype(np.uint8), own)
    expected = np.array(shallow.convert(mode)).astype(int)
    data = png16(pixels * 257)
    options: dict[str, Any] = {"mode": mode, "drop_alpha": True}
    found = rs.decoders.image(data, dtype="uint8", **options)
    assert found.shape == expected.shape
    assert found.dtype == np.uint8
    assert np.abs(found - expected).max() <= (1 if mode.startswith("L") else 0)  # it rounds
    wide = rs.decoders.image(saved(shallow, "PNG"), dtype="uint16", **options)
    assert np.array_equal(wide, expected * 257)


@pytest.mark.parametrize(
    ("key", "shape"), [((7,), (4, 5, 1)), ((7, 8, 9), (4, 5, 3))], ids=["gray", "colours"]
)
def test_the_transparent_colour_of_16_bits_becomes_alpha(
    key: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    pixels = RNG.integers(0, 1 << 16, shape, np.uint16)
    opaque = png16(pixels, key=key)
    assert rs.decoders.image(opaque, dtype="uint16").shape == (4, 5, 3)
    pixels[2, 3] = key
    data = png16(pixels, key=key)
    expected = np.full((4, 5), 0xFFFF)
    expected[2, 3] = 0
    assert np.array_equal(rs.decoders.image(data, "RGBA", dtype="uint16")[..., 3], expected)
    for mode in ("RGB", "L", None):
        dtype = mode and "uint16"
        with pytest.raises(rs.MalformedItem, match="transparent pixels"):
            rs.decoders.image(data, mode, dtype=dtype)
        assert rs.decoders.image(data, mode, dtype=dtype, drop_alpha=True).dtype == np.uint16


PALETTE = of(random_pixels(6, 8, 3)).quantize(8)
CASES: dict[str, tuple[Callable[[], bytes], dict[str | None, tuple[tuple[int, ...], str]]]] = {
    "1 bit": (
        lambda: saved(of(random_pixels(6, 8) > 99), "PNG"),
        {"RGB": ((6, 8, 3), "uint8"), None: ((6, 8), "bool")},
    ),
    "gray": (
        lambda: saved(of(random_pixels(6, 8)), "PNG"),
        {"RGB": ((6, 8, 3), "uint8"), None: ((6, 8), "uint8"), "I": ((6, 8), "int32")},
    ),
    "palette": (
        lambda: saved(PALETTE, "PNG"),
        {"RGB": ((6, 8, 3), "uint8"), None: ((6, 8), "uint8"), "P": ((6, 8), "uint8")},
    ),
    "CMYK": (
        lambda: saved(of(random_pixels(6, 8, 4), "CMYK"), "TIFF"),
        {"RGB": ((6, 8, 3), "uint8"), None: ((6, 8, 4), "uint8")},
    ),
    "opaque RGBA": (
        lambda: saved(of(random_pixels(6, 8, 4) | np.array([0, 0, 0, 255], np.uint8)), "PNG"),
        {"RGB": ((6, 8, 3), "uint8"), None: ((6, 8, 4), "uint8"), "LA": ((6, 8, 2), "uint8")},
    ),
    "16-bit gray TIFF": (
        lambda: saved(of(RNG.integers(0, 1 << 16, (6, 8), np.uint16)), "TIFF"),
        {None: ((6, 8), "uint16"), "I": ((6, 8), "int32"), "F": ((6, 8), "float32")},
    ),
    "16-bit gray TIFF, big endian": (
        lambda: saved(of(RNG.integers(0, 1 << 16, (6, 8), np.uint16).astype(">u2")), "TIFF"),
        {None: ((6, 8), "uint16"), "I;16": ((6, 8), "uint16")},
    ),
    "32-bit TIFF": (
        lambda: saved(of(RNG.integers(0, 1 << 30, (6, 8), np.int32)), "TIFF"),
        {None: ((6, 8), "int32")},
    ),
    "float TIFF": (
        lambda: saved(of(RNG.random((6, 8), np.float32)), "TIFF"),
        {None: ((6, 8), "float32")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_comes_out_of_which_file(case: str) -> None:
    make, expected = CASES[case]
    data = make()
    with Image.open(io.BytesIO(data)) as opened:
        for mode, (shape, dtype) in expected.items():
            found = rs.decoders.image(data, mode)
            assert (found.shape, str(found.dtype), found.dtype.isnative) == (shape, dtype, True)
            if mode in (None, "RGB"):
                own = opened if mode is None else opened.convert(mode)
                assert np.array_equal(found, np.array(own))


def rgb16_tiff() -> bytes:
    pixels = RNG.integers(0, 1 << 16, (6, 8, 3), np.uint16).astype("<u2").tobytes()
    entries = [(256, 3, 1, 8), (257, 3, 1, 6), (258, 3, 3, 110), (259, 3, 1, 1), (262, 3, 1, 2)]
    entries += [(273, 4, 1, 116), (277, 3, 1, 3), (279, 4, 1, len(pixels))]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    head = b"II*\0" + struct.pack("<IH", 8, len(entries)) + fields + bytes(4)
    return head + struct.pack("<3H", 16, 16, 16) + pixels


TRANSPARENT = (
    "transparent pixels; mode='RGBA' keeps the alpha channel, drop_alpha=True leaves it out"
)
DEEP = "16 bits a channel; dtype='uint16' keeps them, dtype='uint8' the upper 8"
FRAMES = "image has 2 frames; frame=0 takes the first"
HALVES = "16 bits a channel, of which Pillow reads 8 in colours of"
REFUSED: dict[str, tuple[Callable[[], bytes], dict[str, Any], str, dict[str, Any]]] = {
    "RGBA": (lambda: saved(of(random_pixels(6, 8, 4)), "PNG"), {}, TRANSPARENT, {"drop_alpha": True}),
    "LA": (lambda: saved(of(random_pixels(6, 8, 2), "LA"), "PNG"), {}, TRANSPARENT, {"mode": "RGBA"}),
    "WebP": (lambda: saved(of(random_pixels(6, 8, 4)), "WebP"), {"mode": "L"}, TRANSPARENT, {"mode": "LA"}),
    "palette": (lambda: saved(PALETTE, "GIF", transparency=0), {}, TRANSPARENT, {"mode": "RGBA"}),
    "a colour": (
        lambda: saved(of(np.zeros((6, 8, 3), np.uint8)), "PNG", transparency=(0, 0, 0)),
        {"mode": None}, TRANSPARENT, {"mode": "RGBA"},
    ),
    "gray PNG": (
        lambda: png16(RNG.integers(0, 1 << 16, (6, 8, 1), np.uint16)), {}, DEEP, {"dtype": "uint16"},
    ),
    "RGB PNG": (
        lambda: png16(RNG.integers(0, 1 << 16, (6, 8, 3), np.uint16)), {"mode": "L"}, DEEP, {"dtype": "uint8"},
    ),
    "no room": (
        lambda: png16(RNG.integers(0, 1 << 16, (6, 8, 3), np.uint16)),
        {"mode": "I"}, "mode='I' has no room", {"mode": None},
    ),
    "RGB TIFF": (rgb16_tiff, {"dtype": "uint16"}, f"{HALVES} TIFF; dtype='uint8' takes", {"dtype": "uint8"}),
    "RGB TIFF as it is": (rgb16_tiff, {"mode": None}, HALVES, {"dtype": "uint8"}),
    "PPM": (
        lambda: b"P6 8 6 65535\n" + random_pixels(6, 8, 6).tobytes(), {"mode": None}, HALVES, {"dtype": "uint8"},
    ),
    "SGI": (
        lambda: saved(of(random_pixels(6, 8, 3)), "SGI", bpc=2), {"mode": None}, HALVES, {"dtype": "uint8"},
    ),
    "floats": (
        CASES["float TIFF"][0], {}, "image has floats of unknown range; mode=None", {"mode": None},
    ),
    "32 bits": (CASES["32-bit TIFF"][0], {"mode": "L"}, "integers of 32 bits", {"mode": None}),
    "animation": (
        lambda: saved(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(180)]),
        {}, FRAMES, {"frame": 1},
    ),
    "pages": (
        lambda: saved(of(random_pixels(6, 8)), "TIFF", save_all=True, append_images=[of(random_pixels(6, 8))]),
        {"mode": None}, FRAMES, {"frame": 0},
    ),
    "no such frame": (lambda: saved(PALETTE, "PNG"), {"frame": 1}, "1 frames, so none with the number 1", {"frame": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_lost_is_refused_with_the_argument_that_says_what_to_do(case: str) -> None:
    make, options, reason, remedy = REFUSED[case]
    data = make()
    with pytest.raises(rs.MalformedItem) as refused:
        rs.decoders.image(data, **options)
    assert reason in str(refused.value)
    if remedy.get("dtype"):
        options = {"mode": "RGB"}
    assert rs.decoders.image(data, **(options | remedy)).shape[:2] == (6, 8)


def test_a_frame_is_taken_by_its_number() -> None:
    pages = [random_pixels(6, 8, 3) for _ in range(3)]
    data = saved(
        of(pages[0]), "TIFF", save_all=True, append_images=[of(page) for page in pages[1:]]
    )
    for number, page in enumerate(pages):
        assert np.array_equal(rs.decoders.image(data, frame=number), page)


def test_of_the_pictures_of_a_phone_the_first_is_the_image() -> None:
    first, preview = of(random_pixels(6, 8, 3)), of(random_pixels(3, 4, 3))
    data = saved(first, "MPO", save_all=True, append_images=[preview])
    assert rs.decoders.image(data).shape == (6, 8, 3)
    assert rs.decoders.image(data, frame=1).shape == (3, 4, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP", "TIFF"])
@pytest.mark.parametrize("orientation", range(10))
def test_exif_data_turn_an_image_as_pillow_does(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = of(random_pixels(6, 8, 3))
    data = saved(image, kind, exif=exif)
    with Image.open(io.BytesIO(data)) as opened:
        as_stored, expected = np.array(opened), np.array(ImageOps.exif_transpose(opened))
    found = rs.decoders.image(data)
    assert np.array_equal(found, expected)
    assert found.flags.c_contiguous
    assert found.flags.writeable
    # Pillow itself turns a TIFF.
    assert np.array_equal(rs.decoders.image(data, apply_exif_orientation=False), as_stored)


def test_16_bits_are_turned_too() -> None:
    pixels = RNG.integers(0, 1 << 16, (6, 8), np.uint16)
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(of(pixels), "PNG", exif=exif)
    assert np.array_equal(rs.decoders.image(data, None), np.rot90(pixels, -1))


def test_exif_data_that_cannot_be_read_say_nothing() -> None:
    image = of(random_pixels(6, 8, 3))
    data = saved(image, "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\1")
    assert np.array_equal(rs.decoders.image(data), np.array(image))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": 3}, rs.InvalidType, "mode must be a string or None, got 3"),
        (
            {"mode": "RGBB"},
            rs.InvalidArgument,
            "mode must be one that Pillow has, or None, got 'RGBB'",
        ),
        ({"dtype": "float32"}, rs.InvalidArgument, "dtype must be 'uint8', 'uint16' or None"),
        ({"dtype": np.uint8}, rs.InvalidType, "dtype must be a string or None"),
        ({"dtype": "uint8", "mode": None}, rs.InvalidArgument, "needs a mode of .*, got None"),
        ({"dtype": "uint16", "mode": "I;16"}, rs.InvalidArgument, "needs a mode of .*, got 'I;16'"),
        ({"drop_alpha": 1}, rs.InvalidType, "drop_alpha must be True or False, got 1"),
        (
            {"apply_exif_orientation": None},
            rs.InvalidType,
            "apply_exif_orientation must be True or False",
        ),
        ({"frame": -1}, rs.InvalidArgument, "frame must be at least 0, got -1"),
        ({"frame": "all"}, rs.InvalidType, "frame must be an integer, got 'all'"),
    ],
)
def test_wrong_arguments_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rs.decoders.image(saved(PALETTE, "PNG"), **options)
