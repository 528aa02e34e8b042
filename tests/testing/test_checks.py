"""The checks pass what is right, and say what is wrong with what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.facts import STAGE_FACTS
from support.graphs import SHARE_AN_OBJECT, catalogue, stream
from support.tiers import thinned
from testing import broken_stages as broken

import resumable as rs
from resumable.core.identity import ALWAYS
from resumable.stages.repeat import Repeat
from resumable.testing import check_resumes_everywhere, check_stage, checks

FOUND: dict[type[rs.TransformIterator[Any]], str] = {
    broken.OffByOne: "it resumes at every position: resumed at 1 from .*: item 1 is .*, expected",
    broken.AliasedState: "get_state copies, .*: a state that was taken changed as the iterator went",
    broken.LostBuffer: "it resumes at every position: resumed at 1 .*: item 1 is .*, expected",
    broken.SideEffect: "get_state copies, and has no effect: a second get_state gives another",
    broken.NoneForTheEnd: "nothing comes after the end: after the end comes 1 .is None",
    broken.PassNotSaved: "it resumes at every position: resumed at 52 .*: item 52 is .False, 1., expected",
    broken.UnseededShuffle: "two runs deliver the same items: .*unseeded randomness",
    broken.WrongShape: "it refuses a state that it gave: .*must have the keys .*'position'",
    broken.HalfRestored: "a refused state leaves no trace: the state .* was accepted, and is not",
    broken.IteratesColumns: "a block may be columns: over columns, .*block_items",
    broken.SkipsTooFar: r"skip agrees with next: skip\(.*\) leaves another state",
    broken.ThreadLeftBehind: r"close ends what it started: .*threads still run: .*\(left",
}


@pytest.fixture(autouse=True)
def stop_threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for stop in broken.STOPS:
        stop.set()
    broken.STOPS.clear()
    while set(threading.enumerate()) - before:
        time.sleep(0.01)


@pytest.mark.parametrize("motion", FOUND, ids=lambda motion: motion.__name__)
def test_each_broken_stage_is_caught_and_the_message_says_why(
    motion: type[rs.TransformIterator[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resumable.testing.checks.PATIENCE", 0.1)
    with pytest.raises(AssertionError, match=f"^Broken.*breaks the law that .*{FOUND[motion]}"):
        check_stage(rs.range(51).apply(broken.Broken, motion))


def test_an_identity_that_names_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken.Broken, "identity", {"motions": ALWAYS})
    with pytest.raises(AssertionError, match=r"identity of Broken names 'motions', which it does"):
        check_stage(rs.range(51).apply(broken.Broken, broken.OffByOne))


def test_an_identity_that_is_no_mapping_is_refused_with_the_class() -> None:
    with pytest.raises(
        rs.InvalidType, match=r"identity of Named must be a mapping .* \('motion',\)"
    ):

        class Named(broken.Broken):
            identity = ("motion",)  # type: ignore[assignment]


def test_a_stage_that_is_right_passes() -> None:
    check_stage(rs.range(50).apply(broken.Numbered))
    check_stage(broken.Numbered(rs.range(50).stage))


# One for every stage. The deep tier takes half of the others too; `test_laws.py` has each law on all of them.
ONE_OF_EACH = {
    "range",
    "sequence torchlike",
    "arrays tuple",
    "iterable function",
    "lines",
    "jsonl skipping",
    "megatron sequences",
    *STAGE_FACTS.gathered(lambda facts: facts.checked),
}
LEFT_OUT = {
    # Its `concatenate` has the state of the input that it is in.
    "partition of several evened out",
    # Its `by_epoch` has the state of the pipeline of the epoch.
    "by epoch endless",
    # NumPy does not keep the byte order of dates in a pickle.
    "arrays of any dtype",
    "arrays of any dtype in one",
    "arrays of any dtype in windows",
    "arrays of any dtype rebatched",
}
OTHERS = [
    name for name in catalogue(Path()) if name not in (*ONE_OF_EACH, *SHARE_AN_OBJECT, *LEFT_OUT)
]
NAMES = [
    *sorted(ONE_OF_EACH),
    *(pytest.param(name, marks=pytest.mark.deep) for name in OTHERS[::2]),
]


def last_stage(pipeline: rs.Pipeline[Any]) -> rs.Stage[Any]:
    """The last one but for a repeat of what is not repeated itself."""
    stage = pipeline.stage
    if isinstance(stage, Repeat) and not isinstance(stage.upstream, Repeat):
        return stage.upstream
    return stage


@pytest.mark.parametrize("name", NAMES)
def test_every_stage_of_the_library_passes(
    name: str, catalogue_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the quick tier over its own upstream and over no items."""
    all_variants = checks._variants
    monkeypatch.setattr(checks, "_variants", lambda stage: thinned(all_variants(stage), 2, name))
    check_stage(last_stage(catalogue(catalogue_data)[name]()))


def test_there_is_one_of_each_stage_in_the_quick_tier(catalogue_data: Path) -> None:
    made = {name: type(last_stage(make())) for name, make in catalogue(catalogue_data).items()}
    missing = {kind.__name__ for kind in set(made.values()) - {made[name] for name in ONE_OF_EACH}}
    assert not missing, f"`checked` of the facts must name a pipeline that ends with {missing}"


def double(item: int) -> int:
    return 2 * item


def test_a_pipeline_that_resumes_passes_also_in_a_fresh_process() -> None:
    pipeline = rs.range(60).shuffle(0).map(double).batch(4).repeat(2).prefetch(2)
    check_resumes_everywhere(pipeline, fresh_process=True)
    check_resumes_everywhere(pipeline, positions=[0, 7, 30], generations=0, fresh_process=True)
    check_resumes_everywhere(rs.range(10**9).shuffle(0), positions=[10_000])


def in_the_order_of_a_set() -> Iterator[str]:
    return iter({f"word {number}" for number in range(20)})


def test_a_hash_seed_that_decides_the_order_is_found_in_a_fresh_process() -> None:
    pipeline = rs.from_iterable(in_the_order_of_a_set)
    check_resumes_everywhere(pipeline)
    with pytest.raises(
        AssertionError, match=r"items before position [1-9] differ from those of the save"
    ):
        check_resumes_everywhere(pipeline, fresh_process=True)


def test_a_state_that_is_another_one_in_a_fresh_process_is_found() -> None:
    pipeline = rs.range(9).apply(broken.Broken, broken.NamesItsProcess)
    check_resumes_everywhere(pipeline)
    with pytest.raises(
        AssertionError, match=r"resumed at 0 in a fresh process from .*: the state is now"
    ):
        check_resumes_everywhere(pipeline, fresh_process=True)


class Remembering:
    """A function with state that it does not offer."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, item: int) -> int:
        self.total += item
        return self.total


def test_the_position_and_the_items_that_differ_are_shown() -> None:
    pipeline = rs.range(50).apply(broken.Broken, broken.LostBuffer)
    with pytest.raises(
        AssertionError,
        match=r"resumed at 1 from \{.*'position': 1.*: item 1 is \(1, 2, 3\), expected \(1, 1, 2\)",
    ):
        check_resumes_everywhere(pipeline)


def test_a_function_that_keeps_state_is_found_by_two_runs_that_differ() -> None:
    with pytest.raises(AssertionError, match=r"a second uninterrupted run .*: item 0 is"):
        check_resumes_everywhere(rs.range(5, 50).map(Remembering()))


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: check_resumes_everywhere([1]), TypeError, "pipeline must be a pipeline"),  # type: ignore[arg-type]
    (
        lambda: check_resumes_everywhere(rs.range(5), positions=[6]),
        ValueError,
        "positions must be within the 5 items, got 6",
    ),
    (
        lambda: check_resumes_everywhere(rs.range(5), positions=[-1]),
        ValueError,
        "each of positions must be at least 0, got -1",
    ),
    (
        lambda: check_resumes_everywhere(rs.range(5), generations=-1),
        ValueError,
        "generations must be at least 0",
    ),
    (
        lambda: check_resumes_everywhere(rs.range(5).map(lambda i: i), fresh_process=True),
        ValueError,
        "pipeline must be one that can be pickled",
    ),
    (lambda: check_stage(5), TypeError, "stage must be a stage or a pipeline, got 5"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_arguments_are_refused(number: int) -> None:
    make, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        make()


def test_a_stage_that_cannot_be_iterated_is_told() -> None:
    with pytest.raises(AssertionError, match="Map cannot be iterated: ZeroDivisionError"):
        check_stage(stream(5).map(lambda item: 1 // item))
