"""TensorFlow's own verifications of checkpoints of iterators, over the catalogue of pipelines.

They are those of `CheckpointTestBase` in tensorflow/python/data/kernel_tests/checkpoint_test_base.py, after
their meaning: an input that is saved unused, fully used, exhausted, or at several breaks goes on, in another
graph and session or as another object, with what an uninterrupted one delivers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    CheckpointableInput,
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from support.graphs import catalogue
from support.tiers import is_deep, thinned
from tf_adapter.versions import dealt

import resumable as rs
from resumable.core.graph import why_first_epoch_only
from resumable.testing.comparing import assert_same
from resumable.testing.laws import first_items

Make = Callable[[], rs.Pipeline[Any]]

MOST = 60
"""Items of a pipeline that are looked at."""
BREAKS = 10 if is_deep() else 3  # the start and the end are two of them
NAMES = list(catalogue(Path()))


class InAGraph:
    """Runs in graphs of TensorFlow 1, the position inside the checkpoint of a `Saver`.

    Items of any kind cross as bytes.
    """

    names = dealt(thinned(NAMES, 12, "graphs"))

    def __init__(self, make: Make, folder: Path) -> None:
        self._make = make
        self._path = str(folder / "model")

    def run(
        self, begin: int, end: int, *, to_the_end: bool, initialized: bool = False
    ) -> list[Any]:
        """The items from ``begin``, where the last run has saved, to ``end``, after which it is saved.

        Args:
          begin: number of an item; below 0 to restore nothing.
          end: number of an item.
          to_the_end: whether there is no more.
          initialized: whether to initialize what was restored, which begins at the start.
        """
        with tf.Graph().as_default(), tf1.Session() as session:
            signature = tf.TensorSpec((), tf.string)
            iterator = make_initializable_iterator(
                make_dataset(self._make().map(pickle.dumps), signature)
            )
            item = iterator.get_next()
            saver = tf1.train.Saver([make_saveable_from_iterator(iterator)])
            session.run([tf1.tables_initializer(), iterator.initializer])
            if begin >= 0:
                saver.restore(session, self._path)
            if initialized:
                begin = 0
                session.run([tf1.tables_initializer(), iterator.initializer])
            got = [pickle.loads(session.run(item)) for _ in range(max(begin, 0), end)]
            if to_the_end:
                has_ended = begin == end > 0
                told = pytest.warns(RuntimeWarning, match="come to its end at step")
                with told if has_ended else nullcontext(), pytest.raises(tf.errors.OutOfRangeError):
                    session.run(item)
            saver.save(session, self._path, write_meta_graph=False)
        return got

    @staticmethod
    def delivered(item: Any) -> Any:
        """What crosses for ``item``: NumPy's pickles turn some dtypes to the machine's byte order."""
        return pickle.loads(pickle.dumps(item))


class ByHand:
    """Runs of loops by hand, the position inside a `tf.train.Checkpoint`."""

    names = dealt(thinned(NAMES, 24, "by hand"))

    def __init__(self, make: Make, folder: Path) -> None:
        self._make = make
        self._path = str(folder / "model")

    def run(self, begin: int, end: int, *, to_the_end: bool) -> list[Any]:
        """As `InAGraph.run`."""
        source = CheckpointableInput(self._make())
        checkpoint = tf.train.Checkpoint(source=source)
        if begin >= 0:
            checkpoint.read(self._path)
        got = [source.next_item() for _ in range(max(begin, 0), end)]
        if to_the_end:
            with pytest.raises(StopIteration):
                source.next_item()
        checkpoint.write(self._path)
        return got

    @staticmethod
    def delivered(item: Any) -> Any:
        """As `InAGraph.delivered`: nothing is pickled here."""
        return item


CASES = [(kind, name) for kind in (InAGraph, ByHand) for name in kind.names]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def case(request: pytest.FixtureRequest, catalogue_data: Path) -> tuple[Any, Make]:
    """A way to run, and what to run."""
    kind, name = request.param
    return kind, catalogue(catalogue_data)[name]


def test_an_input_saved_unused_fully_used_and_at_breaks_delivers_what_an_uninterrupted_one_does(
    case: tuple[Any, Make], tmp_path: Path
) -> None:
    kind, make = case
    expected = [kind.delivered(item) for item in first_items(make(), MOST)]
    count = len(expected)
    is_whole = count < MOST
    between = [int(place) for place in np.linspace(0, count, BREAKS)]
    for breaks in ([0], [count], between) if is_deep() else (between,):
        runs = kind(make, tmp_path)
        got: list[Any] = []
        for begin, end in pairwise([-1, *breaks]):
            got += runs.run(begin, end, to_the_end=False)
        got += runs.run(breaks[-1], count, to_the_end=is_whole)
        assert_same(got, expected, f"over the breaks {breaks}")


def test_an_exhausted_input_stays_so_in_a_session_until_it_is_initialized(
    catalogue_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf.get_logger(), "warning", lambda message: None)
    for name in thinned(NAMES, 5, "exhausted"):
        make = catalogue(catalogue_data)[name]
        expected = [InAGraph.delivered(item) for item in first_items(make(), MOST)]
        count = len(expected)
        if count < MOST:
            runs = InAGraph(make, tmp_path)
            runs.run(-1, count, to_the_end=True)
            assert runs.run(count, count, to_the_end=True) == []
            got = runs.run(count, count, to_the_end=True, initialized=True)
            assert_same(got, expected, name)


def test_an_input_by_hand_that_was_saved_after_its_end_begins_the_next_epoch(
    catalogue_data: Path, tmp_path: Path
) -> None:
    for name in dealt(thinned(NAMES, 12, "next epoch")):
        make = catalogue(catalogue_data)[name]
        count = len(first_items(make(), MOST))
        if count == MOST or why_first_epoch_only(make().stage):
            continue
        uninterrupted = CheckpointableInput(make())
        assert len(list(uninterrupted)) == count
        expected = list(uninterrupted)
        runs = ByHand(make, tmp_path)
        runs.run(-1, count, to_the_end=True)
        assert_same(runs.run(0, len(expected), to_the_end=True), expected, name)
