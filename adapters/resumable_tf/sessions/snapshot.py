"""A model's variables at one step, written by the Saver while the training continues."""

# The Saver writes with operations of the model's graph, which read the current variables. So the
# operations are copied into a separate graph, where placeholders replace the variables, and the
# same Saver is given a session of the new graph. The Saver still decides on file names, shards, the
# state file, and the removal of old checkpoints.
#
# With some kinds of checkpoint, a process killed during TensorFlow's write leaves a part of the
# checkpoint. So the files are written into a folder next to the other files, and then renamed, the
# index last.

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs

__all__ = ["ModelSnapshot"]

# The types of operations that write, and the number of inputs before the tensors to be written.
WRITERS: Final = {"SaveV2": 3, "SaveSlices": 3, "Save": 2}


class ModelSnapshot:
    """Takes the variables of a model, and writes them later.

    Args:
      saver: of the model.
      graph: of the model, finalized.

    Raises:
      InvalidArgument: if the Saver saves an object without a value outside of TensorFlow, such as
        an iterator of tf.data.
    """

    def __init__(self, saver: tf1.train.Saver, graph: tf.Graph) -> None:
        self._saver = saver
        with graph.as_default():
            self._meta_graph = saver.export_meta_graph().SerializeToString()
        operations, self._tensors = _operations_of(saver, graph)
        self._session = _Writing(operations, self._tensors, graph, self._meta_graph)
        self._values: list[Any] | None = None

    def take(self, session: tf1.Session) -> None:
        """Copy the current variables; the copy is held until `write`."""
        self._values = [_owned(value) for value in session.run(self._tensors)]

    def write(self, save_path: str, step: int) -> None:
        """Write the taken variables, as ``saver.save`` does."""
        assert self._values is not None
        self._session.values = self._values
        try:
            with self._session.graph.as_default():  # a thread begins with eager execution
                # Not by the instance's method, which may be followed.
                type(self._saver).save(
                    self._saver, self._session, save_path, global_step=step, write_meta_graph=False
                )
        finally:
            self._session.values = []
        self._values = None

    def close(self) -> None:
        """Close the session that writes."""
        self._session.close()


class _Writing(tf1.Session):  # type: ignore[misc]
    """A session with the operations of a Saver, and values to write."""

    def __init__(
        self,
        operations: list[tf.Operation],
        tensors: list[tf.Tensor],
        graph: tf.Graph,
        meta_graph: bytes,
    ) -> None:
        own = tf.Graph()
        with own.as_default():
            self._placeholders = [
                tf1.placeholder(tensor.dtype.base_dtype, name=f"resumable_value_{number}")
                for number, tensor in enumerate(tensors)
            ]
            names = [tensor.name for tensor in tensors]
            tf.import_graph_def(
                _defined(operations, graph),
                input_map=dict(zip(names, self._placeholders, strict=True)),
                name="",
            )
        own.finalize()
        # The session must not take memory of any other device.
        super().__init__(graph=own, config=tf1.ConfigProto(device_count={"GPU": 0}))
        self._meta_graph = meta_graph
        self.values: list[Any] = []

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Run the tensor that saves, fed with the path of the checkpoint, for the Saver."""
        ((path_tensor, path),) = feed_dict.items()
        feeds = dict(zip(self._placeholders, self.values, strict=True))
        if "://" in path:  # an object becomes visible as a whole, and renaming is copying
            written = super().run(fetches, {**feeds, path_tensor: path})
            _write_bytes(f"{path}.meta", self._meta_graph)
            return written
        folder, name = os.path.split(path)
        # Always the same folder for a Saver, so that kills leave at most one.
        unfinished = os.path.join(folder, f".{name.rpartition('-')[0]}.unfinished")
        _remove_folder(unfinished)
        tf.io.gfile.makedirs(unfinished)
        try:
            temporary = os.path.join(unfinished, name)
            written = super().run(fetches, {**feeds, path_tensor: temporary})
            _write_bytes(f"{temporary}.meta", self._meta_graph)
            for file in sorted(os.listdir(unfinished), key=lambda file: file.endswith(".index")):
                os.replace(os.path.join(unfinished, file), os.path.join(folder, file))
        finally:
            _remove_folder(unfinished)
        return tf.compat.as_str(written).replace(temporary, path)


def _operations_of(
    saver: tf1.train.Saver, graph: tf.Graph
) -> tuple[list[tf.Operation], list[tf.Tensor]]:
    """The operations by which ``saver`` writes, and the tensors written."""
    if saver.saver_def is None:  # a Saver of nothing
        return [], []
    found: dict[str, tf.Operation] = {}
    tensors: dict[str, tf.Tensor] = {}
    pending = [graph.as_graph_element(saver.saver_def.save_tensor_name).op]
    while pending:
        operation = pending.pop()
        if operation.name in found:
            continue
        found[operation.name] = operation
        inputs = list(operation.inputs)
        first = WRITERS.get(operation.type, len(inputs))
        tensors.update((tensor.name, tensor) for tensor in inputs[first:])
        pending += [tensor.op for tensor in inputs[:first]] + operation.control_inputs
    for tensor in tensors.values():
        if tensor.dtype.base_dtype in (tf.variant, tf.resource):
            raise rs.InvalidArgument(
                "the model must consist of values that can be copied, got "
                f"{tensor.op.type} {tensor.op.name!r}; an iterator of tf.data is one that cannot: use "
                "resumable_tf.make_initializable_iterator, or a CheckpointSaverHook"
            )
    return list(found.values()), list(tensors.values())


def _defined(operations: list[tf.Operation], graph: tf.Graph) -> tf1.GraphDef:
    """Definitions of ``operations`` for any device."""
    defined = tf1.GraphDef(versions=graph.graph_def_versions)
    for operation in operations:
        node = defined.node.add()
        node.CopyFrom(operation.node_def)
        node.device = ""
        node.attr.pop("_class", None)  # `_class` may place the node with a variable
    return defined


def _owned(value: Any) -> Any:
    """``value``, or a copy if the memory may belong to a variable."""
    if isinstance(value, np.ndarray) and not value.flags.owndata:
        return value.copy()
    return value


def _write_bytes(path: str, data: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def _remove_folder(path: str) -> None:
    if tf.io.gfile.exists(path):
        tf.io.gfile.rmtree(path)
