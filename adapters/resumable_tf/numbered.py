"""Data sets of numbered items; the numbers survive the operations of tf.data."""

# TensorFlow's own data sets do not know their source. A `NumberedDataset` knows the source, and all
# methods return numbered data sets. So any code that iterates a numbered data set, even an
# Estimator, gets an iterator that counts.
#
# To TensorFlow it is a data set of items, since the iterator delivers items. Only functions passed
# to the methods get pairs of number and item.

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final, NoReturn

import tensorflow as tf

import resumable as rs

from .columns import Columns
from .feed import Feed
from .flat_columns import FlatColumns

__all__ = ["NumberedDataset", "derive_by", "numbered", "without_number"]

NOT_DERIVING: Final = (
    "as_numpy_iterator",
    "cardinality",
    "fingerprint",
    "get_single_element",
    "options",
    "reduce",
    "save",
)
DERIVING: Final = tuple(
    name
    for name, method in vars(tf.data.Dataset).items()
    if isinstance(method, FunctionType) and name[0] != "_" and name not in NOT_DERIVING
)
"""The methods of a data set that return another data set."""


class NumberedDataset(tf.data.Dataset):  # type: ignore[misc]
    """The items of pairs of a number and an item, or items made from these by tf.data.

    Methods work on the pairs.

    Args:
      pairs: the pairs.
      feed: the source of the pairs.
      make_iterator: makes an initializable iterator over a numbered data set.
      blocks: the same pairs in blocks, before any operation.

    Attributes:
      pairs: the argument.
      feed: the argument.
    """

    def __init__(
        self,
        pairs: tf.data.Dataset,
        feed: Feed[Any],
        make_iterator: Callable[[tf.data.Dataset], Any],
        blocks: tf.data.Dataset | None = None,
    ) -> None:
        self.pairs = pairs
        self.feed = feed
        self._items = pairs.map(without_number) if _are_pairs(pairs) else pairs
        self._make_iterator = make_iterator
        self._blocks = blocks
        super().__init__(tf.data.experimental.to_variant(self._items))

    @property
    def element_spec(self) -> Any:
        return self._items.element_spec

    @property
    def are_numbered(self) -> bool:
        """Whether the items still have numbers."""
        return _are_pairs(self.pairs)

    def apply(self, transformation_func: Callable[[tf.data.Dataset], Any]) -> Any:
        """The same as `tf.data.Dataset.apply`; only by methods the function keeps the numbers."""
        return transformation_func(self)

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> NumberedDataset:
        """The same as `tf.data.Dataset.batch`."""
        if self._blocks is not None:
            # Rows go from the blocks into the batches, without a tensor for each item.
            return self._derived(self._blocks.rebatch(batch_size, drop_remainder, name=name))
        return self._derived(
            self.pairs.batch(
                batch_size, drop_remainder, num_parallel_calls, deterministic, name=name
            )
        )

    def _derived(self, pairs: tf.data.Dataset) -> NumberedDataset:
        return NumberedDataset(pairs, self.feed, self._make_iterator)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._items]

    # TensorFlow calls these methods for its own iterator.

    def _make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        return self._make_iterator(self)

    def _make_one_shot_iterator(self) -> NoReturn:
        self._apply_debug_options()

    def _apply_debug_options(self) -> NoReturn:
        raise rs.InvalidArgument(
            "the data set of make_dataset must be iterated by make_initializable_iterator, which "
            "counts the items that are consumed; under a strategy with several replicas, let the "
            "input_fn return make_initializable_iterator(dataset).get_next, the method itself"
        )


def _are_pairs(dataset: tf.data.Dataset) -> bool:
    spec = dataset.element_spec
    is_pair = isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[0], tf.TensorSpec)
    return is_pair and bool(spec[0].dtype == tf.int64)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def without_number(number: Any, item: Any) -> Any:
    """The item of a pair, for a ``map`` of tf.data."""
    return item


def derive_by(kind: type, derive: Callable[..., Any]) -> None:
    """Give a class of data sets its missing ones among the methods `DERIVING` of tf.data.

    Args:
      kind: the class.
      derive: called with the data set, the name and the arguments.
    """

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return derive(self, name, *args, **options)

        call.__name__ = name
        call.__doc__ = f"The same as `tf.data.Dataset.{name}`."
        return call

    for name in DERIVING:
        if name not in vars(kind):
            setattr(kind, name, method(name))


def _derive(dataset: NumberedDataset, name: str, *args: Any, **options: Any) -> NumberedDataset:
    with_numbers = [each.pairs if isinstance(each, NumberedDataset) else each for each in args]
    return dataset._derived(getattr(dataset.pairs, name)(*with_numbers, **options))


derive_by(NumberedDataset, _derive)


def numbered(
    feed: Feed[Any],
    output_signature: Any,
    begin: Callable[[], None] = lambda: None,
    watch: Callable[[object], None] = lambda iterator: None,
) -> tuple[tf.data.Dataset, tf.data.Dataset | None]:
    """Pairs of a number and an item of ``feed``; for stackable items also the same in blocks.

    Args:
      feed: the source.
      output_signature: `tf.TypeSpec` objects in the structure of one item.
      begin: called whenever the data set is iterated, before the first item.
      watch: called with the new iterator, which is freed when the iteration is over.
    """

    def dataset(iterate: Callable[[], Iterator[Any]], *signature: tf.TensorSpec) -> tf.data.Dataset:
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def watched() -> Iterator[Any]:
            begin()
            iterator = iterate()
            watch(iterator)
            return iterator

        return tf.data.Dataset.from_generator(watched, output_signature=signature)

    if not Columns.fit(output_signature):
        return dataset(feed.items, tf.TensorSpec((), tf.int64), output_signature), None
    numbers = tf.TensorSpec((None,), tf.int64)
    columns = Columns(output_signature)
    if columns.have_one_shape:
        in_blocks = dataset(lambda: feed.blocks(columns), numbers, columns.signature)
        return in_blocks.unbatch(), in_blocks
    # Also for items without elements: `unbatch` crashes on them in TensorFlow 2.15 and 2.21.
    flat = FlatColumns(output_signature)
    in_blocks = dataset(lambda: feed.blocks(flat), numbers, flat.signature)
    return in_blocks.flat_map(flat.unbatched), None
