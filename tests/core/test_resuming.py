"""What does not hold where a pipeline does not fit a saved run, as values."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import resumable as rs
from resumable.core.mismatch import Mismatch, Rule
from resumable.core.resuming import compare, run_position
from resumable.core.runnable import saved_position
from resumable.state.saved_pipeline import SavedPipeline, UnreadableFingerprint


def saved(pipeline: rs.Pipeline[Any], steps: int) -> Any:
    with iter(pipeline) as iterator:
        list(islice(iterator, steps))
        return iterator.get_state()


def mismatches(state: Any, pipeline: rs.Pipeline[Any]) -> list[Mismatch]:
    return compare(pipeline.stage, saved_position(pipeline.stage, state))


def test_a_comparison_lists_all_that_does_not_hold() -> None:
    state = saved(rs.range(9).shuffle(1).batch(2), 2)
    found = mismatches(state, rs.range(8).shuffle(2).batch(2))
    assert [(one.rule, one.path, one.argument, one.saved, one.present) for one in found] == [
        (Rule.FIELD, "pipeline.upstream", "seed", 1, 2),
        (Rule.FIELD, "pipeline.upstream.upstream", "stop", 9, 8),
    ]
    assert not mismatches(state, rs.range(9).shuffle(1).batch(2))


def test_a_stage_a_version_and_the_number_of_inputs_are_rules() -> None:
    state = saved(rs.concatenate(rs.range(3), rs.range(3)).batch(2), 1)
    assert [one.rule for one in mismatches(state, rs.range(6).batch(2))] == [Rule.STAGE]
    fewer = rs.concatenate(rs.range(3)).batch(2)
    assert [one.rule for one in mismatches(state, fewer)] == [Rule.INPUTS]
    newer = {**state, "fingerprint": state["fingerprint"].replace('"Batch"', '"Batch@99"')}
    (version,) = mismatches(newer, rs.concatenate(rs.range(3), rs.range(3)).batch(2))
    assert (version.rule, version.whole_run) == (Rule.VERSION, True)
    (unreadable,) = mismatches({**state, "fingerprint": "["}, fewer)
    assert unreadable.rule is Rule.READABLE


def test_an_argument_by_position_says_how_it_may_change() -> None:
    def mixed(weights: Any) -> rs.Pipeline[int]:
        return rs.mix(rs.range(9), rs.range(9, 18), weights=weights, seed=1)

    (found,) = mismatches(saved(mixed([1, 1]), 4), mixed([1, 3]))
    assert found.rule is Rule.ARGUMENT
    assert found.change is not None
    assert found.change.to_write == "weights={0: (1, 1), 4: (1, 3)}"
    assert not mismatches(saved(mixed([1, 1]), 4), mixed({0: [1, 1], 4: [1, 3]}))


@pytest.mark.parametrize(
    "words", ["this is so from epoch 3 on", "is fixed for a run", "to change it from there on"]
)
def test_no_words_of_a_saved_value_decide_whether_a_planned_epoch_may_change(words: str) -> None:
    def planned(version: str) -> rs.Pipeline[int]:
        later = rs.range(4).map(abs, version=version)
        return rs.by_epoch({0: rs.range(3).map(abs), 5: later}).repeat(9)

    assert not mismatches(saved(planned(words), 4), planned("another"))


def test_the_error_of_the_advice_says_as_much_as_that_of_a_resume() -> None:
    state = saved(rs.range(5).repeat(3), 3)
    other = rs.range(6).repeat(3).exclude([])
    with pytest.raises(rs.StateMismatch, match="to change it from there on, write") as resuming:
        other.resume(state)
    with pytest.raises(rs.StateMismatch) as advising:
        run_position(other.stage, saved_position(other.stage, state))
    assert str(advising.value) == str(resuming.value)


def test_a_fingerprint_is_read_and_written_again() -> None:
    text = rs.range(9).shuffle(1).batch(2).fingerprint
    tree = SavedPipeline.read(text)
    assert [(one.name, path) for one, path in tree.walk()] == [
        ("Batch", "pipeline"),
        ("Shuffle", "pipeline.upstream"),
        ("Range", "pipeline.upstream.upstream"),
    ]
    assert SavedPipeline.of_node(tree.node) == tree
    for damaged in ("[", "[]", "5", '["Batch",{},[3]]', 7, None):
        with pytest.raises(UnreadableFingerprint, match="fingerprint"):
            SavedPipeline.read(damaged)


@pytest.mark.parametrize(
    "damaged",
    [
        '["ByEpoch@99",{"starts":[0,1]},["Range",{"stop":9}],["Range",{"stop":5}]]',
        '["ByEpoch",{"starts":[0,1],"other":5},["Range",{"stop":9}],["Range",{"stop":5}]]',
        '["ByEpoch",{"starts":[-5,-3]},["Range",{"stop":9}],["Range",{"stop":5}]]',
        '["ByEpoch",{"starts":[]}]',
        '["ByEpoch",{"starts":"01"},["Range",{"stop":9}],["Range",{"stop":5}]]',
    ],
)
@pytest.mark.parametrize("stage", ["{}", '["Repeat",{}]'])
def test_pipelines_by_epoch_that_this_version_cannot_read_are_refused(
    damaged: str, stage: str
) -> None:
    pipeline = rs.range(9).repeat(2) if "Repeat" in stage else rs.range(9)
    state = {**saved(pipeline, 2), "fingerprint": stage.format(damaged)}
    with pytest.raises(rs.StateMismatch, match="ByEpoch"):
        pipeline.resume(state)


def test_the_advice_for_equal_pipelines_by_epoch_is_what_a_resume_accepts() -> None:
    def mixed(weights: Any) -> rs.Pipeline[int]:
        return rs.mix(rs.range(9), rs.range(9, 18), weights=weights, seed=1)

    state = saved(rs.by_epoch({0: mixed([1, 1]), 2: mixed([1, 2])}).repeat(3), 4)
    found = run_position(
        (other := rs.by_epoch({0: mixed([1, 1]), 1: mixed([1, 1])}).repeat(3)).stage,
        saved_position(other.stage, state),
    )
    changed = rs.by_epoch({0: mixed({0: [1, 1], 4: [1, 2]}), 1: mixed([1, 1])}).repeat(3)
    of_mix = [one.value for one in found.arguments if one.stage == "Mix"]
    assert of_mix
    assert all(one.is_fixed for one in of_mix) == bool(mismatches(state, changed))
