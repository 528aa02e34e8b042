"""The class of `tf.train.Example` messages, without TensorFlow."""

# The class is built from a description in code, in a separate pool: TensorFlow, if loaded in the
# same process, registers classes of the same names.

from __future__ import annotations

from functools import cache
from typing import Any, Final

from .packages import imported

PACKAGE: Final = "resumable.tensorflow"


@cache
def example_class() -> Any:
    """The class of messages.

    Raises:
      MissingDependency: without protobuf.
    """
    imported("google.protobuf.message_factory", "decoders.example needs protobuf", "tfrecord")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file: Any = descriptor_pb2.FileDescriptorProto(
        name="resumable/example.proto", package=PACKAGE, syntax="proto3"
    )
    for name, kind in (("BytesList", "bytes"), ("FloatList", "float"), ("Int64List", "int64")):
        _add(file.message_type.add(name=name), 1, "value", kind, repeated=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, kind in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        name = kind.lower().replace("list", "_list")
        _add(feature, number, name, kind).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    _add(entry, 1, "key", "string")
    _add(entry, 2, "value", "Feature")
    _add(features, 1, "feature", "Features.FeatureEntry", repeated=True)
    _add(file.message_type.add(name="Example"), 1, "features", "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Example"))


def _add(message: Any, number: int, name: str, kind: str, *, repeated: bool = False) -> Any:
    """Add a field to ``message``; its ``kind`` is a simple kind, or the name of a message."""
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind[0].isupper():
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    return field
