"""A pipeline as a `tf.data.Dataset` of a TF1 graph, with a variable that counts consumed items."""

# tf.data runs ahead of the training step, even without ``prefetch``. So each item carries its
# number, and the run of the session that computes the features writes the number to a variable.
# Only this variable counts consumed items. The variable is read for saves only: a fetch of the
# number in every run would also consume items in runs that need no data.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs

from ..feed import Feed
from ..numbered import NumberedDataset, numbered
from ..policy import note_functions
from .between import Between

__all__ = [
    "ResumableIterator",
    "claim_store",
    "iterators_of",
    "make_dataset",
    "make_initializable_iterator",
]

# Collections of a graph. A collection is not written to the MetaGraphDef if the key is not a
# string.
FEEDS: Final = ("resumable_feeds",)
ITERATORS: Final = ("resumable_iterators",)
STORES: Final = ("resumable_stores",)
NAME: Final = "resumable_input"
SOURCES: Final = ("resumable_sources",)
OUT_OF_ORDER: Final = (
    "the items of a resumable pipeline must come in their order, each once: shuffle and repeat "
    "in the pipeline instead of in tf.data"
)


def make_dataset(pipeline: rs.Pipeline[Any], output_signature: Any) -> tf.data.Dataset:
    """The items of ``pipeline`` as a data set, with the number of each item.

    Two iterators count by the numbers: the iterator of `make_initializable_iterator`, and the
    iterator of an Estimator if an ``input_fn`` returns the data set. Before, the data set may be
    changed by the methods ``map``, ``prefetch``, ``batch`` and ``filter``. Functions get two
    arguments, the number and the item; the function of a ``map`` returns a pair with the number
    first. Operations with a position of their own, such as ``shuffle`` or ``skip``, are refused;
    use the pipeline's instead. Call this under ``tf.Graph().as_default()``, as in the ``input_fn``
    of an Estimator.

    Items cross into the graph in blocks, which grow while items come fast. If an item raises an
    exception, the earlier items come first, and the next run tries the same item again.

    State: none in the graph; the position is the pipeline's.

    Args:
      pipeline: a pipeline of arrays, numbers, strings, or tuples and dicts of these.
      output_signature: `tf.TypeSpec` objects in the structure of one item, as for
        `tf.data.Dataset.from_generator`.

    Raises:
      InvalidArgument: if the default graph already has a data set of the same pipeline, or if
        execution is eager, without a graph.
      InvalidType: if ``pipeline`` is not a pipeline.
    """
    if tf.executing_eagerly():
        raise rs.InvalidArgument(
            "make_dataset must be called while a tf.Graph is the default one, as in an input_fn; in "
            "eager execution use CheckpointableInput, or ResumeInput for Keras"
        )
    feed = Feed(pipeline)
    graph = tf1.get_default_graph()
    # TensorFlow begins the error of a node in a function with the stack of the graph's operation of
    # the same name. No operation may have the name that `from_generator` uses.
    graph.unique_name("PyFunc")
    if any(other.pipeline is pipeline for other in graph.get_collection(FEEDS)):
        raise rs.InvalidArgument(
            f"pipeline must be in one data set of a graph only, got {pipeline!r} again; build "
            "another pipeline for other data"
        )
    graph.add_to_collection(FEEDS, feed)
    items, blocks = numbered(feed, output_signature)
    for source in (items, blocks):
        if source is not None:
            graph.add_to_collection(SOURCES, tf.data.experimental.to_variant(source).op.name)
    return NumberedDataset(items, feed, make_initializable_iterator, blocks)


class ResumableIterator:
    """An iterator over a data set of `make_dataset`, with a variable that counts consumed items.

    Made by `make_initializable_iterator`.

    Attributes:
      feed: the source of the data set.
      name: of the variable, and of the state in a model's checkpoint.
      initializer: the operation that moves the input to the start. If a ``MonitoredSession`` or an
        Estimator has restored a position, the input stays at that position until the first item is
        asked for.
      element_spec: of the items.
      starter: the operation that starts at the position of the feed; a new session runs it.
      consumed: int64 local variable, the number of the last item whose features were computed.
    """

    def __init__(
        self, pairs: tf.data.Dataset, feed: Feed[Any], name: str, between: Between
    ) -> None:
        self.feed = feed
        self.name = name
        self.element_spec = pairs.element_spec[1]
        self._between = between
        self._dataset = pairs
        # The origin is evaluated whenever the iterator starts.
        origin = _number_from(lambda: feed.origin)
        self._iterator = tf1.data.make_initializable_iterator(self._counted(origin))
        # A new session starts at the position of the feed, also without a hook.
        self.consumed = tf1.get_variable(
            name,
            initializer=lambda: _number_from(lambda: feed.origin),
            dtype=tf.int64,
            trainable=False,
            use_resource=True,
            collections=[tf1.GraphKeys.LOCAL_VARIABLES],
        )
        self.starter = tf.group(self._iterator.initializer, self.consumed.assign(origin))
        tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, self.starter)
        graph = tf1.get_default_graph()
        self.initializer = self.start_after(
            _number_from(lambda: feed.begin_anew(keep_restored=_is_managed(graph)))
        )

    def start_after(self, number: tf.Tensor) -> tf.Operation:
        """The operation that starts at the feed's position when ``number``, the origin, is known."""
        # As `Iterator.make_initializer`, without the warning about its own calls.
        _, resource = self._iterator.initializer.inputs
        with tf.control_dependencies([number]), tf.device(resource.device or None):
            variant = tf.data.experimental.to_variant(self._counted(number))
            started = tf.raw_ops.MakeIterator(dataset=variant, iterator=resource)
        return tf.group(started, self.consumed.assign(number))

    def _counted(self, origin: tf.Tensor) -> tf.data.Dataset:
        """The items after the first ``origin``, with the numbers by which `get_next` counts."""
        if self._between.keep_order:
            return self._dataset
        return self._dataset.scan(origin, _check_order)

    def get_next(self) -> Any:
        """The next item. A run that computes any part of the item consumes it.

        One run may compute several items. If the input ends in the middle of a run, the last items
        are consumed too.
        """
        numbers, item = self._iterator.get_next()
        # Each element has its number, or the number of items since the element before.
        passed = tf.size(numbers, tf.int64) if self._between.keep_order else numbers
        # Several runs may be concurrent: the addition is atomic, and each item is delivered once.
        with tf.control_dependencies([self.consumed.assign_add(passed)]):
            return tf.nest.map_structure(tf.identity, item, expand_composites=True)


def make_initializable_iterator(
    dataset: tf.data.Dataset, pipeline: rs.Pipeline[Any] | None = None
) -> ResumableIterator:
    """An iterator over the items of a data set of `make_dataset`.

    Args:
      dataset: the result of `make_dataset`, or a data set made from it by methods.
      pipeline: the pipeline of the data set, as a check.

    Raises:
      InvalidType: if ``dataset`` is another data set, or has lost the item numbers in a ``map``.
      InvalidArgument: if an operation of tf.data has a position of its own, if ``dataset`` is not of
        ``pipeline`` or not of this graph, or if the graph already has an iterator for this pipeline.
    """
    if not isinstance(dataset, NumberedDataset):
        raise rs.InvalidType(
            "dataset must be the result of make_dataset, or of map, prefetch, batch and filter as its "
            f"methods, got {dataset!r}"
        )
    if not dataset.are_numbered:
        raise rs.InvalidType(
            "dataset must have pairs of a number and an item, which a map must hand on, got "
            f"{dataset.pairs.element_spec}"
        )
    graph = tf1.get_default_graph()
    feeds = graph.get_collection(FEEDS)
    feed = dataset.feed
    if feed not in feeds or (pipeline is not None and feed.pipeline is not pipeline):
        raise rs.InvalidArgument(
            f"dataset must be of this pipeline and this graph, got one of {feed.pipeline!r}; call "
            "make_dataset in the same graph"
        )
    between = Between(dataset.pairs, graph.get_collection(SOURCES))
    if any(other.feed is feed for other in graph.get_collection(ITERATORS)):
        raise rs.InvalidArgument(
            f"there must be one iterator over a pipeline, got another one over {feed.pipeline!r}"
        )
    number = feeds.index(feed)
    name = f"{NAME}_{number}" if number else NAME
    iterator = ResumableIterator(dataset.pairs, feed, name, between)
    note_functions(feed.pipeline, between.stateful())
    graph.add_to_collection(ITERATORS, iterator)
    return iterator


def iterators_of(pipeline: rs.Pipeline[Any] | None = None) -> list[ResumableIterator]:
    """The iterators of the default graph in order, or the iterator over ``pipeline``.

    Raises:
      InvalidArgument: if the graph has no iterator over ``pipeline``.
    """
    iterators = tf1.get_default_graph().get_collection(ITERATORS)
    found = [each for each in iterators if pipeline is None or each.feed.pipeline is pipeline]
    if pipeline is not None and not found:
        raise rs.InvalidArgument(
            "pipeline must be the one of make_dataset and make_initializable_iterator in this graph, "
            f"got {pipeline!r}; the graph has {len(iterators)} other ones"
        )
    return found


def claim_store(store: str) -> None:
    """Note that an input of the default graph is saved in ``store``.

    Raises:
      InvalidArgument: if another input is saved in ``store``.
    """
    graph = tf1.get_default_graph()
    if store in graph.get_collection(STORES):
        raise rs.InvalidArgument(
            f"two inputs cannot be saved under one name, got {store} twice; give each hook a name"
        )
    graph.add_to_collection(STORES, store)


def _number_from(function: Callable[[], int]) -> tf.Tensor:
    number = tf.numpy_function(function, [], tf.int64, name=f"{NAME}_number")
    number.set_shape(())
    return number


def _is_managed(graph: tf.Graph) -> bool:
    """Whether ``graph`` was prepared for a session that restores the model itself."""
    # In such a session, an Estimator runs the initializer after the restore. In a session of the
    # user, an initializer after a restore is meant to leave the restored position.
    keys = (tf1.GraphKeys.READY_OP, tf1.GraphKeys.LOCAL_INIT_OP)
    return any(graph.get_collection(key) for key in keys)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _check_order(last: tf.Tensor, element: Any) -> Any:
    """Let each element carry the number of items since the element before."""
    numbers, item = element
    flat = tf.reshape(numbers, [-1])
    before = tf.concat([tf.reshape(last, [1]), flat[:-1]], 0)
    check = tf.debugging.assert_less(before, flat, message=OUT_OF_ORDER)
    with tf.control_dependencies([check] if check is not None else []):
        newest = tf.reduce_max(tf.concat([tf.reshape(last, [1]), flat], 0))
        return newest, (newest - last, item)
