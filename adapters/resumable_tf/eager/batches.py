"""The data set of Keras's ``fit``; only operations that keep the batches are allowed."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

import resumable as rs

from ..numbered import derive_by

__all__ = ["TrainedBatches"]

ALLOWED: Final = ("apply", "map", "prefetch", "with_options")


class TrainedBatches(tf.data.Dataset):  # type: ignore[misc]
    """The batches of ``dataset``; ``fit`` must train every batch.

    Args:
      dataset: the batches.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self._dataset = dataset
        super().__init__(tf.data.experimental.to_variant(dataset))

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._dataset]


def _derive(dataset: TrainedBatches, name: str, *args: Any, **options: Any) -> TrainedBatches:
    if name not in ALLOWED:
        raise rs.InvalidArgument(
            f"after ResumeInput.dataset tf.data may {', '.join(ALLOWED[:-1])} and "
            f"{ALLOWED[-1]}, got {name}: fit must train each batch of the pipeline, so {name} "
            "belongs there"
        )
    made = getattr(tf.data.Dataset, name)(dataset, *args, **options)
    return made if isinstance(made, TrainedBatches) else TrainedBatches(made)


derive_by(TrainedBatches, _derive)
