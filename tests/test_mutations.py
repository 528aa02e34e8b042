"""The campaign of mutations keeps up with the source; `campaigns/mutants.py` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.mutants import TESTS, main
from campaigns.mutations import MUTATIONS, Mutation
from support.command import ROOT


def test_what_each_mutation_changes_stands_there_once() -> None:
    for mutation in MUTATIONS:
        text = (ROOT / "resumable" / mutation.path).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, mutation
        changed = text.replace(mutation.old, mutation.new)
        assert changed != text
        compile(changed, mutation.path, "exec")


def test_every_room_that_moves_items_or_keeps_states_is_broken_somewhere() -> None:
    assert {mutation.path.split("/")[0] for mutation in MUTATIONS} == set(TESTS)
    for tests in TESTS.values():
        for path in tests.split():
            assert (ROOT / path).exists()


@pytest.mark.deep
def test_a_fault_is_noticed_and_one_that_is_none_survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = "tests/triggers/test_triggers.py"
    monkeypatch.setattr("campaigns.mutants.TESTS", {"triggers": tests})
    monkeypatch.setattr("campaigns.mutants.ALL", [tests])
    path, rule = (
        "triggers/rules.py",
        "progress.step // self.steps > progress.saved_step // self.steps",
    )
    faults = [Mutation(path, rule, "False"), Mutation(path, rule, f"bool({rule})")]
    monkeypatch.setattr("campaigns.mutants.MUTATIONS", faults)
    assert main(["--jobs", "1"]) == 1
    told = capsys.readouterr().out
    assert "FAILED tests/triggers/test_triggers.py::" in told
    assert "1 of 2 mutations were noticed" in told
    assert f"survived: {Path(path)}" in told
