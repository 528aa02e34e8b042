"""The envelope: a single changed bit is found."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.checkpoint.envelope import decode, encode


def a_checkpoint() -> rs.Checkpoint:
    with iter(rs.range(100).shuffle(0).batch(3)) as iterator:
        next(iterator)
        return rs.Checkpoint(1, 1234.5, iterator.get_state())


def test_a_checkpoint_survives_its_bytes() -> None:
    assert decode(encode(a_checkpoint())) == a_checkpoint()


def test_every_flipped_bit_is_found() -> None:
    data = encode(a_checkpoint())
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(rs.CorruptCheckpoint):
                decode(bytes(damaged))


def test_every_truncation_appended_junk_and_zero_fill_is_found() -> None:
    data = encode(a_checkpoint())
    for size in range(len(data)):
        for damaged in (data[:size], data[:size] + bytes(len(data) - size)):
            if damaged != data:
                with pytest.raises(rs.CorruptCheckpoint):
                    decode(damaged)
    for junk in (b"\x00", b"junk", data):
        with pytest.raises(rs.CorruptCheckpoint):
            decode(data + junk)


@given(st.binary(max_size=300))
def test_any_bytes_raise_one_error(data: bytes) -> None:
    with pytest.raises(rs.CorruptCheckpoint):
        decode(data)


def test_a_later_format_is_named() -> None:
    sealed = bytearray(encode(a_checkpoint())[:-32])
    sealed[7] = 9
    digest = hashlib.blake2b(sealed, digest_size=32).digest()
    with pytest.raises(rs.NewerFormat, match="format version is 9, this library reads 1"):
        decode(bytes(sealed) + digest)
