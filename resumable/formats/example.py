"""Parse `tf.train.Example` messages, without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_choice, check_int
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .example_message import example_class

Shape: TypeAlias = "tuple[int | None, ...]"

LISTS: Final = {"bytes": "bytes_list", "float32": "float_list", "int64": "int64_list"}
"""The kinds of features, and the field of the message with the values of each kind."""
KINDS: Final = {name: kind for kind, name in LISTS.items()}


@final
@dataclass(frozen=True)
class ExampleDecoder:
    """Parses a serialised ``tf.train.Example`` into a dict; see `example`."""

    features: Mapping[str, object]
    _: KW_ONLY
    defaults: Mapping[str, object] = field(default_factory=dict)
    _plan: tuple[_Feature, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        example_class()
        for argument, value in (("features", self.features), ("defaults", self.defaults)):
            if not isinstance(value, Mapping):
                raise InvalidType(f"{argument} must be a dict, got {shorten(value)}")
        if unknown := self.defaults.keys() - self.features.keys():
            raise InvalidArgument(
                f"defaults must be of features, got {shorten(sorted(map(str, unknown)))}"
            )
        plan = tuple(
            _Feature.of(name, spec, self.defaults.get(name)) for name, spec in self.features.items()
        )
        object.__setattr__(self, "_plan", plan)

    def __call__(self, data: bytes) -> dict[str, Any]:
        """The features of the message ``data``.

        Raises:
          MalformedItem: if ``data`` are no message, or a feature is missing, or has another kind or
            shape.
        """
        from google.protobuf.message import DecodeError

        try:
            message = example_class().FromString(data)
        except (DecodeError, UnicodeDecodeError) as error:
            raise MalformedItem(f"not a tf.train.Example: {error}") from None
        found = message.features.feature
        return {each.name: each.value(found.get(each.name)) for each in self._plan}


def example(
    features: Mapping[str, object], *, defaults: Mapping[str, object] | None = None
) -> ExampleDecoder:
    """A function that parses serialised ``tf.train.Example`` messages into dicts, without TensorFlow.

    A feature is described by its kind, or by its kind and shape:

    - ``"int64"`` is one integer, an `numpy.int64`; ``"float32"`` one number, an `numpy.float32`;
      ``"bytes"`` one string of bytes.
    - ``("float32", (3, 2))`` is an array of this shape; an array of ``"bytes"`` has dtype object.
    - ``("int64", (None,))`` and ``("float32", (None, 2))`` are arrays of any length.

    A feature missing in a message has the default value. Without a default, a feature of any length
    is empty, and a missing feature of fixed shape is an error. Features without a description are
    left out.

    Args:
      features: for each name, the kind or the pair of kind and shape.
      defaults: for some names, the value of a missing feature: of the same shape, or a single value
        that fills a fixed shape.

    Raises:
      InvalidArgument: if a kind, a shape or a default is not as described.
      InvalidType: if an argument has the wrong type.
      MissingDependency: without protobuf, installed by the extra ``tfrecord``.
      MalformedItem: while decoding, if the bytes are no message; or, with the name of the feature,
        if a feature is missing or has another kind or shape. In a `tfrecord` with file and record.

    >>> decode = rs.decoders.example({"label": "int64", "tokens": ("int64", (None,))})
    >>> data = "0a230a0e0a056c6162656c12051a030a01070a110a06746f6b656e7312071a050a03030102"
    >>> found = decode(bytes.fromhex(data))  # which TensorFlow wrote
    >>> int(found["label"]), found["tokens"]
    (7, array([3, 1, 2]))
    """
    return ExampleDecoder(features, defaults=defaults or {})


class _Feature(NamedTuple):
    """The description of a feature.

    Attributes:
      name: as in the message.
      kind: a key of `LISTS`.
      shape: of the values; None as the first axis means any length.
      default: the value of a missing feature; None to raise an error.
    """

    name: str
    kind: str
    shape: Shape
    default: Any

    @classmethod
    def of(cls, name: str, spec: object, default: object) -> _Feature:
        """The feature with a user's kind or pair ``spec``.

        Raises:
          InvalidArgument: if kind, shape or default are not as described in `example`.
          InvalidType: if an argument has the wrong type.
        """
        if not isinstance(name, str):
            raise InvalidType(f"features must have strings as names, got {shorten(name)}")
        kind, shape = (spec, ()) if isinstance(spec, str) else _pair(name, spec)
        check_choice(f"features[{name!r}]", kind, tuple(LISTS))
        if default is not None:
            default = _default(f"defaults[{name!r}]", kind, shape, default)
        elif shape[:1] == (None,):
            default = np.empty(0, _dtype(kind)).reshape(0, *shape[1:])
        return cls(name, kind, shape, default)

    def value(self, message: Any) -> Any:
        """The value in ``message``, a ``tf.train.Feature`` or None.

        Raises:
          MalformedItem: if the value is missing without a default, or has another kind or shape.
        """
        found = None if message is None else message.WhichOneof("kind")
        if found is None:
            if self.default is None:
                raise self._malformed("is missing")
            return self.default.copy() if self.shape else self.default
        if found != LISTS[self.kind]:
            raise self._malformed(f"must be {self.kind}, got {KINDS[found]}")
        values = getattr(message, found).value
        if not self.shape:
            if len(values) != 1:
                raise self._malformed(f"must be a single value, got {len(values)} of them")
            return values[0] if self.kind == "bytes" else _dtype(self.kind).type(values[0])
        if not _fills(self.shape, len(values)):
            raise self._malformed(f"must have shape {self.shape}, got {len(values)} values")
        array = np.fromiter(values, _dtype(self.kind), len(values))
        return array.reshape(-1, *self.shape[1:])

    def _malformed(self, reason: str) -> MalformedItem:
        return MalformedItem(f"feature {self.name!r} {reason}")


def _pair(name: str, spec: Any) -> tuple[str, Shape]:
    """The kind and the shape of ``spec``."""
    if not (isinstance(spec, (tuple, list)) and len(spec) == 2):
        raise InvalidType(
            f"features[{name!r}] must be a kind or a pair of kind and shape, got {shorten(spec)}"
        )
    kind, shape = spec
    if not isinstance(shape, (tuple, list)):
        raise InvalidType(f"the shape of features[{name!r}] must be a tuple, got {shorten(shape)}")
    return kind, tuple(
        None
        if size is None and place == 0
        else check_int(f"axis {place} of features[{name!r}]", size, minimum=1)
        for place, size in enumerate(shape)
    )


def _fills(shape: Shape, size: int) -> bool:
    """Whether ``size`` values make an array of ``shape``, of at least one axis."""
    row = prod(length for length in shape[1:] if length is not None)
    return size % row == 0 if shape[0] is None else size == shape[0] * row


def _default(argument: str, kind: str, shape: Shape, given: Any) -> Any:
    """``given`` as the value of a feature."""
    values = np.array(given, object if kind == "bytes" else None)
    flat = values.ravel().tolist()
    if kind == "bytes":
        fits = all(isinstance(value, bytes) for value in flat)
    else:
        fits = values.dtype.kind in ("iu" if kind == "int64" else "iuf")
    if not fits:
        raise InvalidType(f"{argument} must be {kind}, got {shorten(given)}")
    if values.ndim == 0 and None not in shape:
        flat *= prod(length for length in shape if length is not None)
    elif len(values.shape) != len(shape) or any(
        expected not in (None, length) for expected, length in zip(shape, values.shape, strict=True)
    ):
        raise InvalidArgument(f"{argument} must have shape {shape}, got {shorten(given)}")
    try:
        array: npt.NDArray[Any] = np.fromiter(flat, _dtype(kind), len(flat))
    except OverflowError:
        raise InvalidArgument(f"{argument} must be {kind}, got {shorten(given)}") from None
    if shape:
        return array.reshape(-1, *shape[1:])
    return flat[0] if kind == "bytes" else array[0]


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(object if kind == "bytes" else kind)
