"""TensorFlow speaks to the terminal, and keeps a thread for each folder it writes events to."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(autouse=True)
def no_event_writer_left(nothing_left_behind: None) -> Iterator[None]:
    yield
    import tensorflow.compat.v1 as tf1

    tf1.summary.FileWriterCache.clear()
