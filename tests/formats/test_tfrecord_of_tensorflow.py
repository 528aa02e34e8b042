"""What TensorFlow writes and reads as TFRecord and `tf.train.Example`, and what we read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from formats.of_tensorflow import EXAMPLES, serialised, write
from formats.tfrecords import write_records

import resumable as rs
from resumable.formats.tfrecord import FRAME
from resumable.testing import check_resumes_everywhere

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")


def read(path: Path) -> list[bytes]:
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


@pytest.mark.parametrize("sizes", [[], [0], [1], [5, 0, 40_000, 3], range(0, 3000, 7)])
def test_files_of_tensorflow_are_read_as_it_reads_them(tmp_path: Path, sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    contents = [rng.bytes(size) for size in sizes]
    path = tmp_path / "data.tfrecord"
    write(path, contents)
    assert list(rs.tfrecord(path)) == contents == read(path)
    check_resumes_everywhere(rs.tfrecord(path).shuffle(1).batch(3, collate=list))
    theirs = path.read_bytes()
    assert write_records(tmp_path / "ours", contents).read_bytes() == theirs


def test_the_committed_file_is_what_tensorflow_writes(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write(path, map(serialised, EXAMPLES))
    assert read(path) == read(Path(__file__).parent / "of_tensorflow.tfrecord")


def test_damaged_files_are_refused_where_tensorflow_refuses_them(tmp_path: Path) -> None:
    contents = [b"one", b"", b"three" * 20]
    sound = write_records(tmp_path / "sound", contents).read_bytes()
    path = tmp_path / "damaged"
    for place in range(len(sound)):
        path.write_bytes(damaged(sound, place))
        assert ours(path) == theirs(path)
        path.write_bytes(sound[:place])
        items, failed = ours(path)
        # TensorFlow takes a file that is cut within a length for one that ends before it.
        assert (items, failed) == theirs(path) or (items, False) == theirs(path)
        assert failed == (place not in (0, *accumulate(len(each) + FRAME for each in contents)))


def damaged(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 4
    return bytes(changed)


def ours(path: Path) -> tuple[list[bytes], bool]:
    return outcome(iter(rs.tfrecord(path)))


def theirs(path: Path) -> tuple[list[bytes], bool]:
    return outcome(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def outcome(iterator: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """The items before the end or the first error, and whether there was one."""
    items = []
    try:
        for item in iterator:
            items.append(item)
    except (rs.MalformedItem, tf.errors.DataLossError):
        return items, True
    return items, False


def test_messages_are_parsed_as_tensorflow_parses_them() -> None:
    decode = rs.decoders.example(
        {
            "image": "bytes",
            "label": "int64",
            "box": ("float32", (2, 2)),
            "tokens": ("int64", (None,)),
            "words": ("bytes", (None,)),
        },
        defaults={"label": -7},
    )
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64, -7),
        "box": tf.io.FixedLenFeature([2, 2], tf.float32),
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
    }
    for features in EXAMPLES:
        data = serialised(features)
        got = decode(data)
        for name, tensor in tf.io.parse_single_example(data, spec).items():
            expected = tensor.numpy()
            assert np.shape(got[name]) == np.shape(expected), name
            assert np.array_equal(got[name], expected)
            assert np.asarray(got[name]).dtype.kind == np.asarray(expected).dtype.kind
