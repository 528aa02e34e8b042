"""Bodies of checkpoints that would fill the memory, the stack or the day of whoever reads them."""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

import msgpack

from resumable.checkpoint import envelope
from resumable.state.encoding import MAGIC

__all__ = ["ACCEPTED", "BOMBS", "FILE_BYTES", "ext", "sealed", "state_of", "with_digest"]

FILE_BYTES: Final = 16_000_000
# What the body has besides the value under test, rounded up.
ROOM: Final = FILE_BYTES - 200
WIDE: Final = "\N{GRINNING FACE}".encode()


def sealed(body: bytes) -> bytes:
    """``body`` in an envelope that is right in every respect, as an attacker can make one."""
    return with_digest(envelope.HEADER.pack(envelope.MAGIC, len(body)) + body)


def with_digest(content: bytes) -> bytes:
    """``content``, the header and the body, with its digest."""
    return content + hashlib.blake2b(content, digest_size=32).digest()


def state_of(value: bytes) -> bytes:
    """The body of a checkpoint whose state is ``{"value": value}``, which is packed already."""
    head = {"step": 1, "time": 1.5}
    return MAGIC + b"\x83" + packed(head)[1:] + packed("state") + b"\x81" + packed("value") + value


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def ext(code: int, data: bytes) -> bytes:
    """``data`` as an extension."""
    return b"\xc9" + struct.pack(">IB", len(data), code & 0xFF) + data


def array(dtype: str, shape: list[int], data: bytes) -> bytes:
    return ext(3, packed([dtype, shape, data]))


def list_of(item: bytes, count: int = 0) -> bytes:
    """A list of as many ``item`` as the file has room for."""
    count = count or ROOM // len(item)
    return b"\xdd" + struct.pack(">I", count) + item * count


def distinct(count: int, item: Callable[[bytes], bytes]) -> bytes:
    return b"".join(item(b"%07x" % number) for number in range(count))


def strings(count: int) -> bytes:
    return b"\xdd" + struct.pack(">I", count) + distinct(count, lambda text: b"\xa7" + text)


def rows(count: int) -> bytes:
    return list_of(b"", count) + distinct(count, lambda text: b"\x81\xa7" + text + b"\xc0")


def one_dict(count: int) -> bytes:
    entries = distinct(count, lambda text: b"\xa7" + text + b"\xc0")
    return b"\xdf" + struct.pack(">I", count) + entries


def open_lists(levels: int, count: int) -> bytes:
    """Lists that begin with ``count`` strings and end with the next list, which has no end."""
    level = b"\xdd" + struct.pack(">I", count + 1) + b"\xa2ab" * count
    return level * levels


def nested(opening: bytes, levels: int) -> bytes:
    return opening * levels + b"\xc0"


def nested_extensions(levels: int, inner: bytes = b"\x90") -> bytes:
    for _ in range(levels):
        inner = ext(2, b"\x91" + inner)
    return inner


def nested_cheaply(levels: int) -> bytes:
    """Extensions one in another; their lengths are right without building each anew."""
    heads = []
    for level in range(levels):  # from the innermost to the outermost
        heads.append(b"\xc9" + struct.pack(">IB", 1 + 7 * level + 1, 2) + b"\x91")
    return b"".join(reversed(heads)) + b"\x90"


def padded(value: bytes) -> bytes:
    """``value`` before bytes that fill the file, so that any length in it seems to fit."""
    rest = ROOM - len(value)
    return b"\x92" + value + b"\xc6" + struct.pack(">I", rest) + bytes(rest)


# Each is a value in the state of an otherwise right checkpoint, and must be refused.
_VALUES: Final[dict[str, Callable[[], bytes]]] = {
    "empty dicts": lambda: list_of(b"\x80"),
    "empty lists": lambda: list_of(b"\x90"),
    "dicts of one entry": lambda: list_of(b"\x81\xa1a\x01"),
    "dicts of one entry with distinct keys": lambda: rows(ROOM // 10),
    "nils": lambda: list_of(b"\xc0"),
    "short strings": lambda: list_of(b"\xa2ab"),
    "distinct short strings": lambda: strings(ROOM // 8),
    "strings of wide characters": lambda: list_of(b"\xa8\xf0\x9f\x98\x80abcd"),
    "one dict with distinct keys": lambda: one_dict(ROOM // 9),
    "empty tuples": lambda: list_of(ext(2, b"\x90")),
    "integers": lambda: list_of(b"\xcd\xff\xff"),
    "lists without end": lambda: open_lists(10, ROOM // 31),
    "lists said to be long": lambda: padded((b"\xdd" + struct.pack(">I", ROOM // 2)) * 900),
    "dicts said to be long": lambda: padded((b"\xdf" + struct.pack(">I", ROOM // 8)) * 1),
    "1,000 nested lists": lambda: nested(b"\x91", 1000),
    "100,000 nested lists": lambda: nested(b"\x91", 100_000),
    "1,000 nested dicts": lambda: nested(b"\x81\xa1a", 1000),
    "100,000 nested dicts": lambda: nested(b"\x81\xa1a", 100_000),
    "1,000 nested extensions": lambda: nested_extensions(1000),
    "100,000 nested extensions": lambda: nested_cheaply(100_000),
    "nested extensions of a large array": lambda: nested_extensions(45, b"\xc6" + struct.pack(">I", ROOM - 500) + bytes(ROOM - 500)),
    "a key that stands twice": lambda: b"\x82\xa1a\x01\xa1a\x02",
    "a key that stands a million times": lambda: b"\xdf" + struct.pack(">I", 10**6) + b"\xa1a\x01" * 10**6,
    "an array of objects": lambda: array("|O", [1], bytes(8)),
    "an array of records": lambda: array("<i4,<f4", [1], bytes(8)),
    "an array of dates in no unit": lambda: array("<M8[xx]", [1], bytes(8)),
    "an array of text beyond Unicode": lambda: array("<U2", [1], b"\xff" * 8),
    "an array of text of any width": lambda: array("<U999999999999", [1], bytes(8)),
    "an array of void": lambda: array("|V8", [1], bytes(8)),
    "a shape larger than its data": lambda: array("<i4", [3], bytes(8)),
    "a shape smaller than its data": lambda: array("<i4", [1], bytes(8)),
    "a shape of 2**62": lambda: array("<i4", [2**62], bytes(8)),
    "a shape that overflows to 0": lambda: array("<i4", [2**32, 2**32], b""),
    "a shape of 2**40 by 0": lambda: array("<i4", [2**62, 4, 0], b""),
    "a shape of many axes": lambda: array("<i4", [1] * 100_000, bytes(4)),
    "a string said to have 4 GiB": lambda: b"\xdb\xff\xff\xff\xff",
    "bytes said to have 4 GiB": lambda: b"\xc6\xff\xff\xff\xff",
    "a list said to have 4 GiB": lambda: b"\xdd\xff\xff\xff\xff",
    "a dict said to have 4 GiB": lambda: b"\xdf\xff\xff\xff\xff",
    "an extension said to have 4 GiB": lambda: b"\xc9\xff\xff\xff\xff\x02",
    "a time": lambda: b"\xd6\xff" + bytes(4),
}  # fmt: skip


class _Executed:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('executed')",)


# Each is the whole body of a checkpoint.
_BODIES: Final[dict[str, Callable[[], bytes]]] = {
    "a list instead of a dict": lambda: MAGIC + b"\x91\x01",
    "nil instead of a dict": lambda: MAGIC + b"\xc0",
    "nothing": lambda: b"",
    "a mark alone": lambda: MAGIC,
    "a pickle": lambda: pickle.dumps(_Executed()),
    "a pickle after the mark": lambda: MAGIC + pickle.dumps(_Executed()),
    "a pickle in a state": lambda: state_of(ext(6, pickle.dumps(_Executed()))),
}


def _in_a_state(make: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: state_of(make())


BOMBS: Final = _BODIES | {name: _in_a_state(make) for name, make in _VALUES.items()}

# The largest of their kind that are accepted: what a checkpoint of such a size may cost.
ACCEPTED: Final = {
    "a million integers": lambda: state_of(list_of(b"\xce\xff\xff\xff\xff", 1_000_000)),
    "a million short strings": lambda: state_of(strings(1_000_000)),
    "two million integers": lambda: state_of(list_of(b"\xcd\xff\xff", 2_000_000)),
    "rows with distinct keys": lambda: state_of(rows(230_000)),
    "a dict with distinct keys": lambda: state_of(one_dict(300_000)),
    "tuples": lambda: state_of(list_of(ext(2, b"\x91\xcd\xff\xff"), 250_000)),
    "an array": lambda: state_of(array("|u1", [ROOM], bytes(ROOM))),
    "an array in a tuple": lambda: state_of(ext(2, b"\x91" + array("|u1", [ROOM], bytes(ROOM)))),
    "wide text": lambda: state_of(b"\xdb" + struct.pack(">I", ROOM) + b"a" * (ROOM - 4) + WIDE),
}
