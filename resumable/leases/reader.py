"""Read the items of a pipeline by number, again from kept states if need be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar, final

from ..core.graph import walk, without_threads
from ..core.iterator import PipelineIterator
from ..errors import InvalidArgument
from ..pipeline import Pipeline
from ..state.value import State, TakenState, take_state, taken_state

T = TypeVar("T")

NO_ITEM: Final[Any] = object()
"""Read where the pipeline has ended."""
MARK_INTERVAL: Final = 16
"""Items from one mark to the next, at most read again by a resume in addition to the open ones."""
MOST_MARKS: Final = 8
_number_of = itemgetter(0)


class _Mark(NamedTuple):
    """The state of the pipeline before the item ``number``, or the error from taking the state."""

    number: int
    state: TakenState


@final
class NumberedReader(Generic[T]):
    """The items by number, each number as the `step` of an iterator before the item.

    Numbers should ascend. For a smaller number the pipeline starts again at a mark. `read` belongs
    to one thread at a time; the other methods use only the marks.

    Args:
      pipeline: the pipeline.
      iterator: at the first item that may be read.
      first_new: with random access, items with smaller numbers are read alone, without prefetch.
    """

    # Invariant: a mark lies at or before each unfinished number. A resume needs only the last mark
    # before an unfinished number, so marks stay about as few as unfinished numbers.

    def __init__(
        self, pipeline: Pipeline[T], iterator: PipelineIterator[T], first_new: int
    ) -> None:
        self._pipeline = pipeline
        self._plain: Pipeline[T] = Pipeline(without_threads(pipeline.stage))
        self._first_new = first_new if pipeline.random_access else 0
        self._iterator = iterator
        self._reads_new = True  # whether the iterator has the threads of the pipeline
        self.counts_epochs = any(
            found._run_changes.counts_epochs for found, _ in walk(pipeline.stage)
        )
        self._marks = [_Mark(iterator.step, take_state(iterator.get_state))]
        self._next_mark = iterator.step + MARK_INTERVAL
        self._most_marks = MOST_MARKS
        self.is_full = False  # whether `forget` is due

    @property
    def epoch(self) -> int:
        """The epoch of the item last read."""
        return self._iterator.epoch

    def read(self, number: int) -> T:
        """The item ``number``, or `NO_ITEM`; after an exception the same call tries again."""
        iterator = self._iterator
        if iterator.step > number or (number >= self._first_new) is not self._reads_new:
            iterator.close()  # some sources serve one iterator at a time
            self._reads_new = number >= self._first_new
            pipeline = self._pipeline if self._reads_new else self._plain
            iterator = self._iterator = pipeline.resume(self.state_before(number))
        gap = number - iterator.step
        if gap and iterator.skip(gap) < gap:
            return NO_ITEM  # type: ignore[no-any-return]
        if number >= self._next_mark:
            self._marks.append(_Mark(number, take_state(iterator.get_state)))
            self._next_mark = number - number % MARK_INTERVAL + MARK_INTERVAL
            self.is_full = len(self._marks) >= self._most_marks
        for item in iterator:  # not by `next`: an interrupt could come before its return
            return item
        return NO_ITEM  # type: ignore[no-any-return]

    def read_alone(self, number: int) -> tuple[T, int]:
        """The item ``number`` with its epoch, without moving the reader.

        Raises:
          InvalidArgument: over a stream.
        """
        if not self._pipeline.random_access:
            raise InvalidArgument(
                f"item {number} was claimed and not read: a stream cannot be read at a number; take the "
                "item instead, or keep it with its result"
            )
        with self._plain.resume(self.state_before(number)) as iterator:
            iterator.skip(number - iterator.step)
            return next(iterator), iterator.epoch

    def state_before(self, number: int) -> State:
        """The state of the pipeline at the last mark at or before ``number``."""
        marks = self._marks
        place = max(bisect_right(marks, number, key=_number_of) - 1, 0)
        return taken_state(marks[place].state)

    def forget(self, unfinished: Sequence[int]) -> None:
        """Drop marks without one of the ascending ``unfinished`` numbers up to the next mark."""
        marks = self._marks
        needed = {bisect_right(marks, number, key=_number_of) - 1 for number in unfinished}
        self._marks = [marks[place] for place in sorted({*needed, len(marks) - 1} - {-1})]
        self._most_marks = 2 * len(self._marks) + MOST_MARKS
        self.is_full = False

    def close(self) -> None:
        """End threads and release files."""
        self._iterator.close()
