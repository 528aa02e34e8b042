"""What a stage makes of the items that it reads, as far as other stages rely on it."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Flow(Enum):
    """How the items of a stage come from those of its inputs.

    `ANY` promises nothing, and is the default. `resumable.testing.flows.items_flow_as_declared` tries
    what the others promise.
    """

    ANY = "any"
    """Nothing is said, or there are no inputs."""
    SAME = "same"
    """Each item, unchanged, one for one."""
    ONE_TO_ONE = "one-to-one"
    """One item for each, made of that item alone, or of it and its place in the global order."""
    COUNTED = "counted"
    """One item for each, or none for some. It may depend on the items before, or on how many there were."""
    FILTERED = "filtered"
    """Some of the items, unchanged. Each stays or goes for what it is."""
    SUBSET = "subset"
    """Some of the items, unchanged. Which ones depends on how many there were, or on earlier ones."""
    REORDERED = "reordered"
    """All of the items, unchanged, in another order."""
    REPEATED = "repeated"
    """The items of several epochs, one after the other."""
    EXPANDED = "expanded"
    """Several items, or none, for each."""
    GROUPED = "grouped"
    """Items that are each made of several."""
    JOINED = "joined"
    """The items of several inputs, unchanged."""

    @property
    def keeps_items(self) -> bool:
        """Whether each item is one of an input, unchanged."""
        return self in KEEPING

    @property
    def one_by_one(self) -> bool:
        """Whether one item of the input is read for each, or a few more where some are dropped."""
        return self in (Flow.SAME, Flow.ONE_TO_ONE, Flow.COUNTED)

    @property
    def one_for_each(self) -> bool:
        """Whether each item is made of the one that has the same number in the input."""
        return self in (Flow.SAME, Flow.ONE_TO_ONE)

    @property
    def by_item(self) -> bool:
        """Whether what becomes of an item does not depend on the items around it.

        Then the stage does the same to the items of a rank or partition as to all of them.
        """
        return self in (Flow.SAME, Flow.ONE_TO_ONE, Flow.FILTERED, Flow.REPEATED)


KEEPING: Final = frozenset(
    {Flow.SAME, Flow.FILTERED, Flow.SUBSET, Flow.REORDERED, Flow.REPEATED, Flow.JOINED}
)
