"""Whether a pipeline has the same item at each number that a run has handed out."""

# A state of leases has items to read again. So the fingerprint has every argument that makes or
# groups items, as after an error. Only the end of a pipeline may differ: then relations differ in
# the end alone, and the run has not seen the earlier end.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.fingerprint import fingerprint
from ..core.graph import tuned, walk
from ..core.mismatch import Mismatch, Rule
from ..core.reach import reach_of, reached_by_index
from ..core.relation import Kept, Repeated, Same, Sliced, kind_of
from ..core.resuming import compare
from ..core.runnable import SavedPosition, dependence_of_resume, saved_position
from ..core.saved_run import SavedRun
from ..core.stage import OwnsPartitions, Stage
from ..errors import InvalidArgument, InvalidType, StateMismatch, shorten
from ..pipeline import Pipeline
from ..state.value import State


def check_leasable(pipeline: Any, ranks: int) -> None:
    """Refuse a pipeline whose items cannot be leased to ``ranks`` ranks."""
    if not isinstance(pipeline, Pipeline):
        raise InvalidType(f"pipeline must be a pipeline, got {shorten(pipeline)}")
    stage = pipeline.stage
    rank, of_ranks = stage._rank_share
    if of_ranks > 1:
        raise InvalidArgument(
            "leases deal the items out themselves: remove shard from the pipeline, and write "
            f"rs.Leases(pipeline, rank={rank}, ranks={of_ranks})"
        )
    for found, path in walk(stage):
        if isinstance(found, OwnsPartitions) and ranks > 1:
            raise InvalidArgument(
                f"leases over partitions need ranks=1, got {ranks}: partitions belong to ranks; leave "
                "partition out, or let one process hand out the leases"
            )
        if getattr(found, "on_error", "raise") == "skip":
            raise InvalidArgument(
                f"leases need on_error='raise', got 'skip' in {type(found).__name__} at {path}: an item "
                "dropped once and not at the resume would change all later numbers; return a marker from "
                "the function, and drop the lease"
            )


def check_same_numbers(stage: Stage[Any], state: State) -> None:
    """Refuse a ``state`` of leases if a number up to its step means another item here.

    Raises:
      StateMismatch: with the difference.
    """
    position = saved_position(stage, state)
    found = compare(stage, position)
    if found and not _only_ends_later(stage, found, position):
        raise StateMismatch(f"the numbers of the state mean other items here: {found[0]}", stage)


def _only_ends_later(
    stage: Stage[Any], mismatches: list[Mismatch], position: SavedPosition
) -> bool:
    """Whether all ``mismatches`` change ends that the run has not passed."""
    stages, paths = zip(*walk(stage), strict=True)
    saved_ends = dict[int, dict[str, Any]]()
    for mismatch in mismatches:
        if paths.count(mismatch.path) != 1 or mismatch.rule is not Rule.FIELD:
            return False
        saved_ends[paths.index(mismatch.path)] = {mismatch.argument: mismatch.saved}
    try:
        earlier = tuned(stage, saved_ends)
    except (InvalidArgument, InvalidType, TypeError):
        return False
    plain = dependence_of_resume(0, position.epoch)  # an iterator must accept the change too
    if compare(earlier, position) or fingerprint(earlier, plain) != fingerprint(stage, plain):
        return False
    read = [] if position.epoch else list(reached_by_index(earlier, position.step))
    return all(
        _differs_later(was, stages[number], reach_of(was, read))
        or _repeats_later(was, stages[number], stages[:number], SavedRun(earlier, position, False))
        for number, (was, _) in enumerate(walk(earlier))
        if number in saved_ends
    )


def _differs_later(was: Stage[Any], now: Stage[Any], read: float) -> bool:
    """Whether the ``read`` first items are the same by the relations of two stages."""
    before, after = was.relation(0), now.relation(0)
    if isinstance(before, Sliced) and isinstance(after, Sliced):
        same = (before.start, before.step, before.last) == (after.start, after.step, after.last)
        return same and read <= min(before.stop, after.stop)
    if not (isinstance(before, Repeated) and isinstance(after, Repeated)):
        return False
    return all(one.length is not None and read <= one.length for one in (before, after))


def _repeats_later(
    was: Stage[Any], now: Stage[Any], later: Sequence[Stage[Any]], run: SavedRun
) -> bool:
    """Whether two stages repeat a stream of unknown length for as many epochs as were begun.

    In the last epoch, ``later`` stages may have made a shorter group of the last items.
    """
    before, after = was.relation(0), now.relation(0)
    if not (isinstance(before, Repeated) and isinstance(after, Repeated)):
        return False
    epochs = min(before.runs.epochs, after.runs.epochs)
    begun = run.epochs_begun(was)
    groups_nothing = all(kind_of(one) in (Same, Kept, Sliced) for one in later)
    return begun < epochs or (begun == epochs and groups_nothing)
