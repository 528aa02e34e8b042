"""How the pipelines of epochs differ from the pipelines of a saved run."""

# Where epochs of an input are counted, by a repeat or by the loop over the pipeline, the input may
# change in epochs that were not begun. So each such input is compared epoch by epoch, even if the
# same pipeline serves all epochs.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, final

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline, in_epoch
from .argument_change import EpochsChange
from .differences import Difference, EpochSpan, FoundArgument
from .epochs import checked_by_epoch, one_by_epoch
from .fingerprint import StageIdentity
from .graph import walk, with_inputs
from .layout import LISTS, common_layout
from .mismatch import Mismatch, Rule
from .pipelines_by_epoch import PIPELINES, follows_from_repeats
from .relation import Repeated, kind_of
from .saved_run import EarlierInput, SavedRun
from .stage import Stage
from .timeline import UNBOUNDED, changed_from


class EpochCount(NamedTuple):
    """A counter of epochs: a stage, or the loop over the whole pipeline.

    Attributes:
      stage: the stage; None for the loop.
      path: of the stage, or of the pipeline.
      divides: the stage after ``stage`` that divides the items into partitions, if any.
    """

    stage: Stage[Any] | None = None
    path: str = "pipeline"
    divides: Stage[Any] | None = None

    @property
    def name(self) -> str:
        """The name of the counter, as in its `FoundArgument`."""
        return BY_EPOCH if self.stage is None else type(self.stage).__name__

    @property
    def repeat(self) -> Stage[Any] | None:
        """The stage, if it goes through several epochs."""
        return self.stage if self.stage is not None and kind_of(self.stage) is Repeated else None

    @property
    def where(self) -> str | None:
        """Words for the places where a `by_epoch` of these epochs may be; None for the loop."""
        if self.repeat is None:
            return None
        return f"before {self.repeat}" + (f", or before {self.divides}" if self.divides else "")


class PipelinesOfEpochs(NamedTuple):
    """The pipelines of some epochs, compared.

    Attributes:
      first: the first epoch.
      following: the epoch after the last.
      differences: between the saved pipeline of these epochs and the present pipeline.
    """

    first: int
    following: float
    differences: list[Difference]

    @property
    def mismatches(self) -> list[Mismatch]:
        """Mismatches if both pipelines must be equal."""
        return [mismatch for one in self.differences for mismatch in one.mismatches]

    @property
    def of_another_rank(self) -> Mismatch | None:
        """The first mismatch if the two pipelines differ only in their rank; None otherwise.

        Plans for later epochs may change, but an unchanged plan still belongs to the ranks of the
        run.
        """
        found = self.mismatches
        return found[0] if found and all(one.of_rank for one in found) else None


class Problem(NamedTuple):
    """A mismatch of the pipelines by epoch.

    Attributes:
      epoch: the first epoch with a mismatch.
      mismatch: the mismatch in ``epoch``.
    """

    epoch: int
    mismatch: Mismatch


@final
@dataclass(frozen=True, kw_only=True)
class EpochsDifference(Difference):
    """Pipelines by epoch, which may change in epochs that were not begun.

    Attributes:
      path: of the pipelines.
      counting: the counter of the epochs.
      trees: the saved and the present identity.
      spans: runs of epochs without a change in either identity.
    """

    path: str
    counting: EpochCount
    trees: tuple[SavedPipeline, StageIdentity]
    spans: Sequence[PipelinesOfEpochs]

    @property
    def saved(self) -> list[tuple[int, SavedPipeline]]:
        """(first epoch, saved pipeline) pairs."""
        return self.trees[0].epochs

    @property
    def present(self) -> list[tuple[int, StageIdentity]]:
        """(first epoch, present pipeline) pairs."""
        return self.trees[1].epochs

    @property
    def is_of_all_epochs(self) -> bool:
        """Whether one pipeline serves all epochs, saved and present."""
        return len(self.saved) == len(self.present) == 1

    @cached_property
    def known(self) -> list[tuple[int, Stage[Any] | None]]:
        """(first epoch, present stage equal to the saved pipeline, or None) pairs."""
        present = [(one.as_saved(), one.stage) for _, one in reversed(self.present)]
        return [
            (first, next((stage for tree, stage in present if tree == pipeline), None))
            for first, pipeline in self.saved
        ]

    @property
    def as_they_were(self) -> list[tuple[int, Stage[Any]]]:
        """(first epoch, stage) pairs of the saved pipelines; present stages replace removed ones."""
        return [
            (first, in_epoch(self.present, first).stage if stage is None else stage)
            for first, stage in self.known
        ]

    def fixed(self, run: SavedRun) -> Mismatch | None:
        of_loop = self.counting.stage is None
        fixed, problem = self._first_problem(
            run.position.epoch + 1 if of_loop else UNBOUNDED,
            lambda span: next(filter(None, (one.fixed(run) for one in span.differences)), None),
        )
        if not fixed and (problem or not self.is_of_all_epochs):
            self._note_inputs(problem, run)
        return fixed

    def _first_problem(
        self, begun: float, mismatch_of: Callable[[PipelinesOfEpochs], Mismatch | None]
    ) -> tuple[Mismatch | None, Problem | None]:
        """(mismatch for the whole run, None), or (None, first problem before epoch ``begun``)."""
        for span in self.spans:
            other_rank = span.of_another_rank
            mismatch = other_rank if span.first >= begun else mismatch_of(span)
            if mismatch is None:
                continue
            whole_run = self.is_of_all_epochs and mismatch.whole_run
            if mismatch.says_where or whole_run or other_rank:
                return mismatch, None
            return None, Problem(span.first, mismatch)
        return None, None

    def _note_inputs(self, problem: Problem | None, run: SavedRun) -> None:
        """Note in ``run`` the saved input of the stage, and its first mismatch."""
        counts = self.counting.stage
        inputs = EarlierInput(self.as_they_were, self._knows_first(problem))
        # A single present pipeline may have been several pipelines by epoch in the run.
        if inputs.is_known or id(counts) not in run.inputs:
            run.inputs[id(counts)] = inputs
        if problem:
            may_stand = self.is_of_all_epochs and not run.why_not_built(
                counts, partial(self.with_present_from, 1)
            )
            where = self.counting.where if may_stand else None
            run.problems.append(replace(problem.mismatch, try_before=where))

    def in_run(self, run: SavedRun) -> Iterator[Mismatch | FoundArgument]:
        # A single pipeline must agree in all epochs, however many were begun.
        begun = UNBOUNDED if self.is_of_all_epochs else run.epochs_begun(self.counting.stage)
        arguments: list[FoundArgument] = []

        def mismatch_in(span: PipelinesOfEpochs) -> Mismatch | None:
            if not self.is_of_all_epochs and not (begun <= span.following and begun < UNBOUNDED):
                return next(iter(span.mismatches), None)
            count = EpochSpan(self.counting.name, self.counting.path, span.first, span.following)
            for found in (found for one in span.differences for found in one.in_run(run)):
                if isinstance(found, Mismatch):
                    return found
                arguments.append(found._replace(within=(count, *found.within)))
            return None

        fixed, problem = self._first_problem(begun, mismatch_in)
        if fixed:
            yield fixed
        elif problem or run.lists_arguments or not self.is_of_all_epochs:
            yield from self._in_epochs(run, problem, arguments)

    def _in_epochs(
        self, run: SavedRun, problem: Problem | None, arguments: list[FoundArgument]
    ) -> Iterator[Mismatch | FoundArgument]:
        change, path = self._change(run, problem), self.counting.path
        is_listed = run.lists_arguments and self.is_written
        if problem and change.is_fixed and not self._knows_first(problem):
            yield problem.mismatch
        elif problem and not is_listed:
            yield Mismatch(Rule.EPOCHS, path, change=change, within=problem.mismatch)
        else:
            if is_listed:
                yield FoundArgument(self.counting.name, path, change)
            yield from arguments
            yield from self._another_form()

    def _change(self, run: SavedRun, problem: Problem | None) -> EpochsChange:
        counts, begun = self.counting.stage, run.epochs_begun(self.counting.stage)
        change = EpochsChange(
            PIPELINES,
            tuple(self.saved),
            tuple((first, one.as_saved()) for first, one in self.present),
            begun,
            differs_from=None if problem is None else problem.epoch,
            repeat=None if counts is None else str(counts),
            where=self.counting.where,
            repeats_within=any(
                kind_of(stage) is Repeated
                for _, one in self.present
                for stage, _ in walk(one.stage)
            ),
        )
        if change.is_fixed:
            return change
        return replace(
            change, refused=run.why_not_built(counts, partial(self.with_present_from, int(begun)))
        )

    def _knows_first(self, problem: Problem | None) -> bool:
        """Whether the pipeline of the first epoch is known."""
        return problem is None or problem.epoch > 0 or self.known[0][1] is not None

    @property
    def is_written(self) -> bool:
        """Whether users have written pipelines by epoch here, or can do so before a repeat."""
        trees = (self.trees[0], self.trees[1].as_saved())
        written = (tree for tree in trees if len(tree.epochs) > 1)
        return self.counting.repeat is not None or not all(map(follows_from_repeats, written))

    def with_present_from(self, begun: int, stage: Stage[Any]) -> Stage[Any]:
        """A copy of the epoch counter ``stage`` over the present pipelines from ``begun`` on.

        The earlier pipelines are copies, because stages are looked up by identity.
        """
        before = tuple((first, copy(one)) for first, one in self.as_they_were)
        after = tuple((first, one.stage) for first, one in self.present)
        split = checked_by_epoch(one_by_epoch(changed_from(before, after, begun)))
        return split if self.counting.stage is None else with_inputs(stage, (split,))

    def _another_form(self) -> Iterator[Mismatch]:
        """A mismatch if items of later epochs have another form than items of earlier epochs."""
        before = [stage.block_layout for _, stage in self.known if stage is not None]
        now = common_layout([one.stage.block_layout for _, one in self.present])
        of_loop = self.counting.stage is None
        if of_loop or not before or common_layout(before) is LISTS or now is not LISTS:
            return
        reason = (
            "the pipelines of later epochs must have items of the form that the others have, as arrays or as objects, "
            f"since functions are given blocks of them, got {in_epoch(self.present, 0).stage!r}"
        )
        yield Mismatch(Rule.CONTENT, self.path, reason=reason)
