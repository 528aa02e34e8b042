"""The help of a builder: its sentence, examples first, and each argument once."""

from __future__ import annotations

import inspect

import pytest

import resumable as rs
from resumable.views.explained import built_by, explained_by

USED_MOST = [
    *("map", "filter", "flat_map", "random_map", "map_batches", "batch", "unbatch", "shuffle"),
    *("repeat", "take", "skip", "shard", "partition", "prefetch", "cache", "pack", "bucket"),
    *("window", "scan", "enumerate", "rebatch", "exclude"),
]


class Double:
    """Twice each item.

    >>> Double(2)
    4

    State: O(1).

    Args:
      upstream: what is doubled,
        whatever it is.
      times: how often.
      theirs: told by the stage.

    Raises:
      ValueError: if it is odd.
    """


class Halve:
    """Half of each item.

    So they may be odd:

    >>> Halve(3)
    1.5

    Args:
      upstream: as above.
      times: told again.
      last: of all.

    Raises:
      ValueError: if it is odd.
      TypeError: if it is none.
    """


def test_help_joins_what_builder_and_stages_say() -> None:
    @explained_by(Double, Halve, theirs="ours")
    def build(ours: int, times: int, last: int) -> None:
        """Build it; see `resumable.stages.map.Map`.

        A word more.

        Args:
          times: told by the builder.
        """

    assert inspect.getdoc(build) == inspect.cleandoc(
        """Build it.

        >>> Double(2)
        4

        So they may be odd:

        >>> Halve(3)
        1.5

        Twice each item.

        State: O(1).

        Half of each item.

        A word more.

        Args:
          ours: told by the stage.
          times: told by the builder.
          last: of all.

        Raises:
          ValueError: if it is odd.
          TypeError: if it is none.
        """
    )
    assert built_by.pop(Double) is built_by.pop(Halve) is inspect.unwrap(build)


def test_the_sentence_of_a_builder_stands_for_that_of_its_only_stage() -> None:
    @explained_by(Halve)
    def build(times: int, last: int) -> None:
        """Build it."""

    text = inspect.getdoc(build) or ""
    assert text.startswith("Build it.\n\nSo they may be odd:\n\n>>> Halve(3)\n1.5\n\nArgs:\n")
    assert "Half of each item" not in text
    del built_by[Halve]


@pytest.mark.parametrize("name", USED_MOST)
def test_help_begins_with_a_sentence_and_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(rs.Pipeline, name)) or ""
    sentence, example = text.split("\n\n")[:2]
    assert "\n" not in sentence
    assert "see `" not in sentence
    assert example.startswith(">>> ")
