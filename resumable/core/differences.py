"""How a pipeline differs from a saved one, and which of the differences a run may have."""

# Some differences are mismatches wherever the run stands. For the others `SavedRun` is asked how much was read: an
# argument by position may differ for later items, inputs may join, and pipelines of later epochs may be others.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, final

from ..state.saved_pipeline import BY_EPOCH, SavedPipeline, in_epoch
from .argument_change import ArgumentChange, EpochsChange
from .epochs import checked_by_epoch, one_by_epoch
from .fingerprint import StageIdentity
from .graph import walk, with_inputs
from .layout import LISTS, common_layout
from .mismatch import Mismatch, Rule
from .pipelines_by_epoch import PIPELINES, follows_from_repeats
from .relation import Repeated, kind_of
from .saved_run import Change, InputThen, PipelineThen, SavedRun, why_not_built
from .stage import Stage
from .timeline import INPUTS, UNBOUNDED, ByPosition, Timeline, changed_from


class EpochSpan(NamedTuple):
    """Epochs in which one of several pipelines holds.

    Attributes:
      stage: name of what counts the epochs, as of its `FoundArgument`.
      path: of that.
      first: the first epoch.
      following: the one after the last.
    """

    stage: str
    path: str
    first: int
    following: float


class FoundArgument(NamedTuple):
    """An argument by position of a pipeline that resumes a run.

    Attributes:
      stage: name of the stage whose argument it is.
      path: of the stage.
      value: as it was saved and as it is, and from where on it may differ.
      within: the epochs in which the stage is there, if there are pipelines by epoch, the outermost first.
    """

    stage: str
    path: str
    value: ArgumentChange
    within: tuple[EpochSpan, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A place at which a pipeline differs from a saved one, wherever the run stands.

    Attributes:
      mismatches: what does not hold if both must be equal.
      stage: of the pipeline.
      change: of ``stage``, to what it was in the run, if it may be another now.
    """

    mismatches: Sequence[Mismatch]
    stage: Stage[Any]
    change: Change | None = None

    @property
    def fixed(self) -> Mismatch | None:
        """What does not hold wherever the run stands; None if that depends on the run."""
        return self.mismatches[0] if type(self) is Difference else None

    def in_run(self, run: SavedRun, found: list[FoundArgument]) -> Mismatch | None:
        """What does not hold where ``run`` stands; None if the run can be resumed. Adds arguments to ``found``."""
        return self.mismatches[0]


@final
@dataclass(frozen=True)
class ReachedField(Difference):
    """A field whose value depends on what was read: an end that some ranks reach, or the length of an epoch."""

    field: str = ""
    compare: Callable[[Any], Mismatch | None] = lambda present: None

    def in_run(self, run: SavedRun, found: list[FoundArgument]) -> Mismatch | None:
        if self.change is None:
            return self.compare(getattr(run.then(self.stage), self.field))
        is_in_first_epoch = run.items_read(self.stage) <= getattr(self.stage, self.field)
        return None if is_in_first_epoch else self.mismatches[0]


@final
@dataclass(frozen=True)
class ArgumentDifference(Difference):
    """An argument by position, which may differ for items that were not read."""

    path: str = ""
    argument: ByPosition = INPUTS
    saved: Timeline = ()
    present: Timeline = ()

    def in_run(self, run: SavedRun, found: list[FoundArgument]) -> Mismatch | None:
        if self.saved == self.present and not run.lists_arguments:
            return None
        change, name = self._in_run(run), type(self.stage).__name__
        if run.lists_arguments:
            found.append(FoundArgument(name, self.path, change))
        elif not change.agrees:
            return Mismatch(Rule.ARGUMENT, self.path, name, change=change)
        return None

    def _in_run(self, run: SavedRun) -> ArgumentChange:
        changes = self.stage._run_changes
        reached = changes.followed_until(self.stage, self.saved, run.items_read(self.stage))
        change = ArgumentChange(self.argument, self.saved, self.present, reached)
        if change.is_fixed:
            return change
        example = change.example
        refused = run.refused(self.stage, lambda stage: changes.with_timeline(stage, example))
        return replace(change, refused=refused)


@final
@dataclass(frozen=True)
class InputsDifference(Difference):
    """Inputs that may join those of the run, unless the run has seen the end of these."""

    path: str = ""
    saved: int = 0
    refused: str | None = None

    @property
    def fixed(self) -> Mismatch | None:
        if self.change is not None or self.refused is None or not self.mismatches:
            return None
        return replace(self.mismatches[0], reason=self.refused)

    def in_run(self, run: SavedRun, found: list[FoundArgument]) -> Mismatch | None:
        if not (self.mismatches or run.lists_arguments):
            return None
        refused = self.refused
        if refused is None and self.change is not None:
            end = self.change(self.stage).length
            if run.items_read(self.stage) >= (UNBOUNDED if end is None else end):
                refused = (
                    "the end of the inputs that there were may have been read, so none can follow them in this epoch any "
                    "more"
                )
        if run.lists_arguments and self.change is not None:
            before, after = (
                tuple((number, None) for number in range(count))
                for count in (self.saved, len(self.stage.inputs))
            )
            change = ArgumentChange(
                INPUTS, before, after, UNBOUNDED if refused else self.saved, refused
            )
            found.append(FoundArgument(type(self.stage).__name__, self.path, change))
            return None
        if refused is None or not self.mismatches:
            return None
        return replace(self.mismatches[0], reason=refused)


class EpochCount(NamedTuple):
    """What counts epochs: a stage, or the loop over the whole pipeline.

    Attributes:
      stage: None for the loop.
      path: of the stage, or of the pipeline.
      divides: the stage after it that divides its items into partitions, if one does.
    """

    stage: Stage[Any] | None = None
    path: str = "pipeline"
    divides: Stage[Any] | None = None

    @property
    def name(self) -> str:
        """The name of what counts, as of its `FoundArgument`."""
        return BY_EPOCH if self.stage is None else type(self.stage).__name__

    @property
    def repeat(self) -> Stage[Any] | None:
        """The stage, if it goes through several epochs."""
        return self.stage if self.stage is not None and kind_of(self.stage) is Repeated else None

    @property
    def where(self) -> str | None:
        """Before which stages a `by_epoch` may stand whose epochs these are; None for the loop."""
        if self.repeat is None:
            return None
        return f"before {self.repeat}" + (f", or before {self.divides}" if self.divides else "")


class PipelinesOfEpochs(NamedTuple):
    """The pipelines of some epochs, compared.

    Attributes:
      first: the first epoch.
      following: the one after the last.
      differences: between the saved pipeline of these epochs and the present one.
    """

    first: int
    following: float
    differences: list[Difference]

    @property
    def mismatches(self) -> list[Mismatch]:
        """What does not hold if both must be equal."""
        return [mismatch for one in self.differences for mismatch in one.mismatches]

    @property
    def of_another_rank(self) -> Mismatch | None:
        """What does not hold if the two only belong to different ranks; None otherwise.

        What is planned for later epochs may change, but a plan that has not changed is one for these ranks.
        """
        found = self.mismatches
        return found[0] if found and all(one.of_rank for one in found) else None


@final
@dataclass(frozen=True, kw_only=True)
class EpochsDifference(Difference):
    """Pipelines by epoch, which may be others in the epochs that were not begun.

    Attributes:
      path: of the pipelines.
      counting: what counts the epochs.
      trees: what is saved and what is there now.
      spans: the epochs in which neither changes.
    """

    path: str
    counting: EpochCount
    trees: tuple[SavedPipeline, StageIdentity]
    spans: Sequence[PipelinesOfEpochs]

    @property
    def saved(self) -> list[tuple[int, SavedPipeline]]:
        """The saved pipelines, each next to its first epoch."""
        return self.trees[0].epochs

    @property
    def present(self) -> list[tuple[int, StageIdentity]]:
        """The pipelines of now."""
        return self.trees[1].epochs

    @property
    def is_of_all_epochs(self) -> bool:
        """Whether there is one pipeline for all epochs, saved and now."""
        return len(self.saved) == len(self.present) == 1

    @cached_property
    def known(self) -> list[tuple[int, Stage[Any] | None]]:
        """The stage of now that is as each saved pipeline, next to the first epoch of that; None if none is."""
        present = [(one.as_saved(), one.stage) for _, one in reversed(self.present)]
        return [
            (first, next((stage for tree, stage in present if tree == pipeline), None))
            for first, pipeline in self.saved
        ]

    @property
    def as_they_were(self) -> list[tuple[int, Stage[Any]]]:
        """The saved pipelines, each next to its first epoch; one that is not there any more as the present one."""
        return [
            (first, in_epoch(self.present, first).stage if stage is None else stage)
            for first, stage in self.known
        ]

    def fixed_mismatch(self, begun: float, then: PipelineThen) -> Mismatch | None:
        """What does not hold wherever the run stands. Notes in ``then`` what was different."""
        fixed, problem = self._first_problem(
            begun, lambda span: next(fixed_mismatches(span.differences, then), None)
        )
        if not fixed and (problem or not self.is_of_all_epochs):
            self._note_inputs(problem, then)
        return fixed

    def _first_problem(
        self, begun: float, mismatch_of: Callable[[PipelinesOfEpochs], Mismatch | None]
    ) -> tuple[Mismatch | None, tuple[int, Mismatch] | None]:
        """What does not hold whatever the epoch; or else what does not, with the first epoch of that."""
        for span in self.spans:
            other_rank = span.of_another_rank
            reason = other_rank if span.first >= begun else mismatch_of(span)
            if reason is None:
                continue
            whole_run = self.is_of_all_epochs and reason.whole_run
            if reason.says_where or whole_run or other_rank:
                return reason, None
            return None, (span.first, reason)
        return None, None

    def _note_inputs(self, problem: tuple[int, Mismatch] | None, then: PipelineThen) -> None:
        """Note in ``then`` what the input of a stage was, and what does not hold of it from an epoch on."""
        counts, inputs = self.counting.stage, InputThen(self.as_they_were, self.is_known(problem))
        # A pipeline that is there once now may have been several pipelines by epoch.
        if inputs.is_known or id(counts) not in then.inputs:
            then.inputs[id(counts)] = inputs
        if problem:
            may_stand = self.is_of_all_epochs and not why_not_built(
                then.stage, counts, partial(self.changed, 1)
            )
            where = self.counting.where if may_stand else None
            then.problems.append(replace(problem[1], try_before=where))

    def in_run(self, run: SavedRun, found: list[FoundArgument]) -> Mismatch | None:
        begun = UNBOUNDED if self.is_of_all_epochs else run.epochs_begun(self.counting.stage)
        within: list[FoundArgument] = []
        fixed, problem = self._first_problem(
            begun, lambda span: self._mismatch_in(span, begun, run, within)
        )
        unchanged = self.is_of_all_epochs and problem is None and not run.lists_arguments
        return fixed if fixed or unchanged else self._changed(run, problem, found, within)

    def _mismatch_in(
        self,
        span: PipelinesOfEpochs,
        begun: float,
        run: SavedRun,
        arguments: list[FoundArgument],
    ) -> Mismatch | None:
        """What does not hold in some epochs. Adds the arguments of the latest pipeline to ``arguments``."""
        is_latest = self.is_of_all_epochs or (begun <= span.following and begun < UNBOUNDED)
        if not is_latest:
            return next(iter(span.mismatches), None)
        inner: list[FoundArgument] = []
        mismatch = next(mismatches_in(run, span.differences, inner), None)
        count = EpochSpan(self.counting.name, self.counting.path, span.first, span.following)
        arguments += [one._replace(within=(count, *one.within)) for one in inner]
        return mismatch

    def _changed(
        self,
        run: SavedRun,
        problem: tuple[int, Mismatch] | None,
        found: list[FoundArgument],
        within: list[FoundArgument],
    ) -> Mismatch | None:
        change, path = self._change(run, problem), self.counting.path
        listed = run.lists_arguments and self.is_written
        if problem and change.is_fixed and not self.is_known(problem):
            return problem[1]
        if problem and not listed:
            return Mismatch(Rule.EPOCHS, path, change=change, within=problem[1])
        if listed:
            found.append(FoundArgument(self.counting.name, path, change))
        found += within if run.lists_arguments else []
        return self._another_form()

    def _change(self, run: SavedRun, problem: tuple[int, Mismatch] | None) -> EpochsChange:
        counts, begun = self.counting.stage, run.epochs_begun(self.counting.stage)
        change = EpochsChange(
            PIPELINES,
            tuple(self.saved),
            tuple((first, one.as_saved()) for first, one in self.present),
            begun,
            differs_from=None if problem is None else problem[0],
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
        return replace(change, refused=run.refused(counts, partial(self.changed, int(begun))))

    def is_known(self, problem: tuple[int, Mismatch] | None) -> bool:
        """Whether it is known what the pipeline of the first epoch was."""
        return problem is None or problem[0] > 0 or self.known[0][1] is not None

    @property
    def is_written(self) -> bool:
        """Whether users have written pipelines by epoch here, or can do so before a repeat."""
        trees = (self.trees[0], self.trees[1].as_saved())
        written = (tree for tree in trees if len(tree.epochs) > 1)
        return self.counting.repeat is not None or not all(map(follows_from_repeats, written))

    def changed(self, begun: int, stage: Stage[Any]) -> Stage[Any]:
        """A copy of ``stage``, which counts epochs, over the pipelines of now from epoch ``begun`` on.

        The earlier pipelines are copies, so that each is another object than the present pipeline that may represent it.
        """
        before = tuple((first, copy(one)) for first, one in self.as_they_were)
        after = tuple((first, one.stage) for first, one in self.present)
        split = checked_by_epoch(one_by_epoch(changed_from(before, after, begun)))
        return split if self.counting.stage is None else with_inputs(stage, (split,))

    def _another_form(self) -> Mismatch | None:
        """That the items of later epochs have another form; None if they have the same."""
        before = [stage.block_layout for _, stage in self.known if stage is not None]
        now = common_layout([one.stage.block_layout for _, one in self.present])
        of_loop = self.counting.stage is None
        if of_loop or not before or common_layout(before) is LISTS or now is not LISTS:
            return None
        reason = (
            "the pipelines of later epochs must have items of the form that the others have, as arrays or as objects, "
            f"since functions are given blocks of them, got {in_epoch(self.present, 0).stage!r}"
        )
        return Mismatch(Rule.CONTENT, self.path, reason=reason)


def fixed_mismatches(found: Iterable[Difference], then: PipelineThen) -> Iterator[Mismatch]:
    """What does not hold wherever the run stands. Notes in ``then`` what was different."""
    for one in found:
        if isinstance(one, EpochsDifference):
            begun = then.epochs_of_loop if one.counting.stage is None else UNBOUNDED
            if mismatch := one.fixed_mismatch(begun, then):
                yield mismatch
        elif one.fixed:
            yield one.fixed
        elif one.change is not None and (one.mismatches or then.lists_arguments):
            then.changes[id(one.stage)] = one.change


def mismatches_in(
    run: SavedRun, found: Iterable[Difference], arguments: list[FoundArgument]
) -> Iterator[Mismatch]:
    """What does not hold where ``run`` stands. Adds arguments by position to ``arguments``."""
    for one in found:
        if mismatch := one.in_run(run, arguments):
            yield mismatch
