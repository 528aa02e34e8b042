"""`tf.train.Example` messages are parsed without TensorFlow."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.of_tensorflow import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.formats.example_message import example_class
from resumable.testing.comparing import same

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

HERE = Path(__file__).parent
FIELDS = {bytes: "bytes_list", float: "float_list", int: "int64_list"}


def message(**features: list[Any]) -> bytes:
    """A message with these features; their first value says of which kind they are."""
    made = example_class()()
    for name, values in features.items():
        kind = FIELDS[type(values[0])]
        getattr(made.features.feature[name], kind).value.extend(values)
    data: bytes = made.SerializeToString()
    return data


def test_features_have_the_kinds_and_shapes_that_are_described() -> None:
    decode = rs.decoders.example(
        {
            "label": "int64",
            "weight": "float32",
            "image": "bytes",
            "box": ("float32", (2, 2)),
            "pair": ("bytes", [2]),
            "tokens": ("int64", (None,)),
            "points": ("float32", (None, 2)),
            "names": ("bytes", (None,)),
        }
    )
    got = decode(
        message(
            label=[-3],
            weight=[0.5],
            image=[b"\xff\xd8"],
            box=[1.0, 2.0, 3.0, 4.0],
            pair=[b"a", b""],
            tokens=[5, 6, 7],
            points=[1.0, 2.0],
            names=[b"x"],
            other=[9],
        )
    )
    assert list(got) == list(decode.features)
    assert same(got["label"], np.int64(-3))
    assert same(got["weight"], np.float32(0.5))
    assert got["image"] == b"\xff\xd8"
    assert same(got["box"], np.array([[1, 2], [3, 4]], np.float32))
    assert got["pair"].tolist() == [b"a", b""]
    assert got["pair"].dtype == got["names"].dtype == object
    assert same(got["tokens"], np.array([5, 6, 7], np.int64))
    assert same(got["points"], np.array([[1, 2]], np.float32))


def test_a_missing_feature_has_its_default_or_is_an_error() -> None:
    features: dict[str, object] = {
        "a": "int64",
        "b": ("float32", (2, 2)),
        "c": ("bytes", (2,)),
        "d": "bytes",
    }
    defaults = {"a": -1, "b": 0.5, "c": [b"x", b"y"], "d": b"none"}
    got = rs.decoders.example(features, defaults=defaults)(message(other=[1]))
    assert same(got["a"], np.int64(-1))
    assert same(got["b"], np.full((2, 2), 0.5, np.float32))
    assert got["c"].tolist() == [b"x", b"y"]
    assert got["d"] == b"none"
    with pytest.raises(rs.MalformedItem, match=r"^feature 'b' is missing$"):
        rs.decoders.example({"b": ("float32", (2, 2))})(message(other=[1]))


def test_a_missing_feature_of_any_length_is_empty() -> None:
    features = {"a": ("int64", (None, 3)), "b": ("bytes", (None,)), "c": ("int64", (None,))}
    got = rs.decoders.example(features, defaults={"c": [7, 8]})(b"")
    assert same(got["a"], np.empty((0, 3), np.int64))
    assert got["b"].shape == (0,)
    assert same(got["c"], np.array([7, 8]))


def test_a_default_is_no_part_of_two_items() -> None:
    decode = rs.decoders.example({"a": ("int64", (2,))}, defaults={"a": 0})
    decode(b"")["a"][:] = 5
    assert decode(b"")["a"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("spec", "values", "message_of_error"),
    [
        ("int64", [1, 2], "feature 'a' must be a single value, got 2 of them"),
        ("int64", [0.5], "feature 'a' must be int64, got float32"),
        ("bytes", [1], "feature 'a' must be bytes, got int64"),
        (("int64", (2, 2)), [1, 2, 3], r"feature 'a' must have shape \(2, 2\), got 3 values"),
        (("int64", (None, 2)), [1, 2, 3], r"feature 'a' must have shape \(None, 2\), got 3 values"),
    ],
)
def test_another_kind_or_shape_is_an_error(
    spec: Any, values: list[Any], message_of_error: str
) -> None:
    with pytest.raises(rs.MalformedItem, match=message_of_error):
        rs.decoders.example({"a": spec})(message(a=values))


def test_a_feature_without_values_is_missing_or_empty() -> None:
    made = example_class()()
    made.features.feature["a"].SetInParent()
    with pytest.raises(rs.MalformedItem, match="feature 'a' is missing"):
        rs.decoders.example({"a": "int64"})(made.SerializeToString())
    made.features.feature["a"].int64_list.SetInParent()
    data = made.SerializeToString()
    assert rs.decoders.example({"a": ("int64", (None,))})(data)["a"].shape == (0,)
    with pytest.raises(rs.MalformedItem, match="got 0 of them"):
        rs.decoders.example({"a": "int64"}, defaults={"a": 1})(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_the_documented_error(noise: bytes) -> None:
    decode = rs.decoders.example({"a": ("int64", (None,)), "b": "bytes"}, defaults={"b": b""})
    whole = message(a=[1, 2, 3], b=[b"text"])
    for data in (noise, whole + noise, whole[: len(noise)] + noise):
        try:
            got = decode(data)
        except rs.MalformedItem:
            continue
        assert got["a"].dtype == np.int64
        assert isinstance(got["b"], bytes)


def test_what_is_no_message_is_an_error() -> None:
    with pytest.raises(rs.MalformedItem, match=r"not a tf\.train\.Example"):
        rs.decoders.example({"a": "int64"})(b"\xff\xff\xff")


def test_a_decoder_can_be_pickled_and_shown() -> None:
    decode = rs.decoders.example({"a": "int64", "b": ("bytes", (None,))}, defaults={"a": 3})
    copy = pickle.loads(pickle.dumps(decode))
    assert copy(b"")["a"] == 3
    assert "'a': 'int64'" in repr(decode)


REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    (["a"], None, TypeError, r"features must be a dict, got \['a'\]"),
    ({1: "int64"}, None, TypeError, "features must have strings as names, got 1"),
    ({"a": "int32"}, None, ValueError, r"features\['a'\] must be one of 'bytes', 'float32', 'int64', got 'int32'"),
    ({"a": 5}, None, TypeError, r"features\['a'\] must be a kind or a pair of kind and shape, got 5"),
    ({"a": ("int64", 3)}, None, TypeError, r"the shape of features\['a'\] must be a tuple, got 3"),
    ({"a": ("int64", (0,))}, None, ValueError, r"axis 0 of features\['a'\] must be at least 1, got 0"),
    ({"a": ("int64", (2, None))}, None, TypeError, r"axis 1 of features\['a'\] must be an integer, got None"),
    ({"a": "int64"}, {"b": 1}, ValueError, r"defaults must be of features, got \['b'\]"),
    ({"a": "int64"}, 5, TypeError, "defaults must be a dict, got 5"),
    ({"a": "int64"}, {"a": 0.5}, TypeError, r"defaults\['a'\] must be int64, got 0.5"),
    ({"a": "int64"}, {"a": 2**63}, ValueError, r"defaults\['a'\] must be int64, got 9223372036854775808"),
    ({"a": "int64"}, {"a": 2**70}, TypeError, r"defaults\['a'\] must be int64, got 1180591620717411303424"),
    ({"a": "int64"}, {"a": [1]}, ValueError, r"defaults\['a'\] must have shape \(\), got \[1\]"),
    ({"a": "bytes"}, {"a": "text"}, TypeError, r"defaults\['a'\] must be bytes, got 'text'"),
    ({"a": ("int64", (2,))}, {"a": [1, 2, 3]}, ValueError, r"defaults\['a'\] must have shape \(2,\), got \[1, 2, 3\]"),
]  # fmt: skip


@pytest.mark.parametrize(("features", "defaults", "kind", "words"), REFUSED)
def test_bad_descriptions_are_refused(
    features: Any, defaults: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        rs.decoders.example(features, defaults=defaults)
    assert isinstance(caught.value, rs.ResumableError)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    example_class.cache_clear()
    with pytest.raises(rs.MissingDependency, match=r"protobuf.*resumable-loader\[tfrecord\]"):
        rs.decoders.example({"a": "int64"})


DECODE_ALL: dict[str, Any] = {
    "image": "bytes",
    "label": "int64",
    "box": ("float32", (2, 2)),
    "tokens": ("int64", (None,)),
    "words": ("bytes", (None,)),
}


def test_messages_of_tensorflow_are_parsed() -> None:
    pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")
    decode = rs.decoders.example(DECODE_ALL, defaults={"label": -7})
    items = list(rs.tfrecord(HERE / "of_tensorflow.tfrecord", decode=decode))
    for got, written in zip(items, EXAMPLES, strict=True):
        assert got["image"] == written["image"]
        assert got["label"] == written.get("label", -7)
        assert same(got["box"], np.array(written["box"], np.float32).reshape(2, 2))
        assert same(got["tokens"], np.array(written.get("tokens", []), np.int64))
        assert got["words"].tolist() == written.get("words", [])
    with pytest.raises(
        rs.MalformedItem, match=r"of_tensorflow\.tfrecord, record 3: feature 'label' is missing"
    ):
        list(rs.tfrecord(HERE / "of_tensorflow.tfrecord", decode=rs.decoders.example(DECODE_ALL)))
