"""Where the records of TFRecord files are found, whatever the bytes are."""

from __future__ import annotations

import io
import struct
from itertools import accumulate, pairwise

import numpy as np
import pytest
from formats.tfrecords import checksum, framed, framed_head
from hypothesis import given
from hypothesis import strategies as st

from resumable.formats import tfrecord
from resumable.formats.tfrecord import CHUNK, FRAME, MOST_SHOWN, find_records

HEAD_SIZE = 12
SIZES = [0, 1, 7, 8, 200, 40_000, 3_000_000, 5, 16_384, 70_000, 20_000, 2_000_000, 3]


class Bytes:
    """A reader of bytes in memory that knows how much was read at once."""

    def __init__(self, data: bytes, *, knows_size: bool = True) -> None:
        self._file = io.BytesIO(data)
        self._end = len(data)
        self.size = len(data) if knows_size else None
        self.read_bytes = self.most = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.read_bytes += len(data)
        self.most = max(self.most, size)
        return data

    def readinto(self, buffer: memoryview) -> int:
        return self._file.readinto(buffer)

    def skip(self, size: int) -> int:
        begin = self._file.tell()
        return self._file.seek(min(begin + size, self._end)) - begin


def found(data: bytes, offset: int = 0) -> list[int]:
    parts = list(find_records(Bytes(data), offset))
    assert all(part.ends.dtype == np.int64 for part in parts)
    assert not any(len(part.kept_before) for part in parts)
    return [end for part in parts for end in part.ends.tolist()]


def ends_of(records: list[bytes]) -> list[int]:
    return list(accumulate(map(len, records)))


def unchecked(length: int) -> bytes:
    """A record whose content is zeros; its checksum is not looked at by a scan."""
    return framed_head(length) + bytes(length + 4)


def test_checksums_of_lengths_are_right() -> None:
    rng = np.random.default_rng(0)
    lengths = np.concatenate(
        [
            np.arange(300, dtype=np.uint64),
            np.uint64(1) << np.arange(64, dtype=np.uint64),
            rng.integers(0, 2**64, 300, np.uint64),
        ]
    )
    expected = [checksum(struct.pack("<Q", length)) for length in lengths.tolist()]
    assert tfrecord._masked_checksums(lengths).tolist() == expected


@pytest.mark.parametrize("chunk", [12, 13, 100, 4096])
def test_records_are_found_over_the_bounds_of_chunks(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    for name in ("FIRST_CHUNK", "CHUNK", "SHORT_CHUNK"):
        monkeypatch.setattr(tfrecord, name, chunk)
    records = [unchecked(size % 97) for size in range(150)]
    for count in (0, 1, 2, 150):
        ends = ends_of(records[:count])
        assert found(b"".join(records[:count])) == ends
        assert found(b"".join(records[:count]), 1000) == [1000 + end for end in ends]


def test_records_of_all_sizes_are_found() -> None:
    records = [unchecked(size) for size in SIZES * 2]
    assert found(b"".join(records)) == ends_of(records)


def test_the_content_of_large_records_is_not_read() -> None:
    records = [unchecked(100_000)] * 400
    reader = Bytes(b"".join(records))
    assert sum(len(part.ends) for part in find_records(reader, 0)) == 400
    assert reader.read_bytes < 400 * 4096 + (1 << 16)
    small = Bytes(b"".join([unchecked(50)] * 100_000))
    parts = [len(part.ends) for part in find_records(small, 0)]
    assert sum(parts) == 100_000
    assert len(parts) < 20
    assert small.most <= CHUNK
    assert small.read_bytes < 100_000 * 66 + 20 * 66


@pytest.mark.parametrize("length", [2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("knows_size", [False, True])
def test_an_absurd_length_ends_the_file(length: int, knows_size: bool) -> None:
    begin = framed(b"one") + framed(b"two")
    for rest in (b"", b"x" * 100, bytes(10_000)):
        reader = Bytes(begin + framed_head(length) + rest, knows_size=knows_size)
        ends = [end for part in find_records(reader, 0) for end in part.ends.tolist()]
        last = min(HEAD_SIZE + len(rest), MOST_SHOWN)
        assert ends == [19, 38, 38 + last]
        assert reader.most <= CHUNK


@pytest.mark.parametrize("place", range(12))
def test_a_head_with_a_wrong_checksum_ends_the_file(place: int) -> None:
    records = [unchecked(size) for size in (3, 100, 70_000, 5, 9_000, 8)]
    ends = ends_of(records)
    for number, begin in enumerate([0, *ends[:-1]]):
        data = bytearray(b"".join(records))
        data[begin + place] ^= 1 << number
        got = found(bytes(data))
        assert got[:number] == ends[:number]
        assert len(got) == number + 1
        assert begin + 12 <= got[-1] <= min(begin + MOST_SHOWN, len(data))


def test_a_file_that_is_cut_anywhere_ends_in_a_short_record() -> None:
    records = [framed(b"x" * size) for size in (3, 0, 20, 5000)]
    data, ends = b"".join(records), ends_of(records)
    for cut in [*range(120), 4000, 4300, 5000, len(data) - 4, len(data) - 1]:
        whole = [end for end in ends if end <= cut]
        begin = whole[-1] if whole else 0
        damaged = [min(cut, begin + MOST_SHOWN)] if cut > begin else []
        assert found(data[:cut]) == whole + damaged


@given(st.binary(max_size=200), st.lists(st.integers(0, 40), max_size=5))
def test_any_bytes_are_records_one_after_another(noise: bytes, sizes: list[int]) -> None:
    data = b"".join(map(unchecked, sizes)) + noise
    ends = [0, *found(data)]
    assert ends == sorted(set(ends))
    assert ends[-1] <= len(data)
    # All but the last have the right length; the last one too, or it is short.
    for begin, end in pairwise(ends[:-1]):
        assert data[begin : begin + HEAD_SIZE] == framed_head(end - begin - FRAME)
    assert len(ends) > 1 or not data


def test_a_stream_is_told_of_a_record_before_the_next_chunk_is_read() -> None:
    reader = Bytes(b"".join([unchecked(300_000)] * 3))
    parts = find_records(reader, 0)
    assert next(parts).ends.tolist() == [300_016]
    assert reader.read_bytes <= 1 << 16
