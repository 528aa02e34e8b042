"""Inputs for a reader of checkpoints: noise, damaged checkpoints, and wrong ones in right envelopes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgpack
import numpy as np
from campaigns.bombs import ext, sealed, with_digest

import resumable as rs
from resumable.checkpoint import envelope
from resumable.state.encoding import MAGIC

__all__ = ["GENERATORS", "pipelines", "real_checkpoints"]

FIRST: Final = [*range(0x78, 0xC8), *range(0xC0, 0x100)]
DTYPES: Final = [
    "<i4",
    "|b1",
    ">f8",
    "<c16",
    "|O",
    "<M8[D]",
    "|V8",
    "<U2",
    "<f16",
    "<i3",
    ",",
    "i4,f4",
]
KEYS: Final = ["step", "time", "state", "fingerprint", "pipeline", "upstream", "position", "epoch"]


def pipelines() -> list[rs.Pipeline[Any]]:
    """Small pipelines whose states have every kind of shape."""
    return [
        rs.range(100).shuffle(0).batch(3),
        rs.range(100).shuffle(1, window=8, carry=True).batch(2),
        rs.from_iterable(range(50)).map(lambda n: (n, np.arange(3) + n)).shuffle(2, window=4, carry=True),
        rs.range(9).filter(lambda n: n % 2 == 0).repeat(2).enumerate(),
    ]  # fmt: skip


def real_checkpoints() -> list[bytes]:
    """A checkpoint of each of the `pipelines`."""
    made = []
    for pipeline in pipelines():
        with iter(pipeline) as iterator:
            next(iterator)
            made.append(envelope.encode(rs.Checkpoint(1, 1234.5, iterator.get_state())))
    return made


def noise(random: Random, real: list[bytes]) -> bytes:
    return random.randbytes(random.randrange(200))


def noise_in_an_envelope(random: Random, real: list[bytes]) -> bytes:
    first = bytes(random.choices(FIRST, k=random.randrange(1, 5)))
    return sealed(MAGIC + first + random.randbytes(random.randrange(60)))


def damaged(random: Random, real: list[bytes]) -> bytes:
    return damage(random, random.choice(real), real)


def damaged_in_an_envelope(random: Random, real: list[bytes]) -> bytes:
    body = random.choice(real)[envelope.HEADER.size : -32]
    return sealed(damage(random, body, real))


def damaged_with_its_header(random: Random, real: list[bytes]) -> bytes:
    """Damaged anywhere, then with a digest that is right."""
    data = bytearray(damage(random, random.choice(real), real))
    if len(data) < envelope.HEADER.size + 32:
        return bytes(data)
    if random.random() < 0.5:
        data[8:16] = struct.pack("<Q", len(data) - envelope.HEADER.size - 32)
    return with_digest(bytes(data[:-32]))


def damage(random: Random, data: bytes, real: list[bytes]) -> bytes:
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        data = random.choice(DAMAGES)(random, data, real)
    return data


def flipped(random: Random, data: bytes, real: list[bytes]) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def replaced(random: Random, data: bytes, real: list[bytes]) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + bytes([random.choice(FIRST)]) + data[place + 1 :]


def truncated(random: Random, data: bytes, real: list[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def doubled(random: Random, data: bytes, real: list[bytes]) -> bytes:
    start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] + data[end:]


def inserted(random: Random, data: bytes, real: list[bytes]) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.randbytes(random.choice((1, 4, 100))) + data[place:]


def spliced(random: Random, data: bytes, real: list[bytes]) -> bytes:
    other = random.choice(real)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other)) :]


def lengthened(random: Random, data: bytes, real: list[bytes]) -> bytes:
    """A length of 8, 16 or 32 bits, in either order, large or off by one, in the place of other bytes."""
    place = random.randrange(len(data) + 1)
    size = random.choice((1, 2, 4))
    length = random.choice((0, 1, 2**31, 2**32 - 1, len(data) - place, random.randrange(300)))
    stored = (length % (1 << 8 * size)).to_bytes(size, random.choice(("big", "little")))
    return data[:place] + stored + data[place + size :]


DAMAGES: Final = [flipped, replaced, truncated, doubled, inserted, spliced, lengthened]


def tree(random: Random, depth: int = 0) -> bytes:
    """A random value as msgpack, well formed or nearly so."""
    if random.random() < 0.6 or depth > 5:
        return random.choice(LEAVES)(random)
    inner = [tree(random, depth + 1) for _ in range(random.randrange(4))]
    kind = random.randrange(5)
    if kind == 0:
        return bytes([0x90 + len(inner)]) + b"".join(inner)
    if kind == 1:  # keys of any kind, often equal
        return bytes([0x80 + len(inner)]) + b"".join(key(random) + value for value in inner)
    if kind == 2:
        return ext(random.randrange(6), bytes([0x90 + len(inner)]) + b"".join(inner))
    if kind == 3:
        opening = random.choice((b"\x91", b"\x81\xa1a", b"\x92\x01"))
        return opening * random.choice((3, 49, 50, 51, 52, 600, 2000)) + b"".join(
            inner[:1] or [b"\xc0"]
        )
    return nested_extension(random, b"".join(inner[:1] or [b"\xc0"]))


def nested_extension(random: Random, inner: bytes) -> bytes:
    for _ in range(random.choice((1, 2, 49, 50, 51, 60))):
        inner = ext(random.choice((2, 2, 2, 5)), b"\x91" + inner)
    return inner


def key(random: Random) -> bytes:
    if random.random() < 0.9:
        return bytes(msgpack.packb(random.choice(KEYS)))
    return random.choice(LEAVES)(random)


def array(random: Random) -> bytes:
    sizes = [0, 1, 2, 3, -1, 2**31, 2**32, 2**62, 2**63, True, 1.5, None]
    shape = [random.choice(sizes) for _ in range(random.choice((0, 1, 1, 2, 3, 70)))]
    fields = [random.choice(DTYPES), shape, random.randbytes(random.choice((0, 4, 8, 16)))]
    return ext(random.choice((3, 4)), bytes(msgpack.packb(fields[: random.choice((3, 3, 3, 2))])))


def huge(random: Random) -> bytes:
    """A value that says it is longer than it is."""
    head = random.choice((b"\xdb", b"\xc6", b"\xdd", b"\xdf", b"\xc9"))
    return head + struct.pack(">I", random.choice((2**32 - 1, 2**31, 2**24, 1000, 5)))


def number(random: Random) -> bytes:
    special = [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, float("nan"), float("inf"), True, None]
    return bytes(msgpack.packb(random.choice(special)))


def large_integer(random: Random) -> bytes:
    return ext(1, random.randbytes(random.choice((0, 1, 9, 30, 2000))))


def text(random: Random) -> bytes:
    raw = random.choice((b"", b"a", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"[" * 40))
    return bytes([0xD9, len(raw)]) + raw


def saved_fingerprint(random: Random) -> bytes:
    return bytes(msgpack.packb(random.choice(FINGERPRINTS)))


def other_extension(random: Random) -> bytes:
    code = random.choice((-1, -1, 0, 6, 99, 127, -128))
    return ext(code, random.randbytes(random.choice((0, 4, 8, 12))))


FINGERPRINTS: Final = [pipeline.fingerprint for pipeline in pipelines()]
LEAVES: Final[list[Callable[[Random], bytes]]] = [
    number, number, large_integer, text, array, huge, other_extension, saved_fingerprint,
]  # fmt: skip


def tree_in_an_envelope(random: Random, real: list[bytes]) -> bytes:
    if random.random() < 0.3:
        return sealed(MAGIC + tree(random))
    step = random.choice((b"\x01", b"\x01", number(random), tree(random)))
    time = random.choice((b"\xcb" + bytes(8), tree(random)))
    fields = {"step": step, "time": time, "state": graft(random)}
    body = b"".join(bytes(msgpack.packb(name)) + value for name, value in fields.items())
    return sealed(MAGIC + b"\x83" + body)


def graft(random: Random) -> bytes:
    """The state of a pipeline, with a random tree in the place of one value."""
    state = random.choice(STATES)
    path: list[Any] = []
    node: Any = state
    while isinstance(node, (dict, list)) and node and (not path or random.random() < 0.8):
        path.append(random.choice(list(node) if isinstance(node, dict) else range(len(node))))
        node = node[path[-1]]
    return with_value(state, path, tree(random))


def with_value(node: Any, path: list[Any], value: bytes) -> bytes:
    if not path:
        return value
    if isinstance(node, list):
        items = [
            with_value(item, path[1:], value) if number == path[0] else packed_state(item)
            for number, item in enumerate(node)
        ]
        return b"\xdd" + struct.pack(">I", len(items)) + b"".join(items)
    entries = [
        bytes(msgpack.packb(name))
        + (with_value(item, path[1:], value) if name == path[0] else packed_state(item))
        for name, item in node.items()
    ]
    return b"\xdf" + struct.pack(">I", len(entries)) + b"".join(entries)


def packed_state(value: Any) -> bytes:
    """``value`` as it stands in a serialised state."""
    return rs.dumps({"": value})[len(MAGIC) + 2 :]


STATES: Final = [envelope.decode(data).state for data in real_checkpoints()]
GENERATORS: Final[list[Callable[[Random, list[bytes]], bytes]]] = [
    noise, noise_in_an_envelope, damaged, damaged_in_an_envelope, damaged_with_its_header,
    tree_in_an_envelope, tree_in_an_envelope, tree_in_an_envelope,
]  # fmt: skip
