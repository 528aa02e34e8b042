"""Check the operations of tf.data between the items of a pipeline and the iterator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import tensorflow as tf
import tensorflow.compat.v1 as tf1

# Without public names: `tf.data.Options` in a graph, and the definition of an operation in a
# function.
from tensorflow.core.framework import dataset_options_pb2
from tensorflow.python.framework import op_def_registry

import resumable as rs

__all__ = ["Between"]

# The types of tf.data operations without a position, allowed in between.
STATELESS: Final = re.compile(
    "(Parallel)?(Map|Filter|Batch|PaddedBatch|Rebatch)Dataset(V[0-9]+)?|(Prefetch|Options|Model)Dataset"
)
# The types that keep the order of all items if the attribute `deterministic` says so.
IN_ORDER: Final = re.compile(
    "(Parallel)?(Batch|PaddedBatch|Rebatch)Dataset(V[0-9]+)?|(Prefetch|Options|Model)Dataset"
)
MAP: Final = re.compile("(Parallel)?MapDataset(V[0-9]+)?")
# Operations allowed by tf.data's own check of external state, and calls that the check follows.
ALLOWED: Final = re.compile(
    "Assert|Print(V2)?|Timestamp|TensorArray.*|LookupTable(Find|Size)(V[0-9]+)?|"
    "(If|While|Case)|(Stateful)?PartitionedCall"
)


class Between:
    """The operations of tf.data from the source of a data set to its iterator, the last one first.

    Args:
      dataset: the last data set.
      sources: the names of the operations that make the data sets of the sources.

    Raises:
      InvalidArgument: if an operation has a position of its own, since it would restart mid-data.
    """

    def __init__(self, dataset: tf.data.Dataset, sources: Iterable[str]) -> None:
        self._operations: list[tf.Operation] = []
        known = set(sources)
        operation = tf.data.experimental.to_variant(dataset).op
        while operation.name not in known:
            before = [tensor.op for tensor in operation.inputs if tensor.dtype == tf.variant]
            if not STATELESS.fullmatch(operation.type) or len(before) != 1:
                raise rs.InvalidArgument(
                    "between make_dataset and its iterator there must be nothing but map, prefetch, "
                    f"batch and filter, got {operation.type}; what has a position belongs in the "
                    "pipeline"
                )
            self._operations.append(operation)
            (operation,) = before
        self._deterministic = all(map(_is_deterministic, self._operations))
        called = any(_functions_in(each.node_def.attr) for each in self._operations)
        self._functions = _Functions(tf1.get_default_graph() if called else None)

    @property
    def keep_order(self) -> bool:
        """Whether all items are certain to come, in their order and with their numbers."""
        return all(map(self._keeps_order, self._operations))

    def stateful(self) -> list[str]:
        """For each operation in a function of tf.data that a resume would not repeat, a message."""
        return [
            f"a function of {operation.type}, after make_dataset, has the stateful operation {found}, "
            "which a resume does not continue; use a function without state, such as those of "
            "tf.random.stateless"
            for operation in reversed(self._operations)
            for found in self._functions.stateful(_functions_in(operation.node_def.attr))
        ]

    def _keeps_order(self, operation: tf.Operation) -> bool:
        attributes = operation.node_def.attr
        if attributes["deterministic"].s == b"false" or not self._deterministic:
            return not operation.type.startswith("Parallel")
        if MAP.fullmatch(operation.type):
            return self._functions.hands_on_first(attributes["f"].func.name)
        return IN_ORDER.fullmatch(operation.type) is not None


class _Functions:
    """The functions of a graph, by name."""

    def __init__(self, graph: tf.Graph | None) -> None:
        library = [] if graph is None else graph.as_graph_def().library.function
        self._by_name = {each.signature.name: each for each in library}

    def hands_on_first(self, name: str) -> bool:
        """Whether the first result of a function is its first argument."""
        function = self._by_name[name]
        result = function.ret[function.signature.output_arg[0].name]
        nodes = {node.name: node for node in function.node_def}
        while ":" in result and nodes[result.partition(":")[0]].op == "Identity":
            result = nodes[result.partition(":")[0]].input[0]
        return bool(result == function.signature.input_arg[0].name)

    def stateful(self, names: Iterable[str]) -> Iterator[str]:
        """The types of the stateful operations in the functions ``names`` and in their callees."""
        waiting, seen = list(names), set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self._by_name:
                continue
            seen.add(name)
            for node in self._by_name[name].node_def:
                waiting += _functions_in(node.attr)
                definition = op_def_registry.get(node.op)
                is_stateful = definition is not None and definition.is_stateful
                if is_stateful and not ALLOWED.fullmatch(node.op):
                    yield node.op


def _is_deterministic(operation: tf.Operation) -> bool:
    """Whether the options of ``operation`` keep items in order, as by default."""
    data = operation.node_def.attr["serialized_options"].s
    options = dataset_options_pb2.Options.FromString(data)
    return bool(not options.HasField("optional_deterministic") or options.deterministic)


def _functions_in(attributes: Any) -> list[str]:
    """The names of the functions among the attributes of a node."""
    values = attributes.values()
    single = [value.func.name for value in values if value.HasField("func")]
    return single + [each.name for value in values for each in value.list.func]
